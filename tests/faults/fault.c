/* SPDX-License-Identifier: MIT */
/*
 * One fault of a session, or none: prepares a session, and runs a command about it, whose calls and those of the
 * session's supervisor, and of what these two make, can go wrong.
 *
 *	fault [--fault FAULT | --allocation N] [--prepare COMMAND] COMMAND [ARGUMENT]...
 *
 * --allocation: of an nsbox of alloc.c, the N-th allocation fails, or none with 0; «made» says then how many there were.
 * An argument «@FILE» stands for the first line of FILE, after that. COMMAND of --prepare is one for sh; the process named nsbox-session that it leaves behind is the supervisor. What the
 * command writes is passed on. On descriptor 3 comes what became of it: «status» as of waitpid(2), «reached», «hung», each
 * with a number, and, where there was no fault, every one that there can be: «fault», its word for --fault, how it is
 * called, and its place among all calls of its process.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "alloc.h"
#include "rules.h"
#include "trace.h"

enum { LIMIT_MS = 60000 };

static struct outcome outcome;

/* Its children are what it has not ended itself. */
static pid_t find_lasting(void)
{
	FILE *children;
	char path[64], name[32];
	pid_t found = 0;
	int pid;

	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	children = fopen(path, "re");
	while (children && fscanf(children, "%d", &pid) == 1) {
		FILE *comm;

		snprintf(path, sizeof path, "/proc/%d/comm", pid);
		comm = fopen(path, "re");
		if (comm && fscanf(comm, "%31s", name) == 1 && strcmp(name, "nsbox-session") == 0)
			found = pid;
		if (comm)
			fclose(comm);
	}
	if (children)
		fclose(children);
	return found;
}

static pid_t prepare(const char *command)
{
	if (system(command) != 0) { /* NOLINT(cert-env33-c): the test's own */
		fprintf(stderr, "this cannot be prepared: %s\n", command);
		exit(2);
	}
	return find_lasting();
}

static struct fault read_fault(const char *text)
{
	struct fault fault;
	unsigned long number;
	int kind;

	if (sscanf(text, "%d:%zu:%lu:%d:%d", &fault.process, &fault.call, &number, &kind,
		    &fault.errnum) != 5) {
		fprintf(stderr, "no fault: %s\n", text);
		exit(2);
	}
	fault.number = number;
	fault.among_same = true;
	fault.kind = (enum fault_kind)kind;
	return fault;
}

static const char *kind_name(const struct fault *fault)
{
	return fault->kind == FAULT_KILL    ? "killed"
	       : fault->kind == FAULT_TERM  ? "asked-to-end"
	       : fault->kind == FAULT_SHORT ? "half-written"
					    : strerrorname_np(fault->errnum);
}

static void list_call(FILE *file, bool asked, int process, size_t index)
{
	const struct call *calls = outcome.calls[process], *call = &calls[index];
	struct fault faults[FAULTS_MAX];
	size_t count = list_faults(asked, call, faults), before = 0;

	for (size_t i = 0; i < index; i++)
		before += calls[i].number == call->number;
	for (size_t i = 0; i < count; i++)
		fprintf(file, "fault %d:%zu:%lu:%d:%d %s %zu\n", process, before, (unsigned long)call->number,
			(int)faults[i].kind, faults[i].errnum, kind_name(&faults[i]), index);
}

static void list(FILE *file, bool lasting)
{
	for (int process = 0; process < (int)outcome.processes_count; process++)
		for (size_t i = 0; i < outcome.calls_count[process]; i++)
			list_call(file, process == 0 || (lasting && process == 1), process, i);
}

/* Nothing fails before it is set. */
static struct alloc_plan *open_plan(void)
{
	int fd = open(getenv(ALLOC_PLAN_VARIABLE) ?: "", O_RDWR | O_CLOEXEC);
	void *plan = fd < 0 ? MAP_FAILED
			    : mmap(NULL, sizeof(struct alloc_plan), PROT_READ | PROT_WRITE,
				      MAP_SHARED, fd, 0);

	if (plan == MAP_FAILED) {
		perror(ALLOC_PLAN_VARIABLE);
		exit(2);
	}
	*(struct alloc_plan *)plan = (struct alloc_plan){0};
	return plan;
}

static char *read_argument(char *argument)
{
	static char line[256];
	FILE *file = *argument == '@' ? fopen(argument + 1, "re") : NULL;

	if (file && fgets(line, sizeof line, file))
		line[strcspn(line, "\n")] = '\0';
	if (file)
		fclose(file);
	return file ? strdup(line) : argument;
}

int main(int argc, char **argv)
{
	struct fault fault = {.kind = FAULT_NONE};
	struct trace_options options = {.limit_ms = LIMIT_MS, .lets_go = true};
	FILE *file = fdopen(3, "we");
	struct alloc_plan *plan = NULL;
	uint64_t allocation = 0;
	int next = 1;

	if (!file || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return 2;
	for (; next + 1 < argc && argv[next][0] == '-'; next += 2) {
		if (strcmp(argv[next], "--fault") == 0)
			fault = read_fault(argv[next + 1]);
		else if (strcmp(argv[next], "--prepare") == 0)
			options.lasting = prepare(argv[next + 1]);
		else if (strcmp(argv[next], "--allocation") == 0) {
			plan = open_plan();
			allocation = strtoul(argv[next + 1], NULL, 10);
		}
	}
	for (int i = next; i < argc; i++)
		argv[i] = read_argument(argv[i]);
	if (plan)
		*plan = (struct alloc_plan){.fail = allocation};
	trace_run(argv + next, &fault, &options, &outcome);
	fputs(outcome.output, stdout);
	fputs(outcome.errors, stderr);
	fprintf(file, "status %d\nreached %d\nhung %d\n", outcome.status, outcome.reached,
		outcome.hung);
	if (plan)
		fprintf(file, "made %lu\n", (unsigned long)plan->made);
	if (plan)
		*plan = (struct alloc_plan){0};
	else if (fault.kind == FAULT_NONE)
		list(file, options.lasting > 0);
	return fclose(file) != 0;
}
