/* SPDX-License-Identifier: MIT */
/* Why the host refuses a sandbox, and the command that mends it: see diagnose.h. */
#define _GNU_SOURCE
#include "sandbox/diagnose.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

/* Namespaces of a sandbox: their name in /proc/self/ns, and in the sysctl user.max_NAME_namespaces. */
static const struct {
	const char *ns, *sysctl, *title;
} kinds[] = {
	{"user", "user", "user"},
	{"mnt", "mnt", "mount"},
	{"pid", "pid", "pid"},
	{"net", "net", "network"},
	{"ipc", "ipc", "ipc"},
	{"uts", "uts", "uts"},
	{"cgroup", "cgroup", "cgroup"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

long sysctl_value(const char *path)
{
	char file[128], text[32], *end;
	long value;

	snprintf(file, sizeof file, "/proc/sys/%s", path);
	if (read_small_file(AT_FDCWD, file, text, sizeof text) <= 0)
		return -1;
	value = strtol(text, &end, 10);
	return *end ? -1 : value;
}

/* Puts «: CAUSE» after the text. */
static void __attribute__((format(printf, 2, 3)))
add_cause(struct error *err, const char *format, ...)
{
	size_t used = strlen(err->text);
	va_list ap;

	if (used + 3 >= sizeof err->text)
		return;
	memcpy(err->text + used, ": ", 3);
	va_start(ap, format);
	vsnprintf(err->text + used + 2, sizeof err->text - used - 2, format, ap);
	va_end(ap);
}

/* The sysctl now, and after the next boot. */
static void hint_sysctl(struct error *err, const char *name, long value)
{
	error_hint(err,
		"as root: echo '%s = %ld' >/etc/sysctl.d/60-nsbox.conf && sysctl -p /etc/sysctl.d/60-nsbox.conf",
		name, value);
}

/* The first user namespace maps every id to itself. */
static bool in_first_user_namespace(void)
{
	char text[256];
	unsigned long inside, outside, length;

	if (read_small_file(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) < 0)
		return true;
	return sscanf(text, "%lu %lu %lu", &inside, &outside, &length) == 3 && inside == 0 &&
	       outside == 0 && length == 4294967295ul;
}

/* Reads /proc/self/mountinfo line by line: the next mount point is in `ret`, of at least 2048 bytes. */
static bool next_mount_point(FILE *mountinfo, char *ret)
{
	char line[4096];

	while (fgets(line, sizeof line, mountinfo))
		if (sscanf(line, "%*d %*d %*s %*s %2047s", ret) == 1)
			return true;
	return false;
}

static bool is_mount_point(const char *path)
{
	cleanup_fclose FILE *file = fopen("/proc/self/mountinfo", "re");
	char point[2048];

	while (file && next_mount_point(file, point))
		if (strcmp(point, path) == 0)
			return true;
	return false;
}

enum container container_around(void)
{
	static const struct {
		const char *path;
		enum container container;
	} marks[] = {
		{"/run/secrets/kubernetes.io", CONTAINER_KUBERNETES},
		{"/run/.containerenv", CONTAINER_PODMAN},
		{"/.dockerenv", CONTAINER_DOCKER},
		{"/run/systemd/container", CONTAINER_OTHER},
		{"/dev/.lxc-boot-id", CONTAINER_OTHER},
	};

	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		if (access(marks[i].path, F_OK) < 0)
			continue;
		/* Machines whose disk was made from a container's file system keep its mark; Docker also mounts this file. */
		if (marks[i].container == CONTAINER_DOCKER && !is_mount_point("/etc/resolv.conf"))
			continue;
		return marks[i].container;
	}
	return CONTAINER_NONE;
}

/* Whether a seccomp filter is on this process: nsbox has none itself when it creates a sandbox. */
static bool under_seccomp_filter(void)
{
	char text[8192];
	const char *line;

	if (read_small_file(AT_FDCWD, "/proc/self/status", text, sizeof text) < 0)
		return false;
	line = strstr(text, "\nSeccomp:");
	return line && atoi(line + strlen("\nSeccomp:")) == 2;
}

static void hint_container(struct error *err)
{
	switch (container_around()) {
	case CONTAINER_DOCKER:
		error_hint(err,
			"start the container with: docker run --security-opt seccomp=unconfined "
			"--security-opt apparmor=unconfined --security-opt systempaths=unconfined …");
		return;
	case CONTAINER_PODMAN:
		error_hint(err,
			"start the container with: podman run --security-opt seccomp=unconfined "
			"--security-opt label=disable --security-opt unmask=ALL …");
		return;
	case CONTAINER_KUBERNETES:
		error_hint(err,
			"in the pod: hostUsers: false; in the container's securityContext: procMount: Unmasked, "
			"seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}");
		return;
	case CONTAINER_NONE:
	case CONTAINER_OTHER:
		error_hint(err,
			"start nsbox outside of it; in a systemd unit, remove RestrictNamespaces= and SystemCallFilter=");
	}
}

/* ENOSPC (before Linux 4.9 also EUSERS): more namespaces than user.max_*_namespaces allows. */
static void diagnose_limit(struct error *err)
{
	char path[48], name[48];

	for (int i = 0; i < KINDS; i++) {
		snprintf(path, sizeof path, "user/max_%s_namespaces", kinds[i].sysctl);
		if (sysctl_value(path) != 0)
			continue;
		snprintf(name, sizeof name, "user.max_%s_namespaces", kinds[i].sysctl);
		add_cause(err, "the sysctl %s is 0, which forbids %s namespaces", name,
			kinds[i].title);
		if (in_first_user_namespace())
			hint_sysctl(err, name, 15000);
		else
			error_hint(err,
				"the sandbox or container around nsbox set it for what runs inside: start nsbox outside of it");
		return;
	}
	add_cause(err, "too many namespaces exist, or they are nested too deeply");
	error_hint(err,
		"see how many each user may have: sysctl user | grep namespaces; raise one as root with: sysctl -w NAME=NUMBER");
}

/*
 * A process whose root is not that of its mount namespace may not create user namespaces. It shows in
 * mountinfo, which then has no mount on /, or for root by comparison with the first process.
 */
static bool in_chroot(void)
{
	struct stat own, first, own_ns, first_ns;

	if (access("/proc/self/mountinfo", R_OK) == 0 && !is_mount_point("/"))
		return true;
	return stat("/", &own) == 0 && stat("/proc/1/root", &first) == 0 &&
	       stat("/proc/self/ns/mnt", &own_ns) == 0 && stat("/proc/1/ns/mnt", &first_ns) == 0 &&
	       own_ns.st_ino == first_ns.st_ino &&
	       (own.st_dev != first.st_dev || own.st_ino != first.st_ino);
}

/* The path of this program where it can stand in a profile and in a shell without quotes, else NULL. */
static const char *own_path(char *buffer, size_t size)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-";
	ssize_t length = readlink("/proc/self/exe", buffer, size - 1);

	if (length <= 0)
		return NULL;
	buffer[length] = '\0';
	return *buffer == '/' && buffer[strspn(buffer, plain)] == '\0' ? buffer : NULL;
}

