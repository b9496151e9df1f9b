/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_HELPER_H
#define NSBOX_SANDBOX_HELPER_H

/*
 * A process beside a sandbox that does something for it as long as it lives, such as its network. It is a child of the
 * supervisor and dies with it (PR_SET_PDEATHSIG), and is ended with the sandbox. One that ends before is missed: the
 * supervisor polls for its end and says so in the result, and the sandbox goes on without.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct helper {
	const char *name; /* a literal: what a person is told that it is called */
	const char *loss; /* a literal: «connections to … are refused», what there is no more when it has ended */
	pid_t pid;        /* 0: there is none */
	int pidfd;        /* readable when it has ended; -1: there is none, or its end has been told of */
};

#define HELPER_NONE ((struct helper){.pidfd = -1})

/*
 * What is to be done in the child first. It dies with `parent`; signals are as they were for no program. Mustn't,
 * afterwards: change ids or capabilities without asking to die with the parent again (prctl(2)).
 */
void helper_become(const char *name, pid_t parent);

/* Asks for it again. Exits where the parent is gone. */
void helper_die_with(pid_t parent);

/* Takes up the child that fork(2) has made. Returns 0, or -1 with errno. */
int helper_adopt(struct helper *helper, pid_t pid);

/* Its pidfd has become readable: a sentence about that in `ret`, and it is not to be polled any more. */
void helper_tell_end(struct helper *helper, char *ret, size_t size);

/* Asks one that knows how to (SIGTERM) to end when it has done what is left to do, and waits for that, at most `ms` milliseconds. */
void helper_finish(const struct helper *helper, unsigned ms);

/* Waits until it has ended, at most `ms` milliseconds. */
void helper_wait(const struct helper *helper, unsigned ms);

/* Ends it and waits until it has. */
void helper_end(struct helper *helper);

#endif
