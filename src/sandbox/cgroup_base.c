/* SPDX-License-Identifier: MIT */
/*
 * Where cgroups of sandboxes can be made: see cgroup_base.h.
 *
 * Choosing only looks; preparing then changes what has to be changed, so that `nsbox check` can ask the
 * same question without leaving a trace.
 */
#define _GNU_SOURCE
#include "sandbox/cgroup_base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/file.h"

#define MOUNT "/sys/fs/cgroup"
#define HYBRID_MOUNT MOUNT "/unified"
#define ROOT_BASE_NAME "nsbox"

/* Sets the reason. Always returns false. */
__attribute__((format(printf, 2, 3))) static bool refuse(
	char why[ERROR_TEXT_MAX], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, ERROR_TEXT_MAX, format, ap);
	va_end(ap);
	return false;
}

/* Why something could not be looked at that may well be there: then nothing is known about the host. */
static int shortage;

bool cgroup_is_shortage(int errnum)
{
	return errnum == ENOMEM || errnum == EMFILE || errnum == ENFILE || errnum == EIO;
}

/* Passes on a result, and notes a shortage where it is an error. */
static long noted(long result)
{
	if (result < 0 && cgroup_is_shortage(errno))
		shortage = errno;
	return result;
}

/* Whether `word` is one of the words of `list`, which are separated by spaces. */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += length)
		if ((at == list || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' '))
			return true;
	return false;
}

bool cgroup_has_word(int dir_fd, const char *file, const char *word)
{
	char text[512];

	return noted(read_small_file(dir_fd, file, text, sizeof text)) >= 0 && has_word(text, word);
}

