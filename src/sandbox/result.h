/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_RESULT_H
#define NSBOX_SANDBOX_RESULT_H

/*
 * How a run ended, which limits it met, what it used, and what the walls were.
 *
 * `ended_by`, times and limits are the supervisor's own observation. Only the wait status of a
 * command comes from the agent, since nobody else can wait for it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/report.h"
#include "sandbox/refusal.h"
#include "sandbox/spec.h"
#include "util/error.h"

enum ended_by {
	ENDED_EXITED,    /* exit_code is the command's */
	ENDED_SIGNALED,  /* signal is the command's, and no limit of ours sent it */
	ENDED_TIMEOUT,   /* wall time was up */
	ENDED_OOM,       /* the memory limit */
	ENDED_DISK,      /* the writable space was full, or the disk that it is on */
	ENDED_CANCELLED, /* the caller went away or asked for it */
	ENDED_SETUP,     /* the command was never started: see error */
	ENDED_BY_MAX,
};

enum limit_kind {
	LIMIT_MEMORY,
	LIMIT_PIDS,
	LIMIT_DISK,
	LIMIT_INODES,
	LIMIT_OUTPUT,
	LIMIT_FILE_SIZE,
	LIMIT_CPU,
	LIMIT_TIME,
	LIMIT_HOST_DISK, /* what has to stay free of the disk that the writable space is on */
	LIMIT_MAX,
};

enum enforced_by {
	ENFORCED_NONE, /* no such limit was asked for */
	ENFORCED_CGROUP,
	ENFORCED_WATCHER,
	ENFORCED_RLIMIT,
	ENFORCED_AFFINITY,
	ENFORCED_TMPFS,
	ENFORCED_SUPERVISOR,
	ENFORCED_MAX,
};

/* A limit that a run met, whether it ended the run or not. Values are bytes, processes, ms or thousandths of a CPU. */
struct limit_hit {
	enum limit_kind limit;
	uint64_t value;         /* the limit */
	uint64_t used;          /* what was used, or seen when the limit acted */
	const char *known_from; /* a literal: "memory.events", "watcher", "fstatfs", "SIGXFSZ" … */
	const char
		*option; /* a literal: what raises it, where limit_kind_option does not; or NULL */
};

struct usage {
	uint64_t wall_us;
	uint64_t cpu_user_us;
	uint64_t cpu_system_us;
	uint64_t memory_peak_bytes; /* 0: not known */
	uint32_t pids_peak;         /* 0: not known */
	uint64_t disk_used_bytes;   /* when the run ended */
};

/* What was kept of a captured stream: `head` bytes from its beginning, then `tail` bytes from its end. */
struct captured {
	uint8_t *data; /* head_length + tail_length bytes; owned by the result */
	size_t head_length;
	size_t tail_length;
	uint64_t total; /* bytes that the commands wrote */
	/* total - head_length - tail_length bytes were left out between head and tail */
};

struct exec_result {
	const char *phase;
	enum ended_by ended_by;
	int exit_code;             /* -1 unless ENDED_EXITED */
	int signal;                /* 0 unless it was ended by a signal (also SIGKILL by us) */
	struct captured output[2]; /* standard output, standard error; empty without spec.capture */
	struct limit_hit hits[LIMIT_MAX];
	size_t hits_count;
	struct usage usage;
	struct error error; /* ENDED_SETUP: why; text is empty otherwise */
	struct refusals *refused; /* with spec.explain: what the filters refused; owned; NULL: not asked for */
	bool speaks_of_refusal; /* what we saw of its standard error, or terminal, has words of an error that filters give */
	bool speaks_of_network; /* the same, of a program that looked for a network */
	bool speaks_of_port;    /* the same, of a connection that was refused */
	bool speaks_of_package; /* the same, of code that uses a package which is not there */
	int exec_errno;     /* why execve failed (exit_code is then 126 or 127), else 0 */
};

/* An image file that the run left in its working directory. */
struct result_image {
	char *name;       /* in the directory; owned */
	const char *type; /* MIME: a literal */
	uint8_t *data;    /* owned */
	size_t length;
};

/* What --output did not copy. Both owned. */
struct result_left_out {
	char *path; /* relative to the working directory */
	char *why;
};

