/* SPDX-License-Identifier: MIT */
/*
 * What execute_code answers: a text for the model, and the same as an object.
 *
 * The text is standard output first, then standard error, then what a compiler had to say, then a line
 * on how it ended where that was not with exit code 0.
 */
#define _GNU_SOURCE
#include "mcp/execute_code.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/left_files.h"
#include "mcp/outputs.h"
#include "mcp/tools.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

/* Of the text, before what a compiler wrote is cut; both streams fit in it whole. */
enum { TEXT_MAX_BYTES = 2 * EXECUTE_CODE_KEPT_BYTES + 6000 };

struct text {
	char *data; /* malloc'd */
	size_t length, size;
};

static void append(struct text *text, const char *data, size_t length)
{
	if (text->length + length + 1 > text->size) {
		text->size = (text->length + length + 1) * 2;
		text->data = xrealloc(text->data, text->size, 1);
	}
	memcpy(text->data + text->length, data, length);
	text->length += length;
	text->data[text->length] = '\0';
}

static void append_string(struct text *text, const char *string)
{
	append(text, string, strlen(string));
}

/* What follows begins on a line of its own. */
static void end_line(struct text *text)
{
	if (text->length > 0 && text->data[text->length - 1] != '\n')
		append_string(text, "\n");
}

static const char *get_string(const json_t *object, const char *key, size_t *ret_length)
{
	const json_t *value = json_object_get(object, key);

	*ret_length = json_is_string(value) ? json_string_length(value) : 0;
	return json_is_string(value) ? json_string_value(value) : "";
}

/*
 * A sentence of the report speaks of options of `nsbox run`. Here a limit is raised by an argument of the
 * call, or of another tool, or not at all. Malloc'd.
 */
static char *in_terms_of_arguments(const char *sentence, enum execute_code_kind kind)
{
	static const char advice[] = "; raise it with --";
	static const struct {
		const char *option, *instead[2];
	} arguments[] = {
		{"memory", {[EXECUTE_CODE_ONCE] = "; raise it with memory_limit",
			[EXECUTE_CODE_LASTING] = "; sandbox_fork with more memory_limit makes a sandbox with its files"}},
		{"timeout", {[EXECUTE_CODE_ONCE] = "; raise it with timeout",
			[EXECUTE_CODE_LASTING] = "; raise it with timeout"}},
	};
	struct text text = {NULL, 0, 0};
	const char *found;

	while ((found = strstr(sentence, advice))) {
		const char *option = found + sizeof advice - 1;
		size_t length = strspn(option, "abcdefghijklmnopqrstuvwxyz-");

		append(&text, sentence, (size_t)(found - sentence));
		for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++)
			if (strlen(arguments[i].option) == length &&
				strncmp(arguments[i].option, option, length) == 0)
				append_string(&text, arguments[i].instead[kind]);
		sentence = option + length;
	}
	append_string(&text, sentence);
	return text.data;
}

/* What the compiler wrote, when the program was run after it; a new reference, or NULL. */
static json_t *compiler_output(const json_t *run)
{
	const json_t *compile = json_array_get(json_object_get(run, "phases"), 0);
	struct text text = {NULL, 0, 0};
	size_t length;
	const char *part;
	json_t *value;

	if (json_array_size(json_object_get(run, "phases")) < 2)
		return NULL;
	part = get_string(compile, "stdout", &length);
	append(&text, part, length);
	part = get_string(compile, "stderr", &length);
	append(&text, part, length);
	value = length > 0 || text.length > 0 ? json_stringn(text.data, text.length) : NULL;
	free(text.data);
	return value;
}

static void append_stream(struct text *text, const json_t *run, const char *name, const char *title)
{
	char key[32], note[160];
	size_t length;
	const char *data = get_string(run, name, &length);

	if (length == 0)
		return;
	if (title) {
		end_line(text);
		append_string(text, title);
	}
	append(text, data, length);
	snprintf(key, sizeof key, "%s_base64", name);
	if (!json_is_string(json_object_get(run, key)))
		return;
	end_line(text);
	snprintf(note, sizeof note,
		"[%s is not valid UTF-8; its exact bytes are in structuredContent.%s]\n", name,
		key);
	append_string(text, note);
}

