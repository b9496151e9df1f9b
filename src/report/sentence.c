/* SPDX-License-Identifier: MIT */
/*
 * Results as sentences: see report.h. Each says what ended the run, the limit, what was used, how that
 * is known, and which option raises it. Throttling by --cpus is left out of a run's sentence: it happens
 * in every run that asks for it; it is in limits_hit.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"
#include "sandbox/result.h"
#include "util/cleanup.h"
#include "util/utf8.h"

/* Text that grows in a buffer of fixed size and is cut, if it must, between two characters. */
struct text {
	char *start;
	size_t size;
};

static void __attribute__((format(printf, 2, 3))) append(struct text *text, const char *format, ...)
{
	size_t used = strlen(text->start);
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text->start + used, text->size - used, format, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n >= text->size - used) {
		size_t end = text->size - 1;

		/* The rest of the last character is gone, so it cannot be seen whole: go back before its first byte. */
		while (end > 0 && !utf8_valid(text->start, end))
			end--;
		text->start[end] = '\0';
	}
}

/* With up to two digits after the point, and none that are zero: exact for the sizes that people write. */
static void format_number(double number, const char *unit, char *ret, size_t size)
{
	char digits[32];
	size_t length;

	snprintf(digits, sizeof digits, "%.2f", number);
	length = strlen(digits);
	while (digits[length - 1] == '0')
		length--;
	if (digits[length - 1] == '.')
		length--;
	snprintf(ret, size, "%.*s %s", (int)length, digits, unit);
}

void format_bytes(uint64_t bytes, char *ret, size_t size)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double number = (double)bytes;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(ret, size, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
		return;
	}
	for (number /= 1024; number >= 1024 && unit < sizeof units / sizeof *units - 1; unit++)
		number /= 1024;
	format_number(number, units[unit], ret, size);
}

void format_duration_ms(uint64_t ms, char *ret, size_t size)
{
	if (ms < 1000)
		snprintf(ret, size, "%" PRIu64 " ms", ms);
	else
		format_number((double)ms / 1000, "s", ret, size);
}

void format_signal(int signal, char *ret, size_t size)
{
	const char *name = sigabbrev_np(signal);

	if (name)
		snprintf(ret, size, "SIG%s", name);
	else
		snprintf(ret, size, "SIG%d", signal);
}

/* The limit that was met, without the advice. */
static void describe_hit(const struct limit_hit *hit, struct text *text)
{
	char value[64], used[64];

	format_bytes(hit->value, value, sizeof value);
	format_bytes(hit->used, used, sizeof used);
	switch (hit->limit) {
	case LIMIT_MEMORY:
		append(text, "memory limit of %s reached (%s used", value, used);
		break;
	case LIMIT_PIDS:
		append(text, "limit of %" PRIu64 " processes and threads reached (%" PRIu64 " seen",
			hit->value, hit->used);
		break;
	case LIMIT_DISK:
		append(text, "writable space of %s is full (%s used", value, used);
		break;
	case LIMIT_INODES:
		append(text, "limit of %" PRIu64 " files and directories reached (%" PRIu64 " made",
			hit->value, hit->used);
		break;
	case LIMIT_OUTPUT:
		append(text,
			"output of %s is more than the %s that are kept of a stream: its middle was left out",
			used, value);
		return;
	case LIMIT_FILE_SIZE:
		append(text, "file size limit of %s reached (%s written", value, used);
		break;
	case LIMIT_CPU:
		append(text, "CPU time held to %g CPUs (%g wanted", (double)hit->value / 1000,
			(double)hit->used / 1000);
		break;
	case LIMIT_HOST_DISK:
		append(text, "the host's disk has %s free, less than the %s that are left for others (known from %s)", used, value,
			hit->known_from);
		return;
	case LIMIT_TIME:
	case LIMIT_MAX:
		format_duration_ms(hit->value, value, sizeof value);
		append(text, "time limit of %s reached", value);
		return;
	}
	append(text, ", known from %s)", hit->known_from);
}

void limit_hit_message(const struct limit_hit *hit, char *ret, size_t size)
{
	struct text text = {ret, size};

	*ret = '\0';
	describe_hit(hit, &text);
	if (hit->limit == LIMIT_HOST_DISK)
		append(&text, "; free some there, or choose another disk with %s", limit_hit_option(hit));
	else if (*limit_hit_option(hit))
		append(&text, "; raise it with %s", limit_hit_option(hit));
}

static const struct limit_hit *find_hit(const struct exec_result *exec, enum limit_kind limit)
{
	for (size_t i = 0; i < exec->hits_count; i++)
		if (exec->hits[i].limit == limit)
			return &exec->hits[i];
	return NULL;
}

/* A limit ended the run: the hit that the supervisor noted, or else the limit as the spec has it. */
static void append_killed(const struct exec_result *exec, enum limit_kind limit, uint64_t value,
	uint64_t used, struct text *text)
{
	const struct limit_hit *noted = find_hit(exec, limit);
	struct limit_hit hit = {
		.limit = limit, .value = value, .used = used, .known_from = "the supervisor"};
	char message[ERROR_TEXT_MAX];

	limit_hit_message(noted ? noted : &hit, message, sizeof message);
	append(text, "killed: %s", message);
}

