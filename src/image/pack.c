/* SPDX-License-Identifier: MIT */
/* Layers of overlayfs as a layer of an image: see pack.h. */
#define _GNU_SOURCE
#include "image/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/tar.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum {
	CHUNK = 1 << 20,
	GRAIN = 64 << 10,   /* what is zero in a file is found in so many bytes at a time, */
	HOLE_MIN = 1 << 20, /* and is a hole from so many on */
	IDS = 65536,        /* that sandboxes have */
	NOBODY = 65534,
	FD_LINK_SIZE = 40,
	XATTR_NAMES_MAX = 64 << 10,                     /* bytes, of the kernel (XATTR_LIST_MAX) */
	ATTRIBUTES_MAX = TAR_EXTENDED_MAX - (16 << 10), /* bytes; the rest is for names */
	LINKED_BYTES_MAX = 256 << 20, /* of memory for names of files that have several */
	PROGRESS_BYTES = 8 << 20,
};

static const char whiteout_prefix[] = ".wh.", opaque_name[] = ".wh..wh..opq",
		  capability_attribute[] = "security.capability";

/* A file with several names, by the first of them. */
struct linked {
	dev_t device;
	ino_t inode;
	char path[];
};

struct packing {
	const struct pack *pack;
	struct squeeze *squeeze;
	struct tar tar;
	void *linked;                     /* tsearch(3) */
	size_t linked_bytes;
	uint64_t entries, shown;          /* bytes when progress was shown last */
	struct tar_attribute *attributes; /* of the entry in hand */
	size_t attributes_count;
	char names[XATTR_NAMES_MAX];
	char chunk[CHUNK];
};

static int write_archive(void *data, const void *bytes, size_t length, struct error *err)
{
	struct packing *packing = data;

	return squeeze_write(packing->squeeze, bytes, length, err);
}

static void show_progress(struct packing *packing)
{
	uint64_t taken = squeeze_taken(packing->squeeze);

	if (!packing->pack->progress || taken - packing->shown < PROGRESS_BYTES)
		return;
	packing->shown = taken;
	packing->pack->progress(packing->pack->data, taken);
}

/* --- files with several names --- */

static int compare_linked(const void *a, const void *b)
{
	const struct linked *one = a, *other = b;

	if (one->device != other->device)
		return one->device < other->device ? -1 : 1;
	return (one->inode > other->inode) - (one->inode < other->inode);
}

/* *ret: the first name that the file came by, or NULL, where this is it. */
static int first_name(struct packing *packing, const struct upper_entry *entry, const char **ret, struct error *err)
{
	size_t length = strlen(entry->path) + 1;
	struct linked *linked = xmalloc(sizeof *linked + length), **found;

	*linked = (struct linked){.device = entry->st.st_dev, .inode = entry->st.st_ino};
	memcpy(linked->path, entry->path, length);
	found = tsearch(linked, &packing->linked, compare_linked);
	*ret = found && *found != linked ? (*found)->path : NULL;
	if (!found || *ret) {
		free(linked);
		return found ? 0 : error_set(err, ENOMEM, "remembering the names of files");
	}
	packing->linked_bytes += sizeof *linked + length;
	return packing->linked_bytes <= LINKED_BYTES_MAX
		       ? 0
		       : error_set(err, 0, "there are too many files that have several long names");
}

/* --- attributes --- */

/* A capability of a file for one user namespace alone (VFS_CAP_REVISION_3) is of no use in an image. */
static bool is_capability(const char *name, const void *value, size_t length)
{
	uint32_t magic;

	if (strcmp(name, capability_attribute) != 0 || length != XATTR_CAPS_SZ_2)
		return false;
	memcpy(&magic, value, sizeof magic);
	return (magic & VFS_CAP_REVISION_MASK) == VFS_CAP_REVISION_2;
}

static bool is_users(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}

static int read_attribute(struct packing *packing, const char *link, const char *name, struct tar_attribute *ret)
{
	ssize_t length = getxattr(link, name, packing->chunk, sizeof packing->chunk);

	if (length < 0)
		return errno == ENODATA ? 1 : -1;
	if (!is_users(name) && !is_capability(name, packing->chunk, (size_t)length))
		return 1;
	*ret = (struct tar_attribute){
		.name = xstrdup(name), .value = xmemdup(packing->chunk, (size_t)length), .length = (size_t)length};
	return 0;
}

