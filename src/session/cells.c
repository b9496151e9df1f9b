/* SPDX-License-Identifier: MIT */
/* What a cell has shown: see cells.h. */
#define _GNU_SOURCE
#include "session/cells.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox/collect.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/utf8.h"

enum {
	NAME_MAX_BYTES = 256,
	MESSAGE_MAX_BYTES = 16 << 10,
	TRACE_MAX_BYTES = 64 << 10,
	JSON_DEPTH_MAX = 64,
	JSON_ITEMS_MAX = 128 << 10, /* of all values of a cell: each takes about 100 bytes, here and in who reads the result */
	SLACK = 1 << 10, /* for the line that a driver puts where it has left something out */
};

enum form { FORM_TEXT, FORM_JSON, FORM_IMAGE };

static const struct representation {
	const char *mime, *key;
	enum form form;
	size_t max; /* bytes */
} representations[] = {
	{"text/plain", "text", FORM_TEXT, (64 << 10) + SLACK},
	{"text/html", "html", FORM_TEXT, (256 << 10) + SLACK},
	{"text/markdown", "markdown", FORM_TEXT, 256 << 10},
	{"text/latex", "latex", FORM_TEXT, 64 << 10},
	{"application/json", "json", FORM_JSON, 64 << 10},
	{"application/vnd.nsbox.chart+json", "chart", FORM_JSON, 256 << 10},
	{"application/vnd.plotly.v1+json", "plotly", FORM_JSON, 1 << 20},
	{"image/png", "image", FORM_IMAGE, 4 << 20},
	{"image/jpeg", "image", FORM_IMAGE, 4 << 20},
	{"image/svg+xml", "svg", FORM_TEXT, 1 << 20},
};

static const struct representation *representation_of(const char *mime)
{
	for (size_t i = 0; i < sizeof representations / sizeof *representations; i++)
		if (strcmp(representations[i].mime, mime) == 0)
			return &representations[i];
	return NULL;
}

/* --- taking --- */

/* Bytes of it in JSON: a control character takes six, and what is no UTF-8 three. */
static size_t length_told(const struct reply *reply, enum form form)
{
	size_t length = 0;

	if (form == FORM_IMAGE)
		return (reply->length + 2) / 3 * 4;
	for (size_t i = 0; i < reply->length; i++) {
		uint8_t byte = reply->data[i];

		length += byte < 0x20 ? 6 : byte == '"' || byte == '\\' ? 2 : byte >= 0x80 ? 3 : 1;
	}
	return length;
}

static bool is_wanted(const struct shown *shown, const struct reply *reply, size_t room, size_t *ret_told)
{
	const struct representation *representation = representation_of(reply->mime);

	if (reply->kind != REPLY_PART || !representation || reply->length > representation->max || reply->length > room ||
		shown->bytes + reply->length > SHOWN_BYTES_MAX)
		return false;
	*ret_told = length_told(reply, representation->form);
	return shown->told + *ret_told <= SHOWN_TOLD_MAX;
}

static void take_part(struct shown *shown, const struct reply *reply, size_t room)
{
	struct shown_part *part;
	size_t told;

	if ((shown->count & (shown->count - 1)) == 0)
		shown->parts = xrealloc(
			shown->parts, shown->count ? 2 * shown->count : 1, sizeof *shown->parts);
	part = &shown->parts[shown->count++];
	*part = (struct shown_part){.value = reply->value,
		.is_result = reply->is_result,
		.mime = xstrdup(reply->mime),
		.length = reply->kind == REPLY_CUT ? reply->cut_length : reply->length};
	if (!is_wanted(shown, reply, room, &told))
		return;
	part->data = xmemdup(reply->data, reply->length);
	shown->bytes += reply->length;
	shown->told += told;
}

/* Valid UTF-8 of at most `max` bytes; of more, head and tail. Malloc'd. */
static char *take_text(const uint8_t *data, size_t length, size_t max, size_t *ret_length)
{
	size_t head, tail, whole;
	cleanup_free char *valid = utf8_replace_invalid((const char *)data, length, &whole),
			  *text = NULL;

	if (whole <= max) {
		*ret_length = whole;
		return xmemdup(valid, whole);
	}
	head = utf8_boundary_before(valid, whole, max / 2);
	tail = utf8_boundary_after(valid, whole, whole - max / 2);
	text = xasprintf("\n[… %zu bytes left out …]\n", tail - head);
	*ret_length = head + strlen(text) + (whole - tail);
	valid = xrealloc(valid, whole + strlen(text) + 1, 1);
	memmove(valid + head + strlen(text), valid + tail, whole - tail);
	memcpy(valid + head, text, strlen(text));
	return xmemdup(valid, *ret_length);
}

static void take_error(struct shown *shown, const struct reply *reply)
{
	const uint8_t *message = reply->data + reply->name_length,
		      *trace = message + reply->message_length;

	shown->has_error = true;
	shown->line = reply->line;
	shown->name.data =
		take_text(reply->data, reply->name_length, NAME_MAX_BYTES, &shown->name.length);
	shown->message.data = take_text(
		message, reply->message_length, MESSAGE_MAX_BYTES, &shown->message.length);
	shown->trace.data =
		take_text(trace, reply->trace_length, TRACE_MAX_BYTES, &shown->trace.length);
}

