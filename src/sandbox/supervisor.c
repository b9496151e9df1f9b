/* SPDX-License-Identifier: MIT */
/*
 * The supervisor of a run: one poll loop from create to destroyed.
 *
 * States of a run: SETTING_UP until the agent says AGENT_CREATED, then RUNNING for each command in turn,
 * then OVER. A run is over when its last command has ended, a command failed, or something of the
 * supervisor's own knowledge ended it: time, memory, cancellation, the agent's death. From then on
 * nothing that comes from the sandbox is looked at but the rest of its output.
 */
#define _GNU_SOURCE
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/account.h"
#include "sandbox/agent.h"
#include "sandbox/capture.h"
#include "sandbox/collect.h"
#include "sandbox/create.h"
#include "sandbox/features.h"
#include "sandbox/keep.h"
#include "sandbox/listener.h"
#include "sandbox/output.h"
#include "sandbox/terminal.h"
#include "sandbox/watcher.h"
#include "sandbox/wire.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	SETUP_DEADLINE_MS = 60 * 1000,
	DRAIN_DEADLINE_MS = 2000,
	PROGRESS_MS = 1000,
	FIRST_TICK_MS = 10,
	CLOCK_SLACK_US = 1000 * 1000, /* the kernel counts CPU time in ticks, by another clock */
	CPUS_MAX = 8192,              /* that Linux can be built for */
	ERRNO_END = 4096              /* greater than every errno of the kernel's */
};

enum state { SETTING_UP, RUNNING, OVER };

struct run {
	const struct spec *spec;
	const struct run_control *control;
	struct run_result *result;
	struct exec_result *exec; /* of the current command */
	enum state state;
	size_t index; /* of the current command */
	struct sandbox sandbox;
	struct stdio stdio;
	struct terminal terminal;
	struct terminal_modes modes;
	struct capture captures[2];
	int listener; /* of the filter, with --explain; else -1 */
	struct refusal_words words;
	int proc_fd;
	int tmpfs_fds[1 + SPEC_TMPFS_MAX];
	size_t tmpfs_count;
	struct watcher watcher;
	bool watching;
	bool stopped_by_us; /* timeout, oom, cancelled: exec->ended_by is set */
	int wait_status;    /* of the current command, as the agent said; -1: not said */
	struct agent_message ended;
	uint64_t created_us, started_us, deadline_us, tick_us,
		progress_us, input_end_us, watch_us; /* CLOCK_MONOTONIC; UINT64_MAX: never */
	uint64_t earlier_cpu_user_us, earlier_cpu_system_us; /* of the commands before */
	uint64_t seen_cpu_user_us,
		seen_cpu_system_us; /* of the whole sandbox, before we killed it */
	int signal_fd;
	sigset_t old_mask;
	struct sigaction old_pipe, old_child, old_file_size;
};

void sandbox_early_init(int argc, char **argv, char **envp)
{
	agent_remember_process_memory(argc, argv, envp);
	/* All of the heap in one place, which the agent can give back whole. */
	mallopt(M_MMAP_MAX, 0);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* --- signals of the caller --- */

static const int forwarded[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};

/* What the caller ignores (nohup, a shell's background job) stays ignored. */
static void block_signals(struct run *run)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++) {
		struct sigaction action;

		if (sigaction(forwarded[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, forwarded[i]);
	}
	if (run->control->forward_signals) {
		sigprocmask(SIG_BLOCK, &set, &run->old_mask);
		run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	} else {
		sigprocmask(SIG_BLOCK, NULL, &run->old_mask);
	}
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &run->old_pipe);
	/* A limit of the caller's on what we write for the command: a write that fails says more. */
	sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, &run->old_file_size);
	/* Ignored, it would make the kernel throw the agent's status away. */
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &run->old_child);
}

static void restore_signals(struct run *run)
{
	close_fd(&run->signal_fd);
	sigprocmask(SIG_SETMASK, &run->old_mask, NULL);
	sigaction(SIGPIPE, &run->old_pipe, NULL);
	sigaction(SIGCHLD, &run->old_child, NULL);
	sigaction(SIGXFSZ, &run->old_file_size, NULL);
}

