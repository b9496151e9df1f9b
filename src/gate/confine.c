/* SPDX-License-Identifier: MIT */
/* Shutting in what carries bytes: see confine.h. */
#define _GNU_SOURCE
#include "config.h"

#include "gate/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox/helper.h"
#include "sandbox/idmap.h"
#include "sandbox/landlock.h"
#include "seccomp/profile.h"
#include "util/error.h"

enum {
	/* Root's: below the ids of sandboxes, and nobody's; in a container that has fewer ids, "nobody". */
	OWN_ID = IDMAP_SLOT_FIRST - 1,
	NOBODY = 65534,
	MEMORY_MAX = 256 << 20, /* bytes of data: some ten times of what it takes */
};

int confine_descriptors(const int *kept, size_t count, struct error *err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return error_set(err, errno, "opening /dev/null");
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			return error_set(err, errno, "leaving the standard descriptors");
	for (unsigned from = 3; from <= INT32_MAX;) {
		unsigned next = (unsigned)INT32_MAX + 1;

		for (size_t i = 0; i < count; i++)
			if ((unsigned)kept[i] >= from && (unsigned)kept[i] < next)
				next = (unsigned)kept[i];
		if (next > from && close_range(from, next - 1, 0) < 0)
			return error_set(err, errno, "closing descriptors");
		from = next + 1;
	}
	return 0;
}

/*
 * It needs none of root's rights, and shares no id with anybody. In a user namespace that has no id but 0, that is whoever
 * made it, and without capabilities it is no more.
 */
int confine_leave_root(struct error *err)
{
	static const uid_t ids[] = {OWN_ID, NOBODY};
	int groups;

	if (geteuid() != 0)
		return 0;
	groups = setgroups(0, NULL) < 0 ? errno : 0;
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		if (setresgid(ids[i], ids[i], ids[i]) < 0 && errno == EINVAL)
			continue;
		if (groups)
			return error_set(err, groups, "leaving root's groups");
		return getegid() != ids[i] || setresuid(ids[i], ids[i], ids[i]) < 0
			       ? error_set(err, errno, "leaving root's id")
			       : 0;
	}
	return 0;
}

static int drop_capabilities(struct error *err)
{
	cap_t none = cap_init();
	int r = none ? cap_set_proc(none) : -1;

	if (r < 0)
		error_set(err, errno, "dropping capabilities");
	cap_free(none);
	return r;
}

/* As many descriptors as there may be, and else little. */
static int limit_resources(struct error *err)
{
	struct rlimit files;
	static const struct {
		int resource;
		rlim_t value;
	} limits[] = {{RLIMIT_CORE, 0}, {RLIMIT_FSIZE, 0},
#ifndef NSBOX_SANITIZED
		{RLIMIT_DATA, MEMORY_MAX}
#endif
	};

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return error_set(err, errno, "asking for the limit of open files");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		return error_set(err, errno, "raising the limit of open files");
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		const struct rlimit limit = {limits[i].value, limits[i].value};

		if (setrlimit(limits[i].resource, &limit) < 0)
			return error_set(err, errno, "setting resource limits");
	}
	return 0;
}

static int raise_wall(const uint16_t *ports, size_t count, struct error *err)
{
	struct landlock wall = LANDLOCK_INIT;
	unsigned scopes =
		LANDLOCK_SCOPE_SOCKETS | LANDLOCK_SCOPE_SIGNALS | (ports ? LANDLOCK_SCOPE_TCP : 0);
	int r = landlock_begin_own(scopes, &wall, err);

	if (r <= 0)
		return r;
	for (size_t i = 0; ports && i < count; i++)
		if (landlock_allow_port(&wall, ports[i], err) < 0)
			return -1;
	return landlock_enforce(&wall, err);
}

static int load_filter(struct error *err)
{
#ifndef NSBOX_SANITIZED /* what sanitizers report takes more system calls */
	const struct builtin_filter *filter = builtin_filter_find("gate-filter", false);
	struct sock_fprog program = {.len = (unsigned short)filter->length,
		.filter = (struct sock_filter *)filter->instructions};

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		return error_set(err, errno, "loading the seccomp filter of the gate");
#endif
	return 0;
}

int confine(pid_t parent, const uint16_t *ports, size_t ports_count, struct error *err)
{
	if (limit_resources(err) < 0 || drop_capabilities(err) < 0)
		return -1;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_set(err, errno, "becoming undumpable");
	/* Changing ids has cleared it (prctl(2)). */
	helper_die_with(parent);
	return raise_wall(ports, ports_count, err) < 0 ? -1 : load_filter(err);
}
