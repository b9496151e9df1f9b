/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_INSIDE_H
#define NSBOX_SANDBOX_INSIDE_H

/*
 * The child's way from clone3 to the agent: ids, mounts, pivot_root, network, then every right dropped.
 *
 * It runs in the new namespaces with all capabilities there and with the caller's view of the file
 * system, so it must not execute or interpret anything that it finds. Stages, in this order:
 *
 *   1. ids       Should: be the mapped id inside, without groups of root's, and die with its parent.
 *   2. mounts    Should: build the new root on descriptors. Mustn't: resolve a name in a tree that is not
 *                trusted other than in that tree; make or change anything on the host.
 *   3. pivot     Mustn't, from here on: reach the old root by any name or descriptor.
 *   4. rights    Should: have no capability in any set, no way to gain one, the view of files closed by
 *                Landlock where there is it, and the filter loaded.
 *   5. agent     Runs foreign code. See agent.h.
 *
 * What fails is sent to the supervisor with the stage in its text, and the child exits.
 */

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/agent.h"
#include "sandbox/filter.h"

struct authorities;
struct idmap;
struct policy;
struct spec;

/* Everything that the child needs, made ready by the supervisor. Descriptors are close-on-exec. */
struct inside {
	const struct spec *spec;
	const struct idmap *idmap;
	int socket;     /* the agent's end */
	int far_socket; /* the supervisor's end: closed first, or its death would not be seen */
	int stdio[3];   /* for the first command */
	bool reopen
		[3]; /* a file or terminal: to be opened anew through a read-only clone of its mount */
	int *root_trees; /* root calls: a clone for each of the lower directories; else NULL */
	int *bind_trees; /* root calls: a clone for each of spec->mounts, -1 for a tmpfs; else NULL */
	int storage_tree; /* root calls: a clone of spec->storage_folder, which is the sandbox's by now; else -1 */
	int cgroup_procs;                 /* of the first command's leaf, or -1 */
	const struct filter *filters; /* loaded in this order; none: unconfined */
	size_t filters_count;
	const struct filter *explaining; /* loaded in their place, with a listener for the supervisor; or NULL */
	int gate_socket; /* NETWORK_ALLOW: where the gate takes its sockets over; else -1 */
	const struct policy *policy; /* and for what */
	const struct authorities *authorities;
	int landlock_abi; /* 0: none */
	struct agent_limits limits;
};

_Noreturn void inside_main(const struct inside *inside);

#endif