static void forward(struct run *run, int number)
{
	struct agent_request request = {.type = REQUEST_SIGNAL, .value = number};

	/* An agent that does not take its messages is found out by the time limit. */
	wire_send(run->sandbox.socket, &request, sizeof request, NULL, 0, 1);
}

static void postpone(uint64_t *time_us, uint64_t by_us)
{
	if (*time_us != UINT64_MAX)
		*time_us += by_us;
}

/*
 * Stopping: the command first, with a signal that an orphaned process group does not lose, then we. The
 * time that we are stopped is not the command's.
 */
static void stop_ourselves(struct run *run)
{
	uint64_t stopped = now_us(), lost;

	if (run->terminal.master < 0)
		forward(run, SIGSTOP);
	terminal_suspend(&run->terminal);
	raise(SIGSTOP);
	terminal_resume(&run->terminal);
	if (run->terminal.master < 0)
		forward(run, SIGCONT);
	lost = now_us() - stopped;
	postpone(&run->deadline_us, lost);
	postpone(&run->tick_us, lost);
	postpone(&run->progress_us, lost);
	postpone(&run->watch_us, lost);
}

static void serve_signals(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signal_fd, &info, sizeof info) == sizeof info) {
		switch (info.ssi_signo) {
		case SIGWINCH:
			terminal_resize(&run->terminal);
			break;
		case SIGTSTP:
			stop_ourselves(run);
			break;
		case SIGCONT:
			break; /* stop_ourselves goes on by itself */
		case SIGTERM:
			forward(run, run->spec->stop_signal ? (int)run->spec->stop_signal : SIGTERM);
			break;
		default:
			forward(run, (int)info.ssi_signo);
		}
	}
}

/* --- ends --- */

static void end_run(struct run *run, enum ended_by ended_by)
{
	if (run->proc_fd >= 0 && !run->sandbox.cgroup.path[0])
		watcher_cpu(run->proc_fd, &run->seen_cpu_user_us, &run->seen_cpu_system_us);
	run->exec->ended_by = ended_by;
	run->stopped_by_us = true;
	run->state = OVER;
}

static void fail(struct run *run, const struct error *err)
{
	run->exec->error = *err;
	end_run(run, ENDED_SETUP);
}

static void agent_is_gone(struct run *run)
{
	struct error err;

	if (run->state == SETTING_UP) {
		error_set(&err, 0, "the sandbox ended while it was being set up");
		fail(run, &err);
		return;
	}
	error_set(&run->exec->error, 0,
		"the sandbox's first process was killed from outside: by hand, or by the host's out-of-memory killer");
	run->exec->signal = SIGKILL;
	end_run(run, ENDED_SIGNALED);
}

/* --- what the agent says --- */

static void start_clock(struct run *run)
{
	const struct exec_spec *exec = &run->spec->execs[run->index];

	run->started_us = now_us();
	run->deadline_us =
		exec->timeout_ms ? run->started_us + exec->timeout_ms * 1000 : UINT64_MAX;
	run->tick_us = run->watching ? run->started_us + FIRST_TICK_MS * 1000 : UINT64_MAX;
	run->watch_us = run->control->watch ? run->started_us : UINT64_MAX;
	run->progress_us =
		run->control->progress ? run->started_us + PROGRESS_MS * 1000 : UINT64_MAX;
}

static void watch(struct run *run)
{
	run->watching = !run->sandbox.tier1;
	run->watcher = (struct watcher){
		.proc_fd = run->proc_fd,
		.tmpfs_fds = run->tmpfs_fds,
		.tmpfs_count = run->tmpfs_count,
		.memory_limit_bytes = run->spec->limits.memory_bytes,
		.pids_limit = run->spec->limits.pids,
	};
}

