/* SPDX-License-Identifier: MIT */
/* A second wall behind the mounts: see landlock.h. */
#define _GNU_SOURCE
#include "sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/error.h"

/*
 * <linux/landlock.h> is of whatever age the C library's headers are: names and numbers are given here, with the
 * ABI that brought each.
 */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum { CREATE_RULESET_VERSION = 1, RULE_PATH_BENEATH = 1, RULE_NET_PORT = 2 };

enum { NET_BIND_TCP = 1, NET_CONNECT_TCP = 2, ABI_NET = 4 /* Linux 6.7 */ };

enum {
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_REMOVE_DIR = 1 << 4,
	FS_REMOVE_FILE = 1 << 5,
	FS_MAKE_CHAR = 1 << 6,
	FS_MAKE_DIR = 1 << 7,
	FS_MAKE_REG = 1 << 8,
	FS_MAKE_SOCK = 1 << 9,
	FS_MAKE_FIFO = 1 << 10,
	FS_MAKE_BLOCK = 1 << 11,
	FS_MAKE_SYM = 1 << 12,
	FS_REFER = 1 << 13,	/* ABI 2 */
	FS_TRUNCATE = 1 << 14,	/* ABI 3 */
	FS_IOCTL_DEV = 1 << 15, /* ABI 5 */

	FS_ABI_2 = FS_TRUNCATE - 1,
	FS_ABI_3 = FS_IOCTL_DEV - 1,
	FS_ABI_5 = (1 << 16) - 1,

	FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
};

/* LANDLOCK_SCOPE_SOCKETS and SIGNALS of landlock.h have the kernel's numbers. */

struct ruleset_attr {
	__u64 handled_access_fs, handled_access_net, scoped;
};

struct path_beneath_attr {
	__u64 allowed_access;
	__s32 parent_fd;
} __attribute__((packed));

struct net_port_attr {
	__u64 allowed_access, port;
};

static const uint64_t allowed[] = {
	[LANDLOCK_LOOK] = FS_READ_FILE | FS_READ_DIR,
	[LANDLOCK_READ] = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR,
	[LANDLOCK_CHANGE] = FS_ABI_3 & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK),
	[LANDLOCK_DEVICES] = FS_ABI_5 & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK),
	[LANDLOCK_LAYER] = FS_ABI_3 & ~FS_MAKE_BLOCK,
};

int landlock_kernel_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);

	return abi > 0 ? (int)abi : 0;
}

int landlock_abi(int *ret, struct error *err)
{
	int abi = landlock_kernel_abi();

	if (abi == 0 && errno != ENOSYS && errno != EOPNOTSUPP) {
		error_set(err, errno, "asking for the version of Landlock");
		return error_hint(err,
			"a filter of system calls that nsbox runs under refuses it: allow the three landlock_ calls there");
	}
	*ret = abi >= LANDLOCK_ABI_MIN ? abi : 0;
	return 0;
}

int landlock_begin(int abi, unsigned scopes, struct landlock *ret, struct error *err)
{
	struct ruleset_attr attr = {
		.handled_access_fs = abi >= 5 ? FS_ABI_5 : abi >= 3 ? FS_ABI_3 : FS_ABI_2,
		.handled_access_net = abi >= ABI_NET && scopes & LANDLOCK_SCOPE_TCP ? NET_BIND_TCP | NET_CONNECT_TCP : 0,
		.scoped = abi >= LANDLOCK_ABI_SCOPES ? scopes & (LANDLOCK_SCOPE_SOCKETS | LANDLOCK_SCOPE_SIGNALS) : 0,
	};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);

	if (fd < 0)
		return error_set(err, errno, "making a Landlock ruleset");
	*ret = (struct landlock){.ruleset = fd, .handled = attr.handled_access_fs, .handled_net = attr.handled_access_net};
	return 0;
}

int landlock_begin_own(unsigned scopes, struct landlock *ret, struct error *err)
{
	int abi;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, errno, "setting no_new_privs");
	if (landlock_abi(&abi, err) < 0)
		return -1;
	if (abi == 0)
		return 0;
	return landlock_begin(abi, scopes, ret, err) < 0 ? -1 : 1;
}

static int add_rule(const struct landlock *wall, int fd, uint64_t access)
{
	struct path_beneath_attr attr = {.allowed_access = access & wall->handled, .parent_fd = fd};

	return (int)syscall(SYS_landlock_add_rule, wall->ruleset, RULE_PATH_BENEATH, &attr, 0);
}

int landlock_allow(const struct landlock *wall, int fd, enum landlock_use use, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0 ||
		add_rule(wall, fd, allowed[use] & (S_ISDIR(st.st_mode) ? ~0ULL : FS_OF_FILES)) < 0)
		return error_set(err, errno, "adding a Landlock rule");
	return 0;
}

int landlock_allow_again(const struct landlock *wall, int fd, struct error *err)
{
	int mode = fcntl(fd, F_GETFL);
	uint64_t access = FS_IOCTL_DEV;

	if (mode < 0)
		return error_set(err, errno, "adding a Landlock rule");
	if ((mode & O_ACCMODE) != O_WRONLY)
		access |= FS_READ_FILE;
	if ((mode & O_ACCMODE) != O_RDONLY)
		access |= FS_WRITE_FILE | FS_TRUNCATE;
	/* EBADFD: pipes and their kin, which are not below any directory and stay free. */
	if (add_rule(wall, fd, access) < 0 && errno != EBADFD)
		return error_set(err, errno, "adding a Landlock rule");
	return 0;
}

int landlock_allow_port(const struct landlock *wall, uint16_t port, struct error *err)
{
	struct net_port_attr attr = {.allowed_access = NET_CONNECT_TCP, .port = port};

	if (!wall->handled_net || syscall(SYS_landlock_add_rule, wall->ruleset, RULE_NET_PORT, &attr, 0) == 0)
		return 0;
	return error_set(err, errno, "adding a Landlock rule");
}

int landlock_enforce(struct landlock *wall, struct error *err)
{
	cleanup_close int ruleset = wall->ruleset;

	wall->ruleset = -1;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) == 0)
		return 0;
	error_set(err, errno, "enforcing the Landlock ruleset");
	if (err->errnum == E2BIG)
		error_hint(err, "nsbox runs below 16 Landlock rulesets already, which is all that there can be");
	return -1;
}