enum { RESULT_LEFT_OUT_MAX = 16 };

/* What was copied of the working directory: see output.h. */
struct result_copied {
	bool asked;
	uint64_t files, directories, links;
	uint64_t bytes; /* of the files, holes included */
	size_t left_out_count;
	struct result_left_out left_out[RESULT_LEFT_OUT_MAX]; /* the first of them */
	struct error error;				      /* why the rest is missing; text is empty otherwise */
};

/* A file that was left in the working directory. */
struct result_file {
	char *path;		/* relative to that; owned */
	uint64_t offset, size;	/* bytes, in the file that holds all */
};

/* Descriptors that a result can have: kept_fds and that of kept_files. */
enum { RESULT_KEPT_MAX = 3 };

enum { RESULT_FILES_MAX = 100, RESULT_FILES_BYTES_MAX = 64 << 20 /* of all together */ };

struct result_files {
	int fd; /* an unlinked file with the content of all, one behind the other; 0 or -1: none */
	uint64_t bytes;
	struct result_file list[RESULT_FILES_MAX];
	size_t count;
	uint64_t left_out; /* too many, or too large */
};

enum {
	RESULT_WARNINGS_MAX = 8,
	RESULT_IMAGES_MAX = 8,
	RESULT_IMAGE_BYTES_MAX = 1 << 20,
	RESULT_IMAGES_BYTES_MAX = 4 << 20, /* of all together */
	RESULT_KEPT_BYTES_MAX = 64 << 20,
};

/* A port that leads into the sandbox. */
struct result_port {
	uint16_t host_port, port;
	bool v4, v6; /* at 127.0.0.1 and ::1 of the host */
};

struct run_result {
	struct exec_result execs[SPEC_EXECS_MAX];
	size_t execs_count; /* the ones that were started or failed in setup; at least 1 */
	enum enforced_by enforced_by[LIMIT_MAX];
	uint32_t host_uid, host_gid; /* what uid and gid inside are on the host */
	bool id_range;               /* 65536 ids are mapped, not one */
	int landlock_abi;            /* of the second wall; 0: the kernel has none */
	struct result_port published[SPEC_PUBLISH_MAX];
	size_t published_count;
	char cgroup[256];            /* the sandbox's cgroup, or empty */
	char warnings[RESULT_WARNINGS_MAX]
		     [ERROR_TEXT_MAX]; /* weaker than asked or usual, each a sentence */
	size_t warnings_count;
	size_t limits_warning; /* 1 + the index of the warning that no cgroup enforces the limits; 0: there is none */
	struct result_image images[RESULT_IMAGES_MAX]; /* with spec.collect_images */
	size_t images_count;
	unsigned images_left_out; /* too large, or too many */
	/*
	 * With spec.keep_output: unlinked files with all that the last command wrote to standard output and
	 * error, up to RESULT_KEPT_BYTES_MAX each; -1 where there is none (no space, or not asked for).
	 */
	int kept_fds[2];
	bool kept_whole[2]; /* nothing is missing in it */
	struct result_copied copied;
	struct result_files kept_files; /* with spec.collect_files */
	struct report *network; /* NETWORK_ALLOW: what was reached, and what not; owned; else NULL */
	bool output_lost;   /* what the command wrote could not be written on: see warnings */
	uint64_t setup_us;  /* from create to the first command's start */
	uint64_t total_us;  /* from create to destroyed */
};

void run_result_free(struct run_result *result);

/* The last exec: the one whose end is the end of the run. */
const struct exec_result *run_result_last(const struct run_result *result);

/*
 * The exit status of `nsbox run` (DESIGN: its table is in nsbox-run(1)): the command's own; 124
 * timeout; 125 nsbox failed; 126, 127 cannot execute, not found; 128+n signal n; 137 a limit killed it.
 */
int run_result_exit_status(const struct run_result *result);

const char *ended_by_name(enum ended_by ended_by);    /* "exited", "signaled", … */
const char *limit_kind_name(enum limit_kind limit);   /* "memory", "pids", … */
const char *limit_kind_option(enum limit_kind limit); /* "--memory", … : what raises it */
const char *limit_hit_option(const struct limit_hit *hit);
const char *enforced_by_name(enum enforced_by enforcer); /* "cgroup", …; "none" */

#endif