void shown_add(struct shown *shown, const struct reply *reply, size_t room)
{
	if (reply->kind == REPLY_ERROR)
		take_error(shown, reply);
	else
		take_part(shown, reply, room);
}

void shown_free(struct shown *shown)
{
	for (size_t i = 0; i < shown->count; i++) {
		free(shown->parts[i].mime);
		free(shown->parts[i].data);
	}
	free(shown->parts);
	free(shown->name.data);
	free(shown->message.data);
	free(shown->trace.data);
	memset(shown, 0, sizeof *shown);
}

/* --- JSON --- */

static void set_text(json_t *object, const char *key, const uint8_t *data, size_t length)
{
	size_t valid_length;
	cleanup_free char *valid = utf8_replace_invalid((const char *)data, length, &valid_length);

	json_object_set_new(object, key, json_stringn_nocheck(valid, valid_length));
}

/*
 * Before it is parsed: parsing, and whoever reads the result, recurses, and takes a multiple of the text in memory.
 * `*left` is how many items there may be still; those of this one are taken off where it is to be parsed.
 */
static bool is_too_much(const uint8_t *data, size_t length, size_t *left)
{
	size_t depth = 0, items = 1;
	bool quoted = false;

	for (size_t i = 0; i < length; i++) {
		if (quoted && data[i] == '\\')
			i++;
		else if (data[i] == '"')
			quoted = !quoted;
		else if (!quoted && (data[i] == '[' || data[i] == '{') && ++depth > JSON_DEPTH_MAX)
			return true;
		else if (!quoted && (data[i] == ']' || data[i] == '}') && depth > 0)
			depth--;
		items += !quoted && (data[i] == '[' || data[i] == '{' || data[i] == ',');
	}
	if (items > *left)
		return true;
	*left -= items;
	return false;
}

static void set_json(json_t *object, const char *key, const uint8_t *data, size_t length, size_t *left)
{
	json_t *value = is_too_much(data, length, left)
				? NULL
				: json_loadb((const char *)data, length,
					  JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	cleanup_free char *text_key = NULL;

	if (value) {
		json_object_set_new(object, key, value);
		return;
	}
	text_key = xasprintf("%s_text", key);
	set_text(object, text_key, data, length);
}

static void note_omitted(json_t *object, const struct shown_part *part)
{
	json_t *list = json_object_get(object, "omitted");

	if (!list) {
		list = json_array();
		json_object_set_new(object, "omitted", list);
	}
	json_array_append_new(list, json_pack("{s:s, s:I}", "mime_type", part->mime, "bytes",
					    (json_int_t)part->length));
}

/* What an image is, is told by what is in it. One of two is enough. */
static bool set_image(json_t *object, const struct shown_part *part)
{
	const char *type = image_type(part->data, (unsigned long)part->length);
	cleanup_free char *data = NULL;

	if (!type || strcmp(type, part->mime) != 0 || json_object_get(object, "image"))
		return false;
	data = base64_encode(part->data, (size_t)part->length);
	json_object_set_new(object, "image",
		json_pack("{s:s, s:I, s:s}", "mime_type", type, "bytes", (json_int_t)part->length,
			"data", data));
	return true;
}

static void set_part(json_t *object, const struct shown_part *part, size_t *left)
{
	const struct representation *representation =
		part->data ? representation_of(part->mime) : NULL;

	if (!representation || (representation->form == FORM_IMAGE && !set_image(object, part)))
		note_omitted(object, part);
	else if (representation->form == FORM_TEXT)
		set_text(object, representation->key, part->data, (size_t)part->length);
	else if (representation->form == FORM_JSON)
		set_json(object, representation->key, part->data, (size_t)part->length, left);
}

static json_t *error_to_json(const struct shown *shown)
{
	if (!shown->has_error)
		return json_null();
	return json_pack("{s:s%, s:s%, s:o, s:s%}", "name", shown->name.data, shown->name.length,
		"message", shown->message.data, shown->message.length, "line",
		shown->line ? json_integer(shown->line) : json_null(), "traceback",
		shown->trace.data, shown->trace.length);
}

void shown_to_json(const struct shown *shown, json_t *object)
{
	json_t *values = json_array(), *value = NULL;
	size_t left = JSON_ITEMS_MAX;
	uint32_t number = 0;

	for (size_t i = 0; i < shown->count; i++) {
		const struct shown_part *part = &shown->parts[i];

		if (part->value != number) {
			value = json_pack("{s:s}", "kind", part->is_result ? "result" : "display");
			json_array_append_new(values, value);
			number = part->value;
		}
		set_part(value, part, &left);
	}
	json_object_set_new(object, "values", values);
	json_object_set_new(object, "error", error_to_json(shown));
}
