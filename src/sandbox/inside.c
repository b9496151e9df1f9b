/* SPDX-License-Identifier: MIT */
/* The child's way from clone3 to the agent: see inside.h. */
#define _GNU_SOURCE
#include "sandbox/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate/sockets.h"
#include "sandbox/authorities.h"
#include "sandbox/diagnose.h"
#include "sandbox/hostroot.h"
#include "sandbox/idmap.h"
#include "sandbox/landlock.h"
#include "sandbox/listener.h"
#include "sandbox/mounts.h"
#include "sandbox/pasta.h"
#include "sandbox/procfs.h"
#include "sandbox/spec.h"
#include "sandbox/wire.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { CAPABILITIES_MAX = 63 };

/* What building the root yields. */
struct root {
	struct landlock wall;          /* what Landlock will allow, until it is enforced */
	int *lowers;                   /* one for each of spec_lowers_count */
	int *binds;                    /* one for each of spec->mounts */
	int fd;                        /* the root directory, attached */
	int proc;                      /* the new /proc */
	int dev;                       /* the new /dev */
	int tmpfs[1 + SPEC_TMPFS_MAX]; /* one on each tmpfs: the first is ours, the scratch space or /dev */
	size_t tmpfs_count;
	struct own_mounts own;
	int devpts;          /* a session's; -1: none */
	int terminal_master; /* -1: none */
	int terminal;
	int listener; /* of the filter; -1: none */
	int pasta[PASTA_ENDS];
};

/* --- 1. ids --- */

static int die_with_parent(struct error *err)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return error_set(err, errno, "asking to die with the supervisor");
	return 0;
}

/*
 * A tenth of the usual weight, about: of this process and those that it starts, and of its session, where the kernel
 * weighs these (autogroups). Where either cannot be had the commands take more, which is no reason not to run them.
 */
static void step_back(void)
{
	setpriority(PRIO_PROCESS, 0, 10);
	write_small_file(AT_FDCWD, "/proc/self/autogroup", "10");
}

static int take_ids(const struct inside *inside, struct error *err)
{
	struct agent_request go;

	/* Not in the session of the caller, whose terminal would be ours too. */
	if (setsid() < 0)
		return error_set(err, errno, "starting a session");
	/* Before the ids: afterwards the files of this process are not its own. */
	if (inside->spec->background)
		step_back();
	if (die_with_parent(err) < 0)
		return -1;
	if (!inside->idmap->by_parent)
		return idmap_write_own(inside->idmap, err);
	if (wire_receive(inside->socket, &go, sizeof go, NULL, NULL) != sizeof go ||
		go.type != REQUEST_GO)
		_exit(1); /* the supervisor failed or is gone, and knows why */
	if (idmap_become(inside->idmap, err) < 0)
		return -1;
	/* Changing ids has cleared it (prctl(2)). */
	return die_with_parent(err);
}

/* Those who join our namespaces. What makes the network needs the ids to be there, and does the rest beside us. */
static void wait_for_helpers(const struct inside *inside, int pasta[PASTA_ENDS])
{
	bool has_pasta = inside->spec->network == NETWORK_PASTA;
	struct agent_request request;
	size_t count = PASTA_ENDS;

	if (!spec_has_helpers(inside->spec))
		return;
	if (wire_receive(inside->socket, &request, sizeof request, pasta, &count) != sizeof request ||
		request.type != REQUEST_NETWORK || count != (has_pasta ? PASTA_ENDS : 0))
		_exit(1); /* the supervisor failed or is gone, and knows why */
	if (has_pasta)
		pasta_begin(pasta);
}

/* --- standard descriptors that are files or terminals --- */

/* A terminal can be read and written through a mount that is read-only, but its mode and times not changed. */
static int open_through(int tree, int fd, const struct stat *st)
{
	int mode = S_ISREG(st->st_mode) ? O_RDONLY : fcntl(fd, F_GETFL) & O_ACCMODE;
	cleanup_close int file = -1;
	char link[32];

	snprintf(link, sizeof link, "/proc/self/fd/%d", tree);
	file = open(link, mode | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (file < 0 || fcntl(file, F_SETFL, mode) < 0)
		return -1;
	if (S_ISREG(st->st_mode) && lseek(file, lseek(fd, 0, SEEK_CUR), SEEK_SET) < 0)
		return -1;
	return move_fd(&file);
}

/*
 * The kernel lets a file be opened again through /proc/self/fd, for writing too where its mode allows.
 * Through a mount that is read-only it cannot.
 */
static int reopen_read_only(int fd, struct error *err)
{
	cleanup_close int tree = -1, file = -1;
	char link[32], path[4096];
	struct stat old, new;
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	if (n < 0 || fstat(fd, &old) < 0)
		return error_set(err, errno, "reading the name of a standard descriptor");
	path[n] = '\0';
	tree = tree_clone(AT_FDCWD, path, false,
		TREE_READ_ONLY |
			(S_ISREG(old.st_mode) ? (unsigned)TREE_NO_DEV_SUID : MOUNT_ATTR_NOSUID));
	if (tree < 0)
		return error_set(err, errno,
			"%s, given as a standard descriptor, cannot be cloned read-only", path);
	if (fstat(tree, &new) < 0 || old.st_dev != new.st_dev || old.st_ino != new.st_ino)
		return error_set(
			err, 0, "%s, given as a standard descriptor, was replaced meanwhile", path);
	file = open_through(tree, fd, &old);
	if (file < 0)
		return error_set(err, errno,
			"%s, given as a standard descriptor, cannot be opened anew", path);
	return move_fd(&file);
}

static int take_stdio(const struct inside *inside, int stdio[3], struct error *err)
{
	for (int i = 0; i < 3; i++) {
		stdio[i] = inside->stdio[i];
		if (!inside->reopen[i])
			continue;
		stdio[i] = reopen_read_only(inside->stdio[i], err);
		if (stdio[i] < 0)
			return error_hint(
				err, "give it through a pipe instead: cat … | nsbox run … | cat");
	}
	return 0;
}

/* --- 2. mounts --- */

/* What a sandbox before this one has left there, whatever it is, stays. */
static int write_file(int dir, const char *name, const char *text, bool resumed, struct error *err)
{
	cleanup_close int fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0 && errno == EEXIST && resumed)
		return 0;
	if (fd < 0 || write_whole(fd, text, strlen(text)) < 0)
		return error_set(err, errno, "writing /etc/%s inside", name);
	return 0;
}

