/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_AGENT_H
#define NSBOX_SANDBOX_AGENT_H

/*
 * The agent: pid 1 of the sandbox.
 *
 * It starts commands, reaps, and tells the supervisor how they ended. It runs with the sandbox's own
 * rights under the sandbox's own filter, so it needs to be trusted with nothing; it is not dumpable, so
 * that a command, which has the same id, can neither trace it nor read its memory or descriptors. It
 * acts on SIGCHLD and its socket only. EOF on the socket means: the supervisor is gone, end everything.
 *
 * It is a clone of its creator without an exec. Once the first command is started it gives back the
 * whole heap and the stack above its own frame, and wipes the argument and environment area, so that
 * nothing of its creator's data is left in it. From then on it uses neither malloc nor stdio.
 */

#include <stdbool.h>
#include <stdint.h>

struct spec;

/* What of a spec holds for every command. */
struct agent_limits {
	uint32_t processes; /* RLIMIT_NPROC, 0: none (a cgroup counts) */
	uint32_t open_files;
	uint64_t file_size_bytes;
	uint32_t cpus; /* affinity to that many of the caller's CPUs, 0: none */
	bool background; /* see struct spec */
	bool session;	 /* commands come as requests, any number at a time (keepers.h) */
};

struct agent_exec {
	char *const *argv;
	char *const *env;
	const char *cwd;
	int fds[3];       /* become 0, 1 and 2; closed in the agent after the start */
	int fourth;       /* becomes 3; likewise; -1: none */
	int cgroup_procs; /* or -1 */
	uint64_t file_size_bytes; /* in place of the limits', where it is less; 0: as they have it */
	bool more;        /* see REQUEST_EXEC */
	bool terminal;    /* the descriptors are a terminal, which becomes the controlling one */
	struct command_contact *contact; /* or NULL */
};

/* Before the supervisor is told that the sandbox is there: nothing that could fail is left to agent_main. -1 with errno. */
int agent_prepare(const struct agent_limits *limits);

/*
 * Starts `first` (or waits for requests where it is NULL) and serves until the supervisor is gone. In the
 * sandbox, after all of its walls are up. `directory`: where relative paths of work on files begin.
 */
_Noreturn void agent_main(int socket, const struct agent_limits *limits, const char *directory,
	const struct agent_exec *first);

/* See sandbox_early_init: where the argument area and the heap of this process are. */
void agent_remember_process_memory(int argc, char **argv, char **envp);

/*
 * Packs argv, env and cwd of an exec into a sealed memfd, for REQUEST_EXEC. Returns the descriptor or -1 with errno.
 */
int agent_pack_exec(char *const *argv, char *const *env, const char *cwd);

#endif
