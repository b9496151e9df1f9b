/* SPDX-License-Identifier: MIT */
/* The processes of the sandbox: see processes.h. */
#define _GNU_SOURCE
#include "sandbox/processes.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/cleanup.h"

enum {
	NAME_MAX_DIGITS = 12,
	STAT_FLAGS = 9, /* of the fields of proc(5)'s stat */
	STAT_THREADS = 20,
	FLAG_FORK_NO_EXEC = 0x40, /* PF_FORKNOEXEC */
};

struct raw_entry { /* of getdents64(2) */
	uint64_t inode;
	int64_t offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

/* Field `wanted` of those after the name, whose second is at `fields`; NULL: it has fewer. */
static const char *find_field(const char *fields, int wanted)
{
	for (int field = 2; fields && field < wanted; field++)
		fields = strchr(fields + 1, ' ');
	return fields;
}

/* The text from the end of the name on, which may have any characters itself. NULL: it is gone. */
static const char *read_stat(int proc, const char *name, char *text, size_t size)
{
	char path[NAME_MAX_DIGITS + sizeof "/stat"];
	cleanup_close int fd = -1;
	const char *fields;
	ssize_t n;

	strcpy(path, name);
	strcat(path, "/stat");
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (n <= 0)
		return NULL;
	text[n] = '\0';
	fields = strrchr(text, ')');
	return fields && strlen(fields) >= 5 ? fields : NULL;
}

/* False: it is gone, or dead. One whose first thread alone has ended is not, though it seems to be a zombie. */
static bool read_process(int proc, const char *name, struct process *ret)
{
	char text[512];
	const char *fields = read_stat(proc, name, text, sizeof text), *flags, *threads;

	if (!fields)
		return false;
	flags = find_field(fields, STAT_FLAGS);
	threads = find_field(fields, STAT_THREADS);
	*ret = (struct process){
		.pid = atoi(name),
		.parent = atoi(fields + 4),
		.state = fields[2],
		.unexecuted = flags && strtoul(flags, NULL, 10) & FLAG_FORK_NO_EXEC,
		.threads = threads ? atoi(threads) : 1,
	};
	return (ret->state != 'Z' && ret->state != 'X') || ret->threads > 1;
}

/* Calls `look` with each name that is a number; it returns false to end that. */
static void each_number(int directory, bool (*look)(void *data, int directory, const char *name), void *data)
{
	_Alignas(struct raw_entry) char buffer[32 << 10];
	long n;

	while (directory >= 0 && (n = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0)
		for (char *next = buffer; next < buffer + n; next += ((struct raw_entry *)(void *)next)->length) {
			const char *name = ((struct raw_entry *)(void *)next)->name;

			if (*name >= '1' && *name <= '9' && strlen(name) < NAME_MAX_DIGITS &&
				!look(data, directory, name))
				return;
		}
}

static bool add_process(void *data, int proc, const char *name)
{
	struct processes *processes = data;
	struct process process;

	if (atoi(name) == 1 || !read_process(proc, name, &process))
		return true;
	processes->more = processes->count == PROCESSES_MAX;
	if (!processes->more)
		processes->list[processes->count++] = process;
	return !processes->more;
}

void processes_list(struct processes *processes)
{
	cleanup_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	processes->count = 0;
	processes->more = false;
	each_number(proc, add_process, processes);
}

struct process *processes_find(struct processes *processes, pid_t pid)
{
	size_t low = 0, high = processes->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (processes->list[middle].pid == pid)
			return &processes->list[middle];
		if (processes->list[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

struct states {
	char *list;
	size_t count, room;
};

static bool add_state(void *data, int tasks, const char *name)
{
	struct states *states = data;
	char text[512];
	const char *fields = read_stat(tasks, name, text, sizeof text);

	if (fields)
		states->list[states->count++] = fields[2];
	return states->count < states->room;
}

size_t processes_thread_states(pid_t pid, char *ret_states, size_t room)
{
	struct states states = {.list = ret_states, .room = room};
	char path[sizeof "/proc//task" + NAME_MAX_DIGITS] = "/proc/", digits[NAME_MAX_DIGITS];
	cleanup_close int tasks = -1;
	char *digit = digits + sizeof digits - 1;

	*digit = '\0';
	for (; pid > 0; pid /= 10)
		*--digit = (char)('0' + pid % 10);
	strcat(path, digit);
	strcat(path, "/task");
	tasks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	each_number(tasks, add_state, &states);
	return states.count;
}
