/* SPDX-License-Identifier: MIT */
/* From what a sandbox has written to a layer: see upper.h. */
#define _GNU_SOURCE
#include "image/upper.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/discard.h"
#include "sandbox/idmap.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/dirnames.h"

enum { FD_LINK_SIZE = 40, XATTR_NAMES_MAX = 64 << 10 /* bytes, of the kernel (XATTR_LIST_MAX) */ };

static const char opaque_attribute[] = "user.overlay.opaque";

/* What stands for an open file where the kernel has no call that takes a descriptor. */
static const char *fd_link(int fd, char buffer[FD_LINK_SIZE])
{
	snprintf(buffer, FD_LINK_SIZE, "/proc/self/fd/%d", fd);
	return buffer;
}

/* --- the walk --- */

struct walk {
	const struct upper_visitor *visitor;
	char path[UPPER_PATH_MAX];
	size_t length; /* of path */
	unsigned depth;
	struct error other; /* that is none of the first */
};

enum upper_kind upper_kind_of(const struct stat *st)
{
	switch (st->st_mode & S_IFMT) {
	case S_IFDIR:
		return UPPER_DIRECTORY;
	case S_IFREG:
		return UPPER_FILE;
	case S_IFLNK:
		return UPPER_SYMLINK;
	case S_IFIFO:
		return UPPER_FIFO;
	case S_IFCHR:
		return st->st_rdev == makedev(0, 0) ? UPPER_WHITEOUT : UPPER_OTHER;
	default:
		return UPPER_OTHER;
	}
}

static bool is_opaque(int fd)
{
	char value;

	return fgetxattr(fd, opaque_attribute, &value, 1) == 1 && value == 'y';
}

static int show(struct walk *walk, int dir, const char *name, struct error *err);

static int show_content(struct walk *walk, int directory, struct error *err)
{
	struct dirnames names = {0};
	size_t before = walk->length;
	int r = 0;

	if (walk->depth == UPPER_DEPTH_MAX)
		return error_set(err, 0, "%.200s: there are more than %d directories in each other", walk->path,
			UPPER_DEPTH_MAX);
	if (dirnames_add(&names, directory) < 0)
		r = error_set(err, errno, "reading the directory %s", walk->path);
	dirnames_sort(&names);
	walk->depth++;
	for (size_t i = 0; (r == 0 || walk->visitor->goes_on) && i < names.count; i++) {
		if (show(walk, directory, names.list[i], r < 0 ? &walk->other : err) < 0)
			r = -1;
		walk->length = before;
		walk->path[before] = '\0';
	}
	dirnames_free(&names);
	walk->depth--;
	return r;
}

/* Its own mode may keep its owner out of a directory. *ret_opened: it had to be changed. */
static int open_directory(int dir, const char *name, mode_t mode, bool shared, bool *ret_opened)
{
	cleanup_close int place = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char link[FD_LINK_SIZE];
	int fd;

	if (place < 0)
		return -1;
	*ret_opened = !shared && faccessat(place, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0;
	if (*ret_opened && chmod(fd_link(place, link), 0700) < 0)
		return -1;
	fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && *ret_opened)
		chmod(link, mode);
	return fd;
}

/* Returns 1 where the directory was passed over, and may be gone. */
static int show_opened(struct walk *walk, const struct upper_entry *entry, struct error *err)
{
	const struct upper_visitor *visitor = walk->visitor;
	int r = visitor->entry(visitor->data, entry, err);

	if (r > 0)
		return r;
	if ((r == 0 || visitor->goes_on) && show_content(walk, entry->fd, r < 0 ? &walk->other : err) < 0)
		r = -1;
	if (visitor->leave && (r == 0 || visitor->goes_on) &&
		visitor->leave(visitor->data, entry, r < 0 ? &walk->other : err) < 0)
		r = -1;
	return r;
}

static int show_directory(struct walk *walk, struct upper_entry *entry, struct error *err)
{
	bool opened = false;
	const mode_t mode = entry->st.st_mode & 07777;
	cleanup_close int fd = open_directory(entry->dir, entry->name, mode, walk->visitor->shared, &opened);
	int r;

	if (fd < 0)
		return error_set(err, errno, "opening the directory %s", walk->path);
	entry->fd = fd;
	entry->opaque = is_opaque(fd);
	r = show_opened(walk, entry, err);
	/* Also where it failed: what is looked at goes on with what it had. */
	if (opened && fchmod(fd, mode) < 0 && fchmod(fd, mode) < 0 && r == 0)
		return error_set(err, errno, "%s: setting its mode", walk->path);
	return r < 0 ? -1 : 0;
}