static bool take_created(
	struct run *run, const struct agent_message *message, int *fds, size_t fds_count)
{
	if (message->tmpfs_count > 1 + SPEC_TMPFS_MAX || message->has_devpts ||
		message->has_terminal != (run->spec->tty ? 1U : 0U) ||
		message->has_listener != (run->sandbox.explaining.length > 0 ? 1U : 0U) ||
		fds_count != 1 + message->tmpfs_count + message->has_terminal + message->has_listener)
		return false;
	run->proc_fd = fds[0];
	run->tmpfs_count = message->tmpfs_count;
	memcpy(run->tmpfs_fds, fds + 1, run->tmpfs_count * sizeof *fds);
	if (message->has_terminal) {
		terminal_start(&run->terminal, fds[1 + run->tmpfs_count]);
		run->terminal.relays[1].words = &run->words;
	}
	if (message->has_listener)
		run->listener = fds[fds_count - 1];
	run->result->setup_us = now_us() - run->created_us;
	run->state = RUNNING;
	watch(run);
	start_clock(run);
	if (run->control->created)
		run->control->created(run->control->data, run->result);
	return true;
}

/* What came from outside of the supervisor becomes an error without advice. */
static void take_error(const struct agent_message *message, const char *context, struct error *ret)
{
	error_set(ret, 0, "%s%.*s", context, ERROR_TEXT_MAX - 1, message->error.text);
	ret->errnum = message->value;
}

static bool is_errno(int value)
{
	return value > 0 && value < ERRNO_END;
}

static bool take_exec_failed(struct run *run, const struct agent_message *message)
{
	if (!is_errno(message->value))
		return false;
	take_error(message, "", &run->exec->error);
	run->exec->exec_errno = message->value;
	run->exec->ended_by = ENDED_EXITED;
	run->exec->exit_code = run->exec->exec_errno == ENOENT ? 127 : 126;
	run->stopped_by_us = true;
	run->state = OVER;
	return true;
}

static bool take_not_started(struct run *run, const struct agent_message *message)
{
	struct error err;

	if (!is_errno(message->value))
		return false;
	take_error(message, "the command was not started: ", &err);
	fail(run, &err);
	return true;
}

static void next_command(struct run *run);

/* Whether a machine can have used as much since the command's start. */
static bool is_possible_usage(const struct run *run, const struct agent_message *message)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t cpu = (now_us() - run->started_us + CLOCK_SLACK_US) * CPUS_MAX;

	return message->memory_peak_bytes <= memory && message->cpu_user_us <= cpu &&
	       message->cpu_system_us <= cpu;
}

static bool take_ended(struct run *run, const struct agent_message *message)
{
	if (!wait_status_valid(message->value) || !is_possible_usage(run, message))
		return false;
	run->wait_status = message->value;
	run->ended = *message;
	if (run->index + 1 < run->spec->execs_count && message->value == 0)
		next_command(run);
	else
		run->state = OVER;
	return true;
}

/* Before foreign code runs, so that what the child advises is believed. */
static bool take_failed(struct run *run, const struct agent_message *message)
{
	struct error err;

	if (message->value && !is_errno(message->value))
		return false;
	take_error(message, "", &err);
	error_hint(&err, "%.*s", ERROR_HINT_MAX - 1, message->error.hint);
	fail(run, &err);
	return true;
}

static bool take_message(struct run *run, const struct agent_message *message, size_t length,
	int *fds, size_t fds_count)
{
	bool whole = length == sizeof *message,
	     brief = length == offsetof(struct agent_message, error);

	if (run->state == SETTING_UP && message->type == AGENT_CREATED && brief)
		return take_created(run, message, fds, fds_count);
	if (fds_count > 0)
		return false;
	if (run->state == SETTING_UP && message->type == AGENT_FAILED && whole)
		return take_failed(run, message);
	if (run->state == RUNNING && message->type == AGENT_NOT_STARTED && whole)
		return take_not_started(run, message);
	if (run->state == RUNNING && message->type == AGENT_EXEC_FAILED && whole)
		return take_exec_failed(run, message);
	if (run->state == RUNNING && message->type == AGENT_ENDED && brief)
		return take_ended(run, message);
	return false;
}

static void serve_agent(struct run *run)
{
	struct agent_message message;
	int fds[WIRE_FDS_MAX];
	/* Foreign code runs only after AGENT_CREATED: from then on there is no room for descriptors. */
	size_t fds_count = run->state == SETTING_UP ? WIRE_FDS_MAX : 0;
	ssize_t n = wire_receive(run->sandbox.socket, &message, sizeof message, fds, &fds_count);
	struct error err;

	if (n == 0 || (n < 0 && errno == ECONNRESET)) {
		agent_is_gone(run);
		return;
	}
	if (n >= (ssize_t)offsetof(struct agent_message, error) &&
		take_message(run, &message, (size_t)n, fds, fds_count))
		return;
	for (size_t i = 0; i < fds_count; i++)
		close(fds[i]);
	error_set(&err, 0,
		"the first process of the sandbox sent a message that makes no sense; the sandbox was ended");
	fail(run, &err);
}

