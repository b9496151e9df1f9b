/* SPDX-License-Identifier: MIT */
/* The caller's terminal and the sandbox's: see terminal.h. */
#define _GNU_SOURCE
#include "sandbox/terminal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"

enum { END_OF_FILE = 4 }; /* VEOF of a new terminal: ^D */

/*
 * A terminal that is stopped (^S) would block a write. Opened anew, without blocking, it is a
 * description of our own, so the caller's is not changed.
 */
static void open_output(struct terminal *terminal, enum relay_target *ret_target)
{
	int fd = isatty(STDOUT_FILENO)
			 ? open("/proc/self/fd/1", O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
			 : -1;

	terminal->owns_output = fd >= 0;
	terminal->output = fd >= 0 ? fd : STDOUT_FILENO;
	*ret_target = fd >= 0 ? RELAY_NONBLOCKING : relay_target_of(STDOUT_FILENO);
}

static void make_raw(struct terminal *terminal)
{
	struct termios raw;

	if (!isatty(terminal->input) || tcgetattr(terminal->input, &terminal->saved) < 0)
		return;
	raw = terminal->saved;
	cfmakeraw(&raw);
	terminal->raw = tcsetattr(terminal->input, TCSADRAIN, &raw) == 0;
}

void terminal_resize(const struct terminal *terminal)
{
	struct winsize size;

	if (terminal->master < 0)
		return;
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 ||
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		ioctl(terminal->master, TIOCSWINSZ, &size);
}

void terminal_start(struct terminal *terminal, int master)
{
	enum relay_target target;

	*terminal = TERMINAL_NONE;
	terminal->master = master;
	terminal->input = STDIN_FILENO;
	open_output(terminal, &target);
	relay_init(&terminal->relays[0], terminal->input, false, master, false, RELAY_NONBLOCKING);
	terminal->relays[0].eof_byte = END_OF_FILE;
	relay_init(&terminal->relays[1], master, false, terminal->output, false, target);
	terminal_resize(terminal);
	make_raw(terminal);
}

bool terminal_input_ended(const struct terminal *terminal)
{
	return terminal->master >= 0 && terminal->relays[0].from_ended && terminal->relays[0].length == 0;
}

void terminal_type_end(const struct terminal *terminal)
{
	const char end = END_OF_FILE;

	(void)!write(terminal->master, &end, 1); /* where there is no room, it comes the next time */
}

void terminal_suspend(struct terminal *terminal)
{
	if (terminal->raw)
		tcsetattr(terminal->input, TCSADRAIN, &terminal->saved);
}

void terminal_resume(struct terminal *terminal)
{
	if (terminal->raw)
		make_raw(terminal);
	terminal_resize(terminal);
}

void terminal_end(struct terminal *terminal)
{
	if (terminal->master < 0)
		return;
	for (int i = 0; i < 2; i++)
		relay_close(&terminal->relays[i]);
	if (terminal->raw)
		tcsetattr(terminal->input, TCSADRAIN, &terminal->saved);
	if (terminal->owns_output)
		close(terminal->output);
	close_fd(&terminal->master);
}

/* Settings, with what lies between them in the struct the same always. */
static bool get_modes(int fd, struct termios *ret)
{
	memset(ret, 0, sizeof *ret);
	return tcgetattr(fd, ret) == 0;
}

void terminal_note_modes(struct terminal_modes *ret)
{
	ret->fd = -1;
	for (int fd = 0; fd < 3 && ret->fd < 0; fd++)
		if (get_modes(fd, &ret->noted))
			ret->fd = fd;
}

/* A command in the background would be stopped for changing the terminal, and it is somebody else's then. */
static bool is_in_foreground(int fd)
{
	pid_t foreground = tcgetpgrp(fd);

	return foreground < 0 || foreground == getpgrp();
}

void terminal_restore_modes(const struct terminal_modes *modes)
{
	struct termios now;
	struct stat st;

	if (modes->fd < 0 || !is_in_foreground(modes->fd))
		return;
	/* Without waiting for what is still to be shown: the command may have stopped that. */
	tcflow(modes->fd, TCOON);
	ioctl(modes->fd, TIOCNXCL);
	if (fstat(STDOUT_FILENO, &st) == 0 && S_ISFIFO(st.st_mode))
		return;
	if (get_modes(modes->fd, &now) && memcmp(&now, &modes->noted, sizeof now) != 0)
		tcsetattr(modes->fd, TCSANOW, &modes->noted);
}
