/* SPDX-License-Identifier: MIT */
/* What a run leaves in its working directory: see collect.h. */
#define _GNU_SOURCE
#include "sandbox/collect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/mounts.h"
#include "sandbox/result.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { MAGIC_BYTES = 12, ENTRIES_MAX = 10000, COMPARE_BYTES = 16 << 10, COPY_BYTES = 256 << 10 };

const char *image_type(const void *data, unsigned long length)
{
	static const struct {
		const char *magic;
		size_t length;
		const char *type;
	} types[] = {
		{"\x89PNG\r\n\x1a\n", 8, "image/png"},
		{"\xff\xd8\xff", 3, "image/jpeg"},
		{"GIF87a", 6, "image/gif"},
		{"GIF89a", 6, "image/gif"},
	};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (length >= types[i].length && memcmp(data, types[i].magic, types[i].length) == 0)
			return types[i].type;
	if (length >= 12 && memcmp(data, "RIFF", 4) == 0 &&
		memcmp((const char *)data + 8, "WEBP", 4) == 0)
		return "image/webp";
	return NULL;
}

static const char *working_directory(const struct spec *spec)
{
	const char *cwd = spec->execs[spec->execs_count - 1].cwd;

	return cwd ? cwd : spec->root == ROOT_HOST ? "/workspace" : "/";
}

