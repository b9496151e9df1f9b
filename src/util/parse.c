/* SPDX-License-Identifier: MIT */
/*
 * Text that a person or a model wrote → values: see parse.h. Numbers are scanned by hand, not with
 * strtod or strtoull: these take signs, spaces, hexadecimal and the locale's point.
 */
#define _GNU_SOURCE
#include "util/parse.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

enum { NANOS = 1000000000, FRACTION_DIGITS = 9, SIGNAL_MAX = 64 };

static const uint64_t YEAR_MS = 365ull * 24 * 3600 * 1000;

const char *quoted(const char *text, char buffer[QUOTED_MAX])
{
	size_t length = strlen(text);
	size_t room = QUOTED_MAX - sizeof "\"\"…";

	if (length <= room)
		snprintf(buffer, QUOTED_MAX, "\"%s\"", text);
	else
		snprintf(buffer, QUOTED_MAX, "\"%.*s…\"",
			(int)utf8_boundary_before(text, length, room), text);
	return buffer;
}

/* What was given, and how to write it right. */
static int refuse(struct error *err, const char *what, const char *text, const char *reason)
{
	char buffer[QUOTED_MAX];

	return error_set(err, 0, "%s: %s %s", what, quoted(text, buffer), reason);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A decimal number in units of 10⁻⁹. */
struct decimal {
	uint64_t whole;
	uint32_t nanos;
};

/* Returns what comes after the digits; NULL where there are none or more than 64 bits can hold. */
static const char *scan_whole(const char *text, uint64_t *ret)
{
	uint64_t value = 0;

	if (!is_digit(*text))
		return NULL;
	for (; is_digit(*text); text++)
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return NULL;
	*ret = value;
	return text;
}

/* «12», «1.5» or «.5», with at most nine digits after the point. Returns what comes after it, or NULL. */
static const char *scan_decimal(const char *text, struct decimal *ret)
{
	struct decimal value = {0, 0};
	uint32_t scale = NANOS;
	int digits = 0;

	if (*text != '.' && !(text = scan_whole(text, &value.whole)))
		return NULL;
	if (*text == '.') {
		for (text++; is_digit(*text) && digits < FRACTION_DIGITS; text++, digits++) {
			scale /= 10;
			value.nanos += (uint32_t)(*text - '0') * scale;
		}
		if (digits == 0 || is_digit(*text))
			return NULL;
	}
	*ret = value;
	return text;
}

/* value × unit, rounded down; *ret_exact says whether nothing was lost. At most INT64_MAX, else -1. */
static int64_t scale_decimal(struct decimal value, uint64_t unit, bool *ret_exact)
{
	unsigned __int128 fraction = (unsigned __int128)value.nanos * unit;
	unsigned __int128 scaled = (unsigned __int128)value.whole * unit + fraction / NANOS;

	*ret_exact = fraction % NANOS == 0;
	return scaled > INT64_MAX ? -1 : (int64_t)scaled;
}

static bool only_digits(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

/* The bytes that a unit stands for; 0: there is no such unit. */
static uint64_t size_unit(const char *text)
{
	static const char letters[] = "kmgt";
	const char *letter;

	if (*text == '\0' || strcasecmp(text, "b") == 0)
		return 1;
	letter = strchr(letters, *text | 0x20);
	if (!letter || !*letter)
		return 0;
	text++;
	if (*text && strcasecmp(text, "b") != 0 && strcasecmp(text, "i") != 0 &&
		strcasecmp(text, "ib") != 0)
		return 0;
	return 1ull << (10 * (letter - letters + 1));
}

int parse_size(const char *what, const char *text, uint64_t *ret_bytes, struct error *err)
{
	struct decimal number;
	const char *rest = scan_decimal(text, &number);
	uint64_t unit = rest ? size_unit(rest) : 0;
	bool exact;
	int64_t bytes;

	if (!rest && only_digits(text))
		return refuse(err, what, text, "is too large");
	if (!unit || (unit == 1 && number.nanos))
		return refuse(err, what, text, "is not a size; write it as 512m or 1g");
	bytes = scale_decimal(number, unit, &exact);
	if (bytes < 0)
		return refuse(err, what, text, "is too large");
	*ret_bytes = (uint64_t)bytes;
	return 0;
}

int parse_size_or_none(const char *what, const char *text, uint64_t *ret_bytes, struct error *err)
{
	if (strcmp(text, "none") != 0)
		return parse_size(what, text, ret_bytes, err);
	*ret_bytes = 0;
	return 0;
}

/* A size as a person would write it: in the greatest unit that it is a whole number of. */
static const char *write_size(uint64_t bytes, char *buffer, size_t size)
{
	static const char *const units[] = {"", "k", "m", "g", "t"};
	size_t unit = 0;

	for (; bytes && bytes % 1024 == 0 && unit + 1 < sizeof units / sizeof *units; unit++)
		bytes /= 1024;
	snprintf(buffer, size, "%llu%s", (unsigned long long)bytes, units[unit]);
	return buffer;
}

int parse_size_between(const char *what, const char *text, uint64_t min, uint64_t max,
	uint64_t *ret_bytes, struct error *err)
{
	char buffer[QUOTED_MAX], least[32], most[32];
	uint64_t bytes;

	if (parse_size(what, text, &bytes, err) < 0)
		return -1;
	if (max == INT64_MAX && bytes < min)
		return error_set(err, 0, "%s: %s is too little; the least is %s", what,
			quoted(text, buffer), write_size(min, least, sizeof least));
	if (bytes < min || bytes > max)
		return error_set(err, 0, "%s: %s is out of range; it goes from %s to %s", what,
			quoted(text, buffer), write_size(min, least, sizeof least),
			write_size(max, most, sizeof most));
	*ret_bytes = bytes;
	return 0;
}

/* The milliseconds that a unit stands for; 0: there is no such unit. */
static uint64_t duration_unit(const char *text)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}};

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(text, units[i].name) == 0)
			return units[i].ms;
	return 0;
}

