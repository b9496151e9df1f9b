/* SPDX-License-Identifier: MIT */
/*
 * nsbox-unpack: unpacks one layer, confined to its directory. nsbox-image starts it; nobody else does.
 *
 *     nsbox-unpack tar|gzip|zstd [lowest] [owners] BYTES RATIO ENTRIES
 *     nsbox-unpack settle [owners] FD…     the directories of the layers below, the topmost first
 *
 * Its descriptors and what it says are in unpack/wire.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unpack/confine.h"
#include "unpack/layer.h"
#include "unpack/settle.h"
#include "unpack/stream.h"
#include "unpack/tree.h"
#include "unpack/wire.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { LOWERS_MAX = 512, NOTES_MAX = TREE_NOTES_BYTES_MAX + 1, RATIO_ABOVE = 256 << 20 };

struct arguments {
	bool settle;
	enum compression compression;
	struct stream_limits stream;
	struct layer_options layer;
	int lowers[LOWERS_MAX];
	unsigned lowers_count;
};

static int parse_number(const char *text, uint64_t *ret)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return -1;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno || *end ? -1 : 0;
}

static int parse_lowers(char **words, struct arguments *arguments)
{
	uint64_t fd;

	for (; *words; words++) {
		if (arguments->lowers_count == LOWERS_MAX || parse_number(*words, &fd) < 0 ||
			fd > 65536)
			return -1;
		arguments->lowers[arguments->lowers_count++] = (int)fd;
	}
	return arguments->lowers_count ? 0 : -1;
}

static int parse_arguments(char **words, struct arguments *ret)
{
	if (!*words)
		return -1;
	ret->settle = strcmp(*words, "settle") == 0;
	if (strcmp(*words, "gzip") == 0)
		ret->compression = COMPRESSION_GZIP;
	else if (strcmp(*words, "zstd") == 0)
		ret->compression = COMPRESSION_ZSTD;
	else if (!ret->settle && strcmp(*words, "tar") != 0)
		return -1;
	words++;
	ret->layer.lowest = !ret->settle && *words && strcmp(*words, "lowest") == 0;
	words += ret->layer.lowest;
	ret->layer.owners = *words && strcmp(*words, "owners") == 0;
	words += ret->layer.owners;
	if (ret->settle)
		return parse_lowers(words, ret);
	if (parse_number(words[0], &ret->stream.bytes_max) < 0 ||
		parse_number(words[1], &ret->stream.ratio_max) < 0 ||
		parse_number(words[2], &ret->layer.limits.entries_max) < 0 ||
		ret->stream.ratio_max == 0)
		return -1;
	ret->stream.ratio_above = RATIO_ABOVE;
	ret->layer.limits.file_bytes_max = ret->stream.bytes_max;
	return 0;
}

static int unpack(
	const struct arguments *arguments, struct unpack_result *result, struct error *err)
{
	struct stream *stream;
	struct tree *tree;
	bool opaque;
	int root;

	if (confine_to_directory(UNPACK_DIRECTORY, NULL, 0, arguments->layer.owners, err) < 0)
		return -1;
	root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return error_set(err, errno, "opening the layer's directory");
	if (stream_start(UNPACK_BLOB, UNPACK_CONTROL, arguments->compression, &arguments->stream,
		    &stream, err) < 0 ||
		confine_system_calls(err) < 0)
		return -1;
	tree = tree_new(root, UNPACK_NOTES, arguments->layer.owners, arguments->layer.lowest);
	if (layer_unpack(stream, tree, &arguments->layer, result, err) < 0)
		return -1;
	strcpy(result->digest, "sha256:");
	if (stream_finish(stream, result->digest + 7, &result->archive_bytes, err) < 0)
		return -1;
	if (tree_finish(tree, &result->notes, &opaque, err) < 0)
		return -1;
	tree_free(tree);
	result->opaque = opaque;
	return 0;
}

static int settle_layer(const struct arguments *arguments, struct error *err)
{
	cleanup_free char *notes = NULL;
	size_t length;
	int layer, lower;

	if (confine_to_directory(UNPACK_DIRECTORY, arguments->lowers, arguments->lowers_count,
		    arguments->layer.owners, err) < 0)
		return -1;
	layer = open("/layer", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lower = open("/lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (layer < 0 || lower < 0)
		return error_set(err, errno, "opening the layers' directories");
	if (confine_system_calls(err) < 0)
		return -1;
	if (lseek(UNPACK_NOTES, 0, SEEK_SET) < 0 ||
		read_fd_whole(UNPACK_NOTES, NOTES_MAX, &notes, &length) < 0)
		return error_set(err, errno, "reading the layer's notes");
	return settle(layer, lower, notes, length, arguments->layer.owners, err);
}

int main(int argc, char **argv)
{
	static struct arguments arguments;
	static struct unpack_result result;
	int r;

	/* Archives that say so have names in UTF-8, which libarchive converts to what the locale has. */
	setlocale(LC_CTYPE, "C.UTF-8");
	if (argc < 2 || parse_arguments(argv + 1, &arguments) < 0) {
		fprintf(stderr, "nsbox-unpack: it is started by nsbox-image; see nsbox-image(1)\n");
		return 64;
	}
	r = arguments.settle ? settle_layer(&arguments, &result.error)
			     : unpack(&arguments, &result, &result.error);
	result.failed = r < 0;
	if (send(UNPACK_CONTROL, &result, sizeof result, MSG_NOSIGNAL) != sizeof result)
		return 1;
	/* Without the C library's tidying up, which would only take time. */
	_exit(r < 0);
}
