/* SPDX-License-Identifier: MIT */
/* How a run ended: see result.h. */
#define _GNU_SOURCE
#include "sandbox/result.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void run_result_free(struct run_result *result)
{
	for (size_t i = 0; i < result->execs_count; i++) {
		for (int stream = 0; stream < 2; stream++)
			free(result->execs[i].output[stream].data);
		free(result->execs[i].refused);
	}
	for (size_t i = 0; i < result->images_count; i++) {
		free(result->images[i].name);
		free(result->images[i].data);
	}
	for (size_t i = 0; i < result->kept_files.count; i++)
		free(result->kept_files.list[i].path);
	if (result->kept_files.fd > 0)
		close(result->kept_files.fd);
	for (size_t i = 0; i < RESULT_LEFT_OUT_MAX; i++) {
		free(result->copied.left_out[i].path);
		free(result->copied.left_out[i].why);
	}
	for (int stream = 0; stream < 2; stream++)
		if (result->kept_fds[stream] > 0)
			close(result->kept_fds[stream]);
	free(result->network);
	memset(result, 0, sizeof *result);
}

const struct exec_result *run_result_last(const struct run_result *result)
{
	return &result->execs[result->execs_count ? result->execs_count - 1 : 0];
}

int run_result_exit_status(const struct run_result *result)
{
	const struct exec_result *last = run_result_last(result);

	switch (last->ended_by) {
	case ENDED_EXITED:
		return last->exit_code == 0 && (result->output_lost || *result->copied.error.text) ? 125
												   : last->exit_code;
	case ENDED_SIGNALED:
		return 128 + last->signal;
	case ENDED_TIMEOUT:
		return 124;
	case ENDED_OOM:
	case ENDED_DISK:
		return 137;
	case ENDED_CANCELLED:
		return 128 + (last->signal ? last->signal : 15);
	case ENDED_SETUP:
	case ENDED_BY_MAX:
		break;
	}
	return 125;
}

const char *ended_by_name(enum ended_by ended_by)
{
	static const char *const names[ENDED_BY_MAX] = {
		[ENDED_EXITED] = "exited",
		[ENDED_SIGNALED] = "signaled",
		[ENDED_TIMEOUT] = "timeout",
		[ENDED_OOM] = "oom",
		[ENDED_DISK] = "disk",
		[ENDED_CANCELLED] = "cancelled",
		[ENDED_SETUP] = "setup",
	};
	return names[ended_by];
}

const char *limit_kind_name(enum limit_kind limit)
{
	static const char *const names[LIMIT_MAX] = {
		[LIMIT_MEMORY] = "memory",
		[LIMIT_PIDS] = "pids",
		[LIMIT_DISK] = "disk",
		[LIMIT_INODES] = "inodes",
		[LIMIT_OUTPUT] = "output",
		[LIMIT_FILE_SIZE] = "file_size",
		[LIMIT_CPU] = "cpu",
		[LIMIT_TIME] = "time",
		[LIMIT_HOST_DISK] = "host_disk",
	};
	return names[limit];
}

const char *limit_kind_option(enum limit_kind limit)
{
	static const char *const options[LIMIT_MAX] = {
		[LIMIT_MEMORY] = "--memory",
		[LIMIT_PIDS] = "--pids-limit",
		[LIMIT_DISK] = "--disk",
		[LIMIT_INODES] = "--disk",
		[LIMIT_OUTPUT] = "--output-limit",
		[LIMIT_FILE_SIZE] = "--file-size",
		[LIMIT_CPU] = "--cpus",
		[LIMIT_TIME] = "--timeout",
		[LIMIT_HOST_DISK] = "NSBOX_STORE",
	};
	return options[limit];
}

const char *limit_hit_option(const struct limit_hit *hit)
{
	return hit->option ? hit->option : limit_kind_option(hit->limit);
}

const char *enforced_by_name(enum enforced_by enforcer)
{
	static const char *const names[ENFORCED_MAX] = {
		[ENFORCED_NONE] = "none",
		[ENFORCED_CGROUP] = "cgroup",
		[ENFORCED_WATCHER] = "watcher",
		[ENFORCED_RLIMIT] = "rlimit",
		[ENFORCED_AFFINITY] = "affinity",
		[ENFORCED_TMPFS] = "tmpfs",
		[ENFORCED_SUPERVISOR] = "supervisor",
	};
	return names[enforcer];
}
