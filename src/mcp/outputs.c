/* SPDX-License-Identifier: MIT */
/* Whole outputs, and files, as resources: see outputs.h. */
#define _GNU_SOURCE
#include "mcp/outputs.h"
#include "mcp/sandbox_resources.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

static const char template[] = "nsbox://output/{id}/{stream}{?offset}";
static const char file_template[] = "nsbox://output/{id}/files/{number}{?offset}";
static const char prefix[] = "nsbox://output/";
static const char *const streams[] = {"stdout", "stderr"};
static const char files_part[] = "files/";

int random_id(char *ret, size_t length)
{
	unsigned char bytes[64];

	if (getrandom(bytes, (length + 1) / 2, 0) < 0)
		return -1;
	for (size_t i = 0; i < length; i++)
		ret[i] = "0123456789abcdef"[i % 2 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15];
	ret[length] = '\0';
	return 0;
}

void outputs_init(struct outputs *outputs)
{
	memset(outputs, 0, sizeof *outputs);
	for (size_t i = 0; i < OUTPUTS_MAX; i++)
		for (int kind = 0; kind < OUTPUT_KINDS; kind++)
			outputs->entries[i].fds[kind] = -1;
}

static void close_files(struct output *output)
{
	close_fd(&output->fds[OUTPUT_FILES]);
	for (size_t i = 0; i < output->files_count; i++)
		free(output->files[i].path);
	free(output->files);
	output->files = NULL;
	output->files_count = 0;
}

static void output_close(struct output *output)
{
	for (int stream = OUTPUT_STDOUT; stream <= OUTPUT_STDERR; stream++)
		close_fd(&output->fds[stream]);
	close_files(output);
	output->id[0] = '\0';
}

static uint64_t size_of(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static uint64_t bytes_of(const struct output *output)
{
	uint64_t total = 0;

	for (int kind = 0; kind < OUTPUT_KINDS; kind++)
		if (output->fds[kind] >= 0)
			total += output->bytes[kind];
	return total;
}

/* The oldest go until all of them together take no more than OUTPUTS_BYTES_MAX; never `newest`. */
static void limit_bytes(struct outputs *outputs, const struct output *newest)
{
	uint64_t total = 0;

	for (size_t i = 0; i < OUTPUTS_MAX; i++)
		total += bytes_of(&outputs->entries[i]);
	for (size_t i = 0; i < OUTPUTS_MAX && total > OUTPUTS_BYTES_MAX; i++) {
		struct output *output = &outputs->entries[(outputs->next + i) % OUTPUTS_MAX];

		if (output == newest)
			continue;
		total -= bytes_of(output);
		output_close(output);
	}
}

/* What does not lie in the file of all is nothing that our supervisor says: then there are none. */
static void take_files(struct output *output, const json_t *files)
{
	size_t count = json_array_size(files);

	output->files = xcalloc(count + 1, sizeof *output->files);
	for (size_t i = 0; i < count; i++) {
		const json_t *file = json_array_get(files, i), *path = json_object_get(file, "path");
		json_int_t offset = json_integer_value(json_object_get(file, "offset")),
			   size = json_integer_value(json_object_get(file, "size"));

		if (!json_is_string(path) || offset < 0 || size < 0 || (uint64_t)offset > output->bytes[OUTPUT_FILES] ||
			(uint64_t)size > output->bytes[OUTPUT_FILES] - (uint64_t)offset) {
			close_files(output);
			return;
		}
		output->files[output->files_count++] = (struct output_file){
			.path = xstrdup(json_string_value(path)), .offset = (uint64_t)offset, .bytes = (uint64_t)size};
	}
}

const struct output *outputs_add(struct outputs *outputs, int fds[OUTPUT_KINDS], const json_t *files)
{
	struct output *output = &outputs->entries[outputs->next];
	bool some = false;

	for (int kind = 0; kind < OUTPUT_KINDS; kind++)
		some |= fds[kind] >= 0;
	if (!some)
		return NULL;
	output_close(output);
	if (random_id(output->id, OUTPUT_ID_LENGTH) < 0) {
		for (int kind = 0; kind < OUTPUT_KINDS; kind++)
			close_fd(&fds[kind]);
		return NULL;
	}
	outputs->next = (outputs->next + 1) % OUTPUTS_MAX;
	for (int kind = 0; kind < OUTPUT_KINDS; kind++) {
		output->fds[kind] = move_fd(&fds[kind]);
		output->bytes[kind] = size_of(output->fds[kind]);
	}
	if (output->fds[OUTPUT_FILES] >= 0)
		take_files(output, files);
	limit_bytes(outputs, output);
	return output;
}

void output_uri(const struct output *output, int stream, char ret[OUTPUT_URI_MAX])
{
	snprintf(ret, OUTPUT_URI_MAX, "%s%s/%s", prefix, output->id, streams[stream]);
}

void output_file_uri(const struct output *output, size_t index, char ret[OUTPUT_URI_MAX])
{
	snprintf(ret, OUTPUT_URI_MAX, "%s%s/%s%zu", prefix, output->id, files_part, index);
}

static void list_output(const struct output *output, json_t *list)
{
	char uri[OUTPUT_URI_MAX];

	for (int stream = OUTPUT_STDOUT; stream <= OUTPUT_STDERR; stream++) {
		if (output->fds[stream] < 0)
			continue;
		output_uri(output, stream, uri);
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:s, s:s, s:I}", "uri", uri, "name", streams[stream], "description",
				"The whole output of a run whose result left some out; read "
				"in parts of 1 MiB with ?offset=N",
				"mimeType", "text/plain", "size", (json_int_t)output->bytes[stream]));
	}
	for (size_t i = 0; i < output->files_count; i++) {
		output_file_uri(output, i, uri);
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:s, s:I}", "uri", uri, "name", output->files[i].path, "description",
				"A file that a run left; read in parts of 1 MiB with ?offset=N", "size",
				(json_int_t)output->files[i].bytes));
	}
}

