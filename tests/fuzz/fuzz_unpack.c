/* SPDX-License-Identifier: MIT */
/*
 * What becomes of the entries of a layer, and of one above it, whose notes the first answers. The input says the entries: from
 * few names, so that they meet; headers have the right check sums, but for blocks that are taken as they are. Nothing outside
 * the layer's directory may change, no entry may be made that is not allowed in one, and an error has to be a line.
 *
 * The unpacker's root is the layer's directory, by chroot(2) as the namespaces that nsbox-unpack has are costly to make.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "fuzz/fuzz.h"
#include "image/remove.h"
#include "sandbox/idmap.h"
#include "unpack/layer.h"
#include "unpack/settle.h"
#include "unpack/stream.h"
#include "unpack/tree.h"
#include "unpack/wire.h"
#include "util/error.h"
#include "util/file.h"

enum { BLOCK = 512, ARCHIVE_MAX = 256 << 10, NAME_SIZE = 1024, ENTRIES_MAX = 40, DEPTH_CHECKED = 300 };

/* --- the archive, in place of stream.c's --- */

struct stream {
	uint8_t data[ARCHIVE_MAX];
	size_t length;
	bool taken;
};

ssize_t stream_read(struct stream *stream, const void **ret, struct error *err)
{
	(void)err;
	if (stream->taken)
		return 0;
	stream->taken = true;
	*ret = stream->data;
	return (ssize_t)stream->length;
}

static void add_block(struct stream *stream, const void *data, size_t length)
{
	size_t padded = (length + BLOCK - 1) / BLOCK * BLOCK;

	if (stream->length + padded > ARCHIVE_MAX)
		return;
	memset(stream->data + stream->length, 0, padded);
	if (length > 0)
		memcpy(stream->data + stream->length, data, length);
	stream->length += padded;
}