/* Names for the sandbox and for both kinds of loopback address, as resolv.conf asks nobody. */
static int write_network_names(int etc, const struct spec *spec, struct error *err)
{
	char text[512];

	snprintf(text, sizeof text, "127.0.0.1\tlocalhost %s\n::1\tlocalhost ip6-localhost %s\n",
		spec->hostname, spec->hostname);
	if (write_file(etc, "hosts", text, spec->resumed, err) < 0)
		return -1;
	snprintf(text, sizeof text, "%s\n", spec->hostname);
	if (write_file(etc, "hostname", text, spec->resumed, err) < 0)
		return -1;
	return 0;
}

/* With a network of the host's, the host's name servers; the gate, which answers at any address; else none. */
static int write_resolver(int etc, const struct spec *spec, struct error *err)
{
	char text[4096] = "", theirs[4096];

	if (spec->network == NETWORK_ALLOW)
		return write_file(etc, "resolv.conf", "nameserver 127.0.0.1\n", spec->keeps_resolver, err);
	if (spec->network != NETWORK_NONE &&
		read_small_file(AT_FDCWD, "/etc/resolv.conf", text, sizeof text - 1) > 0)
		strcat(text, "\n");
	if (spec->network == NETWORK_PASTA)
		pasta_resolver(text, theirs, sizeof theirs);
	return write_file(
		etc, "resolv.conf", spec->network == NETWORK_PASTA ? theirs : text, spec->keeps_resolver, err);
}

static int write_users(int etc, const struct spec *spec, struct error *err)
{
	char text[512];

	snprintf(text, sizeof text, "root:x:0:0:root:/root:/bin/sh\n");
	if (spec->uid != 0)
		snprintf(text + strlen(text), sizeof text - strlen(text),
			"user:x:%u:%u:user:%s:/bin/sh\n", spec->uid, spec->gid, spec_home(spec));
	strcat(text, "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
	if (write_file(etc, "passwd", text, spec->resumed, err) < 0)
		return -1;
	snprintf(text, sizeof text, "root:x:0:\n");
	if (spec->gid != 0)
		snprintf(
			text + strlen(text), sizeof text - strlen(text), "user:x:%u:\n", spec->gid);
	strcat(text, "tty:x:5:\nnogroup:x:65534:\n");
	if (write_file(etc, "group", text, spec->resumed, err) < 0)
		return -1;
	return write_file(etc, "nsswitch.conf",
		"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
		spec->resumed, err);
}

static int make_directory(int dir, const char *name, mode_t mode, struct error *err)
{
	if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
		return error_set(err, errno, "making the directory /%s inside", name);
	/* mkdir is subject to the caller's umask. */
	if (fchmodat(dir, name, mode, 0) < 0)
		return error_set(err, errno, "setting the mode of /%s inside", name);
	return 0;
}

static int open_lowers(const struct inside *inside, struct root *root, struct error *err)
{
	size_t count = spec_lowers_count(inside->spec);

	root->lowers = inside->root_trees;
	if (root->lowers || count == 0)
		return 0;
	root->lowers = calloc(count, sizeof *root->lowers);
	if (!root->lowers)
		return error_set(err, ENOMEM, "preparing the layers of the root");
	for (size_t i = 0; i < count; i++) {
		root->lowers[i] = tree_clone_lower(inside->spec, i, true, TREE_READ_ONLY | TREE_NO_DEV_SUID, err);
		if (root->lowers[i] < 0)
			return -1;
	}
	return 0;
}

/*
 * The trees of the host that were asked for, before anything of ours is mounted: afterwards "/" would be
 * our own.
 */
static int open_sources(const struct inside *inside, struct root *root, struct error *err)
{
	const struct spec *spec = inside->spec;

	if (open_lowers(inside, root, err) < 0)
		return -1;
	root->binds = inside->bind_trees;
	if (root->binds)
		return 0;
	root->binds = calloc(spec->mounts_count + 1, sizeof *root->binds);
	if (!root->binds)
		return error_set(err, ENOMEM, "preparing bind mounts");
	for (size_t i = 0; i < spec->mounts_count; i++) {
		const struct mount_spec *mount = &spec->mounts[i];

		if (mount->kind != MOUNT_BIND)
			continue;
		root->binds[i] = tree_clone_source(mount, err);
		if (root->binds[i] < 0)
			return -1;
	}
	return 0;
}

/*
 * Our own tmpfs. With the writable space in memory it is that: every byte that the sandbox can write is in it, so one
 * limit holds for all. With the writable space on disk it is what is left: /dev/shm, whose files are memory.
 */
static int make_own_tmpfs(const struct inside *inside, struct root *root, struct error *err)
{
	struct limits limits = inside->spec->limits;
	int tree;

	if (inside->spec->storage_folder && limits.memory_bytes < limits.disk_bytes)
		limits.disk_bytes = limits.memory_bytes;
	tree = tree_tmpfs(limits.disk_bytes, limits_disk_inodes(&limits), "0755", TREE_NO_DEV_SUID, err);
	if (tree < 0)
		return error_context(err, "making the writable space");
	root->tmpfs[root->tmpfs_count++] = tree;
	return tree;
}

/* The folder on disk, as a mount of its own. */
static int open_storage(const struct inside *inside, struct error *err)
{
	int tree = inside->storage_tree;

	if (tree < 0)
		tree = tree_clone(AT_FDCWD, inside->spec->storage_folder, false, TREE_NO_DEV_SUID);
	return tree < 0 ? error_set(err, errno, "the writable space %s", inside->spec->storage_folder) : tree;
}

/*
 * On top of "/": no name of the host has to be made or covered for it, and lookups of "/" still start below.
 */
static int attach_scratch(int tree, struct error *err)
{
	if (tree_attach(tree, AT_FDCWD, "/") == 0)
		return tree;
	error_set(err, errno, "mounting the writable space");
	diagnose_namespaces(err->errnum, err);
	return -1;
}

/* The root itself: our tmpfs, or the folder on disk with our tmpfs on /dev. */
static int make_host_scratch(const struct inside *inside, struct root *root, struct error *err)
{
	int own = make_own_tmpfs(inside, root, err), storage;

	if (own < 0 || !inside->spec->storage_folder)
		return own < 0 ? -1 : attach_scratch(own, err);
	storage = open_storage(inside, err);
	if (storage < 0 || attach_scratch(storage, err) < 0 || make_directory(storage, "dev", 0755, err) < 0)
		return -1;
	return tree_attach(own, storage, "dev") < 0 ? error_set(err, errno, "mounting /dev") : storage;
}

/* Where other places are: before anything of a sandbox before this one can be in the way. */
static int make_host_places(int places, struct error *err)
{
	if (hostroot_make_places(places, err) < 0 || make_directory(places, "proc", 0555, err) < 0 ||
		make_directory(places, "dev", 0755, err) < 0 || make_directory(places, "tmp", 01777, err) < 0 ||
		make_directory(places, "var", 0755, err) < 0 || make_directory(places, "var/tmp", 01777, err) < 0 ||
		make_directory(places, "run", 0755, err) < 0)
		return -1;
	return 0;
}

static int open_etc(int root, struct error *err)
{
	int etc = openat(root, "etc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return etc < 0 ? error_set(err, errno, "opening /etc inside") : etc;
}

static int build_host_root(const struct inside *inside, struct root *root, struct error *err)
{
	cleanup_close int etc = -1;

	root->fd = make_host_scratch(inside, root, err);
	if (root->fd < 0 || make_host_places(root->fd, err) < 0 || hostroot_show(root->fd, err) < 0)
		return -1;
	etc = open_etc(root->fd, err);
	if (etc < 0 || write_users(etc, inside->spec, err) < 0 || write_network_names(etc, inside->spec, err) < 0 ||
		write_resolver(etc, inside->spec, err) < 0)
		return -1;
	return authorities_show(inside->authorities, etc, err);
}

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFLNK:
		return "a symbolic link";
	case S_IFIFO:
		return "a FIFO";
	case S_IFSOCK:
		return "a socket";
	case S_IFBLK:
	case S_IFCHR:
		return "a device";
	case S_IFDIR:
		return "a directory";
	default:
		return "a file";
	}
}

