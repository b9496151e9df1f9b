/* SPDX-License-Identifier: MIT */
/*
 * A program that goes to the limits, for the tests to run inside (it is static, so that it runs in an empty
 * root too), and one that measures, for them to run outside:
 *
 *     load memory MIB            takes that much, says so, sleeps
 *     load processes N MIB       N processes each of which does
 *     load shared N MIB          N processes that share that much; ends after half a second
 *     load bomb SECONDS          forks whatever it can, for that long
 *     load threads N             starts N threads; prints how many there are
 *     load stubborn              ignores every signal that can be, in a tree of sessions; sleeps
 *     load write FILE MIB        writes; prints why it stopped
 *     load descriptors           lists what is open, and what kind it is
 *     load ids                   real and effective ids and the groups
 *     load orphaned-threads MIB  the first thread ends, and another takes that much, says so, sleeps
 *     load size                  rows and columns of its terminal
 *     load peak COMMAND…         prints the greatest resident size, in KiB, of a command to descriptor 9
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, RESULT_FD = 9, GROUPS_MAX = 64, SHARED_MS = 500 };

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static char *take(size_t mib, int flags)
{
	char *memory = mmap(NULL, mib * MIB, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("load: mmap");
		exit(1);
	}
	return memory;
}

/* Written with what no kernel can merge or compress away. */
static void touch(char *memory, size_t mib)
{
	for (size_t i = 0; i < mib * MIB; i += 4096)
		memcpy(memory + i, &i, sizeof i);
}

static void hold_memory(size_t mib)
{
	touch(take(mib, MAP_PRIVATE), mib);
	say("held");
	pause();
}

static void run_processes(int count, size_t mib)
{
	for (int i = 0; i < count; i++)
		if (fork() == 0)
			hold_memory(mib);
	while (wait(NULL) > 0)
		;
}

static void share_memory(int count, size_t mib)
{
	char *memory = take(mib, MAP_SHARED);
	int failed = 0, status;

	for (int i = 0; i < count; i++)
		if (fork() == 0) {
			touch(memory, mib);
			usleep(SHARED_MS * 1000);
			_exit(0);
		}
	while (wait(&status) > 0)
		failed += status != 0;
	if (failed)
		exit(1);
	say("shared");
}

static void bomb(unsigned seconds)
{
	alarm(seconds);
	for (;;)
		if (fork() == 0)
			alarm(seconds);
}

static void *wait_forever(void *unused)
{
	pause();
	return unused;
}

static void start_threads(int count)
{
	pthread_attr_t attributes;
	int started = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 * 1024);
	while (started < count) {
		pthread_t thread;

		if (pthread_create(&thread, &attributes, wait_forever, NULL) != 0)
			break;
		started++;
	}
	printf("%d threads\n", started);
}

static void *hold_in_thread(void *mib)
{
	/* Until the first thread is gone. */
	usleep(100 * 1000);
	hold_memory((size_t)mib);
	return NULL;
}

static void orphan_thread(size_t mib)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, hold_in_thread, (void *)mib) != 0)
		exit(1);
	pthread_exit(NULL);
}

static void print_size(void)
{
	struct winsize size = {0};

	ioctl(0, TIOCGWINSZ, &size);
	printf("%d %d\n", size.ws_row, size.ws_col);
}

static void be_stubborn(void)
{
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_IGN);
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			setsid();
	say("stubborn");
	for (;;)
		pause();
}

static void write_file(const char *path, size_t mib)
{
	static char block[MIB];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	memset(block, 'x', sizeof block);
	for (size_t i = 0; i < mib; i++)
		if (write(fd, block, sizeof block) != sizeof block) {
			/* A short write is followed by one that says why. */
			if (write(fd, block, sizeof block) < 0)
				printf("%s\n", strerrorname_np(errno));
			exit(1);
		}
	say("written");
}

static void list_descriptors(void)
{
	for (int fd = 0; fd < 4096; fd++) {
		struct stat status;

		if (fstat(fd, &status) < 0)
			continue;
		printf("%d %s\n", fd,
			S_ISREG(status.st_mode)	   ? "file"
			: S_ISCHR(status.st_mode)  ? "device"
			: S_ISFIFO(status.st_mode) ? "pipe"
			: S_ISSOCK(status.st_mode) ? "socket"
						   : "other");
	}
}

static void print_ids(void)
{
	gid_t groups[GROUPS_MAX];
	int count = getgroups(GROUPS_MAX, groups);

	printf("%d %d %d %d", getuid(), geteuid(), getgid(), getegid());
	for (int i = 0; i < count; i++)
		printf(" %d", groups[i]);
	putchar('\n');
}

static int measure_peak(char **argv)
{
	struct rusage usage;
	int status;
	pid_t child = fork();

	if (child == 0) {
		close(RESULT_FD);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) < 0)
		return 125;
	dprintf(RESULT_FD, "%ld\n", usage.ru_maxrss);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	const char *first = argc > 2 ? argv[2] : "1", *second = argc > 3 ? argv[3] : "1";

	if (strcmp(verb, "memory") == 0)
		hold_memory(strtoul(first, NULL, 10));
	else if (strcmp(verb, "processes") == 0)
		run_processes(atoi(first), strtoul(second, NULL, 10));
	else if (strcmp(verb, "shared") == 0)
		share_memory(atoi(first), strtoul(second, NULL, 10));
	else if (strcmp(verb, "bomb") == 0)
		bomb((unsigned)atoi(first));
	else if (strcmp(verb, "threads") == 0)
		start_threads(atoi(first));
	else if (strcmp(verb, "orphaned-threads") == 0)
		orphan_thread(strtoul(first, NULL, 10));
	else if (strcmp(verb, "size") == 0)
		print_size();
	else if (strcmp(verb, "stubborn") == 0)
		be_stubborn();
	else if (strcmp(verb, "write") == 0)
		write_file(first, strtoul(second, NULL, 10));
	else if (strcmp(verb, "descriptors") == 0)
		list_descriptors();
	else if (strcmp(verb, "ids") == 0)
		print_ids();
	else if (strcmp(verb, "peak") == 0 && argc > 2)
		return measure_peak(argv + 2);
	else {
		fprintf(stderr, "load: see the top of load.c\n");
		return 2;
	}
	return 0;
}
