/* SPDX-License-Identifier: MIT */
/* The filters of a sandbox: see load.h. */
#define _GNU_SOURCE
#include "seccomp/load.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "sandbox/filter.h"
#include "sandbox/spec.h"
#include "seccomp/cache.h"
#include "seccomp/profile.h"
#include "seccomp/syscalls.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

bool seccomp_is_name(const char *name)
{
	static const char *const names[] = {"default", "strict", "debug", "unconfined"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

char *seccomp_resolve(const char *what, const char *argument, struct error *err)
{
	char buffer[QUOTED_MAX];
	char *path;

	if (seccomp_is_name(argument))
		return xstrdup(argument);
	path = realpath(argument, NULL);
	if (path)
		return path;
	error_set(err, errno, "%s: %s", what, quoted(argument, buffer));
	error_hint(err, "Give one of " SECCOMP_NAMES ", or the file of a profile.");
	return NULL;
}

/*
 * Process 1 is under the filter too, and so is the command before it is executed. What they call to be what they
 * are; where a profile refuses one of these there is no sandbox.
 */
static const struct needed {
	const char *name;
	int number;
	uint64_t first; /* argument */
} needed[] = {
	{"brk", SYS_brk, 0},
	{"chdir", SYS_chdir, 0},
	{"clone", SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD},
	{"close", SYS_close, 0},
	{"dup3", SYS_dup3, 0},
	{"execve", SYS_execve, 0},
	{"exit_group", SYS_exit_group, 0},
	{"fcntl", SYS_fcntl, 0},
	{"getrusage", SYS_getrusage, 0},
	{"kill", SYS_kill, 0},
	{"lseek", SYS_lseek, 0},
	{"madvise", SYS_madvise, 0},
	{"mmap", SYS_mmap, 0},
	{"munmap", SYS_munmap, 0},
	{"openat", SYS_openat, 0},
	{"ppoll", SYS_ppoll, 0},
	{"prlimit64", SYS_prlimit64, 0},
	{"read", SYS_read, 0},
	{"recvmsg", SYS_recvmsg, 0},
	{"rt_sigaction", SYS_rt_sigaction, 0},
	{"rt_sigprocmask", SYS_rt_sigprocmask, 0},
	{"sched_getaffinity", SYS_sched_getaffinity, 0},
	{"sched_setaffinity", SYS_sched_setaffinity, 0},
	{"sendmsg", SYS_sendmsg, 0},
	{"setsid", SYS_setsid, 0},
	{"signalfd4", SYS_signalfd4, 0},
	{"wait4", SYS_wait4, 0},
	{"write", SYS_write, 0},
};

static bool passes(struct filter filter, const struct needed *call)
{
	struct seccomp_data data = {
		.nr = call->number, .arch = seccomp_arch_host->audit_arch, .args = {call->first}};
	uint32_t action = filter_run(filter, &data) & SECCOMP_RET_ACTION_FULL;

	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

static int check_needed(const struct spec *spec, struct error *err)
{
	struct filter filter = {spec->filter, spec->filter_length};
	char missing[256] = "";

	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		size_t used = strlen(missing);

		if (!passes(filter, &needed[i]))
			snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "",
				needed[i].name);
	}
	if (!missing[0])
		return 0;
	error_set(err, 0, "%s refuses what nsbox itself needs to start a command: %s",
		spec->seccomp_name, missing);
	return error_hint(err, "Allow it in the profile; nsbox-seccomp(5) lists what is needed.");
}

static int load_builtin(struct spec *spec, struct error *err)
{
	const struct builtin_filter *plain = builtin_filter_find(spec->seccomp_name, false);
	const struct builtin_filter *tier2 = builtin_filter_find(spec->seccomp_name, true);

	if (!plain || !tier2)
		return error_set(err, 0,
			"there is no built-in profile \"%s\"; there are " SECCOMP_NAMES,
			spec->seccomp_name);
	spec->filter = xmemdup(plain->instructions, plain->length * sizeof *plain->instructions);
	spec->filter_length = plain->length;
	spec->filter_tier2 =
		xmemdup(tier2->instructions, tier2->length * sizeof *tier2->instructions);
	spec->filter_tier2_length = tier2->length;
	return 0;
}

/* Or finds it compiled. */
static int compile(
	const char *path, struct bpf_program *plain, struct bpf_program *tier2, struct error *err)
{
	cleanup_free char *text = NULL;
	size_t length;

	if (profile_read(path, &text, &length, err) < 0)
		return -1;
	if (profile_cache_find(text, length, plain, tier2))
		return 0;
	if (profile_compile(text, length, path, false, plain, err) < 0 ||
		profile_compile(text, length, path, true, tier2, err) < 0)
		return -1;
	profile_cache_store(text, length, plain, tier2);
	return 0;
}

static int load_file(struct spec *spec, struct error *err)
{
	const struct builtin_filter *essential = builtin_filter_find("essential", false);
	struct bpf_program plain = {NULL, 0}, tier2 = {NULL, 0};

	if (compile(spec->seccomp_name, &plain, &tier2, err) < 0) {
		free(plain.instructions);
		return -1;
	}
	spec->filter = plain.instructions;
	spec->filter_length = plain.length;
	spec->filter_tier2 = tier2.instructions;
	spec->filter_tier2_length = tier2.length;
	spec->essential_filter = essential->instructions;
	spec->essential_filter_length = essential->length;
	return check_needed(spec, err);
}

int spec_load_filters(struct spec *spec, struct error *err)
{
	const struct builtin_filter *emulation = builtin_filter_find("root-emulation", false);

	if (spec->root_emulation) {
		spec->emulation_filter = emulation->instructions;
		spec->emulation_filter_length = emulation->length;
	}
	if (strcmp(spec->seccomp_name, "unconfined") == 0)
		return 0;
	if ((strchr(spec->seccomp_name, '/') ? load_file(spec, err) : load_builtin(spec, err)) < 0)
		return error_context(err, "seccomp");
	return 0;
}