json_t *outputs_list(const struct outputs *outputs)
{
	json_t *list = json_array();

	/* The newest first. */
	for (size_t i = 1; i <= OUTPUTS_MAX; i++)
		list_output(&outputs->entries[(outputs->next + OUTPUTS_MAX - i) % OUTPUTS_MAX], list);
	return list;
}

json_t *outputs_templates(void)
{
	return json_pack("[{s:s, s:s, s:s, s:s}, {s:s, s:s, s:s}]", "uriTemplate", template, "name", "output", "description",
		"The whole output of a run whose result left some out, from the byte `offset` on; "
		"at most 1 MiB at a time. `stream` is stdout or stderr; a result names its id.",
		"mimeType", "text/plain", "uriTemplate", file_template, "name", "file",
		"description",
		"A file that a run left in its working directory, from the byte `offset` on; at most 1 MiB at a time. "
		"A result names the id and the numbers of its files.");
}

static const struct output *find(const struct outputs *outputs, const char *id)
{
	for (size_t i = 0; i < OUTPUTS_MAX; i++)
		if (outputs->entries[i].id[0] &&
			strncmp(outputs->entries[i].id, id, OUTPUT_ID_LENGTH) == 0)
			return &outputs->entries[i];
	return NULL;
}

/* A part of a file that is kept: a whole stream, or what a run left as one file. */
struct span {
	int fd; /* -1: there is none */
	uint64_t offset, bytes;
};

static struct span span_of_file(const struct output *output, const char *number, const char **ret_query)
{
	size_t digits = strspn(number, "0123456789");
	unsigned long index = digits > 0 && digits < 4 ? strtoul(number, NULL, 10) : output->files_count;

	*ret_query = number + digits;
	/* One file has one name. */
	if (index >= output->files_count || (number[0] == '0' && digits > 1))
		return (struct span){.fd = -1};
	return (struct span){output->fds[OUTPUT_FILES], output->files[index].offset, output->files[index].bytes};
}

/* What the rest of the URI names; *ret_query is where `?offset=N` begins. */
static struct span find_span(const struct output *output, const char *rest, const char **ret_query)
{
	if (strncmp(rest, files_part, sizeof files_part - 1) == 0)
		return span_of_file(output, rest + sizeof files_part - 1, ret_query);
	for (int stream = OUTPUT_STDOUT; stream <= OUTPUT_STDERR; stream++) {
		size_t length = strlen(streams[stream]);

		*ret_query = rest + length;
		if (strncmp(rest, streams[stream], length) == 0)
			return (struct span){output->fds[stream], 0, output->bytes[stream]};
	}
	return (struct span){.fd = -1};
}

static int parse_offset(const char *query, uint64_t size, uint64_t *ret, struct error *err)
{
	static const char name[] = "?offset=";
	char *end;

	*ret = 0;
	if (!*query)
		return 0;
	if (strncmp(query, name, sizeof name - 1) != 0)
		return error_set(err, 0, "\"%.60s\": expected ?offset=N", query);
	errno = 0;
	*ret = strtoull(query + sizeof name - 1, &end, 10);
	if (errno || *end || end == query + sizeof name - 1 || query[sizeof name - 1] == '-')
		return error_set(err, 0, "offset: expected a number of bytes");
	if (*ret > size)
		return error_set(
			err, 0, "offset: the output has %llu bytes only", (unsigned long long)size);
	return 0;
}