/* Refuses a tree where a place that we mount on or write to is something else than it should be. */
static int inspect_tree(const struct spec *spec, int tree, struct error *err)
{
	static const struct {
		const char *name;
		mode_t type;
	} places[] = {{"dev", S_IFDIR}, {"proc", S_IFDIR}, {"sys", S_IFDIR}, {"tmp", S_IFDIR},
		{"etc", S_IFDIR}, {"workspace", S_IFDIR}, {"etc/passwd", S_IFREG},
		{"etc/group", S_IFREG}};
	struct stat st;

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (fstatat(tree, places[i].name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return error_set(err, errno, "looking at /%s in the root %s",
				places[i].name, spec->root_path);
		}
		if ((st.st_mode & S_IFMT) != places[i].type)
			return error_set(err, 0,
				"the root %s: /%s is %s, where %s or nothing must be",
				spec->root_path, places[i].name, type_name(st.st_mode),
				type_name(places[i].type));
	}
	return 0;
}

static bool lowers_have_directory(
	const struct inside *inside, const struct root *root, const char *name)
{
	for (size_t i = 0; i < spec_lowers_count(inside->spec); i++) {
		cleanup_close int dir = open_in_root(
			root->lowers[i], name, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);

		if (dir >= 0)
			return true;
	}
	return false;
}

/*
 * apt gives up root's rights before it fetches, looks whether they are gone, and fails: root emulation can answer
 * setresuid(2), but not make getuid(2) believe it. So where the root has apt, its own configuration tells it to
 * stay who it is. The name is one that sorts late, as the last word counts.
 */