/*
 * The command could not be executed: the text comes from inside the sandbox, where another command may
 * have run before, so it is shown as text and no more.
 */
static void append_not_executed(
	const struct exec_result *exec, const struct spec *spec, struct text *text)
{
	cleanup_free char *shown = NULL;
	size_t length;

	if (!exec->error.text[0]) {
		append(text, "cannot execute the command: %s",
			strerrordesc_np(exec->exec_errno) ?: "unknown error");
		return;
	}
	shown = utf8_replace_invalid(exec->error.text, strlen(exec->error.text), &length);
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)shown[i] < 0x20 || shown[i] == 0x7f)
			shown[i] = '?';
	append(text, "%s", shown);
	if (spec->root == ROOT_IMAGE)
		append(text, " (in the image %s)", spec->root_path);
}

static void append_signal(const struct exec_result *exec, struct text *text)
{
	const char *description = sigdescr_np(exec->signal);
	char name[32];

	if (exec->signal == SIGXFSZ && find_hit(exec, LIMIT_FILE_SIZE)) {
		append_killed(exec, LIMIT_FILE_SIZE, 0, 0, text);
		return;
	}
	if (exec->error.text[0]) {
		append(text, "%s", exec->error.text);
		return;
	}
	format_signal(exec->signal, name, sizeof name);
	append(text, "ended by %s", name);
	if (description)
		append(text, " (%s)", description);
}

/* Which of the limits of the writable space ended it. */
static enum limit_kind disk_limit_of(const struct exec_result *exec)
{
	return find_hit(exec, LIMIT_DISK)     ? LIMIT_DISK
	       : find_hit(exec, LIMIT_INODES) ? LIMIT_INODES
	       : find_hit(exec, LIMIT_HOST_DISK) ? LIMIT_HOST_DISK
						 : LIMIT_DISK;
}

/* How the command ended, where its exit status alone does not say it. */
static void append_end(
	const struct exec_result *exec, const struct spec *spec, size_t index, struct text *text)
{
	const struct exec_spec *command = index < spec->execs_count ? &spec->execs[index] : NULL;

	switch (exec->ended_by) {
	case ENDED_EXITED:
		if (exec->exec_errno)
			append_not_executed(exec, spec, text);
		else if (exec->exit_code && index + 1 < spec->execs_count)
			append(text, "%s failed with exit status %d, so the program was not run",
				exec->phase, exec->exit_code);
		break;
	case ENDED_SIGNALED:
		append_signal(exec, text);
		break;
	case ENDED_TIMEOUT:
		append_killed(exec, LIMIT_TIME, command ? command->timeout_ms : 0,
			exec->usage.wall_us / 1000, text);
		break;
	case ENDED_OOM:
		append_killed(exec, LIMIT_MEMORY, spec->limits.memory_bytes,
			exec->usage.memory_peak_bytes, text);
		break;
	case ENDED_DISK:
		append_killed(exec, disk_limit_of(exec), spec->limits.disk_bytes, exec->usage.disk_used_bytes, text);
		break;
	case ENDED_CANCELLED:
		append(text, "cancelled");
		break;
	case ENDED_SETUP:
	case ENDED_BY_MAX:
		append(text, "%s", exec->error.text);
		break;
	}
}

/* Whether append_end has spoken of this limit already, or nobody need hear of it. */
static bool hit_is_told(const struct exec_result *exec, const struct limit_hit *hit)
{
	switch (hit->limit) {
	case LIMIT_CPU:
		return true;
	case LIMIT_TIME:
		return exec->ended_by == ENDED_TIMEOUT;
	case LIMIT_MEMORY:
		return exec->ended_by == ENDED_OOM;
	case LIMIT_DISK:
	case LIMIT_INODES:
	case LIMIT_HOST_DISK:
		return exec->ended_by == ENDED_DISK && disk_limit_of(exec) == hit->limit;
	case LIMIT_FILE_SIZE:
		return exec->ended_by == ENDED_SIGNALED && exec->signal == SIGXFSZ;
	default:
		return false;
	}
}

void exec_result_sentence(const struct run_result *result, size_t index, const struct spec *spec,
	char *ret, size_t size)
{
	const struct exec_result *exec = &result->execs[index];
	struct text text = {ret, size};

	*ret = '\0';
	append_end(exec, spec, index, &text);
	for (size_t i = 0; i < exec->hits_count; i++) {
		char message[ERROR_TEXT_MAX];

		if (hit_is_told(exec, &exec->hits[i]))
			continue;
		limit_hit_message(&exec->hits[i], message, sizeof message);
		append(&text, "%s%s", *ret ? "; " : "", message);
	}
}

void run_result_sentence(
	const struct run_result *result, const struct spec *spec, char *ret, size_t size)
{
	exec_result_sentence(
		result, result->execs_count ? result->execs_count - 1 : 0, spec, ret, size);
}
