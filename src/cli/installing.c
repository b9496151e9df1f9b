/* SPDX-License-Identifier: MIT */
/* Waiting for an install: see installing.h. */
#define _GNU_SOURCE
#include "cli/installing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

enum {
	LINE_MAX_BYTES = 100,
	SAY_AFTER_MS = 5000, /* not on a terminal */
};

/* --- signals --- */

static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/* A descriptor that is readable when one has come that ends programs; what the caller ignores stays ignored. */
static int catch_signals(sigset_t *ret_old)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		struct sigaction action;

		if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, ending[i]);
	}
	sigprocmask(SIG_BLOCK, &set, ret_old);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Ends this process as the signal that came would have. */
static void obey_signal(int fd, const sigset_t *old)
{
	struct signalfd_siginfo info;
	bool came = read(fd, &info, sizeof info) == sizeof info;

	close(fd);
	sigprocmask(SIG_SETMASK, old, NULL);
	if (came)
		raise((int)info.ssi_signo);
}

/* --- what is said --- */

struct progress {
	const char *whose;
	bool terminal, said;
};

/* A terminal does what it is told to, and this is a stranger's: control characters are shown as «?». malloc'd. */
static char *for_terminal(const char *text, size_t length, size_t *ret_length)
{
	char *shown = utf8_replace_invalid(text, length, &length);
	size_t kept = 0;

	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)shown[i];
		bool is_c1 = byte == 0xc2 && (unsigned char)shown[i + 1] < 0xa0;

		if (is_c1)
			i++;
		shown[kept++] = is_c1 || byte == 0x7f || (byte < ' ' && byte != '\n' && byte != '\t') ? '?' : (char)byte;
	}
	*ret_length = kept;
	return shown;
}

static void show_progress(void *data, const char *last_line, size_t length, uint64_t elapsed_ms)
{
	struct progress *progress = data;
	cleanup_free char *line = NULL;
	size_t line_length;

	if (!progress->terminal) {
		if (!progress->said && elapsed_ms >= SAY_AFTER_MS)
			fprintf(stderr, "nsbox: installing packages of %s\n", progress->whose);
		progress->said |= elapsed_ms >= SAY_AFTER_MS;
		return;
	}
	line = for_terminal(last_line, length < LINE_MAX_BYTES ? length : LINE_MAX_BYTES, &line_length);
	fprintf(stderr, "\r\033[Knsbox: installing (%u s) %.*s", (unsigned)(elapsed_ms / 1000), (int)line_length, line);
	progress->said = true;
}

static void end_progress(const struct progress *progress)
{
	if (progress->terminal && progress->said)
		fputs("\r\033[K", stderr);
}

static void print_output(const struct run_result *result, bool terminal)
{
	const struct exec_result *exec = run_result_last(result);

	for (int i = 0; i < 2; i++) {
		const struct captured *output = &exec->output[i];
		size_t length = output->head_length + output->tail_length;
		cleanup_free char *shown = NULL;
		const char *text = (const char *)output->data;

		if (length == 0)
			continue;
		if (terminal)
			text = shown = for_terminal(text, length, &length);
		fwrite(text, 1, length, stderr);
		if (text[length - 1] != '\n')
			fputc('\n', stderr);
	}
}

/* Such as that its gate was killed: but not that limits are watched, which is so of every run on such a host. */
static void print_warnings(const struct run_result *result)
{
	for (size_t i = 0; i < result->warnings_count; i++)
		if (i + 1 != result->limits_warning)
			fprintf(stderr, "nsbox: warning: %s\n", result->warnings[i]);
}

int installing_run(const struct installing *installing, struct packages_report *ret, struct error *err)
{
	struct progress progress = {.whose = installing->whose, .terminal = isatty(STDERR_FILENO)};
	struct run_control control = {.progress = show_progress, .data = &progress};
	sigset_t old;
	int r;

	control.cancel_fd = catch_signals(&old);
	r = installing->install(installing->data, &control, ret, err);
	end_progress(&progress);
	for (char **warning = ret->warnings; warning && *warning && !installing->quiet; warning++)
		fprintf(stderr, "nsbox: warning: %s\n", *warning);
	obey_signal(control.cancel_fd, &old);
	if (r < 0 && ret->result && !installing->quiet) {
		print_output(ret->result, progress.terminal);
		print_warnings(ret->result);
	}
	return r;
}
