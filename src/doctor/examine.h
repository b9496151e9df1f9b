/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_DOCTOR_EXAMINE_H
#define NSBOX_DOCTOR_EXAMINE_H

/*
 * What works on this host, what does not, and how to mend it: for `nsbox check` and for the MCP tool
 * test_sandbox. Everything that can be tried is tried; nothing on the host is changed by it.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

enum verdict {
	VERDICT_OK,
	VERDICT_WARNING, /* nsbox runs, with less than it could have */
	VERDICT_FAILED,  /* nsbox does not run, or not as the caller asked */
};

struct finding {
	char name[40];
	enum verdict verdict;
	char text[ERROR_TEXT_MAX];
	char remedy[ERROR_HINT_MAX]; /* the command that mends it, or empty */
};

enum { FINDINGS_MAX = 64 };

struct examination {
	struct finding findings[FINDINGS_MAX];
	size_t count;
};

/* Examines the host, for sandboxes with the root directory `rootfs` or, where that is NULL, the host root. */
void examine(const char *rootfs, struct examination *ret);

/* Whether nothing failed. */
bool examination_passed(const struct examination *examination);

/* An array of {name, ok: true | false | "warning", text, remedy: string | null}; a new reference. */
json_t *examination_to_json(const struct examination *examination);

#endif
