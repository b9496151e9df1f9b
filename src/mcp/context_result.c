/* SPDX-License-Identifier: MIT */
/* Results of code in contexts: see context_result.h. */
#define _GNU_SOURCE
#include "mcp/context_result.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/execute_code.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/utf8.h"

enum {
	/* of the text, which is below 50 000 characters with both streams */
	BEFORE_BYTES = 3 << 10,
	VALUE_BYTES = 6 << 10,
	VALUES_BYTES = 12 << 10,
	TRACE_BYTES = 4 << 10,
	OMITTED_MAX = 16, /* lines about what was left out, of which each names a MIME type */
	/* of the message, which is well below 10 MiB */
	IMAGES_MAX = 8,
	IMAGES_BYTES = 4 << 20,     /* before base64, with those that the code left in files */
	STRUCTURED_BYTES = 1 << 20, /* of values as JSON */
	SVG_BYTES = 1 << 20,	    /* likewise */
};

/* What is left of the bounds, and where content goes. */
struct building {
	const char *id;
	const json_t *cell;
	json_t *content;
	size_t images, image_bytes, structured_bytes, svg_bytes;
};

static size_t length_of(const json_t *text)
{
	return json_is_string(text) ? json_string_length(text) : 0;
}

static size_t length_in_json(const json_t *value)
{
	return json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
}

/* Whether there is room for one more, which is taken then. */
static bool take_image(struct building *building, size_t bytes)
{
	if (building->images == IMAGES_MAX || building->image_bytes + bytes > IMAGES_BYTES)
		return false;
	building->images++;
	building->image_bytes += bytes;
	return true;
}

static bool take_svg(struct building *building, const json_t *svg)
{
	size_t bytes = length_in_json(svg);

	if (building->svg_bytes + bytes > SVG_BYTES)
		return false;
	building->svg_bytes += bytes;
	return true;
}

/* --- text --- */

/* At most `max` bytes of it, head and tail, on lines of its own. */
static void print_bounded(FILE *out, const json_t *text, size_t max)
{
	const char *data = json_string_value(text);
	size_t length = length_of(text), head, tail;

	if (length == 0)
		return;
	if (length <= max) {
		fwrite(data, 1, length, out);
	} else {
		head = utf8_boundary_before(data, length, max / 2);
		tail = utf8_boundary_after(data, length, length - max / 2);
		fwrite(data, 1, head, out);
		fprintf(out, "\n[… %zu bytes left out …]\n", tail - head);
		fwrite(data + tail, 1, length - tail, out);
	}
	if (data[length - 1] != '\n')
		putc('\n', out);
}

static void print_before(FILE *out, const json_t *cell)
{
	const json_t *before = json_object_get(cell, "before");

	if (!before)
		return;
	fputs("[written since the last call]\n", out);
	print_bounded(out, json_object_get(before, "stdout"), BEFORE_BYTES);
	if (length_of(json_object_get(before, "stderr")) > 0)
		fputs("[stderr, written since the last call]\n", out);
	print_bounded(out, json_object_get(before, "stderr"), BEFORE_BYTES);
	fputs("[this call]\n", out);
}

static const json_t *text_of(const json_t *value)
{
	static const char *const keys[] = {"text", "markdown", "latex", "json_text"};

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (length_of(json_object_get(value, keys[i])) > 0)
			return json_object_get(value, keys[i]);
	return NULL;
}

/* `*count` is of all values: beyond OMITTED_MAX they are only counted. */
static void print_omitted(FILE *out, const json_t *value, size_t *count)
{
	const json_t *omitted;
	size_t i;

	json_array_foreach(json_object_get(value, "omitted"), i, omitted)
	{
		if ((*count)++ >= OMITTED_MAX)
			continue;
		fprintf(out, "[%s of %lld bytes left out]\n",
			json_string_value(json_object_get(omitted, "mime_type")),
			(long long)json_integer_value(json_object_get(omitted, "bytes")));
	}
}

/* Who reads the text alone would take those that came for all. */
static void print_images_left_out(FILE *out, const struct building *building, const json_t *values)
{
	struct building room = *building;
	const json_t *value;
	size_t count = 0, i;

	json_array_foreach((json_t *)values, i, value)
	{
		const json_t *image = json_object_get(value, "image"), *svg = json_object_get(value, "svg");

		if (image && !take_image(&room, (size_t)json_integer_value(json_object_get(image, "bytes"))))
			count++;
		if (svg && !take_svg(&room, svg))
			count++;
	}
	if (count > 0)
		fprintf(out, "[%zu more image%s left out: a call returns at most %d, of %d MiB together; save them as files, or show "
			     "them in other calls]\n",
			count, count == 1 ? "" : "s", IMAGES_MAX, IMAGES_BYTES >> 20);
}

