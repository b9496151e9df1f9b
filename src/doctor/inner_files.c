/* SPDX-License-Identifier: MIT */
/* Mounts, writable places, devices and the kernel's own files: see inner.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "doctor/inner.h"
#include "sandbox/landlock.h"
#include "util/cleanup.h"
#include "util/file.h"

/* --- mounts --- */

struct mount {
	char target[4096], options[256], type[64];
};

/* A line of /proc/self/mountinfo: see proc_pid_mountinfo(5). */
static bool read_mount(const char *line, struct mount *ret)
{
	const char *dash = strstr(line, " - ");

	return dash && sscanf(line, "%*d %*d %*s %*s %4095s %255s", ret->target, ret->options) == 2 &&
	       sscanf(dash, " - %63s", ret->type) == 1;
}

static bool has_option(const struct mount *mount, const char *option)
{
	size_t length = strlen(option);

	for (const char *at = mount->options; (at = strstr(at, option)); at += length)
		if ((at == mount->options || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
			return true;
	return false;
}

/* Views into the kernel that are the whole host's. */
static bool is_of_the_kernel(const char *type)
{
	static const char *const types[] = {"sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf",
		"configfs", "efivarfs", "pstore", "binfmt_misc", "fuse.lxcfs", NULL};

	for (const char *const *next = types; *next; next++)
		if (strcmp(*next, type) == 0)
			return true;
	return false;
}

static const char *wrong_with(const struct mount *mount)
{
	if (is_of_the_kernel(mount->type))
		return "of the kernel";
	if (!has_option(mount, "nosuid"))
		return "set-user-ID files count";
	if (strncmp(mount->target, "/dev", 4) != 0 && !has_option(mount, "nodev"))
		return "devices count";
	return NULL;
}

static void examine_mounts(json_t *report, const char *own_file)
{
	json_t *list = json_array(), *wrong = json_array();
	cleanup_free char *text = NULL;
	char names[INNER_LIST_MAX], entry[INNER_LIST_MAX];
	cleanup_close int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	struct mount mount;
	size_t length, writable = 0;

	if (fd < 0 || read_fd_whole(fd, 1 << 20, &text, &length) < 0)
		text = NULL;
	for (char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (!read_mount(line, &mount) || (own_file && strcmp(mount.target, own_file) == 0))
			continue;
		writable += !has_option(&mount, "ro");
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:s}", "target", mount.target, "type", mount.type, "options", mount.options));
		if (!wrong_with(&mount))
			continue;
		snprintf(entry, sizeof entry, "%.200s (%s)", mount.target, wrong_with(&mount));
		json_array_append_new(wrong, json_string(entry));
	}
	inner_add(report, "mounts", json_array_size(wrong) ? INNER_FAILED : INNER_OK, json_pack("{s:O}", "mounts", list),
		"%zu, of which %zu can be written%s%s", json_array_size(list), writable,
		json_array_size(wrong) ? "; not as they must be: " : "",
		json_array_size(wrong) ? inner_list(wrong, names) : "");
	json_decref(list);
	json_decref(wrong);
}

/* --- places --- */

/* Whether a file can be made there; it never has a name, or not for long. */
static bool can_be_written(const char *directory)
{
	cleanup_close int fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	char name[4200];
	int named;

	if (fd >= 0)
		return true;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return false;
	snprintf(name, sizeof name, "%s/.nsbox-check-XXXXXX", directory);
	named = mkostemp(name, O_CLOEXEC);
	if (named < 0)
		return false;
	close(named);
	unlink(name);
	return true;
}

static void examine_writable(json_t *report)
{
	const char *home = getenv("HOME");
	const char *const places[] = {"/", "/bin", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/opt", "/root",
		"/run", "/sbin", "/srv", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/var", "/var/tmp", "/workspace",
		home && *home == '/' ? home : "/home/user"};
	json_t *list = json_array();
	char text[INNER_LIST_MAX];

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (can_be_written(places[i]) && !(i + 1 == sizeof places / sizeof *places && strcmp(places[i], "/root") == 0))
			json_array_append_new(list, json_string(places[i]));
	inner_add(report, "writable", INNER_INFORMATION, json_pack("{s:O}", "places", list), "%s", inner_list(list, text));
	json_decref(list);
}

/* --- Landlock --- */

/* Makes null's device node, which is removed at once. Returns 0 or errno. */
static int make_device(const char *name)
{
	if (mknod(name, S_IFCHR | 0600, makedev(1, 3)) < 0)
		return errno;
	unlink(name);
	return 0;
}

/*
 * No interface of the kernel tells a process that it is confined. The error of what nobody in a sandbox has the right
 * to tells: for a device node Landlock says EACCES, before the kernel looks at capabilities and says EPERM.
 * A filter says that too, but without a look at the name.
 */
static void examine_landlock(json_t *report)
{
	int abi = landlock_kernel_abi();
	json_t *details = json_pack("{s:o}", "abi", abi ? json_integer(abi) : json_null());

	if (abi < LANDLOCK_ABI_MIN)
		inner_add(report, "landlock", INNER_INFORMATION, details, "not to be had here");
	else if (make_device("/tmp/.nsbox-check-absent/null") != ENOENT || !can_be_written("/tmp"))
		inner_add(report, "landlock", INNER_INFORMATION, details, "cannot be told, as a filter answers for device nodes");
	else if (make_device("/tmp/.nsbox-check-null") == EACCES)
		inner_add(report, "landlock", INNER_OK, details, "files are confined to what is below the root, ABI %d", abi);
	else
		inner_add(report, "landlock", INNER_FAILED, details, "files are not confined, though the kernel could");
}

void inner_examine_places(json_t *report, const char *own_file)
{
	examine_landlock(report);
	examine_mounts(report, own_file);
	examine_writable(report);
}

/* --- devices --- */

static struct walk {
	json_t *found, *wrong;
} walk;

/* null, zero, full, random, urandom; tty, console's kin of a process's own; terminals of a devpts. */
static bool is_usual_device(const struct stat *st)
{
	unsigned major_number = major(st->st_rdev), minor_number = minor(st->st_rdev);

	if (!S_ISCHR(st->st_mode))
		return false;
	if (major_number == 1)
		return minor_number == 3 || minor_number == 5 || minor_number == 7 || minor_number == 8 || minor_number == 9;
	return (major_number == 5 && (minor_number == 0 || minor_number == 2)) || (major_number >= 136 && major_number <= 143);
}

static int visit_device(const char *path, const struct stat *st, int type, struct FTW *place)
{
	if (type != FTW_F || (!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode)) ||
		(access(path, R_OK) != 0 && access(path, W_OK) != 0))
		return 0;
	json_array_append_new(walk.found, json_string(path));
	if (!is_usual_device(st))
		json_array_append_new(walk.wrong, json_string(path));
	return 0;
}

