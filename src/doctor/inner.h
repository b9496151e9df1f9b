/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_DOCTOR_INNER_H
#define NSBOX_DOCTOR_INNER_H

/*
 * What a process can do where it is, seen by itself: for `nsbox check --inside`, which runs it in a sandbox,
 * and `nsbox check --here`, which runs it anywhere.
 *
 * What can be tried is tried, with arguments that change nothing: descriptors that are not open, addresses that
 * are not mapped, files that have no name, opening without reading or writing.
 */

#include <jansson.h>
#include <stdbool.h>

/*
 * An array of {name, ok: true | false | null, text, details: object}; a new reference. `ok` is false where
 * something is possible that must not be in a sandbox, and null for what is for information. `own_file` is left
 * out of what is looked at: the file of this program, or NULL.
 */
json_t *inner_examine(const char *own_file);

/* Whether nothing failed. */
bool inner_passed(const json_t *report);

/* Notes in the finding «namespaces» which of them are the caller's too; with `shared_net` that of the network may be. */
void inner_compare_namespaces(json_t *report, bool shared_net);

/* --- for the files of this module --- */

enum inner_verdict { INNER_OK, INNER_FAILED, INNER_INFORMATION };

/* Appends a finding; takes `details` over. */
void inner_add(json_t *report, const char *name, enum inner_verdict verdict, json_t *details, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* «a, b, c and 4 more» of an array of strings; «none» of an empty one. */
enum { INNER_LIST_MAX = 300 };
const char *inner_list(const json_t *array, char ret[static INNER_LIST_MAX]);

void inner_examine_calls(json_t *report);	/* system calls, families of sockets */
void inner_examine_kernel(json_t *report);	/* devices, /proc, sysctls, /sys */
void inner_examine_places(json_t *report, const char *own_file); /* mounts, writable places, Landlock */

#endif