static int compare_attributes(const void *a, const void *b)
{
	const struct tar_attribute *one = a, *other = b;

	return strcmp(one->name, other->name);
}

static void free_attributes(struct packing *packing)
{
	for (size_t i = 0; i < packing->attributes_count; i++) {
		free(packing->attributes[i].name);
		free(packing->attributes[i].value);
	}
	free(packing->attributes);
	packing->attributes = NULL;
	packing->attributes_count = 0;
}

static int add_attribute(struct packing *packing, const struct upper_entry *entry, const char *link, const char *name,
	size_t *bytes, struct error *err)
{
	const struct pack *pack = packing->pack;
	struct tar_attribute *attribute;
	int r;

	packing->attributes = xrealloc(packing->attributes, packing->attributes_count + 1, sizeof *packing->attributes);
	attribute = &packing->attributes[packing->attributes_count];
	r = read_attribute(packing, link, name, attribute);
	if (r != 0)
		return r < 0 ? error_set(err, errno, "%s: reading its attribute %s", entry->path, name) : 0;
	packing->attributes_count++;
	*bytes += tar_attribute_size(attribute);
	if (!strchr(name, '=') && *bytes <= ATTRIBUTES_MAX)
		return 0;
	pack->missing(pack->data, entry->path,
		strchr(name, '=') ? "an attribute with \"=\" in its name" : "attributes of more than a megabyte");
	*bytes -= tar_attribute_size(attribute);
	free(attribute->name);
	free(attribute->value);
	packing->attributes_count--;
	return 0;
}

