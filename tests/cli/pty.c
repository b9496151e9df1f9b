/* SPDX-License-Identifier: MIT */
/*
 * Runs a command on a terminal of its own, and acts the person in front of it:
 *
 *     pty [STEP]… -- COMMAND [ARGUMENT]…
 *
 *     size:ROWSxCOLUMNS   the terminal's size (the first one: before the command starts)
 *     wait:TEXT           until the command has written TEXT, since the last wait
 *     type:TEXT           keys; \xHH, \r, \n, \t are understood
 *     end:TEXT            keys that end it, as the last step: again each second, as an end of input that comes while a line
 *                         editor is about to change the terminal's modes is lost
 *     signal:NAME         to the command: INT, TERM, KILL, HUP, TSTP, CONT, QUIT, STOP
 *     pause:MS
 *     modes               prints «[pty: cooked]» or «[pty: raw]»
 *
 * What the command writes goes to standard output. At the end a line says how the terminal was left. The
 * status is the command's (128+N for signal N), or 70 where a wait was in vain for thirty seconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 30000, AGAIN_MS = 1000, SEEN_MAX = 1 << 20, STATUS_IN_VAIN = 70 };

static int master, slave;
static pid_t child;
static char *seen; /* what came since the last wait */
static size_t seen_length;
static const char *ending; /* the keys that end it; or NULL */

static void __attribute__((noreturn)) fail(const char *what)
{
	fprintf(stderr, "pty: %s: %s\n", what, strerror(errno));
	if (child > 0)
		kill(child, SIGKILL);
	exit(STATUS_IN_VAIN);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Passes on what comes within `ms`; returns false when nothing more can come. */
static bool relay(int ms)
{
	struct pollfd poll_fd = {master, POLLIN, 0};
	char buffer[4096];
	ssize_t n;

	if (poll(&poll_fd, 1, ms) <= 0)
		return true;
	n = read(master, buffer, sizeof buffer);
	if (n <= 0)
		return false;
	if (fwrite(buffer, 1, (size_t)n, stdout) != (size_t)n)
		fail("standard output");
	fflush(stdout);
	if (seen_length + (size_t)n > SEEN_MAX)
		seen_length = 0;
	memcpy(seen + seen_length, buffer, (size_t)n);
	seen_length += (size_t)n;
	return true;
}

static void relay_for(long ms)
{
	for (long end = now_ms() + ms; now_ms() < end && relay((int)(end - now_ms()));)
		;
}

static void wait_for(const char *text)
{
	long end = now_ms() + WAIT_MS;
	char *place;

	while (!(place = memmem(seen, seen_length, text, strlen(text)))) {
		if (now_ms() >= end || !relay(50)) {
			errno = ETIMEDOUT;
			fail(text);
		}
	}
	place += strlen(text);
	seen_length -= (size_t)(place - seen);
	memmove(seen, place, seen_length);
}

static void type_keys(const char *text)
{
	while (*text) {
		char key = *text++;
		char digits[3] = "";

		if (key == '\\' && *text) {
			key = *text++;
			if (key == 'x' && text[0] && text[1]) {
				memcpy(digits, text, 2);
				text += 2;
				key = (char)strtol(digits, NULL, 16);
			} else {
				key = key == 'r' ? '\r' : key == 'n' ? '\n' : key == 't' ? '\t' : key;
			}
		}
		if (write(master, &key, 1) != 1)
			fail("typing");
	}
}

static void send_signal(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {{"INT", SIGINT}, {"TERM", SIGTERM}, {"KILL", SIGKILL}, {"HUP", SIGHUP}, {"TSTP", SIGTSTP},
		{"CONT", SIGCONT}, {"QUIT", SIGQUIT}, {"STOP", SIGSTOP}};

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		if (strcmp(signals[i].name, name) == 0) {
			kill(child, signals[i].number);
			return;
		}
	errno = EINVAL;
	fail(name);
}

static void set_size(const char *text)
{
	struct winsize size = {0};

	if (sscanf(text, "%hux%hu", &size.ws_row, &size.ws_col) != 2 || ioctl(master, TIOCSWINSZ, &size) < 0)
		fail(text);
}

static void print_modes(const char *when)
{
	struct termios modes;

	if (tcgetattr(slave, &modes) < 0)
		fail("tcgetattr");
	printf("\n[pty%s: %s]\n", when,
		(modes.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG) ? "cooked" : "raw");
	fflush(stdout);
}

static void do_step(const char *step)
{
	const char *argument = strchr(step, ':') ? strchr(step, ':') + 1 : "";

	if (strncmp(step, "size:", 5) == 0)
		set_size(argument);
	else if (strncmp(step, "wait:", 5) == 0)
		wait_for(argument);
	else if (strncmp(step, "type:", 5) == 0)
		type_keys(argument);
	else if (strncmp(step, "end:", 4) == 0)
		ending = argument;
	else if (strncmp(step, "signal:", 7) == 0)
		send_signal(argument);
	else if (strncmp(step, "pause:", 6) == 0)
		relay_for(atol(argument));
	else if (strcmp(step, "modes") == 0)
		print_modes("");
	else {
		errno = EINVAL;
		fail(step);
	}
}

static void start(char **argv)
{
	child = fork();
	if (child < 0)
		fail("fork");
	if (child > 0)
		return;
	setsid();
	ioctl(slave, TIOCSCTTY, 0);
	for (int fd = 0; fd < 3; fd++)
		dup2(slave, fd);
	close(master);
	close(slave);
	execvp(argv[0], argv);
	_exit(127);
}

/* Until the command has ended; it is killed when it takes too long. */
static int finish(void)
{
	long end = now_ms() + WAIT_MS, again = 0;
	int status;

	while (waitpid(child, &status, WNOHANG) == 0) {
		if (ending && now_ms() >= again) {
			type_keys(ending);
			again = now_ms() + AGAIN_MS;
		}
		relay(20);
		if (now_ms() >= end) {
			errno = ETIMEDOUT;
			fail("the command's end");
		}
	}
	relay_for(50);
	print_modes(" at the end");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	int command = 1, first_step = 1;

	while (command < argc && strcmp(argv[command], "--") != 0)
		command++;
	if (command + 1 >= argc) {
		fprintf(stderr, "usage: pty [STEP]... -- COMMAND [ARGUMENT]...\n");
		return STATUS_IN_VAIN;
	}
	master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		fail("posix_openpt");
	/* Held open here, so that the terminal outlives the command and can be looked at. */
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	seen = malloc(SEEN_MAX + 4096);
	if (slave < 0 || !seen)
		fail("opening the terminal");
	if (command > 1 && strncmp(argv[1], "size:", 5) == 0)
		do_step(argv[first_step++]);
	start(argv + command + 1);
	for (int step = first_step; step < command; step++)
		do_step(argv[step]);
	return finish();
}