/* --- output --- */

/* That the reader went away is no loss: nobody is there to miss anything. */
static bool is_loss(int errnum)
{
	return errnum && errnum != EPIPE && errnum != ECONNRESET;
}

static void warn_of_loss(struct run *run, const char *what, const char *name, int errnum)
{
	add_warning(run->result, "%s %s failed: %s; what came after is lost", what, name, strerror(errnum));
}

/* Returns false at the end of the stream. */
static bool read_captured(struct run *run, int stream)
{
	static uint8_t buffer[64 << 10];
	ssize_t n = read(run->stdio.captured[stream], buffer, sizeof buffer);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n > 0) {
		result_keep(run->result, stream, run->captures[stream].total, buffer, (size_t)n);
		if (stream == 1)
			refusal_words_add(&run->words, buffer, (size_t)n);
		if (capture_add(&run->captures[stream], buffer, (size_t)n) == 0)
			return true;
		errno = ENOMEM;
	}
	if (n != 0) {
		warn_of_loss(run, n < 0 ? "reading" : "keeping", "what the command wrote", errno);
		run->result->output_lost = true;
	}
	close_fd(&run->stdio.captured[stream]);
	return false;
}

static void report_progress(struct run *run)
{
	const struct capture *capture =
		&run->captures[run->captures[1].total > 0 && run->captures[0].total == 0];

	run->control->progress(run->control->data, (const char *)capture->last_line,
		capture->last_line_length, (now_us() - run->started_us) / 1000);
	run->progress_us += PROGRESS_MS * 1000;
}

/* --- the loop --- */

enum {
	POLL_AGENT,
	POLL_SIGNALS,
	POLL_CANCEL,
	POLL_LISTENER,
	POLL_HELPERS,
	POLL_CAPTURED = POLL_HELPERS + SANDBOX_HELPERS,
	POLL_RELAYS = POLL_CAPTURED + 2,
	POLL_MAX = POLL_RELAYS + 5 * RELAY_POLLFDS
};

static struct relay *relay_of(struct run *run, size_t i)
{
	if (i < run->stdio.relays_count)
		return &run->stdio.relays[i];
	i -= run->stdio.relays_count;
	return run->terminal.master >= 0 && i < 2 ? &run->terminal.relays[i] : NULL;
}

static void fill_pollfds(struct run *run, struct pollfd fds[POLL_MAX])
{
	bool live = run->state != OVER;

	for (int i = 0; i < POLL_MAX; i++)
		fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	if (live) {
		fds[POLL_AGENT].fd = run->sandbox.socket;
		fds[POLL_LISTENER].fd = run->listener;
	}
	/* Of one that ends before, the child knows more. */
	for (int i = 0; i < SANDBOX_HELPERS && run->state == RUNNING; i++)
		fds[POLL_HELPERS + i].fd = run->sandbox.helpers[i].pidfd;
	fds[POLL_SIGNALS].fd = run->signal_fd;
	fds[POLL_CANCEL].fd = run->control->cancel_fd;
	for (int i = 0; i < 2; i++)
		fds[POLL_CAPTURED + i].fd = run->stdio.captured[i];
	for (size_t i = 0; relay_of(run, i); i++)
		relay_pollfds(relay_of(run, i), &fds[POLL_RELAYS + i * RELAY_POLLFDS]);
}

static void serve_output(struct run *run, const struct pollfd fds[POLL_MAX])
{
	for (int i = 0; i < 2; i++)
		if (fds[POLL_CAPTURED + i].revents && run->stdio.captured[i] >= 0)
			read_captured(run, i);
	for (size_t i = 0; relay_of(run, i); i++)
		relay_step(relay_of(run, i), &fds[POLL_RELAYS + i * RELAY_POLLFDS]);
}

