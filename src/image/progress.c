/* SPDX-License-Identifier: MIT */
/* What a person sees while an image comes: bars on a terminal, else a line for each layer that is done. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "image/commands.h"
#include "image/install.h"

enum { REDRAW_MS = 100, COMING_MS = 1000, COLUMNS_DEFAULT = 80, BAR_WIDTH = 24, LINES_MAX = 20 };

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

const char *bytes_text(unsigned long long bytes, char buffer[BYTES_TEXT_MAX])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes / 1024;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(buffer, BYTES_TEXT_MAX, "%llu B", bytes);
		return buffer;
	}
	while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
		value /= 1024;
		unit++;
	}
	snprintf(buffer, BYTES_TEXT_MAX, value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return buffer;
}

enum progress_style progress_style_for(bool quiet, bool json)
{
	if (json)
		return PROGRESS_JSON;
	if (quiet)
		return PROGRESS_NONE;
	return isatty(STDERR_FILENO) ? PROGRESS_BARS : PROGRESS_LINES;
}

static const char *state_text(const struct layer *layer)
{
	switch (layer->state) {
	case LAYER_WAITING:
		return layer->elsewhere ? "another nsbox makes it" : "waiting";
	case LAYER_COMING:
		return "coming";
	case LAYER_UNPACKING:
	case LAYER_UNPACKED:
		return "unpacking";
	default:
		return layer->was_there ? "was there" : "done";
	}
}

/* «sha256:» and the first digits: enough to tell layers apart. */
static const char *short_digest(const struct layer *layer)
{
	return layer->descriptor->digest + sizeof "sha256:" - 1;
}

/* --- lines --- */

static uint64_t arrived(const struct layer *layer)
{
	return layer->state == LAYER_COMING    ? layer->blob.written
	       : layer->state == LAYER_WAITING ? 0
					       : layer->descriptor->size;
}

static void show_done(const struct install *install, enum progress_style style)
{
	static bool said[MANIFEST_LAYERS_MAX];
	char size[BYTES_TEXT_MAX];

	for (size_t i = 0; i < install->count; i++) {
		const struct layer *layer = &install->layers[i];

		if (said[i] || layer->state != LAYER_DONE)
			continue;
		said[i] = true;
		if (style == PROGRESS_LINES)
			fprintf(stderr, "layer %zu/%zu %.12s %s %s\n", i + 1, install->count,
				short_digest(layer), bytes_text(layer->descriptor->size, size),
				state_text(layer));
		else
			printf("{\"layer\": %zu, \"layers\": %zu, \"digest\": \"%s\", \"bytes\": %" PRIu64
			       ", \"state\": \"%s\"}\n",
				i + 1, install->count, layer->descriptor->digest,
				layer->descriptor->size, layer->was_there ? "present" : "done");
	}
	fflush(stdout);
}

/* For a program that waits: about once a second, how much has come of each layer that is not there yet. */
static void show_coming(const struct install *install)
{
	static uint64_t said_ms;
	uint64_t now = now_ms();

	if (said_ms == 0)
		said_ms = now;
	if (now - said_ms < COMING_MS)
		return;
	said_ms = now;
	for (size_t i = 0; i < install->count; i++) {
		const struct layer *layer = &install->layers[i];

		if (layer->state == LAYER_COMING)
			printf("{\"layer\": %zu, \"layers\": %zu, \"digest\": \"%s\", \"bytes\": %" PRIu64
			       ", \"state\": \"coming\", \"come\": %" PRIu64 "}\n",
				i + 1, install->count, layer->descriptor->digest,
				layer->descriptor->size, arrived(layer));
	}
	fflush(stdout);
}

/* --- bars --- */

struct speed {
	uint64_t start_ms, start_bytes;
};

static void append_rate(
	const struct layer *layer, struct speed *speed, uint64_t now, char *text, size_t size)
{
	char rate_text[BYTES_TEXT_MAX];
	uint64_t rate, left = layer->descriptor->size - layer->blob.written;

	if (speed->start_ms == 0)
		*speed = (struct speed){now, layer->blob.written};
	if (now - speed->start_ms < 500)
		return;
	rate = (layer->blob.written - speed->start_bytes) * 1000 / (now - speed->start_ms);
	if (rate > 0)
		snprintf(text, size, "  %s/s, %" PRIu64 " s left", bytes_text(rate, rate_text),
			(left + rate - 1) / rate);
}

static void format_bar(
	const struct layer *layer, struct speed *speed, uint64_t now, char *line, size_t size)
{
	char have[BYTES_TEXT_MAX], all[BYTES_TEXT_MAX], bar[BAR_WIDTH + 1], rate[64] = "";
	uint64_t bytes = arrived(layer), total = layer->descriptor->size;
	size_t full = total ? (size_t)((double)bytes / (double)total * BAR_WIDTH) : BAR_WIDTH;

	memset(bar, ' ', BAR_WIDTH);
	memset(bar, '=', full);
	if (full > 0 && full < BAR_WIDTH)
		bar[full - 1] = '>';
	bar[BAR_WIDTH] = '\0';
	if (layer->state == LAYER_COMING)
		append_rate(layer, speed, now, rate, sizeof rate);
	snprintf(line, size, "%.12s [%s] %s/%s%s%s", short_digest(layer), bar,
		bytes_text(bytes, have), bytes_text(total, all), rate[0] ? rate : "  ",
		rate[0] ? "" : state_text(layer));
}

static unsigned columns(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col
										: COLUMNS_DEFAULT;
}

/* Layers that were there before are not worth a line; of very many only those that are being made are shown. */
static bool has_line(const struct install *install, const struct layer *layer)
{
	if (layer->was_there)
		return false;
	return install->count <= LINES_MAX ||
	       (layer->state != LAYER_WAITING && layer->state != LAYER_DONE);
}

static void show_bars(const struct install *install)
{
	static struct speed speeds[MANIFEST_LAYERS_MAX];
	static uint64_t drawn_ms;
	static unsigned lines;
	uint64_t now = now_ms();
	unsigned width = columns();
	bool done = true;
	char line[160];

	for (size_t i = 0; i < install->count; i++)
		done = done && install->layers[i].state == LAYER_DONE;
	if (!done && now - drawn_ms < REDRAW_MS)
		return;
	drawn_ms = now;
	if (lines > 0)
		fprintf(stderr, "\033[%uA\033[J", lines);
	lines = 0;
	for (size_t i = 0; i < install->count; i++) {
		if (!has_line(install, &install->layers[i]))
			continue;
		format_bar(&install->layers[i], &speeds[i], now, line, sizeof line);
		fprintf(stderr, "%.*s\n", (int)width - 1, line);
		lines++;
	}
}

void progress_show(void *data, const struct install *install)
{
	enum progress_style style = *(const enum progress_style *)data;

	if (style == PROGRESS_BARS)
		show_bars(install);
	else if (style != PROGRESS_NONE)
		show_done(install, style);
	if (style == PROGRESS_JSON)
		show_coming(install);
}