static void append_compiler_output(struct text *text, const json_t *output)
{
	size_t length = json_string_length(output), shown = length;
	size_t room = text->length < TEXT_MAX_BYTES ? TEXT_MAX_BYTES - text->length : 0;
	char note[96];

	if (length == 0)
		return;
	end_line(text);
	append_string(text, "[compiler]\n");
	if (length > room)
		shown = utf8_boundary_before(json_string_value(output), length, room);
	append(text, json_string_value(output), shown);
	if (shown == length)
		return;
	end_line(text);
	snprintf(note, sizeof note, "[… %zu bytes left out …]\n", length - shown);
	append_string(text, note);
}

/* The last line: how it ended, where that is not plainly by exit code 0. */
static void append_end(struct text *text, const json_t *run, const char *message)
{
	const json_t *code = json_object_get(run, "exit_code"), *sandbox = json_object_get(run, "sandbox");
	bool failed = !json_is_integer(code) || json_integer_value(code) != 0;
	char exit_code[64] = "";

	if (json_is_integer(code))
		snprintf(exit_code, sizeof exit_code, "exit code %lld",
			(long long)json_integer_value(code));
	if (!failed && !message[0] && text->length > 0)
		return;
	end_line(text);
	append_string(text, text->length > 0 ? "[" : "[no output; ");
	append_string(text, exit_code);
	append_string(text, exit_code[0] && message[0] ? "; " : "");
	append_string(text, message);
	/* Where it failed, another toolchain than the one that was expected may be why. */
	if (failed && json_is_string(json_object_get(sandbox, "root_digest"))) {
		append_string(text, "; it ran in the image ");
		append_string(text, json_string_value(json_object_get(sandbox, "root")) ?: "");
	}
	append_string(text, "]");
}

static void append_end_in_context(struct text *text, const char *message, const char *note)
{
	if (!message[0] && !note[0] && text->length > 0)
		return;
	end_line(text);
	append_string(text, text->length > 0 ? "[" : message[0] || note[0] ? "[no output; " : "[no output");
	append_string(text, message);
	append_string(text, message[0] && note[0] ? "; " : "");
	append_string(text, note);
	append_string(text, "]");
}

/* What the report says of --explain, in terms of the call's arguments. */
static const char explain_hint[] = "its output names an error that the sandbox's filter of system calls gives too; "
			   "the same call with explain true says whether it did, and for which system call";

static const char package_hint[] = "its output speaks of a package that is not there: the argument dependencies installs those "
				   "of its language";

/* The hint of the report, in the words of this tool. */
static const char *hint_of(const json_t *run)
{
	const char *hint = json_string_value(json_object_get(run, "hint"));

	if (hint && strstr(hint, "--with"))
		return package_hint;
	return hint && strstr(hint, "--explain") ? explain_hint : hint;
}

/* Calls that the filter refused, where they were asked for; else that they can be, where that may help. */
static void append_refused(struct text *text, const json_t *run)
{
	const json_t *refused = json_object_get(run, "refused");
	long long others = json_integer_value(json_object_get(run, "refused_others"));
	json_t *refusal;
	char note[64];
	size_t i, length;

	json_array_foreach(refused, i, refusal)
	{
		end_line(text);
		append_string(text, "[refused: ");
		append_string(text, get_string(refusal, "message", &length));
		append_string(text, "]");
	}
	if (json_is_array(refused) && json_array_size(refused) == 0) {
		end_line(text);
		append_string(text, "[the filter refused no system call]");
	}
	if (others > 0) {
		snprintf(note, sizeof note, "[refused: %lld calls more, of other kinds]", others);
		end_line(text);
		append_string(text, note);
	}
	if (hint_of(run)) {
		end_line(text);
		append_string(text, "[");
		append_string(text, hint_of(run));
		append_string(text, "]");
	}
}

