/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_SESSION_RESULTS_H
#define NSBOX_CLI_SESSION_RESULTS_H

/*
 * What code in a context has shown besides text, saved in a folder of the caller's: nsbox session exec --results.
 *
 * Files are named CONTEXT-CALL-VALUE.EXTENSION, with _2, _3 … before the extension where that is taken: nothing of the
 * code's is in a name, nothing that is there is opened, replaced or followed. The caller makes and owns them, under the
 * caller's umask.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct error;

/* One representation of a value that is more than text. */
struct rich {
	const char *mime, *extension;
	bool picture;
	const void *data;
	size_t length;
	void *owned; /* free it; or NULL */
};

enum { RICH_COUNT = 11 };

/* The representation `index`, below RICH_COUNT. Returns whether the value has it. */
bool rich_get(const json_t *value, size_t index, struct rich *ret);

struct results {
	int fd;    /* the folder; -1: none is asked for */
	bool made; /* by results_open */
	const char *path;
};

/* Opens the folder `path`, or makes it. Refuses a link, and one that the caller cannot write to. */
int results_open(const char *path, struct results *ret, struct error *err);

/*
 * Saves what the result of a call has shown. Each value that something was saved of gets "files", an array of objects with
 * "mime_type", "bytes" and "path". Where a file cannot be written the rest is not tried, and nothing is left of that one.
 */
int results_save(const struct results *results, json_t *result, struct error *err);

/* Closes it; `unused`: and removes it where results_open has made it. */
void results_close(struct results *results, bool unused);

#endif