static int show(struct walk *walk, int dir, const char *name, struct error *err)
{
	struct upper_entry entry = {.path = walk->path, .dir = dir, .name = name, .fd = -1};
	size_t slash = walk->length > 0, length = strlen(name);
	int r;

	if (walk->length + slash + length >= sizeof walk->path)
		return error_set(err, ENAMETOOLONG, "%.200s…", walk->path);
	if (slash)
		walk->path[walk->length++] = '/';
	memcpy(walk->path + walk->length, name, length + 1);
	walk->length += length;
	if (fstatat(dir, name, &entry.st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "looking at %s", walk->path);
	entry.kind = upper_kind_of(&entry.st);
	if (entry.kind == UPPER_DIRECTORY)
		return show_directory(walk, &entry, err);
	r = walk->visitor->entry(walk->visitor->data, &entry, err);
	return r < 0 ? -1 : 0;
}

int upper_walk(int upper, const struct upper_visitor *visitor, struct error *err)
{
	struct walk walk = {.visitor = visitor};

	return show_content(&walk, upper, err);
}

/* --- a layer where it is --- */

struct settling {
	const char *const *left_out;
	bool still;	 /* some of it is done */
	bool owners;	 /* we are root: what is there belongs to the sandbox's ids */
	uid_t first_uid; /* what 0 inside is on the host */
	gid_t first_gid;
	char names[XATTR_NAMES_MAX];
};

static bool is_left_out(const struct settling *settling, const char *path)
{
	for (const char *const *pattern = settling->left_out; *pattern; pattern++)
		if (fnmatch(*pattern, path, FNM_PATHNAME) == 0)
			return true;
	return false;
}

/* Ids of the kernel's own bookkeeping, and ids of the one sandbox: see upper.h. */
static bool is_passing(const char *attribute)
{
	if (strncmp(attribute, "user.overlay.", 13) == 0)
		return strcmp(attribute, opaque_attribute) != 0;
	return strcmp(attribute, "security.capability") == 0 || strncmp(attribute, "system.posix_acl_", 17) == 0 ||
	       strncmp(attribute, "trusted.", 8) == 0;
}

/* user.* attributes can be changed by who may write the file: its owner may always be. */
static int remove_attribute(int fd, const char *link, const char *attribute)
{
	struct stat st;
	int r = removexattr(link, attribute);

	if (r == 0 || errno != EACCES || fstat(fd, &st) < 0 || chmod(link, 0600) < 0)
		return r;
	r = removexattr(link, attribute);
	return chmod(link, st.st_mode & 07777) < 0 ? -1 : r;
}

static int clear_attributes(struct settling *settling, const struct upper_entry *entry, struct error *err)
{
	cleanup_close int place = openat(entry->dir, entry->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char link[FD_LINK_SIZE];
	ssize_t length;

	if (place < 0)
		return error_set(err, errno, "opening %s", entry->path);
	length = listxattr(fd_link(place, link), settling->names, sizeof settling->names);
	if (length < 0 && errno != EOPNOTSUPP)
		return error_set(err, errno, "%s: reading its attributes", entry->path);
	for (const char *name = settling->names; length > 0 && name < settling->names + length;
		name += strlen(name) + 1)
		if (is_passing(name) && remove_attribute(place, link, name) < 0 && errno != ENODATA)
			return error_set(err, errno, "%s: removing its attribute %s", entry->path, name);
	return 0;
}

static int refuse_owner(const struct upper_entry *entry, struct error *err)
{
	return error_set(err, 0, "%s belongs to %u:%u, which is nobody of the sandbox", entry->path, entry->st.st_uid,
		entry->st.st_gid);
}

/*
 * The owner inside becomes the owner on the host, as in layers that were unpacked. The kernel takes set-user-ID bits away
 * with it. Of several names of a file the first one does it.
 */
static int give_owner(const struct settling *settling, const struct upper_entry *entry, struct error *err)
{
	const struct stat *st = &entry->st;
	uid_t uid = st->st_uid - settling->first_uid;
	gid_t gid = st->st_gid - settling->first_gid;

	if (entry->kind != UPPER_DIRECTORY && st->st_nlink > 1 && st->st_uid < settling->first_uid)
		return 0;
	if (settling->still && st->st_uid < IDMAP_SLOT_SIZE && st->st_gid < IDMAP_SLOT_SIZE)
		return 0;
	if (uid >= IDMAP_SLOT_SIZE || gid >= IDMAP_SLOT_SIZE)
		return refuse_owner(entry, err);
	if (fchownat(entry->dir, entry->name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "%s: setting its owner", entry->path);
	if ((S_ISREG(st->st_mode) || S_ISFIFO(st->st_mode)) && (st->st_mode & 06000) &&
		fchmodat(entry->dir, entry->name, st->st_mode & 07777, 0) < 0)
		return error_set(err, errno, "%s: setting its mode", entry->path);
	return 0;
}

/* Whatever is in it. */
static int leave_out(const struct upper_entry *entry, struct error *err)
{
	bool directory = entry->kind == UPPER_DIRECTORY;

	if ((directory && discard_content(entry->fd, UINT64_MAX) < 0) ||
		unlinkat(entry->dir, entry->name, directory ? AT_REMOVEDIR : 0) < 0)
		return error_set(err, errno, "removing %s", entry->path);
	return 0;
}

static int settle_entry(void *data, const struct upper_entry *entry, struct error *err)
{
	struct settling *settling = data;

	if (entry->kind == UPPER_OTHER || is_left_out(settling, entry->path))
		return leave_out(entry, err) < 0 ? -1 : 1;
	if ((entry->kind == UPPER_DIRECTORY || entry->kind == UPPER_FILE) && clear_attributes(settling, entry, err) < 0)
		return -1;
	return settling->owners ? give_owner(settling, entry, err) : 0;
}

/* What was removed from it has changed its time. */
static int settle_time(void *data, const struct upper_entry *directory, struct error *err)
{
	const struct timespec times[2] = {directory->st.st_atim, directory->st.st_mtim};

	(void)data;
	return futimens(directory->fd, times) < 0 ? error_set(err, errno, "%s: setting its time", directory->path) : 0;
}

/* What 0 inside is on the host, where the owner is somebody of the same slot (idmap.h). */
static uint32_t first_of_slot(uint32_t owner)
{
	return owner < IDMAP_SLOT_FIRST ? owner : owner - (owner - IDMAP_SLOT_FIRST) % IDMAP_SLOT_SIZE;
}

static int settle(int upper, const char *const *left_out, bool still, struct error *err)
{
	cleanup_free struct settling *settling = xcalloc(1, sizeof *settling);
	const struct upper_visitor visitor = {
		.data = settling, .entry = settle_entry, .leave = settle_time, .goes_on = still};
	const struct upper_entry top = {.kind = UPPER_DIRECTORY, .path = "/", .dir = upper, .name = "."};
	struct error other;
	struct stat st;
	int r;

	if (fstat(upper, &st) < 0)
		return error_set(err, errno, "looking at what the sandbox has written");
	/* It was given to the sandbox's user when it was empty (create.c). */
	settling->owners = geteuid() == 0 && st.st_uid != 0;
	settling->first_uid = first_of_slot(st.st_uid);
	settling->first_gid = first_of_slot(st.st_gid);
	settling->left_out = left_out;
	settling->still = still;
	r = clear_attributes(settling, &top, err);
	if ((r == 0 || still) && upper_walk(upper, &visitor, r < 0 ? &other : err) < 0)
		r = -1;
	if ((r == 0 || still) && settling->owners &&
		fchown(upper, st.st_uid - settling->first_uid, st.st_gid - settling->first_gid) < 0)
		r = error_set(r < 0 ? &other : err, errno, "setting the owner of what the sandbox has written");
	return r;
}

int upper_become_layer(int upper, const char *const *left_out, struct error *err)
{
	return settle(upper, left_out, false, err);
}

int upper_become_layer_still(int upper, const char *const *left_out, struct error *err)
{
	return settle(upper, left_out, true, err);
}

/* --- looking --- */

struct measuring {
	bool owners;
	uid_t first_uid;
	gid_t first_gid;
	struct upper_size *size;
};

static void measure(const struct stat *st, struct upper_size *size)
{
	uint64_t bytes = (uint64_t)st->st_blocks * 512;

	/* Of several names each counts for a part. */
	size->bytes += S_ISDIR(st->st_mode) || st->st_nlink < 2 ? bytes : bytes / st->st_nlink;
	size->entries++;
	size->directories += S_ISDIR(st->st_mode);
	if (st->st_ctim.tv_sec > size->newest.tv_sec ||
		(st->st_ctim.tv_sec == size->newest.tv_sec && st->st_ctim.tv_nsec > size->newest.tv_nsec))
		size->newest = st->st_ctim;
}

static int measure_entry(void *data, const struct upper_entry *entry, struct error *err)
{
	const struct measuring *measuring = data;
	const struct stat *st = &entry->st;

	measure(st, measuring->size);
	if (measuring->owners && (st->st_uid - measuring->first_uid >= IDMAP_SLOT_SIZE ||
					 st->st_gid - measuring->first_gid >= IDMAP_SLOT_SIZE))
		return refuse_owner(entry, err);
	return 0;
}

int upper_measure(int upper, struct upper_size *ret, struct error *err)
{
	struct measuring measuring = {.size = ret};
	const struct upper_visitor visitor = {.data = &measuring, .entry = measure_entry};
	struct stat st;

	*ret = (struct upper_size){.bytes = 0};
	if (fstat(upper, &st) < 0)
		return error_set(err, errno, "looking at what the sandbox has written");
	measuring.owners = geteuid() == 0 && st.st_uid != 0;
	measuring.first_uid = first_of_slot(st.st_uid);
	measuring.first_gid = first_of_slot(st.st_gid);
	measure(&st, ret);
	return upper_walk(upper, &visitor, err);
}
