/* SPDX-License-Identifier: MIT */
/* What can become of a system call: see rules.h. */
#define _GNU_SOURCE
#include "rules.h"

#include <errno.h>
#include <sys/syscall.h>

enum { ERRORS_MAX = FAULTS_MAX - 3 };

static const struct rule {
	long number;
	int errors[ERRORS_MAX];
} rules[] = {
	/* Those that do not fail, or whose failure says nothing. The kernel closes and unmaps also when it says no. */
	{SYS_exit, {0}},
	{SYS_exit_group, {0}},
	{SYS_close, {0}},
	{SYS_munmap, {0}},
	{SYS_rt_sigreturn, {0}},
	{SYS_rt_sigaction, {0}},
	{SYS_rt_sigprocmask, {0}},
	{SYS_getpid, {0}},
	{SYS_gettid, {0}},
	{SYS_getppid, {0}},
	{SYS_getuid, {0}},
	{SYS_geteuid, {0}},
	{SYS_getgid, {0}},
	{SYS_getegid, {0}},
	{SYS_umask, {0}},
	{SYS_set_tid_address, {0}},
	{SYS_set_robust_list, {0}},
	{SYS_rseq, {0}},
	{SYS_getrandom, {EAGAIN}},
	{SYS_clock_gettime, {0}},
	{SYS_getrusage, {0}},
	{SYS_futex, {0}},
	/* What a signal can interrupt. */
	{SYS_wait4, {EINTR}},
	{SYS_waitid, {EINTR}},
	{SYS_ppoll, {EINTR, ENOMEM}},
	/* Memory. */
	{SYS_brk, {ENOMEM}},
	{SYS_mmap, {ENOMEM}},
	{SYS_mremap, {ENOMEM}},
	{SYS_mprotect, {ENOMEM}},
	{SYS_madvise, {EINVAL}},
	/* Processes. */
	{SYS_clone, {EAGAIN, ENOMEM, EPERM, ENOSPC}},
	{SYS_clone3, {EAGAIN, ENOMEM, EPERM, ENOSPC}},
	{SYS_execve, {ENOMEM, EACCES, E2BIG, EIO}},
	/* Descriptors. */
	{SYS_openat, {EMFILE, EACCES, ENOMEM, ENFILE, EIO}},
	{SYS_openat2, {EMFILE, EACCES, ENOMEM, EIO}},
	{SYS_open_tree, {EMFILE, EPERM, ENOMEM, EINVAL}},
	{SYS_fsopen, {EMFILE, EPERM, ENODEV}},
	{SYS_fsmount, {EMFILE, EPERM, ENOMEM, EBUSY}},
	{SYS_socket, {EMFILE, EACCES, EAFNOSUPPORT, ENOMEM}},
	{SYS_socketpair, {EMFILE, ENOMEM}},
	{SYS_pipe2, {EMFILE, ENFILE}},
	{SYS_signalfd4, {EMFILE, ENOMEM}},
	{SYS_memfd_create, {EMFILE, ENOMEM}},
	{SYS_pidfd_open, {EMFILE, ENOMEM}},
	{SYS_dup3, {EMFILE, EINTR}},
	/* Reading and writing. */
	{SYS_read, {EIO, EINTR}},
	{SYS_write, {ENOSPC, EIO, EINTR}},
	{SYS_sendmsg, {EINTR, EPIPE, ENOBUFS, ETOOMANYREFS}},
	{SYS_recvmsg, {EINTR, ECONNRESET, ENOMEM}},
	{SYS_readlinkat, {EIO, EACCES}},
	/* Mounts. */
	{SYS_move_mount, {EPERM, EINVAL, ENOMEM, ENOSPC}},
	{SYS_mount_setattr, {EPERM, EINVAL, ENOMEM}},
	{SYS_fsconfig, {EINVAL, EPERM, ENOMEM}},
	{SYS_pivot_root, {EINVAL, EPERM, EBUSY}},
	{SYS_umount2, {EINVAL, EPERM}},
	{SYS_mkdirat, {ENOSPC, EACCES, EROFS}},
	{SYS_symlinkat, {ENOSPC, EACCES}},
	/* Files. */
	{SYS_renameat, {ENOSPC, EIO}},
	{SYS_renameat2, {ENOSPC, EIO}},
	{SYS_linkat, {ENOSPC, EIO, EMLINK}},
	{SYS_unlinkat, {EIO, EACCES}},
	{SYS_fsync, {EIO, ENOSPC}},
	{SYS_fdatasync, {EIO, ENOSPC}},
	{SYS_syncfs, {EIO, ENOSPC}},
	{SYS_ftruncate, {ENOSPC, EIO}},
	{SYS_fallocate, {ENOSPC, EOPNOTSUPP}},
	{SYS_copy_file_range, {ENOSPC, EIO, EXDEV}},
	{SYS_sendfile, {ENOSPC, EIO}},
	{SYS_getdents64, {EIO, ENOMEM}},
	{SYS_setxattr, {ENOSPC, EOPNOTSUPP, EIO}},
	{SYS_fsetxattr, {ENOSPC, EOPNOTSUPP, EIO}},
	{SYS_removexattr, {ENOSPC, EIO}},
	{SYS_listxattr, {EIO, ENOMEM}},
	{SYS_fchown, {EIO, ENOSPC}},
	{SYS_fchownat, {EIO, ENOSPC}},
	{SYS_fchmod, {EIO, EROFS}},
	{SYS_fchmodat, {EIO, EROFS}},
	{SYS_utimensat, {EIO, EROFS}},
	{SYS_flock, {EINTR, ENOLCK}},
	{SYS_faccessat, {ENOMEM, EIO}},
	{SYS_faccessat2, {ENOMEM, EIO}},
	{SYS_fcntl, {ENOMEM}},
	{SYS_newfstatat, {ENOMEM, EIO, EACCES}},
	{SYS_fstat, {ENOMEM, EIO}},
	{SYS_statx, {ENOMEM, EIO}},
	/* Rights. */
	{SYS_prctl, {EPERM, EINVAL, EFAULT}},
	{SYS_capset, {EPERM, EINVAL}},
	{SYS_setgroups, {EPERM}},
	{SYS_setresuid, {EAGAIN, EPERM}},
	{SYS_setresgid, {EPERM, EINVAL}},
};

static const int other_errors[ERRORS_MAX] = {EPERM, ENOMEM, EINVAL};

static const int *errors_of(long number)
{
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (rules[i].number == number)
			return rules[i].errors;
	return other_errors;
}

size_t list_faults(bool asked, const struct call *call, struct fault faults[static FAULTS_MAX])
{
	const int *errors = errors_of((long)call->number);
	size_t count = 0;

	for (size_t i = 0; i < ERRORS_MAX && errors[i]; i++)
		faults[count++] = (struct fault){.kind = FAULT_ERROR, .errnum = errors[i]};
	if (call->number == SYS_write && call->length > 1)
		faults[count++] = (struct fault){.kind = FAULT_SHORT};
	if (call->number == SYS_exit || call->number == SYS_exit_group)
		return count;
	faults[count++] = (struct fault){.kind = FAULT_KILL};
	if (asked)
		faults[count++] = (struct fault){.kind = FAULT_TERM};
	return count;
}
