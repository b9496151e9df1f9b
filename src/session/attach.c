/* SPDX-License-Identifier: MIT */
/* A client on the terminal of a session's command: see attach.h. */
#define _GNU_SOURCE
#include "session/attach.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "sandbox/terminal.h"
#include "session/client.h"
#include "session/frame.h"
#include "util/cleanup.h"
#include "util/error.h"

/* More than a terminal holds: others of the session may go on writing to it. */
enum { LAST_PIECES_MAX = 64 };

struct attachment {
	int socket, signals;
	sigset_t old_mask;
	struct sigaction old_pipe;
	struct terminal terminal;
	int killed_by; /* a signal; 0 */
};

json_t *session_terminal_size(void)
{
	struct winsize size = {0};

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	return json_pack("{s:i, s:i}", "rows", (int)size.ws_row, "columns", (int)size.ws_col);
}

/* --- signals --- */

static int take_signals(struct attachment *attachment, struct error *err)
{
	static const int taken[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
		struct sigaction action;

		/* What the caller ignores stays ignored. */
		if (sigaction(taken[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, taken[i]);
	}
	sigprocmask(SIG_BLOCK, &set, &attachment->old_mask);
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &attachment->old_pipe);
	attachment->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return attachment->signals < 0 ? error_set(err, errno, "waiting for signals") : 0;
}

static void give_back_signals(struct attachment *attachment)
{
	sigaction(SIGPIPE, &attachment->old_pipe, NULL);
	sigprocmask(SIG_SETMASK, &attachment->old_mask, NULL);
	close_fd(&attachment->signals);
}

/* The terminal is restored by now. The session sees that we are gone, as it does whatever ends us. */
_Noreturn static void die_by(int number)
{
	sigset_t set;

	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + number);
}

static void serve_signals(struct attachment *attachment)
{
	struct signalfd_siginfo info;

	while (read(attachment->signals, &info, sizeof info) == sizeof info)
		switch (info.ssi_signo) {
		case SIGWINCH:
			terminal_resize(&attachment->terminal);
			break;
		case SIGTSTP:
			terminal_suspend(&attachment->terminal);
			raise(SIGSTOP);
			terminal_resume(&attachment->terminal);
			break;
		default:
			attachment->killed_by = (int)info.ssi_signo;
		}
}

/* --- until it ends --- */

enum { POLL_SOCKET, POLL_SIGNALS, POLL_INPUT, POLL_OUTPUT = POLL_INPUT + RELAY_POLLFDS, POLL_MAX = POLL_OUTPUT + RELAY_POLLFDS };

/* As poll(2), with what can be done on the terminal done. */
static int turn(struct attachment *attachment, bool live, int timeout_ms, struct pollfd fds[POLL_MAX])
{
	int n;

	fds[POLL_SOCKET] = (struct pollfd){.fd = live ? attachment->socket : -1, .events = POLLIN};
	fds[POLL_SIGNALS] = (struct pollfd){.fd = attachment->signals, .events = POLLIN};
	relay_pollfds(&attachment->terminal.relays[0], &fds[POLL_INPUT]);
	relay_pollfds(&attachment->terminal.relays[1], &fds[POLL_OUTPUT]);
	n = poll(fds, POLL_MAX, timeout_ms);
	if (n <= 0)
		return n;
	for (int i = 0; i < 2; i++)
		relay_step(&attachment->terminal.relays[i], &fds[i == 0 ? POLL_INPUT : POLL_OUTPUT]);
	if (fds[POLL_SIGNALS].revents)
		serve_signals(attachment);
	return n;
}

/* Nobody can see what the command writes any more. */
static bool output_is_gone(const struct attachment *attachment)
{
	return attachment->terminal.relays[1].write_errno != 0;
}

/* Every process of the command is dead, so what they wrote is in the terminal. */
static void take_the_rest(struct attachment *attachment)
{
	struct relay *output = &attachment->terminal.relays[1];
	struct pollfd fds[POLL_MAX];

	relay_close(&attachment->terminal.relays[0]);
	for (int i = 0; i < LAST_PIECES_MAX && relay_active(output) && !attachment->killed_by; i++)
		if (turn(attachment, false, output->length > 0 ? -1 : 0, fds) == 0)
			return;
}

static json_t *stay(struct attachment *attachment, struct error *err)
{
	struct pollfd fds[POLL_MAX] = {{0}};
	json_t *result;

	while (!attachment->killed_by && !output_is_gone(attachment) && !fds[POLL_SOCKET].revents) {
		bool ended = terminal_input_ended(&attachment->terminal);
		int n = turn(attachment, true, ended ? TERMINAL_END_MS : -1, fds);

		if (n < 0 && errno != EINTR) {
			error_set(err, errno, "waiting for the terminal");
			return NULL;
		}
		if (n == 0)
			terminal_type_end(&attachment->terminal);
	}
	if (attachment->killed_by)
		return NULL;
	if (output_is_gone(attachment)) {
		int errnum = attachment->terminal.relays[1].write_errno;

		attachment->killed_by = errnum == EPIPE ? SIGPIPE : 0;
		error_set(err, errnum, "writing to standard output");
		return NULL;
	}
	result = session_receive(attachment->socket, NULL, err);
	take_the_rest(attachment);
	return result;
}

json_t *session_attach(int socket, json_t *request, struct error *err)
{
	cleanup_close int fd = socket;
	struct attachment attachment = {.socket = fd, .signals = -1};
	struct frame_header header;
	json_t *result = NULL;
	int master;

	if (session_send(fd, request, NULL, 0, err) < 0)
		return NULL;
	if (frame_read_header(fd, &header, &master) < 0)
		return session_receive(fd, NULL, err);
	if (header.type != FRAME_TERMINAL || master < 0) {
		close_fd(&master);
		return session_receive(fd, &header, err);
	}
	if (take_signals(&attachment, err) < 0) {
		close_fd(&master);
		return NULL;
	}
	terminal_start(&attachment.terminal, master);
	result = stay(&attachment, err);
	terminal_end(&attachment.terminal);
	if (attachment.killed_by) {
		json_decref(result);
		die_by(attachment.killed_by);
	}
	give_back_signals(&attachment);
	return result;
}
