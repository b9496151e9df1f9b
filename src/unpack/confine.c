/* SPDX-License-Identifier: MIT */
/* Confining the process that reads archives: see confine.h. */
#define _GNU_SOURCE
#include "config.h"

#include "unpack/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/diagnose.h"
#include "sandbox/idmap.h"
#include "sandbox/landlock.h"
#include "sandbox/mounts.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { MEMORY_MAX = 1 << 30 /* bytes of address space */, NAME_SIZE = 32, LOWERS_MAX = 512 };

/* --- ids --- */

/* root's maps have to be written from outside, by a child that stays there. Returns its pid. */
static pid_t start_mapper(int *ret_go, struct error *err)
{
	const struct idmap map = {.by_parent = true, .range = true, .first = 0, .slot_fd = -1};
	pid_t parent = getpid(), pid;
	int go[2];
	char byte;

	if (pipe2(go, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe");
	pid = fork();
	if (pid < 0) {
		close(go[0]);
		close(go[1]);
		return error_set(err, errno, "starting a process");
	}
	if (pid == 0) {
		struct error failure;

		close(go[1]);
		if (read(go[0], &byte, 1) != 1 || idmap_write_for(&map, parent, &failure) < 0)
			_exit(1);
		_exit(0);
	}
	close(go[0]);
	*ret_go = go[1];
	return pid;
}

static int enter_namespaces(bool owners, struct error *err)
{
	const struct idmap own = {
		.uid = geteuid(), .gid = getegid(), .host_uid = geteuid(), .host_gid = getegid()};
	pid_t mapper = 0;
	int go = -1, status;

	if (owners && (mapper = start_mapper(&go, err)) < 0)
		return -1;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0) {
		error_set(err, errno, "making namespaces to unpack in");
		diagnose_namespaces(err->errnum, err);
		close_fd(&go);
		return -1;
	}
	if (!owners)
		return idmap_write_own(&own, err);
	if (write(go, "", 1) != 1)
		err->errnum = errno;
	close_fd(&go);
	if (waitpid(mapper, &status, 0) < 0 || status != 0) {
		error_set(err, 0, "mapping the ids 0 to 65535 to unpack with");
		return error_hint(
			err, "inside a container that has fewer ids, pull as an ordinary user");
	}
	return 0;
}

/* --- the tree --- */

static int attach_layer_and_lowers(
	int scratch, int layer, const int *lowers, unsigned count, struct error *err)
{
	char name[NAME_SIZE];

	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof name, "l/%u", i);
		if (mkdirat(scratch, name, 0700) < 0 || tree_attach(lowers[i], scratch, name) < 0)
			return error_set(err, errno, "mounting a layer to look at");
	}
	if (tree_attach(layer, scratch, "layer") < 0)
		return error_set(err, errno, "mounting the layer");
	if (count == 1)
		return 0;
	return tree_overlay(scratch, count, NULL, err) < 0 ? -1 : 0;
}

/* Below one tmpfs: the layer at /layer, what is below it at /l/0 (one) or /root (several), which becomes /lower. */
static int build_scratch(int layer, int *lowers, unsigned count, struct error *err)
{
	static const char *const names[] = {"layer", "l", "root"};
	int scratch = tree_tmpfs(1 << 20, 1024, "0755", TREE_NO_DEV_SUID, err);

	if (scratch < 0)
		return -1;
	if (tree_attach(scratch, AT_FDCWD, "/") < 0)
		return error_set(err, errno, "mounting a tmpfs");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (mkdirat(scratch, names[i], 0700) < 0)
			return error_set(err, errno, "making a mount point");
	if (attach_layer_and_lowers(scratch, layer, lowers, count, err) < 0)
		return -1;
	if (symlinkat(count == 1 ? "l/0" : "root", scratch, "lower") < 0)
		return error_set(err, errno, "making a link");
	return scratch;
}

/*
 * A clone of a directory that is open. Its descriptor is of the mount namespace that we came from, where nothing can be
 * cloned; so by its name, in ours, and it must be the same directory that comes out.
 */
static int clone_directory(int fd, uint64_t attributes, struct error *err)
{
	char link[NAME_SIZE], path[PATH_MAX];
	cleanup_close int tree = -1;
	struct stat wanted, found;
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return error_set(err, errno, "reading the name of a layer's directory");
	path[n] = '\0';
	tree = tree_clone(AT_FDCWD, path, false, attributes);
	if (tree < 0 || fstat(fd, &wanted) < 0 || fstat(tree, &found) < 0)
		return error_set(err, errno, "cloning the mount of %s", path);
	if (wanted.st_dev != found.st_dev || wanted.st_ino != found.st_ino)
		return error_set(err, 0, "%s was replaced meanwhile", path);
	return move_fd(&tree);
}

static int build_tree(int directory, const int *lowers, unsigned count, struct error *err)
{
	int trees[LOWERS_MAX], tree = clone_directory(directory, TREE_NO_DEV_SUID, err);

	if (tree < 0)
		return -1;
	if (count > LOWERS_MAX)
		return error_set(err, E2BIG, "layers below");
	/* Before anything is mounted on "/", which all names begin with. */
	for (unsigned i = 0; i < count; i++) {
		trees[i] = clone_directory(lowers[i], TREE_NO_DEV_SUID | TREE_READ_ONLY, err);
		if (trees[i] < 0)
			return -1;
	}
	if (count > 0)
		return build_scratch(tree, trees, count, err);
	if (tree_attach(tree, AT_FDCWD, "/") < 0)
		return error_set(err, errno, "mounting the layer's directory");
	return tree;
}

