/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_LANDLOCK_H
#define NSBOX_SANDBOX_LANDLOCK_H

/*
 * A second wall behind the mounts, by Landlock, where the kernel has it.
 *
 * The mounts decide which files have a name inside. Landlock decides by where a file is: with each open it is
 * looked up from the file to the root of what it is mounted on whether a directory that was allowed is on
 * the way. So a descriptor of a directory of the host that came in by a mistake of ours or of the kernel's, or a
 * way round pivot_root, opens nothing: the host's tree is not below the sandbox's root. What is more, the
 * sandbox can mount nothing, make no device nodes, and use ioctl on devices in /dev only, whatever rights it
 * should come to have. With a read-only root only the directories that are meant to be written can be.
 * From ABI 6 on abstract sockets and processes outside cannot be reached either, also where the network or
 * the pid namespace is shared.
 *
 * Our own programs that read foreign bytes are behind such walls too: the MCP server, nsbox-image, nsbox-unpack.
 *
 * It is not applied to the supervisor: what that reads of the sandbox is a struct of fixed size, and it has
 * to reach cgroups, /proc and the caller's files.
 */

#include <stdint.h>

struct error;

/* Before ABI 2 (Linux 5.19) no file could be renamed from one directory to another: worse than no second wall. */
enum { LANDLOCK_ABI_MIN = 2, LANDLOCK_ABI_SCOPES = 6 /* Linux 6.12: abstract sockets, signals */ };

/* The version of the kernel's ABI; 0 and errno: ENOSYS, not built in; EOPNOTSUPP, switched off; others: refused. */
int landlock_kernel_abi(void);

/*
 * *ret is the version that a sandbox is made with; 0: this kernel has none or an older one, or it is switched off.
 * Fails where it cannot be told, as then the wall might be missing though it could be there.
 */
int landlock_abi(int *ret, struct error *err);

enum landlock_use {
	LANDLOCK_LOOK,	  /* read and list */
	LANDLOCK_READ,	  /* and execute */
	LANDLOCK_CHANGE,  /* and write, make, rename and remove, but for device nodes */
	LANDLOCK_DEVICES, /* and ioctl on devices */
	LANDLOCK_LAYER,	  /* LANDLOCK_CHANGE, and character devices, which overlayfs' whiteouts are */
};

struct landlock {
	int ruleset;
	uint64_t handled; /* LANDLOCK_ACCESS_FS_… that are refused where no rule allows them */
	uint64_t handled_net; /* LANDLOCK_ACCESS_NET_…, likewise */
};

#define LANDLOCK_INIT ((struct landlock){.ruleset = -1})

/* What is not a file, and is on the other side all the same, where the ABI has it. */
enum landlock_scope {
	LANDLOCK_SCOPE_SOCKETS = 1, /* abstract sockets of processes outside */
	LANDLOCK_SCOPE_SIGNALS = 2, /* signals to them */
	LANDLOCK_SCOPE_TCP = 4,	    /* binding ports, and connecting to others than landlock_allow_port has */
};

/* A wall without a gate. `abi` is what landlock_abi told, not 0; `scopes`: landlock_scope, any of them. */
int landlock_begin(int abi, unsigned scopes, struct landlock *ret, struct error *err);

/*
 * The same with the version that landlock_abi tells, for a process that is no sandbox: sets no_new_privs too. Returns 1, or
 * 0 where the kernel has no Landlock.
 */
int landlock_begin_own(unsigned scopes, struct landlock *ret, struct error *err);

/* Lets through to the file, or to all below the directory, of a descriptor. */
int landlock_allow(const struct landlock *wall, int fd, enum landlock_use use, struct error *err);

/* Lets what is open already be opened again, for what it is open for. What has no place among files needs no rule. */
int landlock_allow_again(const struct landlock *wall, int fd, struct error *err);

/* With LANDLOCK_SCOPE_TCP: lets connections to that port through. */
int landlock_allow_port(const struct landlock *wall, uint16_t port, struct error *err);

/* Puts it around this process for good, and closes it. no_new_privs must be set. */
int landlock_enforce(struct landlock *wall, struct error *err);

#endif