json_t *outputs_part(
	const char *uri, const char *data, size_t length, bool last, size_t *ret_used)
{
	size_t whole = last ? length : utf8_whole(data, length);
	cleanup_free char *encoded = NULL;

	*ret_used = whole;
	if (utf8_valid(data, whole))
		return json_pack("{s:s, s:s, s:s%}", "uri", uri, "mimeType", "text/plain", "text",
			data, whole);
	*ret_used = length;
	encoded = base64_encode(data, length);
	return json_pack("{s:s, s:s, s:s}", "uri", uri, "mimeType", "application/octet-stream",
		"blob", encoded);
}

/* *ret_query is the rest of the URI behind the name of what it names. */
static struct span find_resource(const struct outputs *outputs, const char *uri, const char **ret_query)
{
	const struct output *output = NULL;
	struct span none = {.fd = -1}, span;

	if (strncmp(uri, prefix, sizeof prefix - 1) != 0 || strlen(uri) <= sizeof prefix + OUTPUT_ID_LENGTH ||
		uri[sizeof prefix - 1 + OUTPUT_ID_LENGTH] != '/')
		return none;
	output = find(outputs, uri + sizeof prefix - 1);
	if (!output)
		return none;
	span = find_span(output, uri + sizeof prefix + OUTPUT_ID_LENGTH, ret_query);
	return span.fd < 0 || (**ret_query && **ret_query != '?') ? none : span;
}

static void set_next(json_t *part, const char *uri, const char *query, uint64_t offset, uint64_t bytes)
{
	cleanup_free char *next = xasprintf("%.*s?offset=%llu", (int)(query - uri), uri, (unsigned long long)offset);

	json_object_set_new(
		part, "_meta", json_pack("{s:s, s:I}", "nsbox/next", next, "nsbox/bytes", (json_int_t)bytes));
}

json_t *outputs_read(const struct outputs *outputs, const char *uri, struct error *err)
{
	const char *query = "";
	struct span span = find_resource(outputs, uri, &query);
	cleanup_free char *data = NULL;
	uint64_t offset;
	size_t used = 0, wanted;
	ssize_t n;
	json_t *part;

	if (span.fd < 0) {
		error_set(err, 0,
			"no such resource: %.120s; outputs and files are kept for the last %d runs that had some to be kept",
			uri, OUTPUTS_MAX);
		return NULL;
	}
	if (parse_offset(query, span.bytes, &offset, err) < 0)
		return NULL;
	wanted = span.bytes - offset < OUTPUT_PART_BYTES ? (size_t)(span.bytes - offset) : OUTPUT_PART_BYTES;
	data = malloc(OUTPUT_PART_BYTES);
	n = data ? pread(span.fd, data, wanted, (off_t)(span.offset + offset)) : -1;
	if (n < 0) {
		error_set(err, errno, "reading a kept output");
		return NULL;
	}
	part = outputs_part(uri, data, (size_t)n, offset + (uint64_t)n >= span.bytes, &used);
	if (part && offset + used < span.bytes)
		set_next(part, uri, query, offset + used, span.bytes);
	return json_pack("[o]", part);
}

bool outputs_is_template(const char *uri)
{
	return strcmp(uri, template) == 0 || strcmp(uri, file_template) == 0;
}

static void add_if_begun(json_t *values, const char *candidate, const char *value)
{
	if (*candidate && strncmp(candidate, value, strlen(value)) == 0)
		json_array_append_new(values, json_string(candidate));
}

/* As many as the run has that has most. */
static size_t files_max(const struct outputs *outputs)
{
	size_t most = 0;

	for (size_t i = 0; i < OUTPUTS_MAX; i++)
		if (outputs->entries[i].files_count > most)
			most = outputs->entries[i].files_count;
	return most;
}

int outputs_complete(const struct outputs *outputs, const char *argument, const char *value, json_t **ret)
{
	json_t *values = json_array();

	if (strcmp(argument, "id") == 0) {
		for (size_t i = 0; i < OUTPUTS_MAX; i++)
			add_if_begun(values, outputs->entries[i].id, value);
	} else if (strcmp(argument, "stream") == 0) {
		for (int stream = 0; stream < 2; stream++)
			add_if_begun(values, streams[stream], value);
	} else if (strcmp(argument, "number") == 0) {
		for (size_t i = 0; i < files_max(outputs); i++) {
			char number[24];

			snprintf(number, sizeof number, "%zu", i);
			add_if_begun(values, number, value);
		}
	} else if (strcmp(argument, "offset") != 0) {
		json_decref(values);
		return -1;
	}
	*ret = completion_result(values);
	return 0;
}

void outputs_free(struct outputs *outputs)
{
	for (size_t i = 0; i < OUTPUTS_MAX; i++)
		output_close(&outputs->entries[i]);
}
