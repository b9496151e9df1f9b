/* SPDX-License-Identifier: MIT */
/*
 * A layer's archive → its directory. libarchive reads the archive, and only tar in its dialects; what an entry
 * means is decided here (image-spec, layer.md), and done by tree.c.
 */
#define _GNU_SOURCE
#include "unpack/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "unpack/stream.h"
#include "unpack/tree.h"
#include "unpack/wire.h"
#include "util/cleanup.h"
#include "util/error.h"

static const char whiteout_prefix[] = ".wh.", opaque_name[] = ".wh..wh..opq",
		  aufs_prefix[] = ".wh..wh.";

struct unpacking {
	struct stream *stream;
	struct tree *tree;
	const struct layer_options *options;
	struct unpack_result *result;
	struct archive *archive;
	struct error stream_error; /* why the archive could not be read */
};

int layer_clean_path(const char *path, char *ret, struct error *err)
{
	size_t used = 0;

	while (*path) {
		size_t length = strcspn(path, "/");

		if (length == 2 && path[0] == '.' && path[1] == '.')
			return error_set(err, 0, "the entry has \"..\" in its name");
		if (length > 0 && !(length == 1 && path[0] == '.')) {
			if (used + 1 + length >= PATH_MAX)
				return error_set(err, 0,
					"an entry has a name of more than %d bytes", PATH_MAX - 1);
			if (used)
				ret[used++] = '/';
			memcpy(ret + used, path, length);
			used += length;
		}
		path += length + (path[length] == '/');
	}
	ret[used] = '\0';
	return 0;
}

static struct attributes attributes_of(struct archive_entry *entry)
{
	return (struct attributes){
		.mode = archive_entry_perm(entry),
		.uid = (uid_t)archive_entry_uid(entry),
		.gid = (gid_t)archive_entry_gid(entry),
		.mtime = {.tv_sec = archive_entry_mtime(entry),
			.tv_nsec = archive_entry_mtime_nsec(entry)},
	};
}

static int archive_failed(struct unpacking *unpacking, const char *path, struct error *err)
{
	const char *text = archive_error_string(unpacking->archive);

	if (unpacking->stream_error.text[0]) {
		*err = unpacking->stream_error;
		return -1;
	}
	if (path)
		return error_set(
			err, 0, "%s: %s", path, text ? text : "the archive cannot be read");
	return error_set(err, 0, "entry %" PRIu64 ": %s", unpacking->result->entries + 1,
		text ? text : "the archive cannot be read");
}

