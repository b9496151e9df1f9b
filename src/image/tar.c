/* SPDX-License-Identifier: MIT */
/* Writing a tar archive: see tar.h. */
#define _GNU_SOURCE
#include "image/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/utf8.h"

enum { BLOCK = 512, NUMBER_SIZE = 48, NANOSECONDS = 1000000000 };

static const uint64_t OCTAL_MAX = (UINT64_C(1) << 33) - 1; /* eleven digits */

/* ustar's header (pax(1)). */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, target[100], magic[6],
		version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

static int put(struct tar *tar, const void *bytes, size_t length, struct error *err)
{
	return length ? tar->write(tar->data, bytes, length, err) : 0;
}

static int pad(struct tar *tar, size_t length, struct error *err)
{
	static const char zeros[BLOCK];

	return put(tar, zeros, length, err);
}

static unsigned padding_of(uint64_t length)
{
	return (unsigned)(-length % BLOCK);
}

/* --- the header --- */

/* `size` - 1 digits and a NUL; what does not fit is in the extended header. */
static void put_octal(char *field, size_t size, uint64_t value)
{
	field[size - 1] = '\0';
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
}

/* The beginning of it, for readers that know no extended headers. */
static void put_text(char field[static 100], const char *text)
{
	for (size_t i = 0; i < 100 && text[i]; i++)
		field[i] = (unsigned char)text[i] < 0x80 ? text[i] : '_';
}

static int put_header(
	struct tar *tar, const char *name, char type, const struct tar_entry *entry, uint64_t size, struct error *err)
{
	struct header header = {.magic = "ustar", .version = {'0', '0'}, .type = type};
	bool ancient = entry->mtime.tv_sec < 0;
	unsigned sum = 0;

	put_text(header.name, name);
	put_octal(header.mode, sizeof header.mode, entry->mode & 07777);
	put_octal(header.uid, sizeof header.uid, entry->uid);
	put_octal(header.gid, sizeof header.gid, entry->gid);
	put_octal(header.size, sizeof header.size, size > OCTAL_MAX ? 0 : size);
	put_octal(header.mtime, sizeof header.mtime, ancient ? 0 : (uint64_t)entry->mtime.tv_sec);
	put_octal(header.major, sizeof header.major, 0);
	put_octal(header.minor, sizeof header.minor, 0);
	if (type == TAR_HARD_LINK || type == TAR_SYMLINK)
		put_text(header.target, entry->target);
	memset(header.checksum, ' ', sizeof header.checksum);
	for (size_t i = 0; i < sizeof header; i++)
		sum += ((const unsigned char *)&header)[i];
	put_octal(header.checksum, sizeof header.checksum - 1, sum);
	return put(tar, &header, sizeof header, err);
}

/* --- the extended header --- */

/* «LENGTH KEY=VALUE\n», where the length counts its own digits. */
static size_t record_length(size_t key, size_t value)
{
	size_t length = 1 + key + 1 + value + 1, digits = 1;

	for (size_t limit = 10; length + digits >= limit; limit *= 10)
		digits++;
	return length + digits;
}

static void add_record(FILE *records, const char *prefix, const char *key, const void *value, size_t length)
{
	fprintf(records, "%zu %s%s=", record_length(strlen(prefix) + strlen(key), length), prefix, key);
	fwrite(value, 1, length, records);
	fputc('\n', records);
}

static void add_text(FILE *records, const char *key, const char *text)
{
	add_record(records, "", key, text, strlen(text));
}

static void add_number(FILE *records, const char *key, uint64_t number)
{
	char text[NUMBER_SIZE];

	snprintf(text, sizeof text, "%" PRIu64, number);
	add_text(records, key, text);
}

static void add_time(FILE *records, const struct timespec *time)
{
	int64_t seconds = time->tv_sec;
	long fraction = time->tv_nsec;
	bool ancient = seconds < 0;
	char text[NUMBER_SIZE];

	/* A time before 1970 is so many seconds, and then some more of them. */
	if (ancient && fraction > 0) {
		seconds++;
		fraction = NANOSECONDS - fraction;
	}
	snprintf(text, sizeof text, "%s%" PRIu64 ".%09ld", ancient ? "-" : "",
		ancient ? -(uint64_t)seconds : (uint64_t)seconds, fraction);
	add_text(records, "mtime", text);
}

static bool fits(const char *name)
{
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c >= 0x80)
			return false;
	return strlen(name) <= sizeof((struct header *)NULL)->name;
}