static void print_values(FILE *out, const struct building *building)
{
	const json_t *values = json_object_get(building->cell, "values");
	size_t left = VALUES_BYTES, more = 0, omitted = 0, i;
	const json_t *value;

	json_array_foreach((json_t *)values, i, value)
	{
		const json_t *text = text_of(value);
		size_t length = length_of(text), max = left < VALUE_BYTES ? left : VALUE_BYTES;

		if (text && max < 64 && length > max) {
			more++;
			continue;
		}
		print_bounded(out, text, max);
		left -= length < max ? length : max;
		print_omitted(out, value, &omitted);
	}
	if (omitted > OMITTED_MAX)
		fprintf(out, "[%zu representations more were left out]\n", omitted - OMITTED_MAX);
	if (more > 0)
		fprintf(out, "[%zu values more are in structuredContent.results]\n", more);
	print_images_left_out(out, building, values);
}

static void print_error(FILE *out, const json_t *error)
{
	const json_t *trace = json_object_get(error, "traceback");

	if (!json_is_object(error))
		return;
	if (length_of(trace) > 0) {
		print_bounded(out, trace, TRACE_BYTES);
		return;
	}
	fprintf(out, "%s: ", json_string_value(json_object_get(error, "name")));
	print_bounded(out, json_object_get(error, "message"), TRACE_BYTES);
}

/* --- values --- */

static void leave_out(json_t *value, const char *mime, json_int_t bytes)
{
	json_t *list = json_object_get(value, "omitted");

	if (!list) {
		list = json_array();
		json_object_set_new(value, "omitted", list);
	}
	json_array_append_new(list, json_pack("{s:s, s:I}", "mime_type", mime, "bytes", bytes));
}

/* Of images that the code left in its working directory, which are in the content already. */
static size_t bytes_of_files(const json_t *answer)
{
	const json_t *image;
	size_t bytes = 0, i;

	json_array_foreach(json_object_get(answer, "images"), i, image)
		bytes += (size_t)json_integer_value(json_object_get(image, "bytes"));
	return bytes;
}

/* As image content, whose number takes its place. */
static void move_image(struct building *building, json_t *value)
{
	json_t *image = json_incref(json_object_get(value, "image"));
	json_int_t bytes = json_integer_value(json_object_get(image, "bytes"));
	const char *mime = json_string_value(json_object_get(image, "mime_type"));

	if (!image)
		return;
	json_object_del(value, "image");
	if (!take_image(building, (size_t)bytes)) {
		leave_out(value, mime, bytes);
	} else {
		json_object_set_new(value, "image",
			json_integer((json_int_t)json_array_size(building->content)));
		json_array_append_new(building->content,
			json_pack("{s:s, s:O, s:s}", "type", "image", "data",
				json_object_get(image, "data"), "mimeType", mime));
	}
	json_decref(image);
}

/* As an embedded resource, likewise. */
static void move_svg(struct building *building, json_t *value, size_t number)
{
	json_t *svg = json_incref(json_object_get(value, "svg"));
	cleanup_free char *uri = NULL;

	if (!svg)
		return;
	json_object_del(value, "svg");
	if (!take_svg(building, svg)) {
		leave_out(value, "image/svg+xml", (json_int_t)length_of(svg));
	} else {
		uri = xasprintf("nsbox://context/%s/%s/%lld/%zu.svg", building->id,
			json_string_value(json_object_get(building->cell, "context")),
			(long long)json_integer_value(json_object_get(building->cell, "call")),
			number);
		json_object_set_new(
			value, "svg", json_integer((json_int_t)json_array_size(building->content)));
		json_array_append_new(building->content,
			json_pack("{s:s, s:{s:s, s:s, s:O}}", "type", "resource", "resource", "uri",
				uri, "mimeType", "image/svg+xml", "text", svg));
	}
	json_decref(svg);
}