/* Of a directory or a file, in the order of their names. */
static int take_attributes(struct packing *packing, const struct upper_entry *entry, struct error *err)
{
	cleanup_close int place = openat(entry->dir, entry->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char link[FD_LINK_SIZE];
	ssize_t length;
	size_t bytes = 0;

	if (place < 0)
		return error_set(err, errno, "opening %s", entry->path);
	snprintf(link, sizeof link, "/proc/self/fd/%d", place);
	length = listxattr(link, packing->names, sizeof packing->names);
	if (length < 0 && errno != EOPNOTSUPP)
		return error_set(err, errno, "%s: reading its attributes", entry->path);
	for (const char *name = packing->names; length > 0 && name < packing->names + length; name += strlen(name) + 1)
		if ((is_users(name) || strcmp(name, capability_attribute) == 0) &&
			add_attribute(packing, entry, link, name, &bytes, err) < 0)
			return -1;
	if (packing->attributes_count > 1)
		qsort(packing->attributes, packing->attributes_count, sizeof *packing->attributes, compare_attributes);
	return 0;
}

/* --- what a file has in it --- */

struct parts {
	struct tar_part *list;
	size_t count;
};

static void add_part(struct parts *parts, uint64_t offset, uint64_t end)
{
	parts->list = xrealloc(parts->list, parts->count + 1, sizeof *parts->list);
	parts->list[parts->count++] = (struct tar_part){offset, end - offset};
}

static bool is_zero(const char *data, size_t length)
{
	return length == 0 || (*data == 0 && memcmp(data, data + 1, length - 1) == 0);
}

/*
 * Where the zeros that begin at `offset`, in whole grains, end. What the file system knows to be a hole need not be
 * read; what is written as zeros is a hole all the same, so that it is the content that decides.
 */
static int end_of_zeros(struct packing *packing, int fd, uint64_t offset, uint64_t size, uint64_t *ret)
{
	while (offset < size) {
		off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
		uint64_t known = data < 0 ? (errno == ENXIO ? size : offset) : (uint64_t)data;
		ssize_t n;

		if (known >= size) {
			offset = size;
			break;
		}
		if (known - offset >= GRAIN)
			offset = known - known % GRAIN;
		n = pread(fd, packing->chunk, GRAIN, (off_t)offset);
		if (n < 0)
			return -1;
		if (n == 0 || !is_zero(packing->chunk, (size_t)n))
			break;
		offset += (uint64_t)n;
	}
	*ret = offset < size ? offset : size;
	return 0;
}

/* The parts of a file with holes; none where it has none. */
static int find_parts(struct packing *packing, int fd, uint64_t size, struct parts *ret)
{
	uint64_t begin = 0, offset = 0, end;

	while (size >= HOLE_MIN && offset < size) {
		if (end_of_zeros(packing, fd, offset, size, &end) < 0)
			return -1;
		if (end - offset >= HOLE_MIN) {
			if (offset > begin)
				add_part(ret, begin, offset);
			begin = end;
		}
		offset = end < size ? end + GRAIN : end;
	}
	/* The last part says how long the file is, also where there is nothing in it. */
	if (ret->count > 0 || begin > 0)
		add_part(ret, begin, size);
	return 0;
}

static int copy_part(struct packing *packing, int fd, const char *path, struct tar_part part, struct error *err)
{
	while (part.length > 0) {
		size_t wanted = part.length < CHUNK ? part.length : CHUNK;
		ssize_t n = pread(fd, packing->chunk, wanted, (off_t)part.offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_set(err, n < 0 ? errno : 0,
				n < 0 ? "reading %s" : "%s became shorter while it was read", path);
		if (tar_content(&packing->tar, packing->chunk, (size_t)n, err) < 0)
			return -1;
		part.offset += (uint64_t)n;
		part.length -= (uint64_t)n;
		show_progress(packing);
	}
	return 0;
}

/* --- entries --- */

static void describe(const struct packing *packing, const struct upper_entry *entry, struct tar_entry *ret)
{
	const struct pack *pack = packing->pack;
	const struct stat *st = &entry->st;

	ret->path = entry->path;
	ret->mode = st->st_mode & 07777;
	ret->mtime = st->st_mtim;
	ret->uid = pack->owned ? pack->uid : st->st_uid < IDS ? st->st_uid : NOBODY;
	ret->gid = pack->owned ? pack->gid : st->st_gid < IDS ? st->st_gid : NOBODY;
	ret->attributes = packing->attributes;
	ret->attributes_count = packing->attributes_count;
}

static int put_entry(struct packing *packing, const struct tar_entry *entry, struct error *err)
{
	packing->entries++;
	return tar_entry(&packing->tar, entry, err);
}

static int put_opened(
	struct packing *packing, const struct upper_entry *entry, int fd, struct parts *parts, struct error *err)
{
	struct tar_entry file = {.type = TAR_FILE, .size = (uint64_t)entry->st.st_size};
	const struct tar_part whole = {0, file.size};

	if (find_parts(packing, fd, file.size, parts) < 0)
		return error_set(err, errno, "reading %s", entry->path);
	describe(packing, entry, &file);
	file.parts = parts->list;
	file.parts_count = parts->count;
	if (put_entry(packing, &file, err) < 0)
		return -1;
	if (parts->count == 0)
		return copy_part(packing, fd, entry->path, whole, err);
	for (size_t i = 0; i < parts->count; i++)
		if (copy_part(packing, fd, entry->path, parts->list[i], err) < 0)
			return -1;
	return 0;
}

static int put_file(struct packing *packing, const struct upper_entry *entry, struct error *err)
{
	cleanup_close int fd =
		openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct upper_entry opened = *entry;
	struct parts parts = {0};
	int r;

	if (fd < 0 || fstat(fd, &opened.st) < 0)
		return error_set(err, errno, "opening %s", entry->path);
	if (!S_ISREG(opened.st.st_mode))
		return error_set(err, 0, "%s was replaced while it was read", entry->path);
	r = put_opened(packing, &opened, fd, &parts, err);
	free(parts.list);
	return r;
}

static int put_directory(struct packing *packing, const struct upper_entry *entry, struct error *err)
{
	struct tar_entry directory = {.type = TAR_DIRECTORY}, opaque = {.type = TAR_FILE};
	cleanup_free char *path = NULL;

	describe(packing, entry, &directory);
	if (put_entry(packing, &directory, err) < 0)
		return -1;
	if (!entry->opaque)
		return 0;
	path = xasprintf("%s/%s", entry->path, opaque_name);
	opaque.path = path;
	return put_entry(packing, &opaque, err);
}

static int put_symlink(struct packing *packing, const struct upper_entry *entry, struct error *err)
{
	struct tar_entry symlink = {.type = TAR_SYMLINK};
	char target[PATH_MAX];
	ssize_t length = readlinkat(entry->dir, entry->name, target, sizeof target);

	if (length < 0 || length == sizeof target)
		return error_set(err, length < 0 ? errno : ENAMETOOLONG, "reading the link %s", entry->path);
	target[length] = '\0';
	describe(packing, entry, &symlink);
	symlink.target = target;
	return put_entry(packing, &symlink, err);
}

static int put_whiteout(struct packing *packing, const struct upper_entry *entry, struct error *err)
{
	cleanup_free char *path = xasprintf("%.*s%s%s", (int)(strlen(entry->path) - strlen(entry->name)), entry->path,
		whiteout_prefix, entry->name);
	const struct tar_entry whiteout = {.type = TAR_FILE, .path = path};

	return put_entry(packing, &whiteout, err);
}

static int put_other(struct packing *packing, const struct upper_entry *entry, enum tar_type type, const char *target,
	struct error *err)
{
	struct tar_entry other = {.type = type, .target = target};

	describe(packing, entry, &other);
	return put_entry(packing, &other, err);
}

static int put_by_kind(struct packing *packing, const struct upper_entry *entry, struct error *err)
{
	const char *first = NULL;

	switch (entry->kind) {
	case UPPER_DIRECTORY:
		return put_directory(packing, entry, err);
	case UPPER_FILE:
		if (entry->st.st_nlink > 1 && first_name(packing, entry, &first, err) < 0)
			return -1;
		if (!first)
			return put_file(packing, entry, err);
		free_attributes(packing); /* they came with the first name */
		return put_other(packing, entry, TAR_HARD_LINK, first, err);
	case UPPER_SYMLINK:
		return put_symlink(packing, entry, err);
	case UPPER_FIFO:
		return put_other(packing, entry, TAR_FIFO, NULL, err);
	case UPPER_WHITEOUT:
		return put_whiteout(packing, entry, err);
	default:
		return 0;
	}
}

/* Whether a name, or one of a directory above it, would mean something else in a layer; *ret_own: it is the name
 * itself. */
static bool is_whiteout_name(const struct upper_entry *entry, bool *ret_own)
{
	*ret_own = strncmp(entry->name, whiteout_prefix, sizeof whiteout_prefix - 1) == 0;
	return *ret_own || strncmp(entry->path, whiteout_prefix, sizeof whiteout_prefix - 1) == 0 ||
	       strstr(entry->path, "/.wh.");
}

static int pack_entry(void *data, const struct upper_entry *entry, struct error *err)
{
	struct packing *packing = data;
	bool own;
	int r = 0;

	if (is_whiteout_name(entry, &own)) {
		if (own)
			packing->pack->missing(packing->pack->data, entry->path,
				"a name that begins with \".wh.\", which says in an image that something is gone");
		return 0;
	}
	if (entry->kind == UPPER_DIRECTORY || entry->kind == UPPER_FILE)
		r = take_attributes(packing, entry, err);
	if (r == 0)
		r = put_by_kind(packing, entry, err);
	free_attributes(packing);
	return r;
}

/* --- a layer --- */

static int pack_all(struct packing *packing, struct packed *ret, struct error *err)
{
	const struct pack *pack = packing->pack;
	const struct upper_visitor visitor = {.data = packing, .entry = pack_entry};

	if (merge_walk(pack->layers, pack->count, pack->left_out, &visitor, err) < 0 ||
		tar_finish(&packing->tar, err) < 0)
		return -1;
	ret->entries = packing->entries;
	return squeeze_finish(packing->squeeze, &ret->layer, err);
}

int pack_layer(const struct pack *pack, struct packed *ret, struct error *err)
{
	struct packing *packing = xcalloc(1, sizeof *packing);
	int r = -1;

	packing->pack = pack;
	packing->tar = (struct tar){.write = write_archive, .data = packing};
	packing->squeeze = squeeze_new(pack->fd, err);
	if (packing->squeeze)
		r = pack_all(packing, ret, err);
	tdestroy(packing->linked, free);
	squeeze_free(packing->squeeze);
	free(packing);
	return r;
}
