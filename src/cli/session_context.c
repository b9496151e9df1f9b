/* SPDX-License-Identifier: MIT */
/* Results of contexts: see session_context.h. */
#define _GNU_SOURCE
#include "cli/session_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/session_results.h"
#include "util/base64.h"
#include "util/error.h"

/* A captured stream of an object, as it was where it was no UTF-8. */
static void print_stream(const json_t *object, const char *name, FILE *out)
{
	char key[32];
	const json_t *text = json_object_get(object, name), *encoded;
	void *bytes = NULL;
	size_t length;

	snprintf(key, sizeof key, "%s_base64", name);
	encoded = json_object_get(object, key);
	if (json_is_string(encoded) &&
		json_integer_value(json_object_get(object, "omitted")) == 0 &&
		base64_decode(json_string_value(encoded), json_string_length(encoded), &bytes,
			&length) == 0)
		fwrite(bytes, 1, length, out);
	else if (json_is_string(text))
		fwrite(json_string_value(text), 1, json_string_length(text), out);
	free(bytes);
}

static void print_line(const json_t *text, FILE *out)
{
	size_t length = json_string_length(text);

	fwrite(json_string_value(text), 1, length, out);
	if (length == 0 || json_string_value(text)[length - 1] != '\n')
		putc('\n', out);
}

/* Where a representation was saved; or NULL. */
static const char *saved_path(const json_t *value, const char *mime)
{
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(value, "files"), i, file)
		if (strcmp(json_string_value(json_object_get(file, "mime_type")) ?: "", mime) == 0)
			return json_string_value(json_object_get(file, "path"));
	return NULL;
}

/*
 * What a terminal cannot show is named: all of it that is saved, pictures in any case, and the rest where there is no
 * text in its place.
 */
static void print_rich(const json_t *value, bool has_text, bool saving)
{
	for (size_t i = 0; i < RICH_COUNT; i++) {
		struct rich rich;
		const char *path;

		if (!rich_get(value, i, &rich))
			continue;
		path = saved_path(value, rich.mime);
		if (path || rich.picture || !has_text)
			printf("[%s, %zu bytes%s%s]\n", rich.mime, rich.length,
				path	 ? ": "
				: saving ? ": not saved"
					 : "; --results DIR saves it",
				path ?: "");
		free(rich.owned);
	}
}

static void print_value(const json_t *value, bool saving)
{
	static const char *const texts[] = {"text", "markdown", "latex"};
	enum { TEXTS_COUNT = sizeof texts / sizeof *texts };
	const json_t *omitted;
	size_t i, text = 0;

	while (text < TEXTS_COUNT && !json_is_string(json_object_get(value, texts[text])))
		text++;
	if (text < TEXTS_COUNT)
		print_line(json_object_get(value, texts[text]), stdout);
	print_rich(value, text < TEXTS_COUNT, saving);
	json_array_foreach(json_object_get(value, "omitted"), i, omitted)
		printf("[%s, %lld bytes: left out]\n",
			json_string_value(json_object_get(omitted, "mime_type")),
			(long long)json_integer_value(json_object_get(omitted, "bytes")));
}

static void print_error(const json_t *error)
{
	const json_t *trace = json_object_get(error, "traceback");

	if (!json_is_object(error))
		return;
	if (json_string_length(trace) > 0)
		print_line(trace, stderr);
	else
		fprintf(stderr, "%s: %s\n", json_string_value(json_object_get(error, "name")),
			json_string_value(json_object_get(error, "message")));
}

void session_context_print(const json_t *result, bool saving)
{
	const json_t *cell = json_object_get(result, "cell"),
		     *before = json_object_get(cell, "before"), *value;
	size_t i;

	print_stream(before, "stdout", stdout);
	print_stream(before, "stderr", stderr);
	print_stream(result, "stdout", stdout);
	print_stream(result, "stderr", stderr);
	json_array_foreach(json_object_get(cell, "values"), i, value) print_value(value, saving);
	fflush(stdout);
	print_error(json_object_get(cell, "error"));
}

void session_context_print_note(const json_t *result)
{
	const char *note =
		json_string_value(json_object_get(json_object_get(result, "cell"), "note"));
	struct error shown;

	if (!note)
		return;
	error_set(&shown, 0, "%s", note);
	fprintf(stderr, "nsbox: %s\n", shown.text);
}

void session_context_print_list(const json_t *contexts)
{
	const json_t *context;
	size_t i;

	if (json_array_size(contexts) > 0)
		printf("%-24s  %-10s  %-11s  %7s  %7s  %s\n", "CONTEXT", "LANGUAGE", "STATE",
			"CALLS", "PROCESS", "ENDED");
	json_array_foreach((json_t *)contexts, i, context)
	{
		const char *ended = json_string_value(json_object_get(context, "ended"));
		json_int_t process = json_integer_value(json_object_get(context, "process"));
		char number[24] = "-";
		struct error shown = {0};

		if (process)
			snprintf(number, sizeof number, "%lld", (long long)process);
		if (ended)
			error_set(&shown, 0, "%s", ended);
		printf("%-24s  %-10s  %-11s  %7lld  %7s  %s\n",
			json_string_value(json_object_get(context, "name")),
			json_string_value(json_object_get(context, "language")),
			json_string_value(json_object_get(context, "state")),
			(long long)json_integer_value(json_object_get(context, "calls")), number,
			shown.text);
	}
}
