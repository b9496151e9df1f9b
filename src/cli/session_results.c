/* SPDX-License-Identifier: MIT */
/* Files of what code in contexts has shown: see session_results.h. */
#define _GNU_SOURCE
#include "cli/session_results.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

enum { NAMES_MAX = 10000 /* that are tried for a file */ };

static const struct {
	const char *key, *mime, *extension;
} representations[RICH_COUNT] = {
	{"image", NULL, NULL},
	{"svg", "image/svg+xml", "svg"},
	{"html", "text/html", "html"},
	{"markdown", "text/markdown", "md"},
	{"latex", "text/latex", "tex"},
	{"json", "application/json", "json"},
	{"json_text", "application/json", "json"},
	{"chart", "application/vnd.nsbox.chart+json", "chart.json"},
	{"chart_text", "application/vnd.nsbox.chart+json", "chart.json"},
	{"plotly", "application/vnd.plotly.v1+json", "plotly.json"},
	{"plotly_text", "application/vnd.plotly.v1+json", "plotly.json"},
};

/* --- representations --- */

static bool get_image(const json_t *image, struct rich *ret)
{
	const json_t *data = json_object_get(image, "data");
	const char *mime = json_string_value(json_object_get(image, "mime_type")) ?: "";

	if (!json_is_string(data) ||
		base64_decode(json_string_value(data), json_string_length(data), &ret->owned,
			&ret->length) < 0)
		return false;
	ret->data = ret->owned;
	ret->mime = mime;
	ret->extension = strcmp(mime, "image/png") == 0    ? "png"
			 : strcmp(mime, "image/jpeg") == 0 ? "jpg"
							   : "image";
	return true;
}

/* A number or a word is its text already. */
static bool get_json(const json_t *value, const json_t *part, struct rich *ret)
{
	if (!json_is_object(part) && !json_is_array(part) && json_object_get(value, "text"))
		return false;
	ret->owned = json_dumps(part, JSON_INDENT(2) | JSON_ENCODE_ANY);
	ret->data = ret->owned;
	ret->length = ret->owned ? strlen(ret->owned) : 0;
	return ret->owned;
}

bool rich_get(const json_t *value, size_t index, struct rich *ret)
{
	const char *key = representations[index].key;
	const json_t *part = json_object_get(value, key);

	*ret = (struct rich){
		.mime = representations[index].mime, .extension = representations[index].extension};
	ret->picture = strcmp(key, "image") == 0 || strcmp(key, "svg") == 0;
	if (!part)
		return false;
	if (strcmp(key, "image") == 0)
		return get_image(part, ret);
	if (strcmp(key, "json") == 0 || strcmp(key, "chart") == 0 || strcmp(key, "plotly") == 0)
		return get_json(value, part, ret);
	ret->data = json_string_value(part);
	ret->length = json_string_length(part);
	return ret->data;
}

/* --- the folder --- */

/* Behind a slash at its end a link is followed. malloc'd. */
static char *without_slash(const char *path)
{
	size_t length = strlen(path);

	while (length > 1 && path[length - 1] == '/')
		length--;
	return xasprintf("%.*s", (int)length, path);
}

static bool is_link(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

int results_open(const char *path, struct results *ret, struct error *err)
{
	cleanup_free char *plain = without_slash(path);
	bool made = mkdir(plain, 0777) == 0;
	struct results results = {.made = made, .path = path};
	char buffer[QUOTED_MAX];

	if (!made && errno != EEXIST)
		return error_set(err, errno, "--results: making %s", quoted(path, buffer));
	results.fd = open(plain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (results.fd >= 0 && faccessat(results.fd, ".", W_OK | X_OK, AT_EACCESS) == 0) {
		signal(SIGXFSZ,
			SIG_IGN); /* a file that may not be so large is one that cannot be written */
		*ret = results;
		return 0;
	}
	error_set(err, errno, "--results: %s", quoted(path, buffer));
	if (results.fd < 0 && is_link(plain))
		error_set(err, 0,
			"--results: %s is a symbolic link; name the folder that it leads to",
			quoted(path, buffer));
	results_close(&results, true);
	return -1;
}

void results_close(struct results *results, bool unused)
{
	close_fd(&results->fd);
	if (unused && results->made)
		rmdir(results->path);
}

/* --- saving --- */

/* A new file; *ret_name is malloc'd. Returns its descriptor, or -1. */
static int make_file(const struct results *results, const char *stem, const char *extension,
	char **ret_name, struct error *err)
{
	char buffer[QUOTED_MAX];

	for (int number = 1; number <= NAMES_MAX; number++) {
		cleanup_free char *name = number == 1
						  ? xasprintf("%s.%s", stem, extension)
						  : xasprintf("%s_%d.%s", stem, number, extension);
		int fd = openat(results->fd, name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);

		if (fd >= 0) {
			*ret_name = name;
			name = NULL;
			return fd;
		}
		if (errno != EEXIST)
			return error_set(err, errno, "--results: making %s in %s", name,
				quoted(results->path, buffer));
	}
	return error_set(err, 0, "--results: %s has %d files %s.%s already; name another folder",
		quoted(results->path, buffer), NAMES_MAX, stem, extension);
}

/* A full disk may be said only when the file is closed. */
static int write_file(int fd, const struct rich *rich)
{
	if (write_whole(fd, rich->data, rich->length) < 0) {
		int errnum = errno;

		close(fd);
		errno = errnum;
		return -1;
	}
	return close(fd);
}

static int save_one(const struct results *results, const char *stem, const struct rich *rich,
	json_t *value, struct error *err)
{
	size_t length = strlen(results->path);
	const char *slash = length > 0 && results->path[length - 1] == '/' ? "" : "/";
	cleanup_free char *name = NULL, *path = NULL;
	int fd = make_file(results, stem, rich->extension, &name, err);

	if (fd < 0)
		return -1;
	path = xasprintf("%s%s%s", results->path, slash, name);
	if (write_file(fd, rich) < 0) {
		error_set(err, errno, "--results: writing %s", path);
		unlinkat(results->fd, name, 0);
		return -1;
	}
	if (!json_object_get(value, "files"))
		json_object_set_new(value, "files", json_array());
	/* A path need not be UTF-8. */
	json_array_append_new(json_object_get(value, "files"),
		json_pack("{s:s, s:I, s:o}", "mime_type", rich->mime, "bytes",
			(json_int_t)rich->length, "path", json_string(path) ?: json_string(name)));
	return 0;
}

int results_save(const struct results *results, json_t *result, struct error *err)
{
	const json_t *cell = json_object_get(result, "cell");
	json_t *value;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(cell, "values"), i, value)
	{
		cleanup_free char *stem = xasprintf("%s-%lld-%zu",
			json_string_value(json_object_get(cell, "context")),
			(long long)json_integer_value(json_object_get(cell, "call")), i + 1);

		for (size_t index = 0; r == 0 && index < RICH_COUNT; index++) {
			struct rich rich;

			if (rich_get(value, index, &rich))
				r = save_one(results, stem, &rich, value, err);
			free(rich.owned);
		}
	}
	return r;
}
