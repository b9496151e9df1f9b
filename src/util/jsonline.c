/* SPDX-License-Identifier: MIT */
/* Lines of values in a JSON text: see jsonline.h. */
#define _GNU_SOURCE
#include "util/jsonline.h"

#include <stdbool.h>
#include <string.h>

struct scan {
	const char *at, *end;
	unsigned line;
};

static void next(struct scan *scan)
{
	if (*scan->at == '\n')
		scan->line++;
	scan->at++;
}

static void skip_space(struct scan *scan)
{
	while (scan->at < scan->end && strchr(" \t\r\n", *scan->at) && *scan->at)
		next(scan);
}

/* At its opening quote. */
static void skip_string(struct scan *scan)
{
	for (next(scan); scan->at < scan->end && *scan->at != '"'; next(scan))
		if (*scan->at == '\\' && scan->at + 1 < scan->end)
			next(scan);
	if (scan->at < scan->end)
		next(scan);
}

static void skip_value(struct scan *scan)
{
	unsigned depth = 0;

	do {
		skip_space(scan);
		if (scan->at == scan->end)
			return;
		if (*scan->at == '"') {
			skip_string(scan);
			continue;
		}
		if (*scan->at == '{' || *scan->at == '[')
			depth++;
		else if (*scan->at == '}' || *scan->at == ']')
			depth--;
		else
			while (scan->at + 1 < scan->end && !strchr(" \t\r\n,:]}", scan->at[1]))
				scan->at++;
		next(scan);
	} while (depth > 0);
}

/* At the first of what an object or array holds; false: it holds nothing more, or this is none. */
static bool first_item(struct scan *scan, char bracket)
{
	skip_space(scan);
	if (scan->at == scan->end || *scan->at != bracket)
		return false;
	next(scan);
	skip_space(scan);
	return scan->at < scan->end && *scan->at != ']' && *scan->at != '}';
}

static bool next_item(struct scan *scan)
{
	skip_space(scan);
	if (scan->at == scan->end || *scan->at != ',')
		return false;
	next(scan);
	skip_space(scan);
	return scan->at < scan->end;
}

/* To the member's value. *line is that of its key. */
static bool find_member(struct scan *scan, const char *key, unsigned *line)
{
	size_t length = strlen(key);

	for (bool more = first_item(scan, '{'); more; more = next_item(scan)) {
		const char *name = scan->at + 1;
		unsigned name_line = scan->line;

		skip_string(scan);
		bool found =
			(size_t)(scan->at - name) == length + 1 && memcmp(name, key, length) == 0;

		skip_space(scan);
		if (scan->at < scan->end)
			next(scan); /* the colon */
		if (found) {
			*line = name_line;
			return true;
		}
		skip_value(scan);
	}
	return false;
}

static bool find_element(struct scan *scan, size_t index, unsigned *line)
{
	for (bool more = first_item(scan, '['); more; more = next_item(scan)) {
		if (index-- == 0) {
			*line = scan->line;
			return true;
		}
		skip_value(scan);
	}
	return false;
}

unsigned json_line_of(const char *text, size_t length, const struct json_step *steps, size_t count)
{
	struct scan scan = {text, text + length, 1};
	unsigned line;

	skip_space(&scan);
	line = scan.line;
	for (size_t i = 0; i < count; i++)
		if (!(steps[i].key ? find_member(&scan, steps[i].key, &line)
				   : find_element(&scan, steps[i].index, &line)))
			break;
	return line;
}
