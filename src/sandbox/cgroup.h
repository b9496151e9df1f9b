/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_CGROUP_H
#define NSBOX_SANDBOX_CGROUP_H

/*
 * Tier 1 of the limits: a cgroup v2 directory of the sandbox's own.
 *
 *     BASE/nsbox-PID-N/         memory.max, memory.swap.max=0, pids.max, cpu.max; flocked by its supervisor
 *         agent/                pid 1 of the sandbox, cloned into it
 *         run-1/ run-2/ …       one per exec, memory.max, memory.oom.group=1, pids.max; the command moves itself
 *         there
 *
 * All functions are called by the supervisor, in the host's cgroup namespace.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/result.h"
#include "sandbox/spec.h"

struct cgroup {
	char path[256];         /* of nsbox-PID-N; empty: there is none */
	int fd;                 /* the directory, O_RDONLY | O_CLOEXEC, flocked exclusively */
	int agent_fd;           /* the directory of agent/, for CLONE_INTO_CGROUP */
	bool memory, pids, cpu; /* which controllers act in it */
	bool moved_self;        /* this process moved itself to BASE/supervisor-PID, to be undone */
	/* private */
	uint64_t memory_max;       /* bytes, of each run */
	uint32_t pids_max;         /* of each run; 0: none */
	uint64_t throttled_before; /* nr_throttled when the newest run was made */
};

#define CGROUP_NONE ((struct cgroup){.fd = -1, .agent_fd = -1})

/*
 * Chooses the base (the one that the spec names; our own where it is writable and we are its only
 * process; /sys/fs/cgroup/nsbox for root where no systemd manages the hierarchy), sweeps what dead
 * supervisors left there, and makes the sandbox's cgroup with the spec's limits while it is empty.
 *
 * Returns 1 when made; 0 when there is no usable cgroup and the spec neither names nor requires one,
 * with the reason in `why` (a clause: «cgroup v2 is mounted without the memory controller»); -1 with
 * *err when it does. A cgroup without the memory or pids controller is not usable. A missing cpu
 * controller is an error only where a cgroup is required and a CPU limit is asked for.
 */
int cgroup_create(
	const struct spec *spec, struct cgroup *ret, char why[ERROR_TEXT_MAX], struct error *err);

/*
 * Makes run-`number` and opens its cgroup.procs for writing: the vforked child writes "0" there.
 */
int cgroup_create_run(struct cgroup *cgroup, unsigned number, int *ret_procs_fd, struct error *err);

/*
 * Fills memory_peak_bytes, pids_peak, cpu_user_us and cpu_system_us of the result's usage from run-`number`'s files
 * (those that this kernel has; memory.peak is 5.19, pids.peak 6.1), and appends what was hit (memory, pids, cpu) to
 * the result's hits, with known_from naming the file. To be called once the run has ended and usage.wall_us is set.
 *
 * *ret_oom says whether the OOM killer acted in that run. It may have acted for the whole host, or for a limit of a
 * cgroup above ours: then there is no hit of LIMIT_MEMORY.
 */
void cgroup_read_run(const struct cgroup *cgroup, unsigned number, const struct spec *spec,
	struct exec_result *result, bool *ret_oom);

/* Kills every process in run-`number` (cgroup.kill). */
void cgroup_kill_run(const struct cgroup *cgroup, unsigned number);

/*
 * Removes run-`number`, whose processes have ended: see cgroup_kill_run. What cannot be removed yet goes with the
 * rest.
 */
void cgroup_remove_run(const struct cgroup *cgroup, unsigned number);

/* Begins to freeze every run-N, or thaws them. */
int cgroup_freeze_runs(const struct cgroup *cgroup, bool freeze, struct error *err);

/* Whether every run-N is frozen: cgroup.events says so once none of its processes runs. */
bool cgroup_runs_frozen(const struct cgroup *cgroup);

/* Kills every process in the sandbox's cgroup. */
void cgroup_kill(const struct cgroup *cgroup);

/*
 * Kills what is left, waits (at most 2 s) until it is empty, removes it and its children, closes its descriptors,
 * undoes moved_self. Does nothing to CGROUP_NONE.
 */
void cgroup_destroy(struct cgroup *cgroup);

/*
 * For `nsbox check`: where cgroup_create would work for this caller, or why nowhere. Changes nothing. Returns 1 or 0.
 */
int cgroup_probe(const char *named, char base[256], char why[ERROR_TEXT_MAX]);

#endif
