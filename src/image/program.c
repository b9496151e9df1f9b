/* SPDX-License-Identifier: MIT */
/* Finding and starting nsbox-image: see program.h. */
#define _GNU_SOURCE
#include "image/program.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static const char name[] = "nsbox-image";

/* Beside nsbox, where it was built; else where it was installed. */
static void find_program(char ret[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - sizeof name - 1);
	char *slash;

	ret[n > 0 ? n : 0] = '\0';
	slash = strrchr(ret, '/');
	if (slash) {
		strcpy(slash + 1, name);
		if (access(ret, X_OK) == 0)
			return;
	}
	snprintf(ret, PATH_MAX, "%s/%s", LIBEXEC_DIR, name);
}

int image_program_execute(char **argv, struct error *err)
{
	cleanup_free char **words = NULL;
	char path[PATH_MAX];
	size_t count = 0;

	while (argv[count])
		count++;
	words = xcalloc(count + 2, sizeof *words);
	words[0] = (char *)name;
	memcpy(words + 1, argv, count * sizeof *words);
	find_program(path);
	execv(path, words);
	error_set(err, errno, "starting %s", path);
	if (err->errnum == ENOENT)
		error_hint(err,
			"nsbox was built or installed without it; install the whole of nsbox, or configure it without --disable-images");
	return -1;
}

void image_pull_argv(const char *image, bool json, const char *config_file, bool no_config,
	char *ret[IMAGE_PULL_ARGV_MAX])
{
	size_t count = 0;

	ret[count++] = (char *)"pull";
	if (json)
		ret[count++] = (char *)"--json";
	if (no_config)
		ret[count++] = (char *)"--no-config";
	if (config_file) {
		ret[count++] = (char *)"--config";
		ret[count++] = (char *)config_file;
	}
	ret[count++] = (char *)"--";
	ret[count++] = (char *)image;
	ret[count] = NULL;
}

pid_t image_program_start(char **argv, int output, int errors, struct error *err)
{
	struct error failure;
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		return error_set(err, errno, "starting %s", name);
	if (pid > 0)
		return pid;
	/* Who waits for it is killed: so is it, and can be gone on with later. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(125);
	dup2(output, STDOUT_FILENO);
	dup2(errors, STDERR_FILENO);
	image_program_execute(argv, &failure);
	error_print(&failure);
	_exit(125);
}

int image_program_run(char **argv, int output_to_stderr, struct error *err)
{
	pid_t pid = image_program_start(
		argv, output_to_stderr ? STDERR_FILENO : STDOUT_FILENO, STDERR_FILENO, err);
	int status;

	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set(err, errno, "waiting for %s", name);
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	return error_set(err, 0, "%s was ended by the signal SIG%s", name, sigabbrev_np(WTERMSIG(status)) ?: "?");
}
