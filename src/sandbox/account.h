/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_ACCOUNT_H
#define NSBOX_SANDBOX_ACCOUNT_H

/* What the result of a command says: its end, the limits that it met, what it used and wrote. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/result.h"

struct capture;
struct sandbox;

/* The first of its kind is noted. Returns it, or NULL. `known_from` is a literal. */
struct limit_hit *exec_add_hit(struct exec_result *exec, enum limit_kind limit, uint64_t value,
	uint64_t used, const char *known_from);

/* Whether an agent's word can be the wait status of a process that has ended. */
bool wait_status_valid(int status);

/* How it ended, by that status: see wait_status_valid. */
void exec_note_status(struct exec_result *exec, int status, const struct spec *spec);

/*
 * From the cgroup of command `number`, where there is one; wall time must be known. An end by the OOM killer
 * becomes ENDED_OOM.
 */
void exec_note_cgroup(struct exec_result *exec, const struct sandbox *sandbox, unsigned number);

/* From the file systems that are the writable space: what is used, and whether they are full. */
void exec_note_disk(
	struct exec_result *exec, const int *tmpfs_fds, size_t count, const struct spec *spec);

/*
 * Takes what was captured of both streams (two), of which `limit` bytes each are kept (0: all). The captures are
 * empty then.
 */
void exec_take_output(struct exec_result *exec, struct capture *captures, uint64_t limit);

/*
 * With spec.keep_output: opens kept files for a command that begins, and puts what is read of its streams into them, too,
 * while there is room on the disk and below the limit. `before`: bytes of the stream that were read before.
 */
void result_begin_keeping(struct run_result *result, const struct spec *spec);
void result_keep(struct run_result *result, int stream, uint64_t before, const void *data, size_t length);

#endif
