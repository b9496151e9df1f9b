/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_TAR_H
#define NSBOX_IMAGE_TAR_H

/*
 * A tar archive being written, as POSIX has it (pax(1), «pax Interchange Format»): the same entries make the same
 * bytes, on every machine. What the old header has no room for is in an extended one before it: long names, and those
 * that are not ASCII, large numbers, fractions of seconds, extended attributes (SCHILY.xattr.NAME), and files with
 * holes as GNU tar has them since 1.15 («PAX Format, Version 1.0»). GNU tar, libarchive, Go and Python read it.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct error;

enum { TAR_EXTENDED_MAX = 1 << 20 /* bytes of an extended header that all readers take */ };

enum tar_type {
	TAR_FILE = '0',
	TAR_HARD_LINK = '1',
	TAR_SYMLINK = '2',
	TAR_DIRECTORY = '5',
	TAR_FIFO = '6',
};

struct tar_attribute {
	char *name; /* without «=», which the format cannot have there */
	void *value;
	size_t length;
};

/* A part of a file that has content. */
struct tar_part {
	uint64_t offset, length; /* bytes */
};

struct tar_entry {
	enum tar_type type;
	const char *path;   /* bytes, without a slash at either end */
	const char *target; /* of a link of either kind */
	mode_t mode;        /* 07777 of it */
	uint32_t uid, gid;  /* below 2097152 */
	struct timespec mtime;
	uint64_t size;                /* of a file: bytes */
	const struct tar_part *parts; /* of a file with holes, in order; NULL: it has none */
	size_t parts_count;
	const struct tar_attribute *attributes;
	size_t attributes_count;
};

struct tar {
	/* Takes what comes next. */
	int (*write)(void *data, const void *bytes, size_t length, struct error *err);
	void *data;
	uint64_t left;    /* bytes that the entry still gets */
	unsigned padding; /* and zeros after them */
};

/* How many bytes an attribute takes in the extended header, about. */
size_t tar_attribute_size(const struct tar_attribute *attribute);

/* Begins an entry. A file's content comes next, with tar_content, and without its holes. */
int tar_entry(struct tar *tar, const struct tar_entry *entry, struct error *err);

/* Some of the file's content, of which there must not be more than its size, or its parts, say. */
int tar_content(struct tar *tar, const void *bytes, size_t length, struct error *err);

/* The end of the archive. */
int tar_finish(struct tar *tar, struct error *err);

#endif
