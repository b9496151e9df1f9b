/* SPDX-License-Identifier: MIT */
/* Whole outputs as resources: see outputs.h. */
#define _GNU_SOURCE
#include "mcp/outputs.h"
#include "mcp/sandbox_resources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

static const char template[] = "nsbox://output/{id}/{stream}{?offset}";
static const char prefix[] = "nsbox://output/";
static const char *const streams[2] = {"stdout", "stderr"};

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
		outputs->entries[i].fds[0] = outputs->entries[i].fds[1] = -1;
}

static void output_close(struct output *output)
{
	for (int stream = 0; stream < 2; stream++)
		close_fd(&output->fds[stream]);
	output->id[0] = '\0';
}

static uint64_t size_of(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* The oldest go until all of them together take no more than OUTPUTS_BYTES_MAX; never `newest`. */
static void limit_bytes(struct outputs *outputs, const struct output *newest)
{
	uint64_t total = 0;

	for (size_t i = 0; i < OUTPUTS_MAX; i++)
		for (int stream = 0; stream < 2; stream++)
			if (outputs->entries[i].fds[stream] >= 0)
				total += outputs->entries[i].bytes[stream];
	for (size_t i = 0; i < OUTPUTS_MAX && total > OUTPUTS_BYTES_MAX; i++) {
		struct output *output = &outputs->entries[(outputs->next + i) % OUTPUTS_MAX];

		for (int stream = 0; stream < 2 && output != newest; stream++)
			if (output->fds[stream] >= 0)
				total -= output->bytes[stream];
		if (output != newest)
			output_close(output);
	}
}

const struct output *outputs_add(struct outputs *outputs, int fds[2])
{
	struct output *output = &outputs->entries[outputs->next];

	if (fds[0] < 0 && fds[1] < 0)
		return NULL;
	output_close(output);
	if (random_id(output->id, OUTPUT_ID_LENGTH) < 0) {
		close_fd(&fds[0]);
		close_fd(&fds[1]);
		return NULL;
	}
	outputs->next = (outputs->next + 1) % OUTPUTS_MAX;
	for (int stream = 0; stream < 2; stream++) {
		output->fds[stream] = move_fd(&fds[stream]);
		output->bytes[stream] = size_of(output->fds[stream]);
	}
	limit_bytes(outputs, output);
	return output;
}

void output_uri(const struct output *output, int stream, char ret[OUTPUT_URI_MAX])
{
	snprintf(ret, OUTPUT_URI_MAX, "%s%s/%s", prefix, output->id, streams[stream]);
}

json_t *outputs_list(const struct outputs *outputs)
{
	json_t *list = json_array();
	char uri[OUTPUT_URI_MAX];

	/* The newest first. */
	for (size_t i = 1; i <= OUTPUTS_MAX; i++) {
		const struct output *output =
			&outputs->entries[(outputs->next + OUTPUTS_MAX - i) % OUTPUTS_MAX];

		for (int stream = 0; stream < 2; stream++) {
			if (output->fds[stream] < 0)
				continue;
			output_uri(output, stream, uri);
			json_array_append_new(list,
				json_pack("{s:s, s:s, s:s, s:s, s:I}", "uri", uri, "name",
					streams[stream], "description",
					"The whole output of a run whose result left some out; read "
					"in parts of 1 MiB with ?offset=N",
					"mimeType", "text/plain", "size",
					(json_int_t)output->bytes[stream]));
		}
	}
	return list;
}

json_t *outputs_templates(void)
{
	return json_pack("[{s:s, s:s, s:s, s:s}]", "uriTemplate", template, "name", "output", "description",
		"The whole output of a run whose result left some out, from the byte `offset` on; "
		"at most 1 MiB at a time. `stream` is stdout or stderr; a result names its id.",
		"mimeType", "text/plain");
}

static const struct output *find(const struct outputs *outputs, const char *id)
{
	for (size_t i = 0; i < OUTPUTS_MAX; i++)
		if (outputs->entries[i].id[0] &&
			strncmp(outputs->entries[i].id, id, OUTPUT_ID_LENGTH) == 0)
			return &outputs->entries[i];
	return NULL;
}

/* The stream that the rest of the URI names, and where `?offset=N` begins. -1: neither name. */
static int find_stream(const char *rest, const char **ret_query)
{
	for (int stream = 0; stream < 2; stream++) {
		size_t length = strlen(streams[stream]);

		if (strncmp(rest, streams[stream], length) == 0 &&
			(!rest[length] || rest[length] == '?')) {
			*ret_query = rest + length;
			return stream;
		}
	}
	return -1;
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
	size_t whole = last ? length : utf8_boundary_before(data, length, length);
	cleanup_free char *encoded = NULL;

	while (!last && whole > 0 && length - whole < 3 && !utf8_valid(data, whole))
		whole--;
	*ret_used = whole;
	if (utf8_valid(data, whole))
		return json_pack("{s:s, s:s, s:s%}", "uri", uri, "mimeType", "text/plain", "text",
			data, whole);
	*ret_used = length;
	encoded = base64_encode(data, length);
	return json_pack("{s:s, s:s, s:s}", "uri", uri, "mimeType", "application/octet-stream",
		"blob", encoded);
}

json_t *outputs_read(const struct outputs *outputs, const char *uri, struct error *err)
{
	const struct output *output = NULL;
	const char *query = "";
	cleanup_free char *data = NULL;
	uint64_t offset;
	size_t used = 0;
	ssize_t n;
	int stream = -1;
	json_t *part;

	if (strncmp(uri, prefix, sizeof prefix - 1) == 0 &&
		strlen(uri) > sizeof prefix + OUTPUT_ID_LENGTH &&
		uri[sizeof prefix - 1 + OUTPUT_ID_LENGTH] == '/') {
		output = find(outputs, uri + sizeof prefix - 1);
		stream = find_stream(uri + sizeof prefix + OUTPUT_ID_LENGTH, &query);
	}
	if (!output || stream < 0 || output->fds[stream] < 0) {
		error_set(err, 0,
			"no such resource: %.120s; outputs are kept for the last %d runs that left some out",
			uri, OUTPUTS_MAX);
		return NULL;
	}
	if (parse_offset(query, output->bytes[stream], &offset, err) < 0)
		return NULL;
	data = malloc(OUTPUT_PART_BYTES);
	n = data ? pread(output->fds[stream], data, OUTPUT_PART_BYTES, (off_t)offset) : -1;
	if (n < 0) {
		error_set(err, errno, "reading a kept output");
		return NULL;
	}
	part = outputs_part(
		uri, data, (size_t)n, offset + (uint64_t)n >= output->bytes[stream], &used);
	if (part && offset + used < output->bytes[stream]) {
		char next[OUTPUT_URI_MAX], whole[OUTPUT_URI_MAX + 32];

		output_uri(output, stream, next);
		snprintf(whole, sizeof whole, "%s?offset=%llu", next,
			(unsigned long long)(offset + used));
		json_object_set_new(part, "_meta",
			json_pack("{s:s, s:I}", "nsbox/next", whole, "nsbox/bytes",
				(json_int_t)output->bytes[stream]));
	}
	return json_pack("[o]", part);
}

bool outputs_is_template(const char *uri)
{
	return strcmp(uri, template) == 0;
}

static void add_if_begun(json_t *values, const char *candidate, const char *value)
{
	if (*candidate && strncmp(candidate, value, strlen(value)) == 0)
		json_array_append_new(values, json_string(candidate));
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