/* --- rights --- */

static int limit_resources(struct error *err)
{
	static const struct {
		int resource;
		rlim_t value;
	} limits[] = {{RLIMIT_CORE, 0}, {RLIMIT_NOFILE, 1024},
#ifndef NSBOX_SANITIZED /* whose shadow memory takes terabytes of address space */
		{RLIMIT_AS, MEMORY_MAX}
#endif
	};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		const struct rlimit limit = {limits[i].value, limits[i].value};

		if (setrlimit(limits[i].resource, &limit) < 0)
			return error_set(err, errno, "setting resource limits");
	}
	return 0;
}

static int keep_capabilities(bool owners, struct error *err)
{
	/* Over the files of the ids that are mapped, which are the layer's. */
	static const cap_value_t kept[] = {
		CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_CHOWN, CAP_SETFCAP};
	cap_t caps = cap_init();
	int count = owners ? 5 : 3, failed = !caps;

	failed = failed || cap_set_flag(caps, CAP_PERMITTED, count, kept, CAP_SET) < 0 ||
		 cap_set_flag(caps, CAP_EFFECTIVE, count, kept, CAP_SET) < 0 ||
		 cap_set_proc(caps) < 0;
	if (failed)
		error_set(err, errno, "dropping capabilities");
	cap_free(caps);
	return failed ? -1 : 0;
}

/* A second wall, where the kernel has it: a directory of elsewhere opens nothing, should a descriptor of one be left. */
static int enclose(bool has_lowers, struct error *err)
{
	cleanup_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), layer = -1;
	struct landlock wall = LANDLOCK_INIT;
	int abi;

	if (landlock_abi(&abi, err) < 0)
		return -1;
	if (abi == 0)
		return 0;
	layer = open(has_lowers ? "/layer" : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || layer < 0)
		return error_set(err, errno, "opening the layer's directory");
	if (landlock_begin(abi, LANDLOCK_SCOPE_SOCKETS | LANDLOCK_SCOPE_SIGNALS, &wall, err) < 0 ||
		landlock_allow(&wall, root, LANDLOCK_READ, err) < 0 ||
		landlock_allow(&wall, layer, LANDLOCK_LAYER, err) < 0)
		return -1;
	return landlock_enforce(&wall, err);
}

int confine_to_directory(
	int directory, const int *lowers, unsigned lowers_count, bool owners, struct error *err)
{
	int tree;

	umask(0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return error_set(err, errno, "asking to die with the parent");
	if (enter_namespaces(owners, err) < 0)
		return -1;
	/* Not before: what is not dumpable cannot write its own id maps. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_set(err, errno, "becoming undumpable");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return error_set(err, errno, "keeping mounts to ourselves");
	tree = build_tree(directory, lowers, lowers_count, err);
	if (tree < 0 || tree_become_root(tree, err) < 0)
		return -1;
	/* The directory's descriptor as well: it is of the old mount, and ".." leads out of it. */
	close(directory);
	if (close_range(5, ~0U, 0) < 0)
		return error_set(err, errno, "closing descriptors");
	if (limit_resources(err) < 0 || keep_capabilities(owners, err) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, errno, "setting no_new_privs");
	return enclose(lowers_count > 0, err);
}

#ifdef NSBOX_SANITIZED

/* What sanitizers report takes more system calls than unpacking does. */
int confine_system_calls(struct error *err)
{
	return 0;
}

#else

int confine_system_calls(struct error *err)
{
	static const int allowed[] = {/* files, by descriptors of directories */
		SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(close), SCMP_SYS(mkdirat),
		SCMP_SYS(linkat), SCMP_SYS(symlinkat), SCMP_SYS(unlinkat), SCMP_SYS(renameat2),
		SCMP_SYS(readlinkat), SCMP_SYS(newfstatat), SCMP_SYS(fstat), SCMP_SYS(statx),
		SCMP_SYS(getdents64), SCMP_SYS(fcntl), SCMP_SYS(lseek), SCMP_SYS(fchmod),
		SCMP_SYS(fchmodat), SCMP_SYS(fchown), SCMP_SYS(fchownat), SCMP_SYS(utimensat),
		SCMP_SYS(fsetxattr), SCMP_SYS(fgetxattr), SCMP_SYS(flistxattr), SCMP_SYS(ftruncate),
		/* content */
		SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(pwrite64),
		SCMP_SYS(writev), SCMP_SYS(recvfrom), SCMP_SYS(sendto),
		/* memory, threads that are there, the end */
		SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect),
		SCMP_SYS(madvise), SCMP_SYS(brk), SCMP_SYS(futex), SCMP_SYS(rt_sigreturn),
		SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction), SCMP_SYS(restart_syscall),
		SCMP_SYS(sched_yield), SCMP_SYS(clock_gettime), SCMP_SYS(getpid), SCMP_SYS(uname),
		SCMP_SYS(sysinfo) /* qsort(3) */, SCMP_SYS(gettid), SCMP_SYS(tgkill),
		SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(getrandom), SCMP_SYS(exit),
		SCMP_SYS(exit_group)};
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int r = filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < sizeof allowed / sizeof *allowed; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	/* No device but 0/0, overlayfs' mark of what is removed; FIFOs have that number as well. */
	if (r == 0)
		r = seccomp_rule_add(
			filter, SCMP_ACT_ALLOW, SCMP_SYS(mknodat), 1, SCMP_A3(SCMP_CMP_EQ, 0));
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r < 0 ? error_set(err, -r, "loading the filter of system calls") : 0;
}

#endif