/* Ubuntu lets everybody create user namespaces, and takes all capabilities in them from programs without a profile. */
static void diagnose_apparmor(struct error *err)
{
	char buffer[256];
	const char *path = own_path(buffer, sizeof buffer);

	add_cause(err, "AppArmor restricts user namespaces to programs with a profile "
		       "(kernel.apparmor_restrict_unprivileged_userns is 1)");
	if (!path) {
		hint_sysctl(err, "kernel.apparmor_restrict_unprivileged_userns", 0);
		return;
	}
	error_hint(err,
		"give nsbox a profile, as root: printf 'abi <abi/4.0>,\\nprofile nsbox %s flags=(unconfined) { userns, }\\n' "
		"> /etc/apparmor.d/nsbox && apparmor_parser -r /etc/apparmor.d/nsbox",
		path);
}

/* EPERM and EACCES. */
static void diagnose_refusal(struct error *err)
{
	if (sysctl_value("kernel/unprivileged_userns_clone") == 0 && geteuid() != 0) {
		add_cause(err,
			"the sysctl kernel.unprivileged_userns_clone is 0, which leaves user namespaces to root");
		hint_sysctl(err, "kernel.unprivileged_userns_clone", 1);
		return;
	}
	if (sysctl_value("kernel/apparmor_restrict_unprivileged_userns") == 1 &&
		container_around() == CONTAINER_NONE) {
		diagnose_apparmor(err);
		return;
	}
	if (under_seccomp_filter()) {
		add_cause(err, "a seccomp filter that nsbox runs under refuses it%s",
			container_around() == CONTAINER_NONE ? ""
							     : ", that of the container around it");
		hint_container(err);
		return;
	}
	if (container_around() != CONTAINER_NONE) {
		add_cause(err, "the container around nsbox does not allow it");
		hint_container(err);
		return;
	}
	if (in_chroot()) {
		add_cause(
			err, "nsbox runs in a chroot, where the kernel allows no user namespaces");
		error_hint(err,
			"start nsbox outside of the chroot, or enter the tree with pivot_root in place of chroot: "
			"bwrap --bind TREE / --dev /dev --proc /proc nsbox …");
		return;
	}
	if (access("/sys/fs/selinux/enforce", F_OK) == 0) {
		add_cause(err, "SELinux may forbid it");
		error_hint(err,
			"see what was refused, as root: ausearch -m AVC -ts recent | grep -e user_namespace -e nsbox");
	}
}

