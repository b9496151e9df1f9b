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

/* Shows one name of the host: a link as the same link, anything else as a read-only bind. A name that is absent stays absent. */
static int show(int host_dir, int root_dir, const char *name, const char *shown, struct error *err)
{
	cleanup_close int tree = -1, file = -1;
	char target[PATH_MAX];
	struct stat st;

	if (fstatat(host_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : error_set(err, errno, "looking at %s", shown);
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(host_dir, name, target, sizeof target - 1);

		if (n < 0)
			return error_set(err, errno, "reading the link %s", shown);
		target[n] = '\0';
		if (symlinkat(target, root_dir, name) < 0)
			return error_set(err, errno, "making the link %s inside", shown);
		return 0;
	}
	if (S_ISDIR(st.st_mode)) {
		if (mkdirat(root_dir, name, 0755) < 0 && errno != EEXIST)
			return error_set(err, errno, "making %s inside", shown);
	} else if (S_ISREG(st.st_mode)) {
		file = openat(root_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (file < 0)
			return error_set(err, errno, "making %s inside", shown);
	} else {
		return 0;
	}
	tree = tree_clone(host_dir, name, false, TREE_READ_ONLY | TREE_NO_DEV_SUID);
	if (tree < 0)
		return error_set(err, errno, "cloning the mount of %s", shown);
	if (tree_attach(tree, root_dir, name) < 0)
		return error_set(err, errno, "mounting %s read-only", shown);
	return 0;
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

static int show_etc(int host, int root, struct error *err)
{
	cleanup_close int host_etc = openat(host, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int etc = -1;
	char shown[80];

	if (mkdirat(root, "etc", 0755) < 0)
		return error_set(err, errno, "making /etc inside");
	etc = openat(root, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (host_etc < 0 || etc < 0)
		return error_set(err, errno, "opening /etc");
	for (const char *const *entry = hostroot_etc; *entry; entry++) {
		snprintf(shown, sizeof shown, "/etc/%s", *entry);
		if (faccessat(host_etc, *entry, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
				continue;
			return error_set(err, errno, "looking at %s", shown);
		}
		if (make_parents(etc, *entry, err) < 0 ||
			show(host_etc, etc, *entry, shown, err) < 0)
			return -1;
	}
	return 0;
}

int hostroot_fill(int root, struct error *err)
{
	cleanup_close int host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char shown[16];

	if (host < 0)
		return error_set(err, errno, "opening /");
	for (const char *const *directory = hostroot_directories; *directory; directory++) {
		snprintf(shown, sizeof shown, "/%s", *directory);
		if (show(host, root, *directory, shown, err) < 0)
			return -1;
	}
	return show_etc(host, root, err);
}