static void examine_devices(json_t *report)
{
	char text[INNER_LIST_MAX];

	walk = (struct walk){json_array(), json_array()};
	nftw("/dev", visit_device, 16, FTW_PHYS);
	inner_add(report, "devices", json_array_size(walk.wrong) ? INNER_FAILED : INNER_OK,
		json_pack("{s:O}", "devices", walk.found), "%s%s",
		json_array_size(walk.wrong) ? "that no sandbox needs: " : "",
		inner_list(json_array_size(walk.wrong) ? walk.wrong : walk.found, text));
	json_decref(walk.found);
	json_decref(walk.wrong);
}

/* --- the kernel's files --- */

static bool has_entries(int directory)
{
	int fd = dup(directory);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool found = false;

	if (!dir) {
		close(fd);
		return false;
	}
	while (!found && (entry = readdir(dir)))
		found = entry->d_name[0] != '.';
	closedir(dir);
	return found;
}

/* Whether there is anything behind it: a mask is an empty file, null, or an empty directory. */
static bool shows_something(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	char byte;

	if (fd < 0 || fstat(fd, &st) < 0 || (S_ISCHR(st.st_mode) && major(st.st_rdev) == 1))
		return false;
	if (S_ISDIR(st.st_mode))
		return has_entries(fd);
	return read(fd, &byte, 1) == 1;
}

static void examine_proc(json_t *report)
{
	static const char *const readable[] = {"/proc/kcore", "/proc/kmem", "/proc/kallsyms", "/proc/keys", "/proc/key-users",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/latency_stats", "/proc/config.gz",
		"/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/kmsg", "/proc/interrupts",
		"/proc/acpi", "/proc/scsi", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/asound", "/proc/driver", "/proc/1/environ", "/proc/1/mem",
		"/proc/1/root/", "/proc/1/cwd/", "/proc/1/maps", "/proc/1/auxv"};
	json_t *list = json_array();
	char text[INNER_LIST_MAX];
	struct stat st;

	for (size_t i = 0; i < sizeof readable / sizeof *readable; i++)
		if ((getpid() != 1 || strncmp(readable[i], "/proc/1/", 8) != 0) && shows_something(readable[i]))
			json_array_append_new(list, json_string(readable[i]));
	/* A mask of null can be written too, and is no trigger. */
	if (access("/proc/sysrq-trigger", W_OK) == 0 && stat("/proc/sysrq-trigger", &st) == 0 && S_ISREG(st.st_mode))
		json_array_append_new(list, json_string("/proc/sysrq-trigger"));
	inner_add(report, "proc", json_array_size(list) ? INNER_FAILED : INNER_OK, json_pack("{s:O}", "open", list),
		"of what tells of the host or of the first process: %s", inner_list(list, text));
	json_decref(list);
}

static int visit_sysctl(const char *path, const struct stat *st, int type, struct FTW *place)
{
	cleanup_close int fd = -1;

	if (type != FTW_F || !S_ISREG(st->st_mode))
		return 0;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0)
		json_array_append_new(walk.found, json_string(path));
	return 0;
}

static void examine_tree(json_t *report, const char *name, const char *path, const char *what)
{
	char text[INNER_LIST_MAX];

	walk = (struct walk){.found = json_array()};
	nftw(path, visit_sysctl, 16, FTW_PHYS | FTW_MOUNT);
	inner_add(report, name, json_array_size(walk.found) ? INNER_FAILED : INNER_OK,
		json_pack("{s:O}", "writable", walk.found), "%s: %s", what, inner_list(walk.found, text));
	json_decref(walk.found);
}

void inner_examine_kernel(json_t *report)
{
	examine_devices(report);
	examine_proc(report);
	examine_tree(report, "sysctls", "/proc/sys", "that can be written");
	if (access("/sys/kernel", F_OK) == 0)
		examine_tree(report, "sys", "/sys", "files that can be written");
	else
		inner_add(report, "sys", INNER_OK, json_pack("{s:[]}", "writable"), "there is no /sys");
}