static int write_at(int fd, const void *data, size_t length, off_t offset)
{
	while (length > 0) {
		ssize_t n = pwrite(fd, data, length, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data = (const char *)data + n;
		length -= (size_t)n;
		offset += n;
	}
	return 0;
}

/* Holes stay holes: only what the archive has is written. */
static int write_content(
	struct unpacking *unpacking, int fd, const char *path, int64_t size, struct error *err)
{
	const void *data;
	size_t length;
	int64_t offset, end = 0;
	int r;

	while ((r = archive_read_data_block(unpacking->archive, &data, &length, &offset)) ==
		ARCHIVE_OK) {
		if (write_at(fd, data, length, offset) < 0)
			return error_set(err, errno, "writing %s", path);
		if (length > 0)
			end = offset + (int64_t)length;
	}
	if (r != ARCHIVE_EOF)
		return archive_failed(unpacking, path, err);
	if (end < size && ftruncate(fd, size) < 0)
		return error_set(err, errno, "writing %s", path);
	return 0;
}

static int unpack_file(struct unpacking *unpacking, struct archive_entry *entry, const char *path,
	struct error *err)
{
	const struct attributes attributes = attributes_of(entry);
	int64_t size = archive_entry_size(entry);
	cleanup_close int fd = -1;

	if (size < 0)
		return error_set(err, 0, "%s has a size below zero", path);
	unpacking->result->file_bytes += (uint64_t)size;
	if ((uint64_t)size > unpacking->options->limits.file_bytes_max ||
		unpacking->result->file_bytes > unpacking->options->limits.file_bytes_max)
		return error_set(err, 0, "its files are larger than %" PRIu64 " bytes altogether",
			unpacking->options->limits.file_bytes_max);
	fd = tree_file(unpacking->tree, path, err);
	if (fd < 0 || write_content(unpacking, fd, path, size, err) < 0)
		return -1;
	return tree_file_done(unpacking->tree, move_fd(&fd), path, &attributes, err);
}

/* A device is of no use in a sandbox, whose /dev is its own, and cannot be made by an ordinary user. */
static int unpack_device(struct unpacking *unpacking, struct archive_entry *entry, const char *path,
	struct error *err)
{
	const struct attributes attributes = attributes_of(entry);
	int fd = tree_file(unpacking->tree, path, err);

	if (fd < 0)
		return -1;
	unpacking->result->devices_left_out++;
	return tree_file_done(unpacking->tree, fd, path, &attributes, err);
}

/* Attributes that overlayfs or the kernel's security modules would act on are nothing that an image may bring. */
static bool may_set(const struct layer_options *options, const char *name)
{
	if (strncmp(name, "user.", 5) == 0)
		return strncmp(name, "user.overlay.", 13) != 0;
	return options->owners && strcmp(name, "security.capability") == 0;
}

static int unpack_xattrs(struct unpacking *unpacking, struct archive_entry *entry, const char *path,
	struct error *err)
{
	const char *name;
	const void *value;
	size_t size;
	int r;

	archive_entry_xattr_reset(entry);
	while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
		r = may_set(unpacking->options, name)
			    ? tree_xattr(unpacking->tree, path, name, value, size, err)
			    : 1;
		if (r < 0)
			return -1;
		unpacking->result->xattrs_left_out += r > 0;
	}
	return 0;
}

/* --- whiteouts --- */

/* Returns 1 when the entry was one, or metadata of aufs, which has no meaning elsewhere. */
static int unpack_whiteout(struct unpacking *unpacking, char *path, struct error *err)
{
	char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t prefix = sizeof whiteout_prefix - 1;
	char hidden[PATH_MAX];

	if (strncmp(name, whiteout_prefix, prefix) != 0)
		return 0;
	if (strcmp(name, opaque_name) == 0) {
		*(slash ? slash : name) = '\0';
		return tree_opaque(unpacking->tree, path, err) < 0 ? -1 : 1;
	}
	if (strncmp(name, aufs_prefix, sizeof aufs_prefix - 1) == 0)
		return 1;
	if (!name[prefix] || strcmp(name + prefix, ".") == 0 || strcmp(name + prefix, "..") == 0)
		return error_set(err, 0, "%s: a whiteout of no name", path);
	memcpy(hidden, path, (size_t)(name - path));
	strcpy(hidden + (name - path), name + prefix);
	return tree_whiteout(unpacking->tree, hidden, err) < 0 ? -1 : 1;
}

/* Something below a whiteout's name would be nothing that any tool writes: «.wh.x/y». */
static bool has_whiteout_parent(const char *path)
{
	return strncmp(path, whiteout_prefix, sizeof whiteout_prefix - 1) == 0 ||
	       strstr(path, "/.wh.");
}

/* --- entries --- */

static int unpack_by_type(struct unpacking *unpacking, struct archive_entry *entry,
	const char *path, struct error *err)
{
	const struct attributes attributes = attributes_of(entry);
	const char *target;

	switch (archive_entry_filetype(entry)) {
	case AE_IFDIR:
		return tree_directory(unpacking->tree, path, &attributes, err);
	case AE_IFREG:
		return unpack_file(unpacking, entry, path, err);
	case AE_IFLNK:
		target = archive_entry_symlink(entry);
		if (!target || !*target)
			return error_set(err, 0,
				"the symbolic link %s has no target that can be read", path);
		return tree_symlink(unpacking->tree, path, target, &attributes, err);
	case AE_IFIFO:
		return tree_fifo(unpacking->tree, path, &attributes, err);
	case AE_IFCHR:
	case AE_IFBLK:
		return unpack_device(unpacking, entry, path, err);
	default:
		return error_set(err, 0, "%s is of a type that layers do not have", path);
	}
}

