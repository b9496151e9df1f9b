/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_PARSE_H
#define NSBOX_UTIL_PARSE_H

/*
 * Text that a person or a model wrote → values. Pure functions.
 *
 * `what` names the value in the error («--memory», «memory_limit»): the error says what was wrong,
 * where, and how to write it. Results are set on success only. All return 0, or -1 with *err.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

/*
 * «512m», «1g», «1.5GiB», «100k», «4096»: bytes. Units are powers of 1024 however they are written, as
 * in Docker: k, m, g, t with an optional b, i or ib, in any case. At most INT64_MAX.
 */
int parse_size(const char *what, const char *text, uint64_t *ret_bytes, struct error *err);

/* The same, or «none» for 0. */
int parse_size_or_none(const char *what, const char *text, uint64_t *ret_bytes, struct error *err);

/* A size from `min` to `max`. */
int parse_size_between(const char *what, const char *text, uint64_t min, uint64_t max,
	uint64_t *ret_bytes, struct error *err);

/*
 * «30», «30s», «1.5s», «500ms», «2m», «1h»: milliseconds; «0» and «none» give 0. What is less than a
 * millisecond is rounded up to one, so that it never means «none». At most a year.
 */
int parse_duration_ms(const char *what, const char *text, uint64_t *ret_ms, struct error *err);

/* «0.5», «2»: thousandths of a CPU, at least 10; «0» and «none» give 0. */
int parse_cpus(const char *what, const char *text, uint32_t *ret_millis, struct error *err);

/* A whole number from `min` to `max`. */
int parse_count(const char *what, const char *text, uint32_t min, uint32_t max, uint32_t *ret,
	struct error *err);

/* «1000» (the group is then the same number) or «1000:100»; each at most `max`. */
int parse_ids(const char *what, const char *text, uint32_t max, uint32_t *ret_uid,
	uint32_t *ret_gid, struct error *err);

/* «SIGTERM», «term», «15», «SIGRTMIN+3»: the number of a signal, as docker run reads it. */
int parse_signal(const char *what, const char *text, uint32_t *ret, struct error *err);

/*
 * «NAME=VALUE», or «NAME» alone: *ret_value is then NULL, else it points into `text`. *ret_name is
 * malloc'd.
 */
int parse_assignment(const char *what, const char *text, char **ret_name, const char **ret_value,
	struct error *err);

/*
 * «SRC:DST» with an optional «:ro» or «:rw», which changes *read_only. The last colon separates, so SRC
 * may contain one. DST is absolute. The strings are malloc'd.
 */
int parse_bind(const char *what, const char *text, char **ret_source, char **ret_target,
	bool *read_only, struct error *err);

/* «DST» or «DST:SIZE»; *ret_bytes is 0 without a size. *ret_target is absolute and malloc'd. */
int parse_tmpfs(const char *what, const char *text, char **ret_target, uint64_t *ret_bytes,
	struct error *err);

/* `text` in quotation marks, shortened when it is long: for messages. */
enum { QUOTED_MAX = 96 };
const char *quoted(const char *text, char buffer[QUOTED_MAX]);

#endif