/* POSIX.1-1988 with GNU's magic, for GNU's long names. */
static void add_header(struct stream *stream, const char *name, const char *link, char type, unsigned mode, size_t size)
{
	uint8_t header[BLOCK] = {0};
	unsigned sum = 0;

	memcpy(header, name, strnlen(name, 100));
	snprintf((char *)header + 100, 8, "%07o", mode & 07777);
	snprintf((char *)header + 108, 8, "%07o", 0u);
	snprintf((char *)header + 116, 8, "%07o", 0u);
	snprintf((char *)header + 124, 12, "%011zo", size);
	snprintf((char *)header + 136, 12, "%011o", 1700000000u);
	header[156] = (uint8_t)type;
	memcpy(header + 157, link, strnlen(link, 100));
	memcpy(header + 257, "ustar  ", 8);
	memset(header + 148, ' ', 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += header[i];
	snprintf((char *)header + 148, 8, "%06o", sum);
	add_block(stream, header, BLOCK);
}

static void add_long(struct stream *stream, const char *text, char type)
{
	if (strlen(text) <= 100)
		return;
	add_header(stream, "././@LongLink", "", type, 0, strlen(text) + 1);
	add_block(stream, text, strlen(text) + 1);
}

/* A path of few names, with what archives can have between and in them. */
static void take_path(struct input *input, char ret[NAME_SIZE])
{
	static const char *const names[] = {"a", "b", "c", "d", "..", ".", "", ".wh.a", ".wh.b", ".wh..wh..opq", ".wh.", ".wh..wh.x",
		"\n", "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"};
	unsigned count = take_byte(input);
	size_t used = 0;

	if (count & 0x80)
		ret[used++] = '/';
	for (unsigned i = 0; i <= (count & 7); i++) {
		unsigned which = take_byte(input) % (sizeof names / sizeof *names + 1);

		if (i > 0)
			ret[used++] = '/';
		if (which < sizeof names / sizeof *names) {
			strcpy(ret + used, names[which]);
			used += strlen(names[which]);
		} else {
			used += take_bytes(input, ret + used, 4);
		}
	}
	ret[used] = '\0';
}

static void add_entry(struct stream *stream, struct input *input, unsigned kind)
{
	static const char types[] = "052163";
	unsigned mode = take_byte(input) * 17u;
	char name[NAME_SIZE], link[NAME_SIZE] = "", content[64];
	char type = types[kind % (sizeof types - 1)];
	size_t size = 0;

	take_path(input, name);
	if (type == '2' || type == '1')
		take_path(input, link);
	if (type == '0')
		size = take_bytes(input, content, take_byte(input) % sizeof content);
	add_long(stream, link, 'K');
	add_long(stream, name, 'L');
	add_header(stream, name, link, type, mode, size);
	add_block(stream, content, size);
}

/* The entries up to the one that says that a layer ends. */
static void take_layer(struct stream *stream, struct input *input)
{
	uint8_t raw[BLOCK];

	stream->length = 0;
	stream->taken = false;
	for (unsigned i = 0; i < ENTRIES_MAX && input->left > 0; i++) {
		unsigned kind = take_byte(input) % 16;

		if (kind == 15)
			break;
		if (kind == 14)
			add_block(stream, raw, take_bytes(input, raw, BLOCK));
		else
			add_entry(stream, input, kind);
	}
	add_block(stream, "", 1);
	add_block(stream, "", 1);
}

/* --- what has come of it --- */

static void check_error(const struct error *err)
{
	require(err->text[0] && !strchr(err->text, '\n') && !strchr(err->text, '\033'), "an error is a line");
}

static bool is_clean(const char *path)
{
	char clean[PATH_MAX];
	struct error ignored;

	return *path && layer_clean_path(path, clean, &ignored) == 0 && strcmp(path, clean) == 0;
}

/* A note is a letter and two strings; the second is empty for a directory. */
static void check_notes(const char *notes, size_t length, unsigned count)
{
	const char *end = notes + length;

	for (; notes < end; count--) {
		const char *path = notes + 1, *other = path + strnlen(path, (size_t)(end - path)) + 1;

		require(other < end && strnlen(other, (size_t)(end - other)) < (size_t)(end - other), "a note is whole");
		require(is_clean(path), "a note has a clean path");
		require(*notes == 'd' ? !*other : *notes == 'l' && is_clean(other), "a note is of one of two kinds");
		notes = other + strlen(other) + 1;
	}
	require(count == 0, "the notes are as many as was said");
}

static void check_attributes(int fd)
{
	char names[4096];
	ssize_t length = flistxattr(fd, names, sizeof names);

	for (const char *name = names; length > 0 && name < names + length; name += strlen(name) + 1)
		require(strcmp(name, "user.overlay.opaque") == 0 || strncmp(name, "user.overlay.", 13) != 0,
			"overlayfs' attributes are nobody's but ours");
}

static void check_tree(int dir, unsigned depth)
{
	DIR *stream = fdopendir(dir);
	const struct dirent *entry;

	require(stream && depth < DEPTH_CHECKED, "a directory can be read, and is not too deep");
	while ((entry = readdir(stream))) {
		struct stat st;
		int fd;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		require(fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0, "what is there can be looked at");
		/* A directory of such a name can be where a link leads. */
		require(S_ISDIR(st.st_mode) || strncmp(entry->d_name, ".wh.", 4) != 0, "no whiteout of an archive becomes a file");
		require(!S_ISBLK(st.st_mode) && !S_ISSOCK(st.st_mode) && (!S_ISCHR(st.st_mode) || st.st_rdev == makedev(0, 0)),
			"no device but overlayfs' whiteout");
		if (!S_ISDIR(st.st_mode))
			continue;
		/* Its mode is the archive's. */
		require(fchmodat(dirfd(stream), entry->d_name, 0700, 0) == 0, "a directory is our own");
		fd = openat(dirfd(stream), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		require(fd >= 0, "a directory can be opened");
		check_attributes(fd);
		check_tree(fd, depth + 1);
	}
	closedir(stream);
}

/* --- one layer --- */

static int original_root = -1, original_directory = -1, place = -1;

static void enter(int directory)
{
	require(fchdir(directory) == 0 && chroot(".") == 0, "the root can be changed");
}

static void leave(void)
{
	require(fchdir(original_root) == 0 && chroot(".") == 0 && fchdir(original_directory) == 0, "the root can be changed back");
}

/* Returns a descriptor of the layer's directory, or -1 where it was refused. The notes are malloc'd. */
static int unpack(struct stream *stream, const char *name, char **ret_notes, size_t *ret_length)
{
	const struct layer_options options = {.limits = {.entries_max = 1000, .file_bytes_max = 1 << 20}};
	struct unpack_result result = {0};
	struct error err = {0};
	bool opaque;
	int notes = to_file("", 0), root, r;
	struct tree *tree;

	require(mkdirat(place, name, 0755) == 0, "a directory can be made");
	root = openat(place, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enter(root);
	tree = tree_new(root, notes, false, strcmp(name, "lower") == 0);
	r = layer_unpack(stream, tree, &options, &result, &err);
	if (r == 0)
		r = tree_finish(tree, &result.notes, &opaque, &err);
	leave();
	tree_free(tree);
	require(lseek(notes, 0, SEEK_SET) == 0 && read_fd_whole(notes, TREE_NOTES_BYTES_MAX, ret_notes, ret_length) == 0,
		"notes can be read");
	close(notes);
	if (r == 0) {
		check_notes(*ret_notes, *ret_length, result.notes);
		return root;
	}
	check_error(&err);
	close(root);
	return -1;
}

static void check_outside(void)
{
	struct stat st;

	require(fstatat(place, "outside", &st, 0) == 0 && st.st_nlink == 2 && st.st_mtim.tv_sec == 1, "nothing is made outside");
	require(fstatat(place, "outside/canary", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_nlink == 1 && st.st_size == 4 &&
			st.st_mtim.tv_sec == 1 && (st.st_mode & 07777) == 0644,
		"what is outside stays as it is");
}

static void make_outside(void)
{
	static const struct timespec times[2] = {{1, 0}, {1, 0}};
	int fd;

	require(mkdirat(place, "outside", 0755) == 0, "a directory can be made");
	fd = openat(place, "outside/canary", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	require(fd >= 0 && write(fd, "safe", 4) == 4 && futimens(fd, times) == 0, "a file can be made");
	close(fd);
	require(utimensat(place, "outside", times, 0) == 0, "a time can be set");
}

static char place_name[] = "/dev/shm/nsbox-fuzz.XXXXXX";

static void remove_place(void)
{
	struct error ignored;

	remove_tree(AT_FDCWD, place_name, &ignored);
}

/* Before libFuzzer has threads, which a user namespace does not take. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const struct idmap own = {.uid = 0, .gid = 0, .host_uid = geteuid(), .host_gid = getegid()};
	struct error err;

	umask(0);
	if (geteuid() != 0)
		require(unshare(CLONE_NEWUSER) == 0 && idmap_write_own(&own, &err) == 0, "there are user namespaces");
	original_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	original_directory = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	require(mkdtemp(place_name) != NULL && atexit(remove_place) == 0, "there is a tmpfs");
	place = open(place_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	require(place >= 0 && original_root >= 0 && original_directory >= 0, "directories can be opened");
	make_outside();
	(void)argc;
	(void)argv;
	return 0;
}

static void tidy(void)
{
	struct error err;

	require(remove_tree(place, "lower", &err) == 0 && remove_tree(place, "upper", &err) == 0, "what was unpacked can be removed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct stream stream;
	struct input input = {data, size};
	int lower, upper, before;
	struct error err = {0};
	char *notes = NULL;
	size_t length = 0;

	before = next_descriptor();
	take_layer(&stream, &input);
	lower = unpack(&stream, "lower", &notes, &length);
	free(notes);
	notes = NULL;
	if (lower >= 0) {
		take_layer(&stream, &input);
		upper = unpack(&stream, "upper", &notes, &length);
		if (upper >= 0 && settle(upper, lower, notes, length, false, &err) < 0)
			check_error(&err);
		else if (upper >= 0)
			check_tree(dup(upper), 0);
		free(notes);
		if (upper >= 0)
			close(upper);
		check_tree(lower, 0);
	}
	check_outside();
	tidy();
	require(next_descriptor() == before, "no descriptor is lost");
	return 0;
}