static int unpack_hard_link(
	struct unpacking *unpacking, const char *path, const char *target, struct error *err)
{
	char clean[PATH_MAX];

	if (layer_clean_path(target, clean, err) < 0)
		return error_set(err, 0,
			"the hard link %s has \"..\" in its target, or one that is too long", path);
	if (!*clean)
		return error_set(err, 0, "the hard link %s is to the root directory", path);
	return tree_hard_link(unpacking->tree, path, clean, err);
}

static int unpack_entry(struct unpacking *unpacking, struct archive_entry *entry, struct error *err)
{
	const char *name = archive_entry_pathname(entry) ?: archive_entry_pathname_utf8(entry);
	const char *target = archive_entry_hardlink(entry);
	char path[PATH_MAX];
	int r;

	if (!name)
		return error_set(err, 0, "entry %" PRIu64 " has a name that cannot be read",
			unpacking->result->entries);
	if (layer_clean_path(name, path, err) < 0)
		return error_context(err, "%.200s", name);
	r = unpack_whiteout(unpacking, path, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (has_whiteout_parent(path))
		return error_set(err, 0, "%s: something in a whiteout", path);
	if (!*path && (target || archive_entry_filetype(entry) != AE_IFDIR))
		return error_set(
			err, 0, "the root of the layer is to be something else than a directory");
	if (target)
		return unpack_hard_link(unpacking, path, target, err);
	if (unpack_by_type(unpacking, entry, path, err) < 0)
		return -1;
	return unpack_xattrs(unpacking, entry, path, err);
}

static int unpack_entries(struct unpacking *unpacking, struct error *err)
{
	struct archive_entry *entry;
	int r;

	while ((r = archive_read_next_header(unpacking->archive, &entry)) == ARCHIVE_OK ||
		r == ARCHIVE_WARN) {
		if (++unpacking->result->entries > unpacking->options->limits.entries_max)
			return error_set(err, 0, "it has more than %" PRIu64 " entries",
				unpacking->options->limits.entries_max);
		if (unpack_entry(unpacking, entry, err) < 0)
			return -1;
	}
	return r == ARCHIVE_EOF ? 0 : archive_failed(unpacking, NULL, err);
}

static la_ssize_t read_stream(struct archive *archive, void *data, const void **ret)
{
	struct unpacking *unpacking = data;
	ssize_t n = stream_read(unpacking->stream, ret, &unpacking->stream_error);

	if (n < 0)
		archive_set_error(archive, EIO, "%s", unpacking->stream_error.text);
	return n;
}

int layer_unpack(struct stream *stream, struct tree *tree, const struct layer_options *options,
	struct unpack_result *result, struct error *err)
{
	struct unpacking unpacking = {
		.stream = stream, .tree = tree, .options = options, .result = result};
	int r = -1;

	unpacking.archive = archive_read_new();
	if (!unpacking.archive ||
		archive_read_support_format_tar(unpacking.archive) != ARCHIVE_OK ||
		archive_read_support_format_empty(unpacking.archive) != ARCHIVE_OK)
		error_set(err, ENOMEM, "reading an archive");
	else if (archive_read_open(unpacking.archive, &unpacking, NULL, read_stream, NULL) !=
		 ARCHIVE_OK)
		archive_failed(&unpacking, NULL, err);
	else
		r = unpack_entries(&unpacking, err);
	archive_read_free(unpacking.archive);
	return r;
}