int parse_duration_ms(const char *what, const char *text, uint64_t *ret_ms, struct error *err)
{
	struct decimal number;
	const char *rest;
	uint64_t unit;
	bool exact;
	int64_t ms;

	if (strcmp(text, "none") == 0) {
		*ret_ms = 0;
		return 0;
	}
	rest = scan_decimal(text, &number);
	unit = rest ? duration_unit(rest) : 0;
	if (!unit && !only_digits(text))
		return refuse(err, what, text,
			"is not a duration; write it as 30s, 500ms, 2m or 1h, or none");
	ms = unit ? scale_decimal(number, unit, &exact) : -1;
	if (ms < 0 || (uint64_t)ms > YEAR_MS)
		return refuse(err, what, text, "is longer than a year; write none for no limit");
	*ret_ms = (uint64_t)ms + (ms == 0 && !exact);
	return 0;
}

int parse_cpus(const char *what, const char *text, uint32_t *ret_millis, struct error *err)
{
	enum { MILLIS_MIN = 10, MILLIS_MAX = 1000 * 1000 };
	struct decimal number;
	const char *rest;
	bool exact;
	int64_t millis;

	if (strcmp(text, "none") == 0) {
		*ret_millis = 0;
		return 0;
	}
	rest = scan_decimal(text, &number);
	if (!rest || *rest)
		return refuse(err, what, text, "is not a number of CPUs; write it as 0.5 or 2");
	millis = scale_decimal(number, 1000, &exact);
	if (millis < 0 || millis > MILLIS_MAX)
		return refuse(err, what, text, "is too large; the most is 1000");
	if (millis < MILLIS_MIN && (millis || !exact))
		return refuse(err, what, text, "is too little; the least is 0.01");
	*ret_millis = (uint32_t)millis;
	return 0;
}

int parse_count(const char *what, const char *text, uint32_t min, uint32_t max, uint32_t *ret,
	struct error *err)
{
	char buffer[QUOTED_MAX];
	uint64_t value = 0;
	const char *rest = scan_whole(text, &value);

	if (!only_digits(text))
		return refuse(err, what, text, "is not a whole number");
	if (!rest || value < min || value > max)
		return error_set(err, 0, "%s: %s is out of range; it goes from %u to %u", what,
			quoted(text, buffer), min, max);
	*ret = (uint32_t)value;
	return 0;
}

