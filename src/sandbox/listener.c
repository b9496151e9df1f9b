/* SPDX-License-Identifier: MIT */
/* The supervisor's answers to refused system calls: see listener.h. */
#define _GNU_SOURCE
#include "sandbox/listener.h"

#include <errno.h>
#include <string.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/filter.h"
#include "sandbox/refusal.h"
#include "util/error.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* Linux 5.19 */
#endif

int listener_load(const struct filter *filter, struct error *err)
{
	struct sock_fprog program = {.len = (unsigned short)filter->length,
		.filter = (struct sock_filter *)filter->instructions};
	const unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	/* Signals, which a runtime sends its threads all the time, then do not make a call be asked about again. */
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);

	if (fd < 0 && errno == EINVAL)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	if (fd >= 0)
		return (int)fd;
	error_set(err, errno, "loading the seccomp filter that --explain needs");
	if (err->errnum == EBUSY)
		error_hint(err,
			"nsbox runs under a filter that somebody listens to already, and the "
			"kernel takes one listener; leave --explain out");
	return -1;
}

static int errno_of(const struct filter *filters, size_t count, const struct seccomp_data *data)
{
	uint32_t verdict = filter_run_all(filters, count, data);

	if ((verdict & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO)
		return EPERM; /* there is no such call */
	return (int)(verdict & SECCOMP_RET_DATA);
}

/* The kernel tells of a call whose process is gone by then with ENOENT: there is nobody to answer. */
void listener_serve(int listener, const struct filter *filters, size_t count, pid_t agent,
	struct refusals *refusals)
{
	struct seccomp_notif call;
	struct seccomp_notif_resp answer;
	int errnum;

	memset(&call, 0, sizeof call);
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
		return;
	errnum = errno_of(filters, count, &call.data);
	if ((pid_t)call.pid != agent)
		refusals_note(refusals, call.data.nr, errnum, (const uint64_t *)call.data.args);
	memset(&answer, 0, sizeof answer);
	answer.id = call.id;
	answer.error = -errnum;
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}
