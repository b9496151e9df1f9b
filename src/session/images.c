/* SPDX-License-Identifier: MIT */
/*
 * Images that a command has made or changed, for a result that shows them (spec.collect_images): of the files that are
 * told as its changes (changes.c), those whose names say that they are images are read, one after the other, by the
 * process inside that works on files. What they are is told by what is in them.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox/collect.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { IMAGE_DEADLINE_MS = 2000 };

static bool has_name_of_image(const char *path)
{
	static const char *const endings[] = {".png", ".jpg", ".jpeg", ".gif", ".webp"};
	size_t length = strlen(path);

	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (length > strlen(endings[i]) &&
			strcasecmp(path + length - strlen(endings[i]), endings[i]) == 0)
			return true;
	return false;
}

/* What is told of the file number `index` of those that were created or modified; NULL after the last. */
static const json_t *changed_file(const struct job *job, size_t index)
{
	const json_t *created = json_object_get(job->changes.told, "created");
	const json_t *modified = json_object_get(job->changes.told, "modified");
	size_t count = json_array_size(created);

	return index < count ? json_array_get(created, index) : json_array_get(modified, index - count);
}

static uint64_t bytes_taken(const struct run_result *result)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < result->images_count; i++)
		bytes += result->images[i].length;
	return bytes;
}

static bool has_room(const struct run_result *result, uint64_t size)
{
	return result->images_count < RESULT_IMAGES_MAX && size <= RESULT_IMAGE_BYTES_MAX &&
	       bytes_taken(result) + size <= RESULT_IMAGES_BYTES_MAX;
}

static bool begin_reading(struct session *session, struct job *job, const char *path, uint64_t size)
{
	cleanup_free char *whole = xasprintf("/workspace/%s", path);
	struct error unimportant;

	if (file_read_start(session, job, whole, size, &unimportant) < 0)
		return false;
	job->work.deadline_us = session_now_us() + IMAGE_DEADLINE_MS * 1000;
	job->state = JOB_IMAGE;
	return true;
}

bool images_look(struct session *session, struct job *job)
{
	const json_t *file;

	if (!job->spec.collect_images || job->cancelled)
		return false;
	for (; (file = changed_file(job, job->image_index)); job->image_index++) {
		const char *path = json_string_value(json_object_get(file, "path"));
		json_int_t size = json_integer_value(json_object_get(file, "size"));

		if (!path || size <= 0 || !has_name_of_image(path))
			continue;
		if (!has_room(&job->result, (uint64_t)size))
			job->result.images_left_out++;
		else if (begin_reading(session, job, path, (uint64_t)size))
			return true;
	}
	return false;
}

void images_looked(struct job *job)
{
	const char *path = json_string_value(json_object_get(changed_file(job, job->image_index), "path"));
	struct run_result *result = &job->result;
	struct error unimportant;
	const char *type = NULL;
	const void *data = NULL;
	size_t length = 0;

	if (file_work_result(&job->work, path, &unimportant) == 0) {
		data = file_text(&job->work, &length);
		type = image_type(data, length);
	}
	if (type)
		result->images[result->images_count++] = (struct result_image){
			.name = xstrdup(path), .type = type, .data = xmemdup(data, length), .length = length};
	file_work_free(&job->work);
	job->image_index++;
}
