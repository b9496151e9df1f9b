/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_CGROUP_BASE_H
#define NSBOX_SANDBOX_CGROUP_BASE_H

/*
 * The base: the cgroup v2 directory in which the cgroups of sandboxes are made. It is the one that the
 * user names; or our own where it is writable and we are its only process, in which case we move to
 * BASE/supervisor-PID, since the kernel wants no process beside children with controllers; or, for root
 * where no systemd manages the hierarchy, /sys/fs/cgroup/nsbox, which is made and removed as needed.
 * (Controllers that were enabled for the children of /sys/fs/cgroup stay so: others may rely on them by then.)
 */

#include <stdbool.h>

#include "util/error.h"

#define CGROUP_SUPERVISOR_PREFIX "supervisor-"

enum {
	CGROUP_PATH_SIZE = 256,
	CGROUP_NAME_SIZE = 64,
	CGROUP_DIRECTORY_MODE = 0700, /* so that no other user can hold the locks */
};

struct cgroup_base {
	char path[CGROUP_PATH_SIZE]; /* shorter than the size by CGROUP_NAME_SIZE at least */
	bool move_self;              /* it is our own and we are its only process */
	bool create;                 /* it is /sys/fs/cgroup/nsbox, which may not exist yet */
};

/* Chooses a base, and changes nothing. Returns false with the reason in `why` when there is none. `named` may be NULL. */
bool cgroup_base_choose(const char *named, struct cgroup_base *ret, char why[ERROR_TEXT_MAX]);

/*
 * When none was chosen: an errno where that may be because nsbox, not the host, lacked something (memory,
 * descriptors), else 0. No reason to go on with weaker limits.
 */
int cgroup_base_shortage(void);
bool cgroup_is_shortage(int errnum);

/*
 * Makes the base ready for children with controllers. Returns a descriptor of it, or -1 with *err:
 * ENOENT or ENODEV where /sys/fs/cgroup/nsbox was removed in between by its last user.
 */
int cgroup_base_prepare(const struct cgroup_base *base, bool *ret_moved_self, struct error *err);

/* Moves this process back into the base, its own cgroup, unless others use what is below. */
void cgroup_base_move_back(int base_fd);

/* Removes /sys/fs/cgroup/nsbox if it is where `sandbox_path` was, and is not used any more. */
void cgroup_base_remove(const char *sandbox_path);

/* What the directory of any cgroup needs. Paths are for the messages. */
int cgroup_open(int dir_fd, const char *path);
bool cgroup_has_word(int dir_fd, const char *file, const char *word);
int cgroup_set_file(
	int dir_fd, const char *dir_path, const char *file, const char *text, struct error *err);

/* Enables memory and pids, and cpu where it can be, for the children of a cgroup. Returns 0, or -1 with *err. */
int cgroup_enable_controllers(int dir_fd, const char *path, struct error *err);

#endif