/* What a value has besides, as long as there is room for it; the smallest and most telling first. */
static void bound_value(struct building *building, json_t *value)
{
	static const struct {
		const char *key, *mime;
	} parts[] = {
		{"text", "text/plain"},
		{"json", "application/json"},
		{"chart", "application/vnd.nsbox.chart+json"},
		{"markdown", "text/markdown"},
		{"latex", "text/latex"},
		{"html", "text/html"},
		{"plotly", "application/vnd.plotly.v1+json"},
		{"json_text", "application/json"},
		{"chart_text", "application/vnd.nsbox.chart+json"},
		{"plotly_text", "application/vnd.plotly.v1+json"},
	};

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		const json_t *part = json_object_get(value, parts[i].key);
		size_t bytes = part ? length_in_json(part) : 0;

		if (!part)
			continue;
		if (building->structured_bytes + bytes <= STRUCTURED_BYTES) {
			building->structured_bytes += bytes;
			continue;
		}
		json_object_del(value, parts[i].key);
		leave_out(value, parts[i].mime, (json_int_t)bytes);
	}
}

static json_t *build_values(struct building *building)
{
	json_t *values = json_deep_copy(json_object_get(building->cell, "values")), *value;
	size_t i;

	json_array_foreach(values, i, value)
	{
		move_image(building, value);
		move_svg(building, value, i + 1);
		bound_value(building, value);
	}
	return values;
}

/* --- all of it --- */

static void set_structured(struct building *building, json_t *structured)
{
	static const char *const copied[] = {"status", "error", "before", "note"};

	if (!structured)
		return;
	json_object_set_new(structured, "context",
		json_pack("{s:O, s:O, s:O}", "name", json_object_get(building->cell, "context"),
			"language", json_object_get(building->cell, "language"), "call",
			json_object_get(building->cell, "call")));
	for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
		json_t *part = json_object_get(building->cell, copied[i]);

		if (part && !json_is_null(part))
			json_object_set(structured, copied[i], part);
	}
	json_object_set_new(structured, "results", build_values(building));
}

json_t *context_result(const struct mcp_options *options, const char *id, const json_t *answer,
	const struct output *kept)
{
	struct building building = {
		.id = id, .cell = json_object_get(answer, "cell"), .image_bytes = bytes_of_files(answer)};
	cleanup_free char *before = NULL, *after = NULL;
	size_t before_length, after_length;
	FILE *ahead = open_memstream(&before, &before_length),
	     *behind = open_memstream(&after, &after_length);
	struct execute_code_context context = {
		.before = "", .after = "", .note = json_string_value(json_object_get(building.cell, "note")) ?: ""};
	json_t *result;

	if (ahead)
		print_before(ahead, building.cell);
	if (behind) {
		print_values(behind, &building);
		print_error(behind, json_object_get(building.cell, "error"));
	}
	if (ahead && fclose(ahead) == 0) {
		context.before = before;
		context.before_length = before_length;
	}
	if (behind && fclose(behind) == 0) {
		context.after = after;
		context.after_length = after_length;
	}
	result = execute_code_finish_in_context(options, answer, kept, &context);
	building.content = json_object_get(result, "content");
	set_structured(&building, json_object_get(result, "structuredContent"));
	return result;
}

void context_result_schema(json_t *properties)
{
	static const struct {
		const char *name, *type, *description;
	} fields[] = {
		{"context", "object",
			"With context: its name, its language, and call, the number of this one in it"},
		{"status", "string",
			"With context: ok, error (the code raised one), interrupted, or ended (the context has, with the code)"},
		{"results", "array",
			"With context, what the code has shown: each has kind (result, the value of the last expression, or display), "
			"and what there is of it: text, html, markdown, latex, json (the value itself), chart (what a plot contains: "
			"kind, title, axes, series), plotly, image and svg (the index of the block in content, from 0), omitted (mime_type and "
			"bytes of what was too large)"},
		{"error", "object",
			"With context, what the code raised: name, message, line of the code, traceback"},
		{"before", "object",
			"With context, what was written in it since the last call: stdout, stderr"},
		{"note", "string",
			"With context, what there is to say of it: that it began anew, without its variables, keeps its state, or has ended"},
	};

	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		json_object_set_new(properties, fields[i].name,
			json_pack("{s:s, s:s}", "type", fields[i].type, "description",
				fields[i].description));
	json_object_set_new(json_object_get(properties, "results"), "items",
		json_pack("{s:s}", "type", "object"));
}
