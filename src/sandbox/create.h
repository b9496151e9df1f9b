/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_CREATE_H
#define NSBOX_SANDBOX_CREATE_H

/*
 * The supervisor's side of making and ending a sandbox: ids, cgroup, one clone3 for all namespaces.
 */

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "gate/gate.h"
#include "gate/publish.h"
#include "sandbox/authorities.h"
#include "sandbox/cgroup.h"
#include "sandbox/filter.h"
#include "sandbox/helper.h"
#include "sandbox/idmap.h"
#include "sandbox/spec.h"
#include "sandbox/stdio.h"

struct run_result;

enum { SANDBOX_FILTERS_MAX = 5 };

/* Processes beside it. */
enum { SANDBOX_PASTA, SANDBOX_GATE, SANDBOX_PUBLISHER, SANDBOX_HELPERS };

struct sandbox {
	const struct spec *spec;
	pid_t pid;  /* of the agent, in our namespace; 0: there is none */
	int pidfd;  /* readable when it has ended */
	int socket; /* to the agent */
	struct idmap idmap;
	struct cgroup cgroup;
	struct helper helpers[SANDBOX_HELPERS]; /* whoever runs the loop polls their pidfd */
	bool tier1;    /* the cgroup holds the limits */
	struct filter filters[SANDBOX_FILTERS_MAX]; /* in the order in which they are loaded */
	size_t filters_count;
	struct filter explaining; /* with spec->explain: what is loaded in their place; owned */
	uint64_t file_size_bytes; /* of commands that sandbox_start starts from now on, at most; 0: as for all */
	struct published published[SPEC_PUBLISH_MAX]; /* while it is being made: spec->publish_count that listen */
	unsigned runs; /* leaves made in the cgroup */
	struct authorities authorities; /* that commands are told of */
	struct gate_process gate; /* NETWORK_ALLOW; else GATE_NONE */
};

#define SANDBOX_NONE                                                                               \
	((struct sandbox){                                                                         \
		.pidfd = -1, .socket = -1, .idmap = {.slot_fd = -1}, .cgroup = CGROUP_NONE,                   \
		.helpers = {[0 ... SANDBOX_HELPERS - 1] = HELPER_NONE}, .authorities = AUTHORITIES_NONE, .gate = GATE_NONE})

/*
 * Makes the sandbox of `spec` and starts its first command with `stdio`. What the child meets on its way
 * arrives later, as a message on `socket`. Fills enforced_by, ids, cgroup and warnings of *result.
 */
int sandbox_create(const struct spec *spec, struct stdio *stdio, struct sandbox *ret,
	struct run_result *result, struct error *err);

/* Asks the agent for another command of the spec. */
int sandbox_exec(struct sandbox *sandbox, const struct exec_spec *exec, bool more,
	struct stdio *stdio, struct error *err);

/*
 * The sandbox of a spec->session: any number of commands at a time, up to KEEPERS_MAX. `id` is the caller's, not 0,
 * and no other's that runs; it comes back in the agent's message of the command's end. With `terminal`
 * stdio->child are one.
 */
int sandbox_start(struct sandbox *sandbox, uint32_t id, const struct exec_spec *exec, bool terminal,
	struct stdio *stdio, struct error *err);

/* To the process group of a command that runs; else nothing. */
int sandbox_signal(const struct sandbox *sandbox, uint32_t id, int number, struct error *err);

/* Ends a command with all that it has started; the agent's message of its end comes then. Or work on files. */
int sandbox_end_command(const struct sandbox *sandbox, uint32_t id, struct error *err);

/*
 * All commands of a session, and all that they have started, stop, and go on. Where there is a cgroup, their leaves of it
 * are frozen: the agent and the keepers, which run none of the code, go on, so that commands can be ended and their ends
 * told meanwhile. Returns 0; then cgroup_runs_frozen says when nothing runs. Else the agent is asked to stop them
 * (halt.h): returns 1, and it answers with AGENT_PAUSED or AGENT_RESUMED and `id`. -1 with *err.
 */
int sandbox_pause(const struct sandbox *sandbox, uint32_t id, struct error *err);
int sandbox_resume(const struct sandbox *sandbox, uint32_t id, struct error *err);

/* Once the end of a command has been told and its usage read: gives back its cgroup. */
void sandbox_forget_command(struct sandbox *sandbox, uint32_t id);

/*
 * Asks for work on files (fileops.h); the answer comes on the other end of `channel`, a stream socket, whose end
 * here may be closed.
 */
int sandbox_file(const struct sandbox *sandbox, uint32_t id, const void *request, size_t length,
	int channel, struct error *err);

/* Kills everything in it, at once. Does not wait. */
void sandbox_kill(struct sandbox *sandbox);

/* Waits until everything of it is gone. *ret_usage: of the agent and of all that it reaped. */
void sandbox_wait(struct sandbox *sandbox, struct rusage *ret_usage);

/* Gives back cgroup, ids and descriptors. The sandbox must be gone. */
void sandbox_release(struct sandbox *sandbox);

/* Appends a sentence to result->warnings. */
void add_warning(struct run_result *result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
