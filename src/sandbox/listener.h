/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_LISTENER_H
#define NSBOX_SANDBOX_LISTENER_H

/*
 * --explain: the supervisor is asked about each system call that the filters refuse (seccomp_unotify(2)), notes it,
 * and answers with the error that they would have given: it runs them itself on what the kernel says of the call. A
 * call is never let through, so what the command could change meanwhile changes nothing. Where the supervisor is
 * gone the kernel answers ENOSYS.
 *
 * The notifications come from one filter, in which the errors of all filters are (filter_join): the kernel takes
 * one listener for a process, and would let the plain error of another filter win.
 */

#include <stddef.h>
#include <sys/types.h>

struct error;
struct filter;
struct refusals;

/*
 * Loads `filter` for this process and gives its listener. Returns a descriptor, or -1 with *err. no_new_privs must be
 * set. From here on a call that it refuses waits until somebody serves the listener.
 */
int listener_load(const struct filter *filter, struct error *err);

/*
 * Answers one call, which poll(2) has announced. `filters` as they would have been loaded. What process `agent` asks,
 * which is not the command, is answered and not noted.
 */
void listener_serve(int listener, const struct filter *filters, size_t count, pid_t agent,
	struct refusals *refusals);

#endif