int parse_ids(const char *what, const char *text, uint32_t max, uint32_t *ret_uid,
	uint32_t *ret_gid, struct error *err)
{
	char buffer[QUOTED_MAX];
	uint64_t uid = 0, gid = 0;
	const char *rest = scan_whole(text, &uid);

	if (rest && *rest == '\0')
		gid = uid;
	else if (rest && *rest == ':')
		rest = scan_whole(rest + 1, &gid);
	if (!rest || *rest)
		return refuse(
			err, what, text, "is not UID or UID:GID; write numbers, as 1000:1000");
	if (uid > max || gid > max)
		return error_set(err, 0, "%s: %s is out of range; ids inside go from 0 to %u", what,
			quoted(text, buffer), max);
	*ret_uid = (uint32_t)uid;
	*ret_gid = (uint32_t)gid;
	return 0;
}

/* «RTMIN», «RTMIN+3», «RTMAX-1»: 0 where it is none of these. The numbers are the kernel's and glibc's: from 34 to 64. */
static uint64_t real_time_signal(const char *name)
{
	enum { FIRST = 34 };
	bool from_end = strncasecmp(name, "RTMAX", 5) == 0;
	uint64_t offset = 0;
	const char *rest = name + 5;

	if (!from_end && strncasecmp(name, "RTMIN", 5) != 0)
		return 0;
	if (*rest == (from_end ? '-' : '+'))
		rest = scan_whole(rest + 1, &offset);
	if (!rest || *rest || offset > SIGNAL_MAX - FIRST)
		return 0;
	return from_end ? SIGNAL_MAX - offset : FIRST + offset;
}

int parse_signal(const char *what, const char *text, uint32_t *ret, struct error *err)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text, *rest;
	uint64_t number = 0;

	rest = scan_whole(text, &number);
	if (!rest || *rest)
		number = real_time_signal(name);
	for (int i = 1; number == 0 && i < SIGNAL_MAX; i++) {
		const char *known = sigabbrev_np(i);

		if (known && strcasecmp(known, name) == 0)
			number = (uint64_t)i;
	}
	if (number < 1 || number > SIGNAL_MAX)
		return refuse(err, what, text, "is no signal; write it as SIGINT, or as a number from 1 to 64");
	*ret = (uint32_t)number;
	return 0;
}

int parse_assignment(const char *what, const char *text, char **ret_name, const char **ret_value,
	struct error *err)
{
	size_t length = strcspn(text, "=");

	if (length == 0)
		return refuse(err, what, text, "has no name; write NAME=VALUE");
	*ret_name = xmemdup(text, length);
	*ret_value = text[length] ? text + length + 1 : NULL;
	return 0;
}

/* Cuts «:ro» or «:rw» from the end of a «SRC:DST…». Nothing is cut where no colon would be left. */
static void cut_bind_mode(char *text, bool *read_only)
{
	char *colon = strrchr(text, ':');

	if (!colon || !memchr(text, ':', (size_t)(colon - text)))
		return;
	if (strcmp(colon, ":ro") == 0)
		*read_only = true;
	else if (strcmp(colon, ":rw") == 0)
		*read_only = false;
	else
		return;
	*colon = '\0';
}

int parse_bind(const char *what, const char *text, char **ret_source, char **ret_target,
	bool *read_only, struct error *err)
{
	cleanup_free char *copy = xstrdup(text);
	bool mode = *read_only;
	char *colon;

	cut_bind_mode(copy, &mode);
	colon = strrchr(copy, ':');
	if (!colon || colon == copy)
		return refuse(
			err, what, text, "is not SRC:DST; write it as ./data:/workspace/data");
	if (colon[1] != '/')
		return refuse(err, what, text,
			"has no absolute path for the inside; write it as ./data:/workspace/data");
	*ret_target = xstrdup(colon + 1);
	*colon = '\0';
	*ret_source = xstrdup(copy);
	*read_only = mode;
	return 0;
}

int parse_tmpfs(const char *what, const char *text, char **ret_target, uint64_t *ret_bytes,
	struct error *err)
{
	const char *colon = strrchr(text, ':');
	uint64_t bytes = 0;

	if (*text != '/')
		return refuse(err, what, text, "is not an absolute path; write it as /scratch:64m");
	if (colon && parse_size(what, colon + 1, &bytes, err) < 0)
		return -1;
	if (colon && bytes == 0)
		return refuse(err, what, text, "has a size of 0; write it as /scratch:64m");
	*ret_target = xmemdup(text, colon ? (size_t)(colon - text) : strlen(text));
	*ret_bytes = bytes;
	return 0;
}