/* What was wanted and could not be reached. */
static void append_network(struct text *text, const json_t *run, const char *list, const char *title)
{
	json_t *entry;
	char note[512];
	size_t i, length;

	json_array_foreach (json_object_get(run, list), i, entry) {
		snprintf(note, sizeof note, "[%s: %s: %s]", title, get_string(entry, "host", &length), get_string(entry, "why", &length));
		end_line(text);
		append_string(text, note);
	}
}

static void set_known(json_t *object, const char *key, json_t *value)
{
	if (value && !json_is_null(value))
		json_object_set(object, key, value);
}

static json_t *limits_hit(const json_t *run, enum execute_code_kind kind)
{
	json_t *list = json_array(), *hit;
	size_t i;

	json_array_foreach(json_object_get(run, "limits_hit"), i, hit)
	{
		json_t *copy = json_copy(hit);
		size_t length;
		cleanup_free char *message =
			in_terms_of_arguments(get_string(hit, "message", &length), kind);

		json_object_del(copy, "option");
		json_object_set_new(copy, "message", json_string(message));
		json_array_append_new(list, copy);
	}
	return list;
}

/* `compiler` may be NULL. */
static json_t *structured(const json_t *run, enum execute_code_kind kind, const char *message, json_t *compiler)
{
	static const char *const copied[] = {"ended_by", "exit_code", "signal", "phase", "stdout",
		"stderr", "stdout_bytes", "stderr_bytes", "stdout_omitted_bytes",
		"stderr_omitted_bytes", "stdout_base64", "stderr_base64", "limits", "usage",
		"warnings", "refused", "network_allowed", "network_blocked", "network_failed", "network_omitted"};
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
		set_known(object, copied[i], json_object_get(run, copied[i]));
	json_object_set_new(object, "limits_hit", limits_hit(run, kind));
	if (message[0])
		json_object_set_new(object, "message", json_string(message));
	if (hint_of(run))
		json_object_set_new(object, "hint", json_string(hint_of(run)));
	set_known(object, "compiler_output", compiler);
	set_known(object, "root", json_object_get(json_object_get(run, "sandbox"), "root"));
	set_known(object, "root_digest", json_object_get(json_object_get(run, "sandbox"), "root_digest"));
	return object;
}

/* Setup failed, or the interpreter could not be executed: the code had no chance. Returns whether it is so. */
static bool was_not_run(const json_t *run, const char *message, struct error *err)
{
	const json_t *error = json_object_get(run, "error");
	size_t length;

	if (json_is_object(error)) {
		error_set(err, 0, "%s", get_string(error, "text", &length));
		error_hint(err, "%s", get_string(error, "hint", &length));
		if (strstr(err->hint, "--disk"))
			error_hint(err, "Delete what is not needed.");
		return true;
	}
	if (json_is_string(json_object_get(run, "exec_error")) ||
		(!json_object_get(run, "cell") && strcmp(get_string(run, "ended_by", &length), "cancelled") == 0)) {
		error_set(err, 0, "%s", message);
		return true;
	}
	return false;
}

/* The rest of an output that did not fit is a resource: where, and how to read it. */
static void append_kept(struct text *text, const json_t *run, const struct output *kept)
{
	char uri[OUTPUT_URI_MAX], note[256];
	bool whole;

	for (int stream = 0; kept && stream < 2; stream++) {
		if (kept->fds[stream] < 0)
			continue;
		end_line(text);
		output_uri(kept, stream, uri);
		whole = json_is_true(
			json_array_get(json_object_get(run, "kept_whole"), (size_t)stream));
		snprintf(note, sizeof note, "[%s %llu bytes of %s can be read as the resource %s]",
			whole ? "all" : "only the first", (unsigned long long)kept->bytes[stream],
			stream ? "stderr" : "stdout", uri);
		append_string(text, note);
	}
}

static void add_links(json_t *content, const struct output *kept)
{
	char uri[OUTPUT_URI_MAX];

	for (int stream = 0; kept && stream < 2; stream++) {
		if (kept->fds[stream] < 0)
			continue;
		output_uri(kept, stream, uri);
		json_array_append_new(content,
			json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "type", "resource_link", "uri",
				uri, "name", stream ? "stderr" : "stdout", "description",
				"The whole output; in parts of 1 MiB with ?offset=N", "mimeType",
				"text/plain", "size", (json_int_t)kept->bytes[stream]));
	}
}

