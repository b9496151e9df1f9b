/* SPDX-License-Identifier: MIT */
/* Finding and starting nsbox-image: see image_program.h. */
#define _GNU_SOURCE
#include "cli/image_program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int image_program_run(char **argv, int output_to_stderr, struct error *err)
{
	struct error failure;
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return error_set(err, errno, "starting %s", name);
	if (pid == 0) {
		if (output_to_stderr)
			dup2(STDERR_FILENO, STDOUT_FILENO);
		image_program_execute(argv, &failure);
		error_print(&failure);
		_exit(125);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set(err, errno, "waiting for %s", name);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
