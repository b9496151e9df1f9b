/* SPDX-License-Identifier: MIT */
/* What a gate did: see report.h. */
#define _GNU_SOURCE
#include "gate/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "util/error.h"

struct report *report_new(struct error *err)
{
	struct report *report = mmap(
		NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (report != MAP_FAILED)
		return report;
	error_set(err, errno, "making memory for what the gate reports");
	return NULL;
}

void report_free(struct report *report)
{
	if (report)
		munmap(report, sizeof *report);
}

static bool same(const struct report_entry *one, const struct report_entry *other)
{
	return one->verdict == other->verdict && one->reason == other->reason &&
	       one->port == other->port && one->value == other->value &&
	       strcmp(one->name, other->name) == 0 && address_equal(&one->address, &other->address);
}

/* Places of each verdict: much of one leaves room for the others. */
static const size_t places[REPORT_VERDICTS] = {
	[REPORT_ALLOWED] = 24, [REPORT_BLOCKED] = 24, [REPORT_FAILED] = REPORT_MAX - 48};

void report_add(struct report *report, const struct report_entry *entry)
{
	size_t taken = 0;

	for (size_t i = 0; i < REPORT_MAX && taken < places[entry->verdict]; i++) {
		struct report_entry *place = &report->entries[i];

		if (place->count == 0) {
			*place = *entry;
			place->count = 0;
			/* The reader believes the rest when it sees this. */
			__atomic_store_n(&place->count, 1, __ATOMIC_RELEASE);
			return;
		}
		if (same(place, entry)) {
			__atomic_fetch_add(&place->count, 1, __ATOMIC_RELAXED);
			return;
		}
		taken += place->verdict == entry->verdict;
	}
	__atomic_fetch_add(&report->others[entry->verdict], 1, __ATOMIC_RELAXED);
}

static bool makes_sense(const struct report_entry *entry)
{
	char normal[POLICY_NAME_MAX + 1];
	size_t length = strnlen(entry->name, sizeof entry->name);

	if (entry->verdict >= REPORT_VERDICTS || entry->reason >= REASONS ||
		length == sizeof entry->name)
		return false;
	return length == 0 ||
	       (policy_normalize(entry->name, length, normal) && strcmp(normal, entry->name) == 0);
}

void report_read(const struct report *report, struct report *ret)
{
	size_t count = 0;

	memset(ret, 0, sizeof *ret);
	for (size_t i = 0; report && i < REPORT_MAX; i++) {
		uint64_t times = __atomic_load_n(&report->entries[i].count, __ATOMIC_ACQUIRE);

		if (times == 0)
			continue;
		ret->entries[count] = report->entries[i];
		ret->entries[count].count = times;
		if (makes_sense(&ret->entries[count]))
			count++;
	}
	if (count < REPORT_MAX)
		memset(&ret->entries[count], 0, (REPORT_MAX - count) * sizeof ret->entries[0]);
	for (size_t i = 0; report && i < REPORT_VERDICTS; i++)
		ret->others[i] = __atomic_load_n(&report->others[i], __ATOMIC_RELAXED);
}

static uint64_t without(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

static uint64_t count_in(const struct report *report, const struct report_entry *entry)
{
	for (size_t i = 0; i < REPORT_MAX && report->entries[i].count > 0; i++)
		if (same(&report->entries[i], entry))
			return report->entries[i].count;
	return 0;
}

void report_subtract(struct report *report, const struct report *before)
{
	size_t kept = 0;

	for (size_t i = 0; i < REPORT_MAX && report->entries[i].count > 0; i++) {
		struct report_entry entry = report->entries[i];

		entry.count = without(entry.count, count_in(before, &entry));
		if (entry.count > 0)
			report->entries[kept++] = entry;
	}
	if (kept < REPORT_MAX)
		memset(&report->entries[kept], 0, (REPORT_MAX - kept) * sizeof report->entries[0]);
	for (size_t i = 0; i < REPORT_VERDICTS; i++)
		report->others[i] = without(report->others[i], before->others[i]);
}

bool report_has(const struct report *report, enum report_verdict verdict)
{
	for (size_t i = 0; i < REPORT_MAX && report->entries[i].count > 0; i++)
		if (report->entries[i].verdict == verdict)
			return true;
	return report->others[verdict] > 0;
}

/* --- words --- */

static void format_host(
	const char *name, const struct address *address, unsigned port, char ret[REPORT_HOST_MAX])
{
	char text[ADDRESS_TEXT_MAX];
	bool brackets = !*name && !address_is_v4(address) && port;

	if (!*name)
		name = address_format(address, text);
	if (port)
		snprintf(ret, REPORT_HOST_MAX, "%s%s%s:%u", brackets ? "[" : "", name,
			brackets ? "]" : "", port);
	else
		snprintf(ret, REPORT_HOST_MAX, "%s", name);
}

const char *report_host(const struct report_entry *entry, char ret[REPORT_HOST_MAX])
{
	format_host(entry->name, &entry->address, entry->port, ret);
	return ret;
}

bool report_rule(const struct report_entry *entry, char ret[REPORT_HOST_MAX])
{
	static const struct address none;
	unsigned port = entry->port == 443 || entry->port == 80 ? 0 : entry->port;

	switch (entry->reason) {
	case REASON_NAME:
		/* Its servers are of all kinds, and a question does not tell which is meant. */
		if (strcmp(entry->name, POLICY_HOST_NAME) == 0) {
			snprintf(ret, REPORT_HOST_MAX, "%s:PORT", entry->name);
			return true;
		}
		/* fallthrough */
	case REASON_PORT:
	case REASON_TLS_NAME:
	case REASON_HTTP_HOST:
		format_host(entry->name, &entry->address, port, ret);
		return true;
	case REASON_ADDRESS:
	case REASON_PRIVATE:
	case REASON_NO_TLS_NAME:
		/* Of the host's own only who names it. */
		if (address_is_loopback(&entry->address)) {
			format_host(POLICY_HOST_NAME, &entry->address, port, ret);
			return true;
		}
		format_host("", &entry->address, port, ret);
		return !address_equal(&entry->address, &none);
	default:
		return false;
	}
}

static const char *failure(int32_t errnum)
{
	const char *words = errnum > 0 && errnum < 4096 ? strerrordesc_np(errnum) : NULL;

	return words ?: "it cannot be reached";
}

void report_why(const struct report_entry *entry, char *ret, size_t size)
{
	char address[ADDRESS_TEXT_MAX];

	address_format(&entry->address, address);
	switch (entry->reason) {
	case REASON_NAME:
		snprintf(ret, size, "no rule allows that name");
		return;
	case REASON_PORT:
		snprintf(ret, size, "no rule allows that port of it");
		return;
	case REASON_ADDRESS:
		snprintf(ret, size, "no allowed name led to that address, and no rule has it");
		return;
	case REASON_PRIVATE:
		snprintf(ret, size, "it is %s, which is private, and no rule has that address",
			address);
		return;
	case REASON_TLS_NAME:
		snprintf(ret, size, "%s was asked for that name in TLS, which no rule allows",
			address);
		return;
	case REASON_NO_TLS_NAME:
		snprintf(ret, size,
			"the client names no host in TLS (SNI), and no rule has that address");
		return;
	case REASON_NO_TLS:
		snprintf(ret, size, "what the client said is no TLS, which port 443 is for");
		return;
	case REASON_HTTP_HOST:
		snprintf(ret, size, "%s was asked for that host in HTTP, which no rule allows",
			address);
		return;
	case REASON_NO_HTTP:
		snprintf(ret, size, "what the client said is no request of HTTP to one host");
		return;
	case REASON_SILENT:
		snprintf(ret, size, "the client did not say in time what it wants");
		return;
	case REASON_NO_ANSWER:
		snprintf(ret, size, "no name server of the host answered");
		return;
	case REASON_NO_SUCH_NAME:
		snprintf(ret, size, "the host's name servers know no address of it");
		return;
	case REASON_CONNECT:
		snprintf(ret, size, "%s", failure(entry->value));
		return;
	case REASON_PROXY:
		if (entry->value > 0)
			snprintf(ret, size, "the host's proxy refused it with status %d",
				entry->value);
		else
			snprintf(ret, size, "the host's proxy made no sense");
		return;
	case REASON_BUSY:
		snprintf(ret, size, "too many names were asked for at a time");
		return;
	default:
		*ret = '\0';
	}
}