static void append_files(struct text *text, const json_t *run, const struct output *kept)
{
	cleanup_free char *lines = left_files_text(run, kept);

	/* Each of them begins with a newline. */
	append_string(text, text->length > 0 && text->data[text->length - 1] == '\n' && *lines ? lines + 1 : lines);
}

/* Images that the code left in its working directory, as the client shows images. */
static void add_images(json_t *content, const json_t *run)
{
	json_t *image;
	size_t i;

	json_array_foreach(json_object_get(run, "images"), i, image)
		json_array_append_new(content, json_pack("{s:s, s:O, s:O}", "type", "image", "data",
						       json_object_get(image, "data"), "mimeType",
						       json_object_get(image, "mime_type")));
}

/* A name that the code chose, on one line whatever it is. */
static void append_name(struct text *text, const char *name)
{
	for (; *name; name++)
		append(text, (unsigned char)*name < 0x20 || *name == 0x7f ? "?" : name, 1);
}

/* Their names, in the text: image content has none. */
static void append_images(struct text *text, const json_t *run)
{
	const json_t *left_out = json_object_get(run, "images_left_out");
	json_t *image;
	size_t i, length;
	char note[160];

	json_array_foreach(json_object_get(run, "images"), i, image)
	{
		end_line(text);
		append_string(text, "[image ");
		append_name(text, get_string(image, "name", &length));
		append_string(text, "]");
	}
	if (json_integer_value(left_out) <= 0)
		return;
	end_line(text);
	snprintf(note, sizeof note,
		"[%lld images more were left out: at most 8 of 1 MiB each, 4 MiB in all, are returned]",
		(long long)json_integer_value(left_out));
	append_string(text, note);
}

static json_t *image_names(const json_t *run)
{
	json_t *list = json_array(), *image;
	size_t i;

	json_array_foreach(json_object_get(run, "images"), i, image)
	{
		json_t *copy = json_copy(image);

		json_object_del(copy, "data");
		json_array_append_new(list, copy);
	}
	return list;
}

/* `context` may be NULL. */
static json_t *finish(const struct mcp_options *options, enum execute_code_kind kind, const json_t *run,
	const struct output *kept, const struct execute_code_context *context)
{
	size_t length;
	cleanup_free char *message = in_terms_of_arguments(get_string(run, "message", &length), kind);
	struct text text = {NULL, 0, 0};
	struct error err = {0};
	json_t *compiler, *object, *result;

	if (was_not_run(run, message, &err))
		return tool_failure(&err);
	compiler = compiler_output(run);
	if (context)
		append(&text, context->before, context->before_length);
	append_stream(&text, run, "stdout", NULL);
	append_stream(&text, run, "stderr", "[stderr]\n");
	append_compiler_output(&text, compiler);
	if (context && context->after_length > 0) {
		end_line(&text);
		append(&text, context->after, context->after_length);
	}
	append_images(&text, run);
	if (context)
		append_end_in_context(&text, message, context->note);
	else
		append_end(&text, run, message);
	append_refused(&text, run);
	append_network(&text, run, "network_blocked", "blocked");
	append_network(&text, run, "network_failed", "could not be reached");
	append_kept(&text, run, kept);
	append_files(&text, run, kept);
	object = structured(run, kind, message, compiler);
	json_object_set_new(object, "images", image_names(run));
	left_files_set(object, run, kept);
	result = tool_result(text.data, text.length, object);
	add_images(json_object_get(result, "content"), run);
	add_links(json_object_get(result, "content"), kept);
	left_files_link(json_object_get(result, "content"), kept);
	free(text.data);
	json_decref(compiler);
	return result;
}

json_t *execute_code_finish(const struct mcp_options *options, enum execute_code_kind kind, const json_t *run,
	const struct output *kept)
{
	return finish(options, kind, run, kept, NULL);
}

json_t *execute_code_finish_in_context(const struct mcp_options *options, const json_t *run, const struct output *kept,
	const struct execute_code_context *context)
{
	return finish(options, EXECUTE_CODE_LASTING, run, kept, context);
}
