/* SPDX-License-Identifier: MIT */
/* All processes of the sandbox, stopped: see halt.h. Runs in the agent, without malloc and stdio. */
#define _GNU_SOURCE
#include "sandbox/halt.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "sandbox/processes.h"

enum {
	DISK_MS = 500, /* for one that waits for a disk to come back; then that it cannot go on has to do */
	LOOK_FIRST_US = 200, /* between two looks */
	LOOK_LAST_US = 10 * 1000,
	DOWNWARDS_MS = 200, /* for those above to come to a stand before those below */
	GUARD_MS = 100, /* between two looks at what is halted */
	GUARD_CLOSE_MS = 2, /* for CLOSE_MS after something went on */
	CLOSE_MS = 1000,
	THREADS_MAX = 1024, /* of a process that are looked at */
};

static struct processes processes;
static pid_t stopped_before[PROCESSES_MAX]; /* by ascending pid */
static size_t stopped_before_count;
static bool halted;
static uint64_t close_until_ms;

enum standing { STOPPED, WAITING /* in the kernel, where no signal reaches it */, RUNNING };

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void sleep_us(long us)
{
	const struct timespec time = {.tv_nsec = us * 1000};

	nanosleep(&time, NULL);
}

/* --- looking --- */

static enum standing standing_of(char state)
{
	if (state == 'T' || state == 't' || state == 'Z' || state == 'X')
		return STOPPED;
	return state == 'D' ? WAITING : RUNNING;
}

/* The parent that a vfork(2) keeps waiting: it goes on when the child does, which is stopped. */
static bool waits_for_child(const struct process *process)
{
	for (size_t i = 0; i < processes.count; i++)
		if (processes.list[i].parent == process->pid && processes.list[i].unexecuted &&
			standing_of(processes.list[i].state) == STOPPED)
			return true;
	return false;
}

/* That of its liveliest thread. */
static enum standing liveliest(const struct process *process)
{
	enum standing standing = standing_of(process->state);
	static char states[THREADS_MAX];
	size_t count = process->threads > 1 ? processes_thread_states(process->pid, states, sizeof states) : 0;

	for (size_t i = 0; i < count; i++)
		if (standing_of(states[i]) > standing)
			standing = standing_of(states[i]);
	return standing;
}

static enum standing look_at(const struct process *process)
{
	enum standing standing = liveliest(process);

	return standing == WAITING && waits_for_child(process) ? STOPPED : standing;
}

/* Of all, anew. */
static enum standing look(void)
{
	enum standing most = STOPPED;

	processes_list(&processes);
	for (size_t i = 0; i < processes.count && most != RUNNING; i++) {
		enum standing standing = look_at(&processes.list[i]);

		most = standing > most ? standing : most;
	}
	return most;
}

/* --- who is above whom --- */

/* How many of the list it has above it, with itself; each is walked over once. Returns the greatest. */
static int find_depths(void)
{
	int greatest = 0;

	for (size_t i = 0; i < processes.count; i++) {
		int depth = 0;
		struct process *at = &processes.list[i];

		for (; at && !at->looked && depth <= (int)processes.count; depth++)
			at = processes_find(&processes, at->parent);
		depth += at && at->looked ? at->depth : 0;
		greatest = depth > greatest ? depth : greatest;
		for (at = &processes.list[i]; at && !at->looked; at = processes_find(&processes, at->parent)) {
			at->looked = true;
			at->depth = depth--;
		}
	}
	return greatest;
}

/* --- those that the code itself has stopped --- */

static void remember_stopped(void)
{
	stopped_before_count = 0;
	for (size_t i = 0; i < processes.count; i++) {
		const struct process *process = &processes.list[i];

		/*
		 * «t» is one that a debugger in the sandbox holds: SIGCONT only takes our SIGSTOP from it. So it is with
		 * one that waits for its child: it is that which the code has stopped, and not even surely.
		 */
		if (process->state != 't' && liveliest(process) == STOPPED)
			stopped_before[stopped_before_count++] = process->pid;
	}
}

static bool was_stopped(pid_t pid)
{
	size_t low = 0, high = stopped_before_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (stopped_before[middle] == pid)
			return true;
		if (stopped_before[middle] < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* --- stopping --- */

/* The first of the list that runs and has the fewest above it; NULL: none runs. */
static const struct process *find_topmost(void)
{
	const struct process *topmost = NULL;

	processes_list(&processes);
	find_depths();
	for (size_t i = 0; i < processes.count; i++)
		if ((!topmost || processes.list[i].depth < topmost->depth) && look_at(&processes.list[i]) == RUNNING)
			topmost = &processes.list[i];
	return topmost;
}

/*
 * Level by level, while there is time: a shell that still waits for its job when that stops would take it for one that
 * somebody has stopped.
 */
static void stop_downwards(void)
{
	uint64_t begun = now_ms();
	const struct process *topmost;

	while (now_ms() - begun < DOWNWARDS_MS && (topmost = find_topmost())) {
		int depth = topmost->depth;

		for (size_t i = 0; i < processes.count; i++)
			if (processes.list[i].depth == depth)
				kill(processes.list[i].pid, SIGSTOP);
		sleep_us(LOOK_FIRST_US);
	}
}

/* True once all stand still. */
static bool stop_all(void)
{
	uint64_t begun = now_ms();
	long us = LOOK_FIRST_US;

	stop_downwards();
	for (;;) {
		enum standing standing;
		uint64_t waited;

		kill(-1, SIGSTOP);
		standing = look();
		waited = now_ms() - begun;
		if (processes.more)
			return false;
		if (standing == STOPPED || (standing == WAITING && waited >= DISK_MS))
			return true;
		if (waited >= HALT_MS)
			return false;
		sleep_us(us);
		us = us * 2 < LOOK_LAST_US ? us * 2 : LOOK_LAST_US;
	}
}

int halt_begin(void)
{
	bool more;

	if (!halted) {
		look();
		if (processes.more)
			return -E2BIG;
		remember_stopped();
	}
	halted = true;
	close_until_ms = 0;
	if (stop_all())
		return (int)processes.count;
	more = processes.more;
	halt_end();
	return more ? -E2BIG : -ETIMEDOUT;
}

int halt_guard(void)
{
	if (!halted)
		return -1;
	if (look() != STOPPED) {
		kill(-1, SIGSTOP);
		close_until_ms = now_ms() + CLOSE_MS;
	}
	return now_ms() < close_until_ms ? GUARD_CLOSE_MS : GUARD_MS;
}

/* --- going on --- */

void halt_end(void)
{
	if (!halted)
		return;
	halted = false;
	processes_list(&processes);
	for (int depth = find_depths(); depth >= 0; depth--)
		for (size_t i = 0; i < processes.count; i++)
			if (processes.list[i].depth == depth && !was_stopped(processes.list[i].pid))
				kill(processes.list[i].pid, SIGCONT);
	stopped_before_count = 0;
}
