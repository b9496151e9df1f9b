/* SPDX-License-Identifier: MIT */
/* Results of commands: see account.h. */
#define _GNU_SOURCE
#include "sandbox/account.h"

#include <unistd.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/wait.h>

#include "sandbox/capture.h"
#include "sandbox/create.h"
#include "sandbox/watcher.h"
#include "util/file.h"

struct limit_hit *exec_add_hit(struct exec_result *exec, enum limit_kind limit, uint64_t value,
	uint64_t used, const char *known_from)
{
	for (size_t i = 0; i < exec->hits_count; i++)
		if (exec->hits[i].limit == limit)
			return NULL;
	exec->hits[exec->hits_count] = (struct limit_hit){
		.limit = limit, .value = value, .used = used, .known_from = known_from};
	return &exec->hits[exec->hits_count++];
}

bool wait_status_valid(int status)
{
	return (status & ~0xffff) == 0 &&
	       (WIFEXITED(status) || (WIFSIGNALED(status) && WTERMSIG(status) < NSIG));
}

void exec_note_status(struct exec_result *exec, int status, const struct spec *spec)
{
	if (WIFEXITED(status)) {
		exec->ended_by = ENDED_EXITED;
		exec->exit_code = WEXITSTATUS(status);
		return;
	}
	exec->ended_by = ENDED_SIGNALED;
	exec->signal = WTERMSIG(status);
	if (exec->signal == SIGXFSZ && spec->limits.file_size_bytes)
		exec_add_hit(exec, LIMIT_FILE_SIZE, spec->limits.file_size_bytes,
			spec->limits.file_size_bytes, "SIGXFSZ");
}

void exec_note_cgroup(struct exec_result *exec, const struct sandbox *sandbox, unsigned number)
{
	bool oom = false;

	if (!sandbox->cgroup.path[0])
		return;
	cgroup_read_run(&sandbox->cgroup, number, sandbox->spec, exec, &oom);
	if (oom && exec->ended_by == ENDED_SIGNALED) {
		exec->ended_by = ENDED_OOM;
		exec->signal = SIGKILL;
	}
}

void exec_note_disk(
	struct exec_result *exec, const int *tmpfs_fds, size_t count, const struct spec *spec)
{
	for (size_t i = 0; i < count; i++) {
		struct limit_hit *hit;
		uint64_t size, inodes, used = tmpfs_used(tmpfs_fds[i], &size);
		uint64_t inodes_used = tmpfs_inodes_used(tmpfs_fds[i], &inodes);

		exec->usage.disk_used_bytes += used;
		hit = size && used >= size - size / 100
			      ? exec_add_hit(exec, LIMIT_DISK, size, used, "fstatfs")
			      : NULL;
		if (hit && size < spec->limits.disk_bytes)
			hit->option = spec->storage_folder && i == 0 ? "--memory" : "--tmpfs";
		if (inodes && inodes_used >= inodes - inodes / 100)
			exec_add_hit(exec, LIMIT_INODES, inodes, inodes_used, "fstatfs");
	}
}

void exec_take_output(struct exec_result *exec, struct capture *captures, uint64_t limit)
{
	for (int i = 0; i < 2; i++) {
		struct captured *output = &exec->output[i];

		capture_finish(&captures[i], output);
		capture_free(&captures[i]);
		if (output->total > output->head_length + output->tail_length)
			exec_add_hit(exec, LIMIT_OUTPUT, limit, output->total, "counted");
	}
}

void result_begin_keeping(struct run_result *result, const struct spec *spec)
{
	for (int i = 0; i < 2; i++) {
		if (result->kept_fds[i] > 0)
			close(result->kept_fds[i]);
		result->kept_fds[i] = spec->capture && spec->keep_output ? open_unnamed() : -1;
		result->kept_whole[i] = result->kept_fds[i] >= 0;
	}
}

void result_keep(struct run_result *result, int stream, uint64_t before, const void *data, size_t length)
{
	if (!result->kept_whole[stream])
		return;
	if (before + length > RESULT_KEPT_BYTES_MAX ||
		write_whole(result->kept_fds[stream], data, length) < 0)
		result->kept_whole[stream] = false;
}