/* EINVAL: a kernel that was built without a kind of namespace. ENOSYS: clone3 is not there, or hidden by a filter. */
static void diagnose_absence(int errnum, struct error *err)
{
	char path[32];

	for (int i = 0; i < KINDS; i++) {
		snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i].ns);
		if (access(path, F_OK) == 0 || access("/proc/self/ns", F_OK) != 0)
			continue;
		add_cause(err, "this kernel was built without %s namespaces", kinds[i].title);
		error_hint(err,
			"boot a kernel with CONFIG_NAMESPACES and all that is below it in the configuration, as distributions have them");
		return;
	}
	if (errnum == ENOSYS && under_seccomp_filter()) {
		add_cause(err, "a seccomp filter that nsbox runs under hides the system call");
		hint_container(err);
	}
}

void diagnose_namespaces(int errnum, struct error *err)
{
	switch (errnum) {
	case ENOSPC:
	case EUSERS:
		diagnose_limit(err);
		break;
	case EPERM:
	case EACCES:
		diagnose_refusal(err);
		break;
	case EINVAL:
	case ENOSYS:
		diagnose_absence(errnum, err);
		break;
	case EAGAIN:
		add_cause(err, "no more processes may be started");
		error_hint(err,
			"see the limits: ulimit -u; cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup | tail -n1)/pids.max");
		break;
	}
}

/*
 * The first thing that is mounted over a part of /proc. Kernel modules mount on the two directories
 * that are left out; the kernel knows these to be empty and does not count what is mounted there.
 */
static bool find_proc_mask(char *ret, size_t size)
{
	cleanup_fclose FILE *file = fopen("/proc/self/mountinfo", "re");
	char point[2048];

	while (file && next_mount_point(file, point)) {
		if (strncmp(point, "/proc/", 6) != 0 ||
			strcmp(point, "/proc/sys/fs/binfmt_misc") == 0 ||
			strcmp(point, "/proc/fs/nfsd") == 0)
			continue;
		snprintf(ret, size, "%.200s", point);
		return true;
	}
	return false;
}

void diagnose_proc(struct error *err)
{
	char mask[208];

	if (!find_proc_mask(mask, sizeof mask)) {
		if (access("/proc/self", F_OK) != 0)
			error_hint(err,
				"the kernel allows a new proc only where one is mounted already: mount -t proc proc /proc");
		else
			diagnose_refusal(err);
		return;
	}
	add_cause(err,
		"%s is mounted over, and the kernel allows a new proc only where nothing of /proc is hidden",
		mask);
	if (container_around() == CONTAINER_NONE)
		error_hint(err,
			"as root: umount %s; in a container: start it with --security-opt systempaths=unconfined (Docker) or "
			"--security-opt unmask=ALL (Podman)",
			mask);
	else
		hint_container(err);
}