static int wait_for_events(struct run *run, struct pollfd fds[POLL_MAX], uint64_t until_us)
{
	struct timespec timeout = {0};
	uint64_t now = now_us(), wait = until_us > now ? until_us - now : 0;
	int n;

	timeout.tv_sec = (time_t)(wait / 1000000);
	timeout.tv_nsec = (long)(wait % 1000000) * 1000;
	fill_pollfds(run, fds);
	do
		n = ppoll(fds, POLL_MAX, until_us == UINT64_MAX ? NULL : &timeout, NULL);
	while (n < 0 && errno == EINTR);
	return n;
}

static void tick(struct run *run)
{
	uint64_t used = 0;

	if (watcher_tick(&run->watcher, &used)) {
		exec_add_hit(run->exec, LIMIT_MEMORY, run->spec->limits.memory_bytes, used, "watcher");
		end_run(run, ENDED_OOM);
		return;
	}
	run->tick_us = now_us() + (uint64_t)run->watcher.next_tick_ms * 1000;
}

static void look(struct run *run)
{
	const struct run_watch *watch = run->control->watch;
	enum ended_by ended_by = watch->look(watch->data, run->proc_fd, run->exec, &run->watch_us);

	if (ended_by != ENDED_BY_MAX)
		end_run(run, ended_by);
}

static void check_input_end(struct run *run, uint64_t now)
{
	if (!terminal_input_ended(&run->terminal)) {
		run->input_end_us = UINT64_MAX;
		return;
	}
	if (now >= run->input_end_us)
		terminal_type_end(&run->terminal);
	if (now >= run->input_end_us || run->input_end_us == UINT64_MAX)
		run->input_end_us = now + TERMINAL_END_MS * 1000;
}

static void serve_clocks(struct run *run)
{
	uint64_t now = now_us();
	struct error err;

	if (now >= run->deadline_us) {
		if (run->state == SETTING_UP) {
			error_set(&err, 0, "setting up the sandbox took longer than %d s",
				SETUP_DEADLINE_MS / 1000);
			fail(run, &err);
			return;
		}
		exec_add_hit(run->exec, LIMIT_TIME, run->spec->execs[run->index].timeout_ms,
			(now - run->started_us) / 1000, "clock");
		end_run(run, ENDED_TIMEOUT);
		return;
	}
	if (now >= run->tick_us)
		tick(run);
	if (run->state != OVER && now >= run->watch_us)
		look(run);
	if (now >= run->progress_us)
		report_progress(run);
	check_input_end(run, now);
}

static uint64_t earliest(const struct run *run)
{
	uint64_t at = run->deadline_us;

	if (run->tick_us < at)
		at = run->tick_us;
	if (run->input_end_us < at)
		at = run->input_end_us;
	if (run->watch_us < at)
		at = run->watch_us;
	return run->progress_us < at ? run->progress_us : at;
}

/* One call at a time: a command that makes nothing but refused calls must not hold up the clocks. */
static void serve_listener(struct run *run, short events)
{
	if (events & POLLIN)
		listener_serve(run->listener, run->sandbox.filters, run->sandbox.filters_count,
			run->sandbox.pid, run->exec->refused);
	else if (events)
		close_fd(&run->listener); /* nobody is left under the filter */
}

static void miss_helper(struct run *run, struct helper *helper)
{
	char sentence[ERROR_TEXT_MAX];

	helper_tell_end(helper, sentence, sizeof sentence);
	add_warning(run->result, "%s", sentence);
}

static void loop(struct run *run)
{
	struct pollfd fds[POLL_MAX];

	while (run->state != OVER) {
		wait_for_events(run, fds, earliest(run));
		if (fds[POLL_CANCEL].revents) {
			end_run(run, ENDED_CANCELLED);
			break;
		}
		serve_output(run, fds);
		serve_listener(run, fds[POLL_LISTENER].revents);
		if (fds[POLL_AGENT].revents)
			serve_agent(run);
		for (int i = 0; i < SANDBOX_HELPERS; i++)
			if (fds[POLL_HELPERS + i].revents)
				miss_helper(run, &run->sandbox.helpers[i]);
		if (run->state != OVER && fds[POLL_SIGNALS].revents)
			serve_signals(run);
		if (run->state != OVER)
			serve_clocks(run);
	}
}