static bool is_cgroup2(int fd)
{
	struct statfs status;

	return noted(fstatfs(fd, &status)) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

int cgroup_open(int dir_fd, const char *path)
{
	return (int)noted(openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

/* Where cgroup v2 is mounted. Returns a descriptor of it, or -1 with the reason in `why`. */
static int open_mount(const char **ret_mount, char why[ERROR_TEXT_MAX])
{
	static const char *const mounts[] = {MOUNT, HYBRID_MOUNT};

	for (int i = 0; i < 2; i++) {
		cleanup_close int fd = cgroup_open(AT_FDCWD, mounts[i]);

		if (fd < 0 || !is_cgroup2(fd))
			continue;
		*ret_mount = mounts[i];
		return move_fd(&fd);
	}
	refuse(why, "cgroup v2 is not mounted on " MOUNT);
	return -1;
}

/* The cgroup of this process in the v2 hierarchy, as it sees itself («/user.slice/…»). */
static int own_cgroup(char ret[CGROUP_PATH_SIZE])
{
	char text[8192], *line = text, *next;

	if (noted(read_small_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof text)) < 0)
		return -1;
	for (; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (strncmp(line, "0::/", 4) == 0 && strlen(line + 3) < CGROUP_PATH_SIZE)
			return snprintf(ret, CGROUP_PATH_SIZE, "%s", line + 3) > 0 ? 0 : -1;
	}
	return -1;
}

/* MOUNT + PATH, without a slash at its end. */
static int join_mount(const char *mount, const char *path, char ret[CGROUP_PATH_SIZE])
{
	int length =
		snprintf(ret, CGROUP_PATH_SIZE, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);

	return length < CGROUP_PATH_SIZE ? 0 : -1;
}

static const char *missing_controller(int dir_fd)
{
	static const char *const needed[] = {"memory", "pids"};

	for (int i = 0; i < 2; i++)
		if (!cgroup_has_word(dir_fd, "cgroup.controllers", needed[i]))
			return needed[i];
	return NULL;
}

/* Whether this process is the only one in the cgroup. */
static bool is_sole_process(int dir_fd)
{
	char text[64], own[32];

	snprintf(own, sizeof own, "%d", getpid());
	return noted(read_small_file(dir_fd, "cgroup.procs", text, sizeof text)) > 0 &&
	       strcmp(text, own) == 0;
}

static bool has_processes(int dir_fd)
{
	char text[64];
	ssize_t length = read_small_file(dir_fd, "cgroup.procs", text, sizeof text);

	return length > 0 || (length < 0 && errno == EFBIG);
}

static bool is_writable(int dir_fd, const char *path)
{
	return noted(faccessat(dir_fd, path, W_OK, AT_EACCESS)) == 0;
}

/* Only the root of the whole hierarchy has no cgroup.type. It alone may have processes and controllers below. */
static bool is_hierarchy_root(int dir_fd)
{
	return faccessat(dir_fd, "cgroup.type", F_OK, 0) < 0 && errno == ENOENT;
}

/* Whether children with the memory and pids controllers can be made in the directory `path`. */
static bool can_delegate(int dir_fd, const char *path, bool sole, char why[ERROR_TEXT_MAX])
{
	const char *missing = missing_controller(dir_fd);
	bool enabled = cgroup_has_word(dir_fd, "cgroup.subtree_control", "memory") &&
		       cgroup_has_word(dir_fd, "cgroup.subtree_control", "pids");

	if (missing)
		return refuse(why, "the cgroup %s is without the %s controller", path, missing);
	if (!is_writable(dir_fd, "."))
		return refuse(why, "the cgroup %s is not writable for uid %u", path, geteuid());
	if (!enabled && !is_writable(dir_fd, "cgroup.subtree_control"))
		return refuse(why,
			"the cgroup %s does not pass the memory and pids controllers on, and its"
			" cgroup.subtree_control is not writable for uid %u",
			path, geteuid());
	if (!enabled && !sole && !is_hierarchy_root(dir_fd) && has_processes(dir_fd))
		return refuse(why,
			"the cgroup %s has processes in it, so that the kernel enables no"
			" controllers for its children",
			path);
	return true;
}

/*
 * To clone a process into another cgroup, or move it, the kernel wants cgroup.procs of the nearest
 * common ancestor to be writable. (Where we cannot see our own place the kernel will say.)
 */
static bool can_reach(const char *mount, const char *path, char why[ERROR_TEXT_MAX])
{
	char own[CGROUP_PATH_SIZE], ancestor[CGROUP_PATH_SIZE + sizeof "/cgroup.procs"];
	size_t mount_length = strlen(mount), common = 0;
	const char *below = path + mount_length;

	if (strncmp(path, mount, mount_length) != 0 || own_cgroup(own) < 0 ||
		strncmp(own, "/..", 3) == 0)
		return true;
	for (size_t i = 0;; i++) {
		bool own_ends = own[i] == '\0' || own[i] == '/',
		     below_ends = below[i] == '\0' || below[i] == '/';

		if (own_ends && below_ends)
			common = i;
		if (own[i] != below[i] || own[i] == '\0')
			break;
	}
	snprintf(ancestor, sizeof ancestor, "%s%.*s/cgroup.procs", mount, (int)common, own);
	if (is_writable(AT_FDCWD, ancestor))
		return true;
	return refuse(why,
		"no process can be moved from %s%s, where this one is, into %s, since %s is not"
		" writable for uid %u",
		mount, own, path, ancestor, geteuid());
}

/* A cgroup that the user names. */
static bool choose_named(const char *named, struct cgroup_base *ret, char why[ERROR_TEXT_MAX])
{
	cleanup_close int fd = -1, own_fd = -1;
	const char *mount = MOUNT;
	char own[CGROUP_PATH_SIZE], own_path[CGROUP_PATH_SIZE];
	struct stat own_status, status;
	char resolved[PATH_MAX];
	cleanup_close int mount_fd = open_mount(&mount, why);

	if (!realpath(named, resolved) || (fd = cgroup_open(AT_FDCWD, resolved)) < 0)
		return refuse(
			why, "the cgroup %s cannot be opened: %s", named, strerrordesc_np(errno));
	if (snprintf(ret->path, CGROUP_PATH_SIZE, "%s", resolved) >=
		CGROUP_PATH_SIZE - CGROUP_NAME_SIZE)
		return refuse(why, "the path of the cgroup %.100s… is longer than %d bytes", named,
			CGROUP_PATH_SIZE - CGROUP_NAME_SIZE);
	if (!is_cgroup2(fd))
		return refuse(why, "%s is not a directory of a cgroup v2 hierarchy", named);
	if (mount_fd >= 0 && own_cgroup(own) == 0 && join_mount(mount, own, own_path) == 0 &&
		(own_fd = cgroup_open(AT_FDCWD, own_path)) >= 0 &&
		fstat(own_fd, &own_status) == 0 && fstat(fd, &status) == 0 &&
		own_status.st_dev == status.st_dev && own_status.st_ino == status.st_ino)
		ret->move_self = !is_hierarchy_root(fd) && is_sole_process(fd);
	return can_delegate(fd, ret->path, ret->move_self, why) && can_reach(mount, ret->path, why);
}

/* Our own cgroup, where we are alone in it: a container's entry point, `systemd-run --scope -p Delegate=yes nsbox …`. */
static bool choose_own(const char *mount, struct cgroup_base *ret, char why[ERROR_TEXT_MAX])
{
	char own[CGROUP_PATH_SIZE];
	cleanup_close int fd = -1;

	if (own_cgroup(own) < 0 || strstr(own, "/..") || join_mount(mount, own, ret->path) < 0 ||
		strlen(ret->path) >= CGROUP_PATH_SIZE - CGROUP_NAME_SIZE ||
		(fd = cgroup_open(AT_FDCWD, ret->path)) < 0)
		return refuse(why, "the cgroup of this process cannot be found below %s", mount);
	ret->move_self = true;
	if (!can_delegate(fd, ret->path, /* sole= */ true, why))
		return false;
	if (!is_writable(fd, "cgroup.procs"))
		return refuse(
			why, "%s/cgroup.procs is not writable for uid %u", ret->path, geteuid());
	if (is_hierarchy_root(fd) || !is_sole_process(fd))
		return refuse(
			why, "the cgroup %s has other processes than this one in it", ret->path);
	return true;
}

/* MOUNT/nsbox, for root, where no systemd says that the hierarchy is its own. */
static bool choose_root(
	int mount_fd, const char *mount, struct cgroup_base *ret, char why[ERROR_TEXT_MAX])
{
	if (access("/run/systemd/system", F_OK) == 0)
		return false; /* the reason that our own cgroup will not do is the one that can be mended */
	snprintf(ret->path, sizeof ret->path, "%s/" ROOT_BASE_NAME, mount);
	ret->create = true;
	return can_delegate(mount_fd, mount, /* sole= */ false, why);
}

int cgroup_base_shortage(void)
{
	return shortage;
}

bool cgroup_base_choose(const char *named, struct cgroup_base *ret, char why[ERROR_TEXT_MAX])
{
	const char *mount = NULL, *missing;
	cleanup_close int mount_fd = -1;

	shortage = 0;
	*ret = (struct cgroup_base){.create = false};
	if (named)
		return choose_named(named, ret, why);
	mount_fd = open_mount(&mount, why);
	if (mount_fd < 0)
		return false;
	missing = missing_controller(mount_fd);
	if (missing)
		return refuse(why, "cgroup v2 is mounted on %s without the %s controller%s", mount,
			missing,
			strcmp(mount, HYBRID_MOUNT) == 0 ? ", which this host uses in cgroup v1"
							 : "");
	if (choose_own(mount, ret, why))
		return true;
	if (geteuid() != 0)
		return false;
	*ret = (struct cgroup_base){.create = false};
	return choose_root(mount_fd, mount, ret, why);
}

/* Writes `text` into a file of a cgroup. */
int cgroup_set_file(
	int dir_fd, const char *dir_path, const char *file, const char *text, struct error *err)
{
	if (write_small_file(dir_fd, file, text) == 0)
		return 0;
	return error_set(err, errno, "writing %s to %s/%s", text, dir_path, file);
}

int cgroup_enable_controllers(int dir_fd, const char *path, struct error *err)
{
	if (!cgroup_has_word(dir_fd, "cgroup.subtree_control", "memory") ||
		!cgroup_has_word(dir_fd, "cgroup.subtree_control", "pids"))
		if (cgroup_set_file(dir_fd, path, "cgroup.subtree_control", "+memory +pids", err) <
			0) {
			if (err->errnum == EBUSY)
				error_context(err,
					"the cgroup has processes in it, so that no controllers can be"
					" enabled for its children");
			return -1;
		}
	/* Without the cpu controller everything else works. Who needs it looks whether it is there. */
	if (!cgroup_has_word(dir_fd, "cgroup.subtree_control", "cpu"))
		(void)write_small_file(dir_fd, "cgroup.subtree_control", "+cpu");
	return 0;
}

/* Moves this process to BASE/supervisor-PID. */
static int move_self(int base_fd, const char *path, struct error *err)
{
	char name[CGROUP_NAME_SIZE], file[CGROUP_NAME_SIZE + sizeof "/cgroup.procs"];

	snprintf(name, sizeof name, CGROUP_SUPERVISOR_PREFIX "%d", getpid());
	if (mkdirat(base_fd, name, CGROUP_DIRECTORY_MODE) < 0 && errno != EEXIST)
		return error_set(err, errno, "making the cgroup %s/%s", path, name);
	snprintf(file, sizeof file, "%s/cgroup.procs", name);
	if (cgroup_set_file(base_fd, path, file, "0", err) < 0) {
		unlinkat(base_fd, name, AT_REMOVEDIR);
		return -1;
	}
	return 0;
}

/*
 * Undoes move_self. The controllers go first: the kernel lets no process into a cgroup that has them
 * enabled for its children. When that is refused (another sandbox lives there) we stay where we are.
 */
void cgroup_base_move_back(int base_fd)
{
	static const char *const controllers[] = {"-cpu", "-pids", "-memory"};
	char name[CGROUP_NAME_SIZE];

	for (int i = 0; i < 3; i++)
		(void)write_small_file(base_fd, "cgroup.subtree_control", controllers[i]);
	if (write_small_file(base_fd, "cgroup.procs", "0") < 0)
		return;
	snprintf(name, sizeof name, CGROUP_SUPERVISOR_PREFIX "%d", getpid());
	unlinkat(base_fd, name, AT_REMOVEDIR);
}

/* Removes MOUNT/nsbox where nobody else uses it: a directory with children is busy. */
void cgroup_base_remove(const char *sandbox_path)
{
	static const char *const mounts[] = {MOUNT, HYBRID_MOUNT};
	char base[CGROUP_PATH_SIZE];

	for (int i = 0; i < 2; i++) {
		int length = snprintf(base, sizeof base, "%s/" ROOT_BASE_NAME, mounts[i]);

		if (strncmp(sandbox_path, base, (size_t)length) == 0 && sandbox_path[length] == '/')
			rmdir(base);
	}
}

/* Opens MOUNT/nsbox, making it first where it is not there. */
static int open_root_base(const char *path, struct error *err)
{
	char mount[CGROUP_PATH_SIZE];
	cleanup_close int mount_fd = -1;
	int fd;

	snprintf(mount, sizeof mount, "%.*s", (int)(strlen(path) - strlen("/" ROOT_BASE_NAME)),
		path);
	mount_fd = cgroup_open(AT_FDCWD, mount);
	if (mount_fd < 0)
		return error_set(err, errno, "opening the cgroup %s", mount);
	if (cgroup_enable_controllers(mount_fd, mount, err) < 0)
		return -1;
	if (mkdirat(mount_fd, ROOT_BASE_NAME, CGROUP_DIRECTORY_MODE) < 0 && errno != EEXIST)
		return error_set(err, errno, "making the cgroup %s", path);
	fd = cgroup_open(mount_fd, ROOT_BASE_NAME);
	return fd < 0 ? error_set(err, errno, "opening the cgroup %s", path) : fd;
}

/* Makes the base ready for children with controllers. Returns a descriptor of it, or -1 with *err. */
int cgroup_base_prepare(const struct cgroup_base *base, bool *ret_moved_self, struct error *err)
{
	cleanup_close int fd =
		base->create ? open_root_base(base->path, err) : cgroup_open(AT_FDCWD, base->path);

	*ret_moved_self = false;
	if (fd < 0)
		return base->create ? -1
				    : error_set(err, errno, "opening the cgroup %s", base->path);
	if (base->move_self) {
		if (move_self(fd, base->path, err) < 0)
			return -1;
		*ret_moved_self = true;
	}
	if (cgroup_enable_controllers(fd, base->path, err) < 0) {
		if (*ret_moved_self)
			cgroup_base_move_back(fd);
		*ret_moved_self = false;
		return -1;
	}
	return move_fd(&fd);
}
