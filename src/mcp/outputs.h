/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_MCP_OUTPUTS_H
#define NSBOX_MCP_OUTPUTS_H

/*
 * Whole outputs of runs whose results had to leave some out, and the files that runs have left. Each stream is an
 * unlinked file that the run's supervisor wrote, and so are all files of a run together, so it takes a descriptor and
 * disk, not memory, and is gone with the server. Those of the newest OUTPUTS_MAX runs are kept. Nothing in them is
 * looked at; where a file begins and how long it is the supervisor says.
 *
 * They are resources: nsbox://output/ID/stdout, …/stderr and …/files/0 to …/files/99, where ID is 128 random bits. One
 * reading returns at most OUTPUT_PART_BYTES; the part from another offset is nsbox://output/ID/stdout?offset=N. A byte
 * takes up to six in JSON (\u0000), and clients refuse a message above 10 MiB.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum { OUTPUTS_BYTES_MAX = 512 << 20 }; /* of all together */
enum { OUTPUTS_MAX = 64, OUTPUT_ID_LENGTH = 32, OUTPUT_PART_BYTES = 1 << 20 };

/* Which of the descriptors. */
enum { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_FILES, OUTPUT_KINDS };

struct output_file {
	char *path; /* relative to the working directory, as text; owned */
	uint64_t offset, bytes;
};

struct output {
	char id[OUTPUT_ID_LENGTH + 1];
	int fds[OUTPUT_KINDS]; /* -1: that stream was returned whole; there are no files */
	uint64_t bytes[OUTPUT_KINDS];
	struct output_file *files; /* owned */
	size_t files_count;
};

struct outputs {
	struct output entries[OUTPUTS_MAX];
	size_t next; /* where the next one goes, in place of the oldest */
};

void outputs_init(struct outputs *outputs);

/*
 * Takes over the descriptors (-1: none) and makes an id. `files` says what fds[OUTPUT_FILES] has: an array of objects
 * of path, offset and size; or NULL. Returns NULL where there are no descriptors, or without random bytes.
 */
const struct output *outputs_add(struct outputs *outputs, int fds[OUTPUT_KINDS], const json_t *files);

/* «nsbox://output/ID/stdout» into `ret` (at least OUTPUT_URI_MAX bytes). */
enum { OUTPUT_URI_MAX = 80 };
void output_uri(const struct output *output, int stream, char ret[OUTPUT_URI_MAX]);

/* «nsbox://output/ID/files/INDEX», likewise. */
void output_file_uri(const struct output *output, size_t index, char ret[OUTPUT_URI_MAX]);

/* Resource objects for resources/list, and templates for resources/templates/list (new references). */
json_t *outputs_list(const struct outputs *outputs);
json_t *outputs_templates(void);

/*
 * The `contents` of resources/read for `uri` (new reference). NULL with *err where there is no such
 * resource, or the offset is not in it.
 */
json_t *outputs_read(const struct outputs *outputs, const char *uri, struct error *err);

/*
 * One of the `contents` of resources/read (new reference): text where the bytes are UTF-8 (the last character, cut by the
 * end of the part, goes with the next part unless this is the `last`), else base64. *ret_used: bytes that are in it.
 */
json_t *outputs_part(
	const char *uri, const char *data, size_t length, bool last, size_t *ret_used);

/* The templates of these resources, and what completes their arguments: as sandbox_complete. */
bool outputs_is_template(const char *uri);
int outputs_complete(const struct outputs *outputs, const char *argument, const char *value, json_t **ret);

void outputs_free(struct outputs *outputs);

/* `length` hexadecimal digits of random bits, and a NUL. Returns -1 with errno. */
int random_id(char *ret, size_t length);

#endif