static bool output_pending(struct run *run)
{
	bool pending = run->stdio.captured[0] >= 0 || run->stdio.captured[1] >= 0;

	for (size_t i = 0; i < run->stdio.relays_count; i++)
		pending |= run->stdio.relays[i].number > 0 && relay_active(&run->stdio.relays[i]);
	return pending || (run->terminal.master >= 0 && relay_active(&run->terminal.relays[1]));
}

/* Whether one of the signals that came is meant to end us. */
static bool told_to_end(struct run *run)
{
	struct signalfd_siginfo info;
	bool end = false;

	while (read(run->signal_fd, &info, sizeof info) == sizeof info)
		end |= info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM ||
		       info.ssi_signo == SIGHUP || info.ssi_signo == SIGQUIT;
	return end;
}

/* What was read and is still to be written. */
static bool writing_pending(struct run *run)
{
	for (size_t i = 0; relay_of(run, i); i++)
		if (relay_active(relay_of(run, i)) && relay_of(run, i)->length > 0)
			return true;
	return false;
}

/*
 * Carries on what is left in the pipes. The writers are dead, so what they wrote is there: no more is
 * waited for, as a pipe's other end may lie in a queue that nobody reads and never close. Only the caller's own
 * reader can keep us waiting, as it would any program; a signal or a cancellation ends that, and between
 * two commands the time `until_us` does.
 */
static void drain(struct run *run, uint64_t until_us)
{
	struct pollfd fds[POLL_MAX];
	enum state state = run->state;
	int n = 0;

	run->state = OVER;
	if (run->terminal.master >= 0)
		relay_close(&run->terminal.relays[0]);
	while (output_pending(run) &&
		(n = wait_for_events(run, fds, writing_pending(run) ? until_us : 0)) > 0) {
		if (fds[POLL_CANCEL].revents)
			break;
		if (fds[POLL_SIGNALS].revents && told_to_end(run)) {
			add_warning(run->result,
				"a signal came before all that the command wrote was passed on; the rest is lost");
			run->result->output_lost = true;
			break;
		}
		serve_output(run, fds);
	}
	if (n < 0) {
		warn_of_loss(run, "waiting for", "what the command wrote", errno);
		run->result->output_lost = true;
	}
	run->state = state;
}

/* --- results --- */

/* What we could not read or write for the command. */
static void finish_relays(struct run *run)
{
	static const char *const sources[3] = {
		"standard input", "what the command wrote to standard output", "what the command wrote to standard error"};
	static const char *const targets[3] = {
		"the copy of standard input", "standard output", "standard error"};

	for (size_t i = 0; i < run->stdio.relays_count; i++) {
		const struct relay *relay = &run->stdio.relays[i];

		if (is_loss(relay->read_errno))
			warn_of_loss(run, "reading", sources[relay->number], relay->read_errno);
		if (is_loss(relay->write_errno))
			warn_of_loss(run, "writing to", targets[relay->number], relay->write_errno);
		run->result->output_lost |= relay->number != 0 &&
					    (is_loss(relay->read_errno) || is_loss(relay->write_errno));
	}
}

