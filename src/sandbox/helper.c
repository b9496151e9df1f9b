/* SPDX-License-Identifier: MIT */
/* Processes beside a sandbox: see helper.h. */
#define _GNU_SOURCE
#include "sandbox/helper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/cleanup.h"

void helper_die_with(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
}

void helper_become(const char *name, pid_t parent)
{
	sigset_t none;

	prctl(PR_SET_NAME, name, 0, 0, 0);
	/* What the caller's terminal sends is for the command. */
	setsid();
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	helper_die_with(parent);
}

int helper_adopt(struct helper *helper, pid_t pid)
{
	helper->pid = pid;
	helper->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return helper->pidfd < 0 ? -1 : 0;
}

static int reap(struct helper *helper)
{
	int status = 0;

	while (helper->pid > 0 && waitpid(helper->pid, &status, 0) < 0 && errno == EINTR)
		;
	helper->pid = 0;
	return status;
}

void helper_tell_end(struct helper *helper, char *ret, size_t size)
{
	int status = reap(helper);
	char how[64];

	if (WIFSIGNALED(status))
		snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
	snprintf(ret, size, "%s %s while the sandbox was there: since then %s", helper->name, how, helper->loss);
	close_fd(&helper->pidfd);
}

void helper_wait(const struct helper *helper, unsigned ms)
{
	struct pollfd end = {.fd = helper->pidfd, .events = POLLIN};

	while (poll(&end, 1, (int)ms) < 0 && errno == EINTR)
		;
}

void helper_finish(const struct helper *helper, unsigned ms)
{
	if (helper->pidfd >= 0 && syscall(SYS_pidfd_send_signal, helper->pidfd, SIGTERM, NULL, 0) == 0)
		helper_wait(helper, ms);
}

void helper_end(struct helper *helper)
{
	if (helper->pid > 0)
		kill(helper->pid, SIGKILL);
	reap(helper);
	close_fd(&helper->pidfd);
}
