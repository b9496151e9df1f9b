/* SPDX-License-Identifier: MIT */
/* The `host` root: see hostroot.h. */
#define _GNU_SOURCE
#include "sandbox/hostroot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/mounts.h"
#include "util/cleanup.h"
#include "util/error.h"

const char *const hostroot_directories[] = {
	"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};

/*
 * What programs of /usr read in /etc, on the distributions that we know: the dynamic linker, Debian's
 * alternatives, certificate authorities (never /etc/ssl/private), time zone, MIME types, services,
 * fonts, and the configuration of language run times. Synthesized instead: passwd, group, hosts,
 * resolv.conf, hostname, nsswitch.conf (see inside.c).
 */
const char *const hostroot_etc[] = {
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"alternatives",
	"ssl/certs",
	"ssl/openssl.cnf",
	"ssl/cert.pem",
	"pki/tls",
	"pki/ca-trust/extracted",
	"ca-certificates/extracted",
	"crypto-policies",
	"localtime",
	"timezone",
	"mime.types",
	"services",
	"protocols",
	"os-release",
	"debian_version",
	"fonts",
	"inputrc",
	"perl",
	"php",
	"R",
	"java-11-openjdk",
	"java-17-openjdk",
	"java-21-openjdk",
	"java-25-openjdk",
	"java",
	NULL,
};

/* What is done for a name of the host: `st` is what is there. `root` is the directory of ours where it is to show. */
typedef int (*step)(int host_dir, int root_dir, const char *name, const struct stat *st, const char *shown,
	struct error *err);

/* A place to mount on. Of a link there is none. */
static int make_place(int host_dir, int root_dir, const char *name, const struct stat *st, const char *shown,
	struct error *err)
{
	cleanup_close int file = -1;

	(void)host_dir;
	if (S_ISDIR(st->st_mode) && mkdirat(root_dir, name, 0755) < 0 && errno != EEXIST)
		return error_set(err, errno, "making %s inside", shown);
	if (!S_ISREG(st->st_mode))
		return 0;
	file = openat(root_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return file < 0 ? error_set(err, errno, "making %s inside", shown) : 0;
}

static int show_link(int host_dir, int root_dir, const char *name, const char *shown, struct error *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(host_dir, name, target, sizeof target - 1);

	if (n < 0)
		return error_set(err, errno, "reading the link %s", shown);
	target[n] = '\0';
	/* A sandbox before this one may have left another. */
	if (symlinkat(target, root_dir, name) < 0 && errno != EEXIST)
		return error_set(err, errno, "making the link %s inside", shown);
	return 0;
}

/* A link as the same link, a directory or file as a read-only bind, nothing else. */
static int show(int host_dir, int root_dir, const char *name, const struct stat *st, const char *shown,
	struct error *err)
{
	cleanup_close int tree = -1;

	if (S_ISLNK(st->st_mode))
		return show_link(host_dir, root_dir, name, shown, err);
	if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
		return 0;
	tree = tree_clone(host_dir, name, false, TREE_READ_ONLY | TREE_NO_DEV_SUID);
	if (tree < 0)
		return error_set(err, errno, "cloning the mount of %s", shown);
	if (tree_attach(tree, root_dir, name) < 0)
		return error_set(err, errno, "mounting %s read-only", shown);
	return 0;
}

/* In a directory that keeps the caller out. Asked again, as one refusal more must not be a root with a directory less. */
static bool is_hidden(int dir, const char *name)
{
	return errno == EACCES && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == EACCES;
}

/* Returns 1 for a name that is absent, and stays so inside. */
static int look(int dir, const char *name, const char *shown, struct stat *ret, struct error *err)
{
	int errnum;

	if (fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	errnum = errno;
	return errnum == ENOENT || errnum == ENOTDIR || is_hidden(dir, name) ? 1
									     : error_set(err, errnum, "looking at %s", shown);
}

/* Makes the directory part of an entry like ssl/certs. */
static int make_parents(int etc, const char *entry, struct error *err)
{
	char path[64];

	for (const char *slash = strchr(entry, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(path, sizeof path, "%.*s", (int)(slash - entry), entry);
		if (mkdirat(etc, path, 0755) < 0 && errno != EEXIST)
			return error_set(err, errno, "making /etc/%s inside", path);
	}
	return 0;
}

static int for_etc(step take, int host, int root, struct error *err)
{
	cleanup_close int host_etc = openat(host, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int etc = openat(root, "etc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char shown[80];
	struct stat st;
	int r = 0;

	if (host_etc < 0 || etc < 0)
		return error_set(err, errno, "opening /etc");
	for (const char *const *entry = hostroot_etc; *entry && r >= 0; entry++) {
		snprintf(shown, sizeof shown, "/etc/%s", *entry);
		r = look(host_etc, *entry, shown, &st, err);
		if (r == 0 && take == make_place)
			r = make_parents(etc, *entry, err);
		if (r == 0)
			r = take(host_etc, etc, *entry, &st, shown, err);
	}
	return r < 0 ? -1 : 0;
}

static int for_all(step take, int root, struct error *err)
{
	cleanup_close int host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char shown[16];
	struct stat st;
	int r = 0;

	if (host < 0)
		return error_set(err, errno, "opening /");
	for (const char *const *directory = hostroot_directories; *directory && r >= 0; directory++) {
		snprintf(shown, sizeof shown, "/%s", *directory);
		r = look(host, *directory, shown, &st, err);
		if (r == 0)
			r = take(host, root, *directory, &st, shown, err);
	}
	return r < 0 ? -1 : for_etc(take, host, root, err);
}

int hostroot_make_places(int places, struct error *err)
{
	if (mkdirat(places, "etc", 0755) < 0 && errno != EEXIST)
		return error_set(err, errno, "making /etc inside");
	return for_all(make_place, places, err);
}

int hostroot_show(int root, struct error *err)
{
	return for_all(show, root, err);
}
