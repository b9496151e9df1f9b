/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_WARMING_H
#define NSBOX_MCP_WARMING_H

/*
 * Caches of compilers that are filled in the background, from the first call that could use one on. That call and the
 * next ones do not wait for it. A filling counts as none of the client's runs, and ends with the server. One that
 * failed is told on standard error, and not tried again.
 */

#include <poll.h>
#include <stdbool.h>

#include "session/runner.h"

enum { WARMINGS_MAX = 4 };

struct warming {
	char *language; /* owned; NULL: a free place */
	char *image;	/* owned; NULL: the host's toolchain */
	bool failed;
	struct runner_io io; /* of one that is going on */
};

struct warmings {
	struct warming list[WARMINGS_MAX];
};

void warmings_init(struct warmings *warmings);

/* Begins with the cache of the language in the image (NULL: on the host), unless that is going on or has failed. */
void warmings_begin(
	struct warmings *warmings, struct runner *runner, const char *language, const char *image);

/* What to wait for (a free place's fd is -1), and what to do when that has come. */
void warmings_fill_poll(const struct warmings *warmings, struct pollfd fds[WARMINGS_MAX]);
void warmings_handle(struct warmings *warmings, const struct pollfd fds[WARMINGS_MAX]);

/* Ends those that are going on, and frees everything. What they leave is removed by their supervisors. */
void warmings_end(struct warmings *warmings);

#endif
