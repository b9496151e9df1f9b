/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_TESTS_PROBE_H
#define NSBOX_TESTS_PROBE_H

/*
 * A probe tries one thing that must not work inside a sandbox, and says whether it worked. All probes are
 * in one static program, so that it runs in an empty root too: `probe NAME [ARGUMENT]…`.
 *
 * A probe that cannot succeed anywhere shows nothing, so each says where it does succeed without a
 * sandbox: its control. No control may harm the host: calls that need no target have arguments that the
 * kernel refuses only after it has looked at the caller's rights.
 */

#include <stdbool.h>

enum outcome {
	BLOCKED = 0, /* as it must be */
	ALLOWED = 1,
	UNCLEAR = 2, /* the probe could not try it */
};

enum control {
	CONTROL_NONE,     /* nowhere, or not without harm */
	CONTROL_PLAIN,    /* outside of a sandbox */
	CONTROL_ROOT,     /* outside, as root */
	CONTROL_ADMIN,    /* in a user namespace of its own with all capabilities, and the other namespaces with it */
	CONTROL_TARGET,   /* outside, on a process of the same user; its pid is the argument */
	CONTROL_TERMINAL, /* outside, on a terminal of its own */
};

struct probe {
	const char *name;
	const char *what; /* what it tries */
	enum control control;
	enum outcome (*run)(int argc, char **argv); /* argv[0] is the first argument after the name */
};

/* One table of each file of probes; they end with a probe without a name. */
extern const struct probe namespace_probes[], mount_probes[], process_probes[], syscall_probes[],
	socket_probes[], file_probes[], terminal_probes[], shared_probes[];

/* Prints what was seen, for the one who reads why a probe failed. */
void __attribute__((format(printf, 1, 2))) note(const char *format, ...);

/*
 * The outcome of a system call that must be refused. Any error but those that mean «you may not» or «there
 * is no such thing» shows that the kernel acted on the call: it is ALLOWED. Uses errno.
 */
enum outcome refused(const char *what, long result);

/* ALLOWED if any is, else UNCLEAR if any is, else BLOCKED. */
enum outcome worse(enum outcome a, enum outcome b);

/* Whether `path` can be opened with `flags`: ALLOWED or BLOCKED. Nothing is read or written. */
enum outcome opens(const char *path, int flags);

/* The process that a probe is about: argv[0], or pid 1. */
int target_pid(int argc, char **argv);

#endif