static int open_beneath(int dirfd, const char *path, int flags)
{
	while (*path == '/')
		path++;
	return open_in_root(
		dirfd, *path ? path : ".", flags, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

/* The last of the spec's mounts that covers the directory, or NULL. *ret_tmpfs: the tmpfs before it, itself included. */
static const struct mount_spec *mount_over(const struct spec *spec, const char *directory, size_t *ret_tmpfs)
{
	const struct mount_spec *over = NULL;
	size_t tmpfs = 0;

	*ret_tmpfs = 0;
	for (size_t i = 0; i < spec->mounts_count; i++) {
		const struct mount_spec *mount = &spec->mounts[i];

		tmpfs += mount->kind == MOUNT_TMPFS;
		if (!spec_path_below(directory, mount->target))
			continue;
		over = mount;
		*ret_tmpfs = tmpfs;
	}
	return over;
}

/* Opens the last command's working directory, for reading; -1 where there is none of the sandbox's own. */
static int open_working_directory(const struct spec *spec, const int *tmpfs, size_t tmpfs_count)
{
	const char *cwd = working_directory(spec);
	size_t index;
	const struct mount_spec *over = mount_over(spec, cwd, &index);
	const char *rest = over ? spec_path_below(cwd, over->target) : cwd;
	cleanup_close int top = -1;

	errno = ENOENT;
	if (index >= tmpfs_count || (over && over->kind != MOUNT_TMPFS))
		return -1;
	top = open_beneath(tmpfs[index], over || spec->root == ROOT_HOST ? "." : "upper", O_PATH | O_DIRECTORY);
	return top < 0 ? -1 : open_beneath(top, rest, O_RDONLY | O_DIRECTORY);
}

static bool is_input(const struct spec *spec, const char *directory, const char *name)
{
	size_t length = strlen(directory);

	for (size_t i = 0; i < spec->files_count; i++) {
		const char *path = spec->files[i].path;

		if (strncmp(path, directory, length) == 0 &&
			strcmp(path + length + strspn(path + length, "/"), name) == 0)
			return true;
	}
	return false;
}

/* Reads an image whole. Returns false where it is none, or too large (then *ret_too_large). */
static bool read_image(
	int directory, const char *name, struct result_image *ret, bool *ret_too_large)
{
	cleanup_close int fd = open_beneath(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	uint8_t magic[MAGIC_BYTES];
	struct stat st;
	ssize_t n;

	*ret_too_large = false;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return false;
	n = pread(fd, magic, sizeof magic, 0);
	ret->type = n > 0 ? image_type(magic, (unsigned long)n) : NULL;
	if (!ret->type)
		return false;
	if (st.st_size > RESULT_IMAGE_BYTES_MAX) {
		*ret_too_large = true;
		return false;
	}
	ret->length = (size_t)st.st_size;
	ret->data = malloc(ret->length);
	ret->name = strdup(name);
	if (ret->data && ret->name && pread(fd, ret->data, ret->length, 0) == st.st_size)
		return true;
	free(ret->data);
	free(ret->name);
	return false;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, sorted; at most ENTRIES_MAX. Returns their number; the caller frees all. */
static size_t list(int directory, char ***ret)
{
	int fd = open_beneath(directory, ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	size_t count = 0;
	struct dirent *entry;

	*ret = calloc(ENTRIES_MAX, sizeof **ret);
	if (!dir && fd >= 0)
		close(fd);
	while (dir && *ret && count < ENTRIES_MAX && (entry = readdir(dir))) {
		if (entry->d_type != DT_REG)
			continue;
		(*ret)[count] = strdup(entry->d_name);
		if (!(*ret)[count])
			break;
		count++;
	}
	if (dir)
		closedir(dir);
	if (count > 0)
		qsort(*ret, count, sizeof **ret, compare_names);
	return count;
}

static void take_image(int directory, const char *name, struct run_result *result)
{
	struct result_image image;
	size_t total;
	bool too_large;

	if (!read_image(directory, name, &image, &too_large)) {
		result->images_left_out += too_large;
		return;
	}
	total = image.length;
	for (size_t i = 0; i < result->images_count; i++)
		total += result->images[i].length;
	if (result->images_count < RESULT_IMAGES_MAX && total <= RESULT_IMAGES_BYTES_MAX) {
		result->images[result->images_count++] = image;
		return;
	}
	free(image.data);
	free(image.name);
	result->images_left_out++;
}

void collect_images(const struct spec *spec, const int *tmpfs, size_t tmpfs_count, struct run_result *result)
{
	const char *cwd = working_directory(spec);
	cleanup_close int directory = open_working_directory(spec, tmpfs, tmpfs_count);
	char **names = NULL;
	size_t count = directory < 0 ? 0 : list(directory, &names);

	for (size_t i = 0; i < count; i++) {
		if (!is_input(spec, cwd, names[i]))
			take_image(directory, names[i], result);
		free(names[i]);
	}
	free(names);
}

/* --- files --- */

struct walk {
	const struct collector *collector;
	const struct spec *spec;
	const struct file_spec **inputs; /* those below the working directory, sorted by path */
	size_t inputs_count;
	const char *directory; /* the working directory inside */
	bool overlay;	       /* what is there is an upper layer */
	char path[COLLECT_PATH_MAX];
	size_t length; /* of path */
	unsigned depth;
};

static const char *input_path(const struct walk *walk, const struct file_spec *file)
{
	return spec_path_below(file->path, walk->directory);
}

static int compare_inputs(const void *a, const void *b, void *data)
{
	const struct walk *walk = data;

	return strcmp(input_path(walk, *(const struct file_spec *const *)a),
		input_path(walk, *(const struct file_spec *const *)b));
}

static void find_inputs(const struct spec *spec, struct walk *walk)
{
	walk->inputs = xcalloc(spec->files_count + 1, sizeof(void *));
	for (size_t i = 0; i < spec->files_count; i++)
		if (input_path(walk, &spec->files[i]))
			walk->inputs[walk->inputs_count++] = &spec->files[i];
	qsort_r(walk->inputs, walk->inputs_count, sizeof(void *), compare_inputs, walk);
}

static const struct file_spec *find_input(const struct walk *walk)
{
	size_t first = 0, last = walk->inputs_count;

	while (first < last) {
		size_t middle = first + (last - first) / 2;
		int order = strcmp(walk->path, input_path(walk, walk->inputs[middle]));

		if (order == 0)
			return walk->inputs[middle];
		if (order < 0)
			last = middle;
		else
			first = middle + 1;
	}
	return NULL;
}

static bool has_content(int fd, const struct stat *st, const struct file_spec *file)
{
	char buffer[COMPARE_BYTES];
	size_t done = 0;

	if ((uint64_t)st->st_size != file->length)
		return false;
	while (done < file->length) {
		ssize_t n = pread(fd, buffer, sizeof buffer, (off_t)done);

		if (n <= 0 || (size_t)n > file->length - done ||
			memcmp(buffer, (const char *)file->content + done, (size_t)n) != 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static int leave_out(const struct walk *walk, const char *why, bool content)
{
	walk->collector->left_out(walk->collector->data, *walk->path ? walk->path : ".", why, content);
	return 0;
}

static const char *type_words(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFIFO:
		return "a FIFO";
	case S_IFSOCK:
		return "a socket";
	case S_IFCHR:
	case S_IFBLK:
		return "a device";
	default:
		return "of an unknown type";
	}
}

static int show_file(const struct walk *walk, int directory, const char *name)
{
	const struct collector *collector = walk->collector;
	const struct file_spec *input = find_input(walk);
	cleanup_close int fd = -1;
	struct stat st;

	if (collector->full && collector->full(collector->data))
		return input ? 0 : leave_out(walk, "too many", true);
	fd = open_beneath(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return leave_out(walk, strerror(errno), true);
	if (!S_ISREG(st.st_mode))
		return leave_out(walk, type_words(st.st_mode), false);
	if (input && has_content(fd, &st, input))
		return 0;
	return collector->file(collector->data, walk->path, name, fd, &st);
}

/*
 * Whether a link in a directory `depth` below the top leads to nothing else than names below the top. It may begin
 * with «..», as that is of a directory that we know; after a name, which can be a link's, it cannot be told what «..»
 * is. Each link that such a name can be is one that was looked at like this.
 */
static bool stays_inside(const char *target, unsigned depth)
{
	bool named = false;

	if (*target == '/' || *target == '\0')
		return false;
	while (*target) {
		size_t length = strcspn(target, "/");
		bool up = length == 2 && memcmp(target, "..", 2) == 0;

		if (up && (named || depth == 0))
			return false;
		if (up)
			depth--;
		else if (length > 0 && !(length == 1 && *target == '.'))
			named = true;
		target += length + strspn(target + length, "/");
	}
	return true;
}

static int show_link(const struct walk *walk, int directory, const char *name)
{
	const struct collector *collector = walk->collector;
	char target[COLLECT_PATH_MAX];
	ssize_t n;

	if (!collector->link)
		return leave_out(walk, "a symbolic link", false);
	n = readlinkat(directory, name, target, sizeof target - 1);
	if (n < 0)
		return leave_out(walk, strerror(errno), false);
	target[n] = '\0';
	if (!stays_inside(target, walk->depth))
		return leave_out(walk, "a symbolic link that may lead outside", false);
	return collector->link(collector->data, walk->path, name, target);
}

static int show_all(struct walk *walk, int directory);

static int show_directory(struct walk *walk, int parent, const char *name)
{
	const struct collector *collector = walk->collector;
	cleanup_close int fd = -1;
	struct stat st;
	int r = 0;

	if (walk->depth + 1 >= COLLECT_DEPTH_MAX)
		return leave_out(walk, "a directory that lies too deep", true);
	fd = open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return leave_out(walk, strerror(errno), true);
	if (collector->directory)
		r = collector->directory(collector->data, walk->path, name, st.st_mode & 0777);
	if (r != 0)
		return r < 0 ? -1 : 0;
	walk->depth++;
	r = show_all(walk, fd);
	walk->depth--;
	if (r == 0 && collector->leave)
		r = collector->leave(collector->data);
	return r;
}

/* The mark that overlayfs puts in place of what was removed. */
static bool is_whiteout(const struct walk *walk, const struct stat *st)
{
	return walk->overlay && S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* Whether something is mounted there: what lies below is a place that was made for it. */
static bool is_mount_target(const struct walk *walk)
{
	for (size_t i = 0; i < walk->spec->mounts_count; i++) {
		const char *path = spec_path_below(walk->spec->mounts[i].target, walk->directory);

		if (path && strcmp(path, walk->path) == 0)
			return true;
	}
	return false;
}

static int show_one(struct walk *walk, int directory, const char *name)
{
	const struct collector *collector = walk->collector;
	struct stat st;

	if (collector->stop && collector->stop(collector->data))
		return -1;
	if (is_mount_target(walk))
		return 0;
	if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return leave_out(walk, strerror(errno), true);
	if (S_ISREG(st.st_mode))
		return show_file(walk, directory, name);
	if (S_ISDIR(st.st_mode))
		return show_directory(walk, directory, name);
	if (S_ISLNK(st.st_mode))
		return show_link(walk, directory, name);
	return is_whiteout(walk, &st) ? 0 : leave_out(walk, type_words(st.st_mode), false);
}

/*
 * Every name of a directory, sorted, NULL-terminated. The kernel's are plain names; others would be somebody's mistake.
 * *ret_errno is why some may be missing, or 0.
 */
static char **list_all(int directory, int *ret_errno)
{
	int fd = open_beneath(directory, ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	char **names = xcalloc(1, sizeof *names);
	size_t count = 0, room = 1;
	struct dirent *entry;

	*ret_errno = dir ? 0 : errno;
	if (!dir && fd >= 0)
		close(fd);
	while (dir && (errno = 0, entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		if (count + 1 == room)
			names = xrealloc(names, room *= 4, sizeof *names);
		names[count++] = xstrdup(name);
	}
	if (dir) {
		*ret_errno = errno;
		closedir(dir);
	}
	names[count] = NULL;
	qsort(names, count, sizeof *names, compare_names);
	return names;
}

static int show_all(struct walk *walk, int directory)
{
	int errnum, r = 0;
	char **names = list_all(directory, &errnum);
	size_t before = walk->length;

	if (errnum)
		leave_out(walk, strerror(errnum), true);
	for (char **name = names; *name && r == 0; name++) {
		int n = snprintf(walk->path + before, sizeof walk->path - before, "%s%s", before ? "/" : "", *name);

		walk->length = before + (size_t)n;
		if (walk->length < sizeof walk->path) {
			r = show_one(walk, directory, *name);
			continue;
		}
		walk->path[before] = '\0';
		leave_out(walk, "the path of something in it is too long", true);
	}
	walk->length = before;
	walk->path[before] = '\0';
	strings_free(names);
	return r;
}

int collect_files(const struct spec *spec, const int *tmpfs, size_t tmpfs_count, const struct collector *collector)
{
	cleanup_close int directory = open_working_directory(spec, tmpfs, tmpfs_count);
	struct walk walk = {
		.collector = collector, .spec = spec, .directory = working_directory(spec), .overlay = spec->root != ROOT_HOST};
	int r;

	/* ENOENT: the code has removed it, or in a root of its own made and changed nothing there. */
	if (directory < 0 && errno != ENOENT)
		leave_out(&walk, errno == ELOOP || errno == ENOTDIR ? "not a directory any more" : strerror(errno), true);
	if (directory < 0)
		return 0;
	find_inputs(spec, &walk);
	r = show_all(&walk, directory);
	free(walk.inputs);
	return r;
}

/* --- content --- */

/* From `start` to `end` of it, as far as there is data. */
static int copy_range(int from, int to, off_t at, off_t start, off_t end, bool (*stop)(void *data), void *data)
{
	static char buffer[COPY_BYTES];

	while (start < end) {
		size_t wanted = end - start < COPY_BYTES ? (size_t)(end - start) : COPY_BYTES;
		ssize_t n = pread(from, buffer, wanted, start);

		if (stop && stop(data)) {
			errno = ECANCELED;
			return -1;
		}
		if (n < 0)
			return -1;
		if (n == 0)
			return 0; /* shorter meanwhile: the rest is a hole */
		if (lseek(to, at + start, SEEK_SET) < 0 || write_whole(to, buffer, (size_t)n) < 0)
			return -1;
		start += n;
	}
	return 0;
}

int collect_copy(int from, int to, off_t at, off_t size, bool (*stop)(void *data), void *data)
{
	off_t start = 0, end;

	/* The size first, so that what is not written is a hole. */
	if (size > 0 && ftruncate(to, at + size) < 0)
		return -1;
	while (start < size) {
		start = lseek(from, start, SEEK_DATA);
		if (start < 0)
			return errno == ENXIO ? 0 : -1;
		end = lseek(from, start, SEEK_HOLE);
		if (end < 0)
			return errno == ENXIO ? 0 : -1;
		if (copy_range(from, to, at, start, end < size ? end : size, stop, data) < 0)
			return -1;
		start = end;
	}
	return 0;
}

/* --- before the run --- */

/* Whether one of the names that lead to the directory is a link in the root: then it is somewhere else in the upper layer. */
static bool leads_through_link(const struct spec *spec, const char *directory)
{
	for (size_t i = 0; i < spec_lowers_count(spec); i++) {
		cleanup_close int lower = open(spec_lower(spec, i), O_PATH | O_DIRECTORY | O_CLOEXEC);
		cleanup_close int fd = lower < 0 ? -1
						 : open_in_root(lower, directory, O_PATH | O_DIRECTORY, 0,
							   RESOLVE_NO_SYMLINKS);

		if (fd >= 0 || (lower >= 0 && errno == ELOOP))
			return fd < 0;
	}
	return false;
}

int collect_check(const struct spec *spec, struct error *err)
{
	const char *cwd = working_directory(spec);
	size_t index;
	const struct mount_spec *over = mount_over(spec, cwd, &index);

	if (over && over->kind == MOUNT_BIND)
		return error_set(err, 0, "the working directory %s is the host's: what is left there is in %s already",
			cwd, over->source);
	if (!*spec_path_below(cwd, "/"))
		return error_set(err, 0, "the working directory is the sandbox's root, which has more than what is left there; choose another with --workdir");
	if (leads_through_link(spec, cwd))
		return error_set(err, 0, "the working directory %s leads through a symbolic link of the root; name the directory itself with --workdir", cwd);
	return 0;
}
