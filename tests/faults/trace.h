/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_TESTS_TRACE_H
#define NSBOX_TESTS_TRACE_H

/*
 * Runs nsbox under ptrace(2) and makes one of its system calls go wrong. (It is linked statically, so no
 * library can be put before it.)
 *
 * A call is named by the process that makes it and by its place among the calls of that process. Processes
 * are numbered as they are made: 0 is nsbox itself. What a process does after it has executed
 * another program is the command's, and is left alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	TRACE_PROCESSES_MAX = 40,
	TRACE_CALLS_MAX = 4096,
	TRACE_TEXT_MAX = 64 << 10 /* bytes of a stream */
};

enum fault_kind {
	FAULT_NONE,
	FAULT_ERROR, /* the call is not made and gives an error */
	FAULT_SHORT, /* a write writes half */
	FAULT_KILL,  /* the process is killed as it enters the call */
	FAULT_TERM,  /* it is asked to end then */
};

struct fault {
	enum fault_kind kind;
	int process;
	size_t call;     /* from 0 */
	uint64_t number; /* of the system call that it must be: else nothing goes wrong */
	bool among_same; /* `call` counts those with this number alone, which what comes before changes less */
	int errnum;
};

struct call {
	uint64_t number;
	uint64_t length; /* the third argument: for a write, its length */
};

struct outcome {
	int status;       /* as of waitpid(2), of process 0 */
	bool reached;     /* the call that was to go wrong was made */
	bool hung;        /* it was still there after the time limit, and was killed */
	bool left;        /* other processes outlived it by more than a while, and were killed */
	struct call call; /* the one that went wrong */
	char output[TRACE_TEXT_MAX], errors[TRACE_TEXT_MAX];
	size_t processes_count;
	size_t calls_count[TRACE_PROCESSES_MAX];
	struct call calls[TRACE_PROCESSES_MAX][TRACE_CALLS_MAX];
};

/*
 * Runs `argv` with `fault`, reading what it writes on both streams. Standard input is a pipe at its end and the
 * others are pipes; with `files` standard input is the program itself and standard output a regular file.
 *
 * With `requests`, lines that end with NULL, the program is a server: it gets a line when it has answered, with as many
 * lines, the ones before that have an "id", and the end of its input after the last answer, or when `patience_ms`
 * have gone without one.
 *
 * With `lasting`, a process that serves the program: its calls are made to go wrong, too. How often it waits for events
 * is not counted. With `lets_go`, what is there when the program has ended and nothing happens any more goes on without
 * being traced.
 *
 * Exits with a message when tracing itself does not work.
 */
struct trace_options {
	bool files;
	char *const *requests;
	unsigned patience_ms, limit_ms;
	pid_t lasting; /* that is there already, and has the number 1; 0: none */
	bool lets_go;
};

void trace_run(char *const *argv, const struct fault *fault, const struct trace_options *options,
	struct outcome *ret);

#endif