/* EIO is the end: the sandbox's terminal has no user any more, or the caller's has hung up. */
static void finish_terminal(struct run *run)
{
	const struct relay *output = &run->terminal.relays[1];

	if (run->terminal.master < 0)
		return;
	if (is_loss(output->write_errno) && !(output->write_errno == EIO && run->terminal.owns_output)) {
		warn_of_loss(run, "writing to", "standard output", output->write_errno);
		run->result->output_lost = true;
	}
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t peak_of(const struct rusage *usage)
{
	return (uint64_t)usage->ru_maxrss * 1024;
}

static uint64_t without(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

static uint64_t timeval_us(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

/* Without a cgroup: the watcher's sight, and what the kernel counted for those that were waited for. */
static void finish_usage(struct run *run, const struct rusage *all)
{
	struct usage *usage = &run->exec->usage;

	usage->wall_us = run->started_us ? now_us() - run->started_us : 0;
	if (run->watching) {
		if (run->watcher.pids_hit)
			exec_add_hit(run->exec, LIMIT_PIDS, run->spec->limits.pids,
				run->watcher.pids_peak, "watcher");
		usage->memory_peak_bytes = run->watcher.memory_peak_bytes;
		usage->pids_peak = run->watcher.pids_peak;
	}
	if (run->sandbox.cgroup.path[0])
		return;
	/* Of all that the kernel counted, the greatest process may be one of an earlier command. */
	if (run->ended.type == AGENT_ENDED)
		usage->memory_peak_bytes = larger(usage->memory_peak_bytes,
			all ? smaller(run->ended.memory_peak_bytes, peak_of(all))
			    : run->ended.memory_peak_bytes);
	else if (all && run->index == 0)
		usage->memory_peak_bytes = larger(usage->memory_peak_bytes, peak_of(all));
	if (all) {
		usage->cpu_user_us =
			without(larger(timeval_us(&all->ru_utime), run->seen_cpu_user_us),
				run->earlier_cpu_user_us);
		usage->cpu_system_us =
			without(larger(timeval_us(&all->ru_stime), run->seen_cpu_system_us),
				run->earlier_cpu_system_us);
	} else {
		usage->cpu_user_us = run->ended.cpu_user_us;
		usage->cpu_system_us = run->ended.cpu_system_us;
		run->earlier_cpu_user_us += usage->cpu_user_us;
		run->earlier_cpu_system_us += usage->cpu_system_us;
	}
}

/* `all`: usage of the whole sandbox, once it is gone; NULL between two commands. */
static void finish_command(struct run *run, const struct rusage *all)
{
	finish_usage(run, all);
	finish_relays(run);
	if (!run->stopped_by_us)
		exec_note_status(run->exec, run->wait_status, run->spec);
	exec_note_cgroup(run->exec, &run->sandbox, run->sandbox.runs);
	exec_note_disk(run->exec, run->tmpfs_fds, run->tmpfs_count, run->spec);
	if (run->spec->capture)
		exec_take_output(run->exec, run->captures, run->spec->limits.output_bytes);
	run->exec->speaks_of_refusal = run->words.seen;
	run->exec->speaks_of_network = run->words.network;
	run->exec->speaks_of_port = run->words.port;
	run->exec->speaks_of_package = run->words.package;
}

/* --- commands --- */

static void begin_command(struct run *run, size_t index)
{
	run->index = index;
	run->exec = &run->result->execs[index];
	run->result->execs_count = index + 1;
	run->exec->phase = run->spec->execs[index].phase ?: "run";
	run->exec->exit_code = -1;
	run->exec->refused =
		run->spec->explain ? xcalloc(1, sizeof *run->exec->refused) : NULL;
	run->wait_status = -1;
	run->ended.type = 0;
	run->words = (struct refusal_words){.seen = false};
	run->watcher.memory_peak_bytes = 0;
	run->watcher.pids_peak = 0;
	run->watcher.pids_hit = false;
	result_begin_keeping(run->result, run->spec);
	for (int i = 0; i < 2; i++)
		capture_init(&run->captures[i], run->spec->limits.output_bytes
							? run->spec->limits.output_bytes
							: SIZE_MAX / 4);
}

static int prepare_stdio(struct run *run, struct error *err)
{
	if (stdio_prepare(&run->spec->execs[run->index], run->spec->capture, run->spec->tty,
		    run->index == 0, &run->stdio, err) < 0)
		return -1;
	for (size_t i = 0; i < run->stdio.relays_count; i++)
		if (run->stdio.relays[i].has_errors)
			run->stdio.relays[i].words = &run->words;
	return 0;
}

static void next_command(struct run *run)
{
	struct error err = {0};

	drain(run, now_us() + DRAIN_DEADLINE_MS * 1000);
	finish_command(run, NULL);
	stdio_close(&run->stdio);
	begin_command(run, run->index + 1);
	if (prepare_stdio(run, &err) < 0 ||
		sandbox_exec(&run->sandbox, &run->spec->execs[run->index],
			run->index + 1 < run->spec->execs_count, &run->stdio, &err) < 0) {
		fail(run, &err);
		return;
	}
	stdio_close_child(&run->stdio);
	start_clock(run);
}

static int start(struct run *run, struct error *err)
{
	if (features_require_kernel(err) < 0 || spec_validate(run->spec, err) < 0)
		return -1;
	if (prepare_stdio(run, err) < 0)
		return -1;
	return sandbox_create(run->spec, &run->stdio, &run->sandbox, run->result, err);
}

/* Copying to a slow disk takes its time, and can be ended. */
static bool copying_is_stopped(void *data)
{
	struct run *run = data;
	struct pollfd fds[] = {
		{.fd = run->signal_fd, .events = POLLIN}, {.fd = run->control->cancel_fd, .events = POLLIN}};

	return poll(fds, 2, 0) > 0 && (fds[1].revents || (fds[0].revents && told_to_end(run)));
}

/* Nobody asks any more for what is left of a run that was cancelled. */
static void collect_files_left(struct run *run)
{
	if (run->spec->collect_files && run->exec->ended_by != ENDED_SETUP && run->exec->ended_by != ENDED_CANCELLED)
		keep_files(run->spec, run->tmpfs_fds, run->tmpfs_count, copying_is_stopped, run, run->result);
	if (!run->control->output || run->exec->ended_by == ENDED_SETUP)
		return;
	run->result->copied.asked = true;
	output_copy(run->control->output, run->spec, run->tmpfs_fds, run->tmpfs_count, copying_is_stopped, run,
		run->result);
}

/* What was said to the gate has been done when all that could say it are gone. So with what was said to who is outside. */
static void note_network(struct run *run)
{
	if (!run->stopped_by_us)
		helper_finish(&run->sandbox.helpers[SANDBOX_PUBLISHER], PUBLISH_FINISH_MS);
	if (!run->sandbox.gate.report)
		return;
	if (!run->stopped_by_us)
		gate_finish(&run->sandbox.gate, &run->sandbox.helpers[SANDBOX_GATE]);
	helper_end(&run->sandbox.helpers[SANDBOX_GATE]);
	run->result->network = xcalloc(1, sizeof *run->result->network);
	report_read(run->sandbox.gate.report, run->result->network);
}

static void finish(struct run *run)
{
	struct rusage all;

	sandbox_kill(&run->sandbox);
	sandbox_wait(&run->sandbox, &all);
	note_network(run);
	stdio_close_child(&run->stdio);
	drain(run, UINT64_MAX);
	finish_command(run, &all);
	if (run->spec->collect_images && run->tmpfs_count > 0)
		collect_images(run->spec, run->tmpfs_fds, run->tmpfs_count, run->result);
	finish_terminal(run);
	terminal_end(&run->terminal);
	terminal_restore_modes(&run->modes);
	collect_files_left(run);
	stdio_close(&run->stdio);
	close_fd(&run->proc_fd);
	close_fd(&run->listener);
	for (size_t i = 0; i < run->tmpfs_count; i++)
		close_fd(&run->tmpfs_fds[i]);
	sandbox_release(&run->sandbox);
	run->result->total_us = now_us() - run->created_us;
}

int sandbox_run(const struct spec *spec, const struct run_control *control, struct run_result *ret)
{
	struct run run = {
		.spec = spec,
		.control = control,
		.result = ret,
		.sandbox = SANDBOX_NONE,
		.stdio = STDIO_NONE,
		.terminal = TERMINAL_NONE,
		.proc_fd = -1,
		.listener = -1,
		.signal_fd = -1,
		.tick_us = UINT64_MAX,
		.progress_us = UINT64_MAX,
		.input_end_us = UINT64_MAX,
		.watch_us = UINT64_MAX,
	};
	struct error err = {0};

	memset(ret, 0, sizeof *ret);
	run.created_us = now_us();
	run.deadline_us = run.created_us + SETUP_DEADLINE_MS * 1000;
	begin_command(&run, 0);
	block_signals(&run);
	terminal_note_modes(&run.modes);
	if (start(&run, &err) < 0) {
		fail(&run, &err);
	} else {
		stdio_close_child(&run.stdio);
		loop(&run);
	}
	finish(&run);
	restore_signals(&run);
	return run.exec->ended_by == ENDED_SETUP ? -1 : 0;
}
