/* SPDX-License-Identifier: MIT */
/* Filling caches of compilers beside the calls: see warming.h. */
#define _GNU_SOURCE
#include "mcp/warming.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"

void warmings_init(struct warmings *warmings)
{
	for (size_t i = 0; i < WARMINGS_MAX; i++)
		warmings->list[i] = (struct warming){.io = RUNNER_IO_NONE};
}

static void free_place(struct warming *warming)
{
	runner_io_close(&warming->io);
	free(warming->language);
	free(warming->image);
	warming->language = warming->image = NULL;
}

static void fail(struct warming *warming, const struct error *err)
{
	runner_io_close(&warming->io);
	warming->failed = true;
	fprintf(stderr, "nsbox mcp: %s\n", err->text);
	if (err->hint[0])
		fprintf(stderr, "nsbox mcp: %s\n", err->hint);
}

void warmings_begin(
	struct warmings *warmings, struct runner *runner, const char *language, const char *image)
{
	struct warming *place = NULL;
	struct error err;

	for (size_t i = 0; i < WARMINGS_MAX; i++) {
		struct warming *warming = &warmings->list[i];

		if (warming->language && strcmp(warming->language, language) == 0 &&
			strcmp(warming->image ?: "", image ?: "") == 0)
			return;
		if (!warming->language)
			place = warming;
	}
	if (!place)
		return;
	place->language = xstrdup(language);
	place->image = image ? xstrdup(image) : NULL;
	if (runner_warm(runner, language, image, &place->io, &err) < 0)
		fail(place, &err);
}

void warmings_fill_poll(const struct warmings *warmings, struct pollfd fds[WARMINGS_MAX])
{
	for (size_t i = 0; i < WARMINGS_MAX; i++)
		fds[i] = (struct pollfd){.fd = warmings->list[i].io.fd,
			.events = POLLIN | (warmings->list[i].io.out ? POLLOUT : 0)};
}

static void handle(struct warming *warming, short events)
{
	json_t *result = NULL;
	struct error err;

	/* What cannot be sent, the reading tells why. */
	if (events & POLLOUT && warming->io.out)
		runner_flush(&warming->io, &err);
	switch (runner_read(&warming->io, &result, &err)) {
	case RUNNER_AGAIN:
		return;
	case RUNNER_FAILED:
		fail(warming, &err);
		return;
	case RUNNER_PROGRESS:
	case RUNNER_RESULT:
		json_decref(result);
		free_place(warming);
		return;
	}
}

void warmings_handle(struct warmings *warmings, const struct pollfd fds[WARMINGS_MAX])
{
	for (size_t i = 0; i < WARMINGS_MAX; i++)
		if (fds[i].revents && warmings->list[i].io.fd >= 0)
			handle(&warmings->list[i], fds[i].revents);
}

void warmings_end(struct warmings *warmings)
{
	for (size_t i = 0; i < WARMINGS_MAX; i++)
		free_place(&warmings->list[i]);
}