static void add_records(FILE *records, const struct tar_entry *entry, const char *path, uint64_t stored)
{
	bool linked = entry->type == TAR_HARD_LINK || entry->type == TAR_SYMLINK;

	/* How names are to be read comes before them. */
	if (!utf8_valid(path, strlen(path)) || (linked && !utf8_valid(entry->target, strlen(entry->target))))
		add_text(records, "hdrcharset", "BINARY");
	if (entry->parts) {
		add_text(records, "GNU.sparse.major", "1");
		add_text(records, "GNU.sparse.minor", "0");
		add_text(records, "GNU.sparse.name", path);
		add_number(records, "GNU.sparse.realsize", entry->size);
	} else if (!fits(path)) {
		add_text(records, "path", path);
	}
	if (linked && !fits(entry->target))
		add_text(records, "linkpath", entry->target);
	if (stored > OCTAL_MAX)
		add_number(records, "size", stored);
	if (entry->mtime.tv_sec < 0 || (uint64_t)entry->mtime.tv_sec > OCTAL_MAX || entry->mtime.tv_nsec)
		add_time(records, &entry->mtime);
	for (size_t i = 0; i < entry->attributes_count; i++)
		add_record(records, "SCHILY.xattr.", entry->attributes[i].name, entry->attributes[i].value,
			entry->attributes[i].length);
}

size_t tar_attribute_size(const struct tar_attribute *attribute)
{
	return record_length(strlen("SCHILY.xattr.") + strlen(attribute->name), attribute->length);
}

static int put_extended(
	struct tar *tar, const struct tar_entry *entry, const char *path, uint64_t stored, struct error *err)
{
	char *text = NULL;
	size_t length = 0;
	FILE *records = open_memstream(&text, &length);
	int r = 0;

	if (!records)
		return error_set(err, errno, "writing a header");
	add_records(records, entry, path, stored);
	if (fclose(records) != 0)
		r = error_set(err, ENOMEM, "writing a header");
	if (r == 0 && length > TAR_EXTENDED_MAX)
		r = error_set(err, 0, "%s has a header of %zu bytes, more than archives have", path, length);
	if (r == 0 && length > 0) {
		r = put_header(tar, "PaxHeaders", 'x', &(const struct tar_entry){.mode = 0644}, length, err);
		if (r == 0)
			r = put(tar, text, length, err);
		if (r == 0)
			r = pad(tar, padding_of(length), err);
	}
	free(text);
	return r;
}

/* --- entries --- */

/* How many parts there are, then where each is and how long, a number a line, in whole blocks. */
static int format_map(const struct tar_entry *entry, char **ret, size_t *ret_length, struct error *err)
{
	FILE *map = open_memstream(ret, ret_length);

	if (!map)
		return error_set(err, errno, "writing a header");
	fprintf(map, "%zu\n", entry->parts_count);
	for (size_t i = 0; i < entry->parts_count; i++)
		fprintf(map, "%" PRIu64 "\n%" PRIu64 "\n", entry->parts[i].offset, entry->parts[i].length);
	fflush(map);
	for (unsigned padding = padding_of(*ret_length); padding > 0; padding--)
		fputc('\0', map);
	if (fclose(map) == 0)
		return 0;
	free(*ret);
	return error_set(err, ENOMEM, "writing a header");
}

/* The content of the entry before. */
static int finish_entry(struct tar *tar, struct error *err)
{
	unsigned padding = tar->padding;

	if (tar->left > 0)
		return error_set(err, 0, "%" PRIu64 " bytes of a file are missing", tar->left);
	tar->padding = 0;
	return pad(tar, padding, err);
}

static int put_entry(struct tar *tar, const struct tar_entry *entry, const char *path, const char *map,
	size_t map_length, struct error *err)
{
	uint64_t content = entry->type == TAR_FILE && !entry->parts ? entry->size : 0;

	for (size_t i = 0; i < entry->parts_count; i++)
		content += entry->parts[i].length;
	if (put_extended(tar, entry, path, map_length + content, err) < 0 ||
		put_header(tar, path, (char)entry->type, entry, map_length + content, err) < 0)
		return -1;
	tar->left = content;
	tar->padding = padding_of(content);
	return put(tar, map, map_length, err);
}

int tar_entry(struct tar *tar, const struct tar_entry *entry, struct error *err)
{
	size_t map_length = 0, length = strlen(entry->path);
	char *map = NULL, *path;
	int r;

	if (finish_entry(tar, err) < 0 || (entry->parts && format_map(entry, &map, &map_length, err) < 0))
		return -1;
	/* Directories have a slash at their end, for readers from before there were types. */
	path = malloc(length + 2);
	if (path) {
		memcpy(path, entry->path, length);
		strcpy(path + length, entry->type == TAR_DIRECTORY ? "/" : "");
	}
	r = path ? put_entry(tar, entry, path, map, map_length, err) : error_set(err, ENOMEM, "writing a header");
	free(path);
	free(map);
	return r;
}

int tar_content(struct tar *tar, const void *bytes, size_t length, struct error *err)
{
	if (length > tar->left)
		return error_set(err, 0, "a file has more content than was said");
	tar->left -= length;
	return put(tar, bytes, length, err);
}

int tar_finish(struct tar *tar, struct error *err)
{
	if (finish_entry(tar, err) < 0)
		return -1;
	return pad(tar, BLOCK, err) < 0 ? -1 : pad(tar, BLOCK, err);
}