static int write_emulation(
	const struct inside *inside, const struct root *root, int etc, struct error *err)
{
	cleanup_close int conf = -1;

	if (!inside->spec->root_emulation ||
		!lowers_have_directory(inside, root, "etc/apt/apt.conf.d"))
		return 0;
	if (make_directory(etc, "apt", 0755, err) < 0 ||
		make_directory(etc, "apt/apt.conf.d", 0755, err) < 0)
		return -1;
	conf = openat(etc, "apt/apt.conf.d", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (conf < 0)
		return error_set(err, errno, "opening /etc/apt/apt.conf.d inside");
	return write_file(conf, "99nsbox-root-emulation",
		"// Of nsbox run --root-emulation: there is one user only.\nAPT::Sandbox::User \"root\";\n",
		false, err);
}

/* The upper directory beforehand: what is made here need not be made in a tree that is not trusted. */
static int fill_upper(
	const struct inside *inside, const struct root *root, int upper, struct error *err)
{
	const struct spec *spec = inside->spec;
	cleanup_close int etc = -1;

	if (spec->root == ROOT_HOST && make_host_places(upper, err) < 0)
		return -1;
	if (make_directory(upper, "dev", 0755, err) < 0 ||
		make_directory(upper, "proc", 0555, err) < 0 ||
		make_directory(upper, "tmp", 01777, err) < 0 ||
		make_directory(upper, "etc", 0755, err) < 0)
		return -1;
	etc = open_etc(upper, err);
	if (etc < 0 || (!spec->resumed && write_network_names(etc, spec, err) < 0) ||
		(!spec->keeps_resolver && write_resolver(etc, spec, err) < 0) ||
		authorities_show(inside->authorities, etc, err) < 0)
		return -1;
	return write_emulation(inside, root, etc, err);
}

/* In the overlay: of what a sandbox before this one has kept, what is missing. The directory /etc is the upper one's. */
static int complete_root(const struct inside *inside, const struct root *root, struct error *err)
{
	const struct spec *spec = inside->spec;
	cleanup_close int etc = -1;

	if (!spec->resumed)
		return 0;
	if (spec->root == ROOT_HOST && hostroot_show(root->fd, err) < 0)
		return -1;
	etc = open_etc(root->fd, err);
	if (etc < 0 || (spec->root == ROOT_HOST && write_users(etc, spec, err) < 0) ||
		write_network_names(etc, spec, err) < 0)
		return -1;
	return spec->keeps_resolver ? write_resolver(etc, spec, err) : 0;
}

static int overlay_refused(const struct spec *spec, struct error *err)
{
	error_context(err, "the root %s", spec->root == ROOT_HOST ? "over layers" : spec->root_path);
	if (err->errnum == EINVAL && spec->root == ROOT_DIRECTORY)
		error_hint(err,
			"a directory with other file systems mounted below it can be a root "
			"for root only; copy it, or choose one without");
	if (err->errnum == EINVAL && spec->root == ROOT_IMAGE)
		error_hint(err, "the store is on a file system that overlayfs takes no layers from; set NSBOX_STORE to a "
				"folder on another one, and pull the image there");
	return -1;
}

/*
 * What an image has in the places that are ours is hidden by the upper directory; a directory of somebody's is
 * refused.
 */
static int attach_lowers(const struct inside *inside, const struct root *root, int scratch, struct error *err)
{
	const struct spec *spec = inside->spec;
	char name[24];

	for (size_t i = 0; i < spec_lowers_count(spec); i++) {
		snprintf(name, sizeof name, "l/%zu", i);
		/* Its mode does not matter: something is mounted on it, and nobody inside sees the place. */
		if (mkdirat(scratch, name, 0700) < 0)
			return error_set(err, errno, "making a mount point for a lower layer");
		if (tree_attach(root->lowers[i], scratch, name) < 0)
			return error_set(err, errno, "mounting the layer %s of the root", spec_lower(spec, i));
	}
	return spec->root == ROOT_DIRECTORY ? inspect_tree(spec, root->lowers[spec_lowers_count(spec) - 1], err) : 0;
}

/* The folder on disk, in the scratch space as «disk»; what is in it is what the overlay is made on. */
static int attach_storage(const struct inside *inside, int scratch, struct error *err)
{
	cleanup_close int storage = -1;

	if (!inside->spec->storage_folder)
		return 0;
	storage = open_storage(inside, err);
	if (storage < 0 || make_directory(scratch, "disk", 0755, err) < 0)
		return -1;
	if (tree_attach(storage, scratch, "disk") < 0)
		return error_set(err, errno, "mounting the writable space");
	return 0;
}

/*
 * The scratch tmpfs holds upper and work, unless these are on disk, the mount points of lower and of the overlay, and
 * the directory for /dev.
 */
static int build_overlay_root(const struct inside *inside, struct root *root, struct error *err)
{
	static const struct overlay_upper in_memory = {"upper", "work", false}, on_disk = {"disk/upper", "disk/work", true};
	const struct overlay_upper *places = inside->spec->storage_folder ? &on_disk : &in_memory;
	const char *const names[] = {places->upper, places->work, "l", "root", "dev"};
	cleanup_close int upper = -1, dev = -1;
	int scratch = make_own_tmpfs(inside, root, err);

	if (scratch < 0 || attach_scratch(scratch, err) < 0 || attach_storage(inside, scratch, err) < 0)
		return -1;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (make_directory(scratch, names[i], 0755, err) < 0)
			return -1;
	if (attach_lowers(inside, root, scratch, err) < 0)
		return -1;
	upper = openat(scratch, places->upper, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (upper < 0)
		return error_set(err, errno, "entering the writable space");
	if (fill_upper(inside, root, upper, err) < 0)
		return -1;
	root->fd = tree_overlay(scratch, (unsigned)spec_lowers_count(inside->spec), places, err);
	if (root->fd < 0)
		return overlay_refused(inside->spec, err);
	dev = tree_clone(scratch, "dev", false, 0);
	if (dev < 0 || tree_attach(dev, root->fd, "dev") < 0)
		return error_set(err, errno, "mounting /dev");
	return complete_root(inside, root, err);
}

static bool same_place(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A link in a root that is not trusted may lead where spec_validate lets no name lead. */
static int check_target(const struct root *root, int target, const char *path, struct error *err)
{
	struct stat st, top, proc, dev;

	if (fstat(target, &st) < 0 || fstat(root->fd, &top) < 0 || fstat(root->proc, &proc) < 0 ||
		fstat(root->dev, &dev) < 0)
		return error_set(err, errno, "looking at %s inside", path);
	if (same_place(&st, &top) || same_place(&st, &dev) || st.st_dev == proc.st_dev)
		return error_set(err, 0,
			"mount target: \"%s\" leads to the sandbox's own /, /dev or /proc, which cannot be mounted over",
			path);
	return 0;
}

/*
 * What a sandbox before this one has left on the way to a mount target, and is no directory: the first such name goes.
 * Returns whether there was one. No link is followed.
 */
static bool clear_way(const struct root *root, const char *path, bool file)
{
	cleanup_close int dir = openat(root->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
		size_t length = strcspn(path, "/");
		char name[NAME_MAX + 1];
		struct stat st;
		int next;

		if (length > NAME_MAX)
			return false;
		memcpy(name, path, length);
		name[length] = '\0';
		path += length;
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
		if (!S_ISDIR(st.st_mode) && !(file && !path[strspn(path, "/")] && S_ISREG(st.st_mode)))
			return unlinkat(dir, name, 0) == 0;
		next = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return false;
		close(dir);
		dir = next;
	}
	return false;
}

static int make_target(const struct spec *spec, struct root *root, const char *path, bool file, struct error *err)
{
	int target = make_target_in_root(root->fd, path, file, &root->own, err);

	/* What leads elsewhere, and not nowhere, stays. */
	while (target < 0 && spec->resumed && clear_way(root, path, file)) {
		*err = (struct error){0};
		target = make_target_in_root(root->fd, path, file, &root->own, err);
	}
	return target;
}

static int mount_one_tmpfs(const struct spec *spec, const struct mount_spec *mount,
	struct root *root, struct error *err)
{
	uint64_t size = mount->size_bytes && mount->size_bytes < spec->limits.disk_bytes
				? mount->size_bytes
				: spec->limits.disk_bytes;
	struct limits limits = {.disk_bytes = size};
	cleanup_close int target = make_target(spec, root, mount->target, false, err);
	int tree;

	if (target < 0 || check_target(root, target, mount->target, err) < 0)
		return -1;
	tree = tree_tmpfs(size, limits_disk_inodes(&limits), "1777",
		TREE_NO_DEV_SUID | (mount->read_only ? TREE_READ_ONLY : 0), err);
	if (tree < 0)
		return -1;
	root->tmpfs[root->tmpfs_count++] = tree;
	own_mounts_add(&root->own, tree);
	if (tree_attach_at(tree, target) < 0)
		return error_set(err, errno, "mounting a tmpfs on %s", mount->target);
	return 0;
}

static int mount_one_bind(
	const struct inside *inside, size_t index, struct root *root, struct error *err)
{
	const struct mount_spec *mount = &inside->spec->mounts[index];
	cleanup_close int tree = -1, target = -1;
	struct stat st;

	tree = root->binds[index];
	if (tree < 0 || fstat(tree, &st) < 0)
		return error_set(err, errno, "binding %s", mount->source);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return error_set(err, 0,
			"binding %s: it is %s; only directories and regular files can be bound",
			mount->source, type_name(st.st_mode));
	target = make_target(inside->spec, root, mount->target, !S_ISDIR(st.st_mode), err);
	if (target < 0 || check_target(root, target, mount->target, err) < 0)
		return error_context(err, "binding %s", mount->source);
	if (tree_attach_at(tree, target) < 0)
		return error_set(err, errno, "binding %s on %s", mount->source, mount->target);
	return 0;
}

static int mount_all(const struct inside *inside, struct root *root, struct error *err)
{
	const struct spec *spec = inside->spec;

	for (size_t i = 0; i < spec->mounts_count; i++) {
		int r = spec->mounts[i].kind == MOUNT_TMPFS
				? mount_one_tmpfs(spec, &spec->mounts[i], root, err)
				: mount_one_bind(inside, i, root, err);

		if (r < 0)
			return -1;
	}
	return 0;
}

/* The directories that a program expects to be able to write to. */
static int make_writable_directories(const struct spec *spec, struct root *root, struct error *err)
{
	cleanup_close int home = make_directories_in_root(root->fd, spec_home(spec), &root->own, err);
	cleanup_close int workspace =
		make_directories_in_root(root->fd, "/workspace", &root->own, err);

	/* What a sandbox before this one has made of them is for its code to live with. */
	return (home < 0 || workspace < 0) && !spec->resumed ? -1 : 0;
}

/*
 * Never over a file of the host that a bind shows. In the sandbox's own space a file of the tree's may be
 * replaced.
 */
static int create_file(const struct root *root, int dir, const char *name)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir, name, flags, 0644);

	if (fd >= 0 || errno != EEXIST)
		return fd;
	if (mount_id(dir, "", AT_EMPTY_PATH) != mount_id(root->fd, "", AT_EMPTY_PATH)) {
		errno = EEXIST;
		return -1;
	}
	if (unlinkat(dir, name, 0) < 0)
		return -1;
	return openat(dir, name, flags, 0644);
}

static int write_one_file(const struct root *root, const struct file_spec *file, struct error *err)
{
	cleanup_close int dir = -1, fd = -1;
	char parent[4096];
	const char *name = split_path(file->path, parent);

	dir = make_directories_in_root(root->fd, parent, &root->own, err);
	if (dir < 0)
		return -1;
	fd = create_file(root, dir, name);
	if (fd < 0 || write_whole(fd, file->content, file->length) < 0 ||
		(file->mode && fchmod(fd, file->mode & 0777) < 0)) {
		error_set(err, errno, "writing the file %s inside", file->path);
		if (err->errnum == ENOSPC)
			error_hint(err,
				"the writable space is too small for it; raise it with --disk");
		if (err->errnum == EOVERFLOW || err->errnum == EACCES)
			error_hint(err, "it is in a directory of the root that belongs to another user or group, and cannot be changed; "
					"take an image, or a copy of the root that is yours");
		if (err->errnum == EROFS)
			error_hint(err,
				"it is in a directory that is bound there read-only; bind that elsewhere and start there: --ro-bind DIR:/src -w /src");
		if (err->errnum == EEXIST)
			error_hint(err,
				"it is in a directory of the host that is bound there, and is not overwritten; to keep the code out of it, bind it elsewhere and start there: --bind DIR:/src -w /src");
		return -1;
	}
	return 0;
}

/* After the mounts, which may be above them. */
static int make_more_directories(const struct spec *spec, struct root *root, struct error *err)
{
	for (char **path = spec->directories; path && *path; path++) {
		cleanup_close int directory = make_directories_in_root(root->fd, *path, &root->own, err);

		if (directory < 0)
			return -1;
	}
	return 0;
}

static int write_files(const struct spec *spec, const struct root *root, struct error *err)
{
	/* The code may have changed them since. */
	if (spec->resumed)
		return 0;
	for (size_t i = 0; i < spec->files_count; i++)
		if (write_one_file(root, &spec->files[i], err) < 0)
			return -1;
	return 0;
}

/*
 * --read-only: the root becomes so, and the directories made to be written to stay as they are, as mounts of their
 * own.
 */
static int restrict_root(const struct spec *spec, const struct root *root, struct error *err)
{
	const char *kept[] = {"/tmp", "/workspace", spec_home(spec), "/dev/shm", NULL};
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	for (const char **path = kept; *path; path++) {
		cleanup_close int target =
			open_in_root(root->fd, *path, O_PATH | O_DIRECTORY, 0, 0);
		cleanup_close int tree = -1;

		/* A mount that was asked for may cover the directory above it. */
		if (target < 0 && errno == ENOENT)
			continue;
		if (target < 0)
			return error_set(err, errno, "opening %s inside", *path);
		tree = sys_open_tree(target, "",
			OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
		if (tree < 0 || tree_attach_at(tree, target) < 0)
			return error_set(err, errno, "keeping %s writable", *path);
	}
	if (sys_mount_setattr(root->fd, "", AT_EMPTY_PATH, &attr) < 0)
		return error_set(err, errno, "making the root read-only");
	if (spec->root != ROOT_HOST && sys_mount_setattr(root->fd, "dev", 0, &attr) < 0)
		return error_set(err, errno, "making /dev read-only");
	return 0;
}

static int open_terminal(struct root *root, struct error *err)
{
	int unlock = 0;
	struct winsize size;

	root->terminal_master =
		openat(root->dev, "pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (root->terminal_master < 0 || ioctl(root->terminal_master, TIOCSPTLCK, &unlock) < 0)
		return error_set(err, errno, "opening a terminal for the sandbox");
	/* Before the command can ask for it; changes of it come from the supervisor. */
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 ||
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		ioctl(root->terminal_master, TIOCSWINSZ, &size);
	root->terminal = ioctl(root->terminal_master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (root->terminal < 0)
		return error_set(err, errno, "opening a terminal for the sandbox");
	return 0;
}

/* For the supervisor, who opens the terminals of a session's commands: before foreign code can be in its way. */
static int open_devpts(struct root *root, struct error *err)
{
	root->devpts = openat(root->dev, "pts", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root->devpts < 0)
		return error_set(err, errno, "opening /dev/pts inside");
	return 0;
}

static int build_root(const struct inside *inside, struct root *root, struct error *err)
{
	const struct spec *spec = inside->spec;
	int r = spec_lowers_count(spec) > 0 ? build_overlay_root(inside, root, err)
					    : build_host_root(inside, root, err);

	if (r < 0)
		return -1;
	root->proc = procfs_mount(root->fd, spec->network, err);
	if (root->proc < 0)
		return -1;
	root->dev = openat(root->fd, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root->dev < 0)
		return error_set(err, errno, "opening /dev inside");
	own_mounts_add(&root->own, root->fd);
	own_mounts_add(&root->own, root->dev);
	if (devfs_fill(root->dev, err) < 0 || make_writable_directories(spec, root, err) < 0 ||
		mount_all(inside, root, err) < 0 ||
		make_more_directories(spec, root, err) < 0 || write_files(spec, root, err) < 0)
		return -1;
	if (spec->root_read_only && restrict_root(spec, root, err) < 0)
		return -1;
	if (spec->session && open_devpts(root, err) < 0)
		return -1;
	return spec->tty ? open_terminal(root, err) : 0;
}

/* --- 3. pivot --- */

/* With a read-only root: the places that are none the less meant to be written, as they are mounted. */
static int allow_writable(const struct landlock *wall, const struct spec *spec, const struct root *root,
	struct error *err)
{
	const char *const own[] = {"/tmp", "/workspace", spec_home(spec)};
	size_t own_count = sizeof own / sizeof *own;

	for (size_t i = 0; i < own_count + spec->mounts_count; i++) {
		const struct mount_spec *mount = i < own_count ? NULL : &spec->mounts[i - own_count];
		const char *path = mount ? mount->target : own[i];
		cleanup_close int fd = -1;

		if (mount && mount->read_only)
			continue;
		fd = open_in_root(root->fd, path, O_PATH, 0, 0);
		/* Covered by a mount that was asked for, as in restrict_root. */
		if (fd < 0 && !mount && errno == ENOENT)
			continue;
		if (fd < 0)
			return error_set(err, errno, "opening %s inside", path);
		if (landlock_allow(wall, fd, LANDLOCK_CHANGE, err) < 0)
			return error_context(err, "%s", path);
	}
	return landlock_allow(wall, root->proc, LANDLOCK_CHANGE, err);
}

/* The second wall: once it stands nothing can be opened that is not below the new root. */
static int build_wall(
	const struct inside *inside, struct root *root, const int stdio[3], struct error *err)
{
	const struct spec *spec = inside->spec;
	struct landlock *wall = &root->wall;

	if (!inside->landlock_abi)
		return 0;
	if (landlock_begin(inside->landlock_abi, LANDLOCK_SCOPE_SOCKETS | LANDLOCK_SCOPE_SIGNALS, wall,
		    err) < 0 ||
		landlock_allow(wall, root->fd,
			spec->root_read_only ? LANDLOCK_READ : LANDLOCK_CHANGE, err) < 0 ||
		landlock_allow(wall, root->dev, LANDLOCK_DEVICES, err) < 0)
		return -1;
	if (spec->root_read_only && allow_writable(wall, spec, root, err) < 0)
		return -1;
	/* /dev/stdin and its kin open them by the name that they have outside. */
	for (int i = 0; i < 3 && !spec->tty; i++)
		if (landlock_allow_again(wall, stdio[i], err) < 0)
			return -1;
	return 0;
}

static int start_loopback(struct error *err)
{
	cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* The kernel adds 127.0.0.1 and ::1 by itself. */
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return error_set(err, errno, "bringing up the loopback interface");
	return 0;
}

/* --- 4. rights --- */

/*
 * What uid 0 keeps with root emulation, and no sandbox else: power over the modes of files. Package managers write
 * into directories that are closed to their owner; for root's images, whose files have many owners, apt's own are
 * another user's. Both are of this user namespace, and only count for files whose owner and group are mapped into it
 * (capable_wrt_inode_uidgid() of the kernel): what the sandbox made, the image's layers, which are read-only, and
 * what a bind shows of the caller's own.
 */
static const cap_value_t emulation_capabilities[] = {CAP_DAC_OVERRIDE, CAP_FOWNER};

enum { EMULATION_CAPABILITIES = sizeof emulation_capabilities / sizeof *emulation_capabilities };

static bool is_kept(unsigned long cap, int kept_count)
{
	for (int i = 0; i < kept_count; i++)
		if ((unsigned long)emulation_capabilities[i] == cap)
			return true;
	return false;
}

/*
 * Until the kernel says that there is no such capability, which it says of none that its version must have.
 * (libcap asks for their number when the program starts, and takes any error for the end.)
 */
static int drop_bounding_set(int kept_count)
{
	for (unsigned long cap = 0; is_kept(cap, kept_count) || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		if (cap == CAPABILITIES_MAX)
			return 0;
	return errno == EINVAL && prctl(PR_CAPBSET_READ, CAP_CHECKPOINT_RESTORE, 0, 0, 0) == 0 ? 0 : -1;
}

/*
 * Ambient, so that programs have them: with SECBIT_NOROOT uid 0 alone gives none. They have to be inheritable first.
 */
static int make_ambient(int count)
{
	cap_t caps = cap_get_proc();
	int r = !caps || cap_set_flag(caps, CAP_INHERITABLE, count, emulation_capabilities, CAP_SET) < 0 ||
				cap_set_proc(caps) < 0
			? -1
			: 0;

	for (int i = 0; r == 0 && i < count; i++)
		r = cap_set_ambient(emulation_capabilities[i], CAP_SET);
	cap_free(caps);
	return r;
}

static int keep_capabilities(int count)
{
	static const cap_flag_t flags[] = {CAP_PERMITTED, CAP_EFFECTIVE, CAP_INHERITABLE};
	cap_t caps = cap_init();
	int r = caps ? 0 : -1;

	for (size_t i = 0; r == 0 && count > 0 && i < sizeof flags / sizeof *flags; i++)
		r = cap_set_flag(caps, flags[i], count, emulation_capabilities, CAP_SET);
	if (r == 0)
		r = cap_set_proc(caps);
	cap_free(caps);
	return r;
}

/* The securebits and the bounding set while CAP_SETPCAP is there, what is ambient before the securebits forbid it. */
static int drop_capabilities(const struct spec *spec, struct error *err)
{
	static const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
					  SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
					  SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
					  SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	int kept = spec->root_emulation && spec->uid == 0 ? EMULATION_CAPABILITIES : 0;

	if (cap_reset_ambient() < 0 || drop_bounding_set(kept) < 0 || (kept && make_ambient(kept) < 0) ||
		prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 || keep_capabilities(kept) < 0)
		return error_set(err, errno, "dropping capabilities");
	return 0;
}

static int load_filter(struct filter filter, struct error *err)
{
	struct sock_fprog program = {.len = (unsigned short)filter.length,
		.filter = (struct sock_filter *)filter.instructions};

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		return error_set(err, errno, "loading the seccomp filter");
	return 0;
}

/* *listener is set where there is one. */
static int load_filters(const struct inside *inside, int *listener, struct error *err)
{
	if (inside->explaining) {
		*listener = listener_load(inside->explaining, err);
		return *listener < 0 ? -1 : 0;
	}
	for (size_t i = 0; i < inside->filters_count; i++)
		if (load_filter(inside->filters[i], err) < 0)
			return -1;
	return 0;
}

static bool is_unconfined(const struct spec *spec)
{
	return spec->filter_length == 0;
}

/*
 * Keys of the caller's session keyring would be the command's. The filter refuses keyctl(2) and its kin;
 * without a filter the keyring is left behind. (Not always, since a new one counts against a quota.)
 */
static int leave_keyring(const struct inside *inside, struct error *err)
{
	if (is_unconfined(inside->spec) && syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 &&
		errno != ENOSYS)
		return error_set(err, errno, "leaving the caller's session keyring");
	return 0;
}

static int drop_rights(const struct inside *inside, struct root *root, struct error *err)
{
	struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_MSGQUEUE, &none) < 0)
		return error_set(err, errno, "setting resource limits");
	if (leave_keyring(inside, err) < 0 || drop_capabilities(inside->spec, err) < 0)
		return -1;
	/* From here the files of /proc/1 belong to the host's root. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_set(err, errno, "becoming undumpable");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, errno, "setting no_new_privs");
	if (root->wall.ruleset >= 0 && landlock_enforce(&root->wall, err) < 0)
		return -1;
	return load_filters(inside, &root->listener, err);
}

/* --- all of it --- */

static int say_created(const struct inside *inside, const struct root *root, struct error *err)
{
	struct agent_message message = {
		.type = AGENT_CREATED, .tmpfs_count = (uint32_t)root->tmpfs_count};
	int fds[WIRE_FDS_MAX];
	size_t count = 0;

	fds[count++] = root->proc;
	for (size_t i = 0; i < root->tmpfs_count; i++)
		fds[count++] = root->tmpfs[i];
	if (root->devpts >= 0) {
		message.has_devpts = 1;
		fds[count++] = root->devpts;
	}
	if (root->terminal_master >= 0) {
		message.has_terminal = 1;
		fds[count++] = root->terminal_master;
	}
	if (root->listener >= 0) {
		message.has_listener = 1;
		fds[count++] = root->listener;
	}
	if (wire_send(inside->socket, &message, offsetof(struct agent_message, error), fds, count,
		    0) < 0)
		return error_set(err, errno, "reporting to the supervisor");
	return 0;
}

/*
 * The agent must hold nothing that leads anywhere: all that was opened so far goes, whoever opened it, but for
 * `kept`.
 */
static int close_all_but(int *kept, size_t count, struct error *err)
{
	unsigned next = 3;

	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++)
			if (kept[j] < kept[i]) {
				int swapped = kept[i];

				kept[i] = kept[j];
				kept[j] = swapped;
			}
	for (size_t i = 0; i < count; i++) {
		if (kept[i] < 3)
			continue;
		if ((unsigned)kept[i] > next &&
			syscall(SYS_close_range, next, (unsigned)kept[i] - 1, 0) < 0)
			return error_set(err, errno, "closing descriptors");
		next = (unsigned)kept[i] + 1;
	}
	if (syscall(SYS_close_range, next, ~0U, 0) < 0)
		return error_set(err, errno, "closing descriptors");
	return 0;
}

/* Before the filter, which may refuse close_range. */
static int close_needless(
	const struct inside *inside, const struct root *root, const int stdio[3], struct error *err)
{
	int kept[WIRE_FDS_MAX + 10] = {inside->socket, inside->idmap->slot_fd, inside->cgroup_procs,
		stdio[0], stdio[1], stdio[2], root->terminal_master, root->terminal, root->proc,
		root->devpts, root->wall.ruleset};
	size_t count = 11;

	for (size_t i = 0; i < root->tmpfs_count; i++)
		kept[count++] = root->tmpfs[i];
	return close_all_but(kept, count, err);
}

/* What only the supervisor has from now on. The terminal itself is the command's under three other numbers. */
static void close_sent(struct root *root)
{
	close_fd(&root->proc);
	close_fd(&root->devpts);
	close_fd(&root->terminal_master);
	close_fd(&root->terminal);
	close_fd(&root->listener);
	for (size_t i = 0; i < root->tmpfs_count; i++)
		close_fd(&root->tmpfs[i]);
}

/* An OOM of the whole host should find a sandbox first. Its own failure changes nothing that was promised. */
static void prefer_for_oom(void)
{
	write_small_file(AT_FDCWD, "/proc/self/oom_score_adj", "500");
}

static int set_up(const struct inside *inside, int stdio[3], struct error *err)
{
	const struct spec *spec = inside->spec;
	struct root root = {.fd = -1,
		.proc = -1,
		.dev = -1,
		.devpts = -1,
		.terminal_master = -1,
		.terminal = -1,
		.listener = -1,
		.wall = LANDLOCK_INIT};

	umask(022);
	prefer_for_oom();
	if (take_ids(inside, err) < 0)
		return -1;
	wait_for_helpers(inside, root.pasta);
	if (take_stdio(inside, stdio, err) < 0 || open_sources(inside, &root, err) < 0 ||
		build_root(inside, &root, err) < 0)
		return -1;
	if (spec_has_own_network(spec) && start_loopback(err) < 0)
		return -1;
	if (spec->network == NETWORK_ALLOW && sockets_hand_over(inside->gate_socket, inside->policy, err) < 0)
		return -1;
	if (spec->network == NETWORK_PASTA && pasta_wait(root.pasta, spec->gid, err) < 0)
		return -1;
	if (sethostname(spec->hostname, strlen(spec->hostname)) < 0)
		return error_set(err, errno, "setting the host name");
	if (tree_become_root(root.fd, err) < 0 || build_wall(inside, &root, stdio, err) < 0 ||
		close_needless(inside, &root, stdio, err) < 0 ||
		drop_rights(inside, &root, err) < 0)
		return -1;
	for (int i = 0; i < 3 && root.terminal >= 0; i++) {
		stdio[i] = fcntl(root.terminal, F_DUPFD_CLOEXEC, 3);
		if (stdio[i] < 0)
			return error_set(err, errno, "opening a terminal for the sandbox");
	}
	if (agent_prepare(&inside->limits) < 0)
		return error_set(err, errno, "starting the first process of the sandbox");
	if (say_created(inside, &root, err) < 0)
		return -1;
	close_sent(&root);
	return 0;
}

static const char *default_directory(const struct spec *spec)
{
	return spec->root == ROOT_HOST ? "/workspace" : "/";
}

_Noreturn static void fail(int socket, const struct error *err)
{
	struct agent_message message = {.type = AGENT_FAILED, .value = err->errnum, .error = *err};

	wire_send(socket, &message, sizeof message, NULL, 0, 0);
	_exit(1);
}

void inside_main(const struct inside *inside)
{
	const struct exec_spec *first = &inside->spec->execs[0];
	struct agent_exec exec = {
		.argv = first->argv,
		.cwd = first->cwd ? first->cwd : default_directory(inside->spec),
		.fourth = -1,
		.cgroup_procs = inside->cgroup_procs,
		.more = inside->spec->execs_count > 1,
		.terminal = inside->spec->tty,
	};
	struct error err = {0};

	exec.env = authorities_environment(inside->authorities, first->env);
	close(inside->far_socket);
	if (!exec.env)
		error_set(&err, ENOMEM, "preparing the environment of the command");
	if (!exec.env || set_up(inside, exec.fds, &err) < 0)
		fail(inside->socket, &err);
	/* A session's commands bring their own. */
	for (int i = 0; i < 3 && inside->limits.session; i++)
		close(exec.fds[i]);
	agent_main(inside->socket, &inside->limits, default_directory(inside->spec),
		inside->limits.session ? NULL : &exec);
}
