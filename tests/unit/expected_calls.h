/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_TESTS_UNIT_EXPECTED_CALLS_H
#define NSBOX_TESTS_UNIT_EXPECTED_CALLS_H

/*
 * What the default filter must say to each system call, written down apart from the profile and
 * with numbers from the kernel's headers instead of libseccomp. A call that is not here gets
 * ENOSYS.
 *
 * X(name, verdict): ALLOW, EPERM, ENOSYS, or ARGS where it depends on the arguments.
 */

#include <stddef.h>

enum expected_verdict {
	EXPECT_ALLOW,
	EXPECT_EPERM,
	EXPECT_ENOSYS,
	EXPECT_ARGS,
};

struct expected_call {
	unsigned number;
	enum expected_verdict verdict;
	const char *name;
};

/* The table of an architecture; NULL where this machine's headers do not have its numbers. */
const struct expected_call *expected_calls_x86_64(size_t *ret_count);
const struct expected_call *expected_calls_aarch64(size_t *ret_count);

/* Calls that both architectures have, up to Linux 5.16. */
#define EXPECTED_COMMON(X) \
	/* files */ \
	X(read, ALLOW) X(write, ALLOW) X(close, ALLOW) X(fstat, ALLOW) X(lseek, ALLOW) \
	X(pread64, ALLOW) X(pwrite64, ALLOW) X(readv, ALLOW) X(writev, ALLOW) X(preadv, ALLOW) \
	X(pwritev, ALLOW) X(preadv2, ALLOW) X(pwritev2, ALLOW) X(openat, ALLOW) \
	X(openat2, ALLOW) X(close_range, ALLOW) X(dup, ALLOW) X(dup3, ALLOW) X(fcntl, ARGS) \
	X(flock, ALLOW) X(fsync, ALLOW) X(fdatasync, ALLOW) X(sync, ALLOW) X(syncfs, ALLOW) \
	X(sync_file_range, ALLOW) X(truncate, ALLOW) X(ftruncate, ALLOW) X(fallocate, ALLOW) \
	X(fadvise64, ALLOW) X(readahead, ALLOW) X(copy_file_range, ALLOW) X(sendfile, ALLOW) \
	X(splice, ALLOW) X(tee, ALLOW) X(vmsplice, EPERM) X(getdents64, ALLOW) X(getcwd, ALLOW) \
	X(chdir, ALLOW) X(fchdir, ALLOW) X(mkdirat, ALLOW) X(unlinkat, ALLOW) X(linkat, ALLOW) \
	X(symlinkat, ALLOW) X(readlinkat, ALLOW) X(renameat, ALLOW) X(renameat2, ALLOW) \
	X(mknodat, ALLOW) X(fchmod, ALLOW) X(fchmodat, ALLOW) X(fchown, ALLOW) \
	X(fchownat, ALLOW) X(faccessat, ALLOW) X(faccessat2, ALLOW) X(newfstatat, ALLOW) \
	X(statx, ALLOW) X(statfs, ALLOW) X(fstatfs, ALLOW) X(umask, ALLOW) X(utimensat, ALLOW) \
	X(setxattr, ALLOW) X(lsetxattr, ALLOW) X(fsetxattr, ALLOW) X(getxattr, ALLOW) \
	X(lgetxattr, ALLOW) X(fgetxattr, ALLOW) X(listxattr, ALLOW) X(llistxattr, ALLOW) \
	X(flistxattr, ALLOW) X(removexattr, ALLOW) X(lremovexattr, ALLOW) X(fremovexattr, ALLOW) \
	X(name_to_handle_at, EPERM) X(open_by_handle_at, EPERM) X(quotactl, EPERM) \
	X(quotactl_fd, EPERM) X(ioctl, ARGS) X(fanotify_init, EPERM) X(fanotify_mark, EPERM) \
	/* events */ \
	X(pipe2, ALLOW) X(ppoll, ALLOW) X(pselect6, ALLOW) X(epoll_create1, ALLOW) \
	X(epoll_ctl, ALLOW) X(epoll_pwait, ALLOW) X(epoll_pwait2, ALLOW) X(eventfd2, ALLOW) \
	X(signalfd4, ALLOW) X(inotify_init1, ALLOW) X(inotify_add_watch, ALLOW) \
	X(inotify_rm_watch, ALLOW) X(io_setup, ALLOW) X(io_destroy, ALLOW) X(io_submit, ALLOW) \
	X(io_cancel, ALLOW) X(io_getevents, ALLOW) X(io_pgetevents, ALLOW) \
	X(io_uring_setup, EPERM) X(io_uring_enter, EPERM) X(io_uring_register, EPERM) \
	/* memory */ \
	X(brk, ALLOW) X(mmap, ALLOW) X(munmap, ALLOW) X(mremap, ALLOW) X(mprotect, ALLOW) \
	X(madvise, ALLOW) X(mincore, ALLOW) X(msync, ALLOW) X(mlock, ALLOW) X(mlock2, ALLOW) \
	X(munlock, ALLOW) X(mlockall, ALLOW) X(munlockall, ALLOW) X(remap_file_pages, ALLOW) \
	X(pkey_alloc, ALLOW) X(pkey_free, ALLOW) X(pkey_mprotect, ALLOW) X(memfd_create, ALLOW) \
	X(memfd_secret, ENOSYS) X(userfaultfd, EPERM) X(mbind, ENOSYS) X(get_mempolicy, ENOSYS) \
	X(set_mempolicy, ENOSYS) X(migrate_pages, ENOSYS) X(move_pages, ENOSYS) \
	X(process_madvise, EPERM) X(process_mrelease, ENOSYS) X(process_vm_readv, EPERM) \
	X(process_vm_writev, EPERM) X(swapon, EPERM) X(swapoff, EPERM) \
	/* processes */ \
	X(clone, ARGS) X(clone3, ENOSYS) X(execve, ALLOW) X(execveat, ALLOW) X(exit, ALLOW) \
	X(exit_group, ALLOW) X(wait4, ALLOW) X(waitid, ALLOW) X(kill, ALLOW) X(tkill, ALLOW) \
	X(tgkill, ALLOW) X(pidfd_open, ALLOW) X(pidfd_send_signal, ALLOW) X(pidfd_getfd, EPERM) \
	X(rt_sigaction, ALLOW) X(rt_sigprocmask, ALLOW) X(rt_sigpending, ALLOW) \
	X(rt_sigtimedwait, ALLOW) X(rt_sigqueueinfo, ALLOW) X(rt_tgsigqueueinfo, ALLOW) \
	X(rt_sigsuspend, ALLOW) X(rt_sigreturn, ALLOW) X(sigaltstack, ALLOW) \
	X(restart_syscall, ALLOW) X(getpid, ALLOW) X(getppid, ALLOW) X(gettid, ALLOW) \
	X(getpgid, ALLOW) X(setpgid, ALLOW) X(getsid, ALLOW) X(setsid, ALLOW) X(futex, ALLOW) \
	X(futex_waitv, ALLOW) X(set_robust_list, ALLOW) X(get_robust_list, ALLOW) \
	X(set_tid_address, ALLOW) X(rseq, ALLOW) X(membarrier, ALLOW) X(getcpu, ALLOW) \
	X(prctl, ALLOW) X(seccomp, ALLOW) X(ptrace, EPERM) X(kcmp, EPERM) X(personality, ARGS) \
	X(unshare, EPERM) X(setns, EPERM) X(landlock_create_ruleset, ALLOW) \
	X(landlock_add_rule, ALLOW) X(landlock_restrict_self, ALLOW) X(sched_yield, ALLOW) \
	X(sched_getaffinity, ALLOW) X(sched_getattr, ALLOW) X(sched_getparam, ALLOW) \
	X(sched_getscheduler, ALLOW) X(sched_get_priority_max, ALLOW) \
	X(sched_get_priority_min, ALLOW) X(sched_rr_get_interval, ALLOW) \
	X(sched_setaffinity, ARGS) X(sched_setattr, ARGS) X(sched_setparam, ARGS) \
	X(sched_setscheduler, ARGS) X(getpriority, ALLOW) X(setpriority, ARGS) \
	X(ioprio_get, ALLOW) X(ioprio_set, ARGS) \
	/* ids, limits, time */ \
	X(getuid, ALLOW) X(geteuid, ALLOW) X(getgid, ALLOW) X(getegid, ALLOW) \
	X(getresuid, ALLOW) X(getresgid, ALLOW) X(getgroups, ALLOW) X(setuid, ALLOW) \
	X(setgid, ALLOW) X(setreuid, ALLOW) X(setregid, ALLOW) X(setresuid, ALLOW) \
	X(setresgid, ALLOW) X(setfsuid, ALLOW) X(setfsgid, ALLOW) X(setgroups, ALLOW) \
	X(capget, ALLOW) X(capset, ALLOW) X(getrlimit, ALLOW) X(setrlimit, ALLOW) \
	X(prlimit64, ARGS) X(getrusage, ALLOW) X(times, ALLOW) X(sysinfo, ALLOW) X(uname, ALLOW) \
	X(getrandom, ALLOW) X(nanosleep, ALLOW) X(clock_nanosleep, ALLOW) \
	X(clock_gettime, ALLOW) X(clock_getres, ALLOW) X(clock_settime, EPERM) \
	X(clock_adjtime, ALLOW) X(adjtimex, ALLOW) X(gettimeofday, ALLOW) X(settimeofday, EPERM) \
	X(getitimer, ALLOW) X(setitimer, ALLOW) X(timer_create, ALLOW) X(timer_settime, ALLOW) \
	X(timer_gettime, ALLOW) X(timer_getoverrun, ALLOW) X(timer_delete, ALLOW) \
	X(timerfd_create, ALLOW) X(timerfd_settime, ALLOW) X(timerfd_gettime, ALLOW) \
	/* sockets and interprocess communication */ \
	X(socket, ARGS) X(socketpair, ARGS) X(bind, ALLOW) X(listen, ALLOW) X(accept, ALLOW) \
	X(accept4, ALLOW) X(connect, ALLOW) X(getsockname, ALLOW) X(getpeername, ALLOW) \
	X(sendto, ALLOW) X(recvfrom, ALLOW) X(sendmsg, ALLOW) X(recvmsg, ALLOW) \
	X(sendmmsg, ALLOW) X(recvmmsg, ALLOW) X(setsockopt, ALLOW) X(getsockopt, ALLOW) \
	X(shutdown, ALLOW) X(mq_open, ALLOW) X(mq_unlink, ALLOW) X(mq_timedsend, ALLOW) \
	X(mq_timedreceive, ALLOW) X(mq_notify, ALLOW) X(mq_getsetattr, ALLOW) X(msgget, ALLOW) \
	X(msgctl, ALLOW) X(msgrcv, ALLOW) X(msgsnd, ALLOW) X(semget, ALLOW) X(semctl, ALLOW) \
	X(semop, ALLOW) X(semtimedop, ALLOW) X(shmget, ALLOW) X(shmctl, ALLOW) X(shmat, ALLOW) \
	X(shmdt, ALLOW) \
	/* mounts and the host's administration */ \
	X(mount, EPERM) X(umount2, EPERM) X(pivot_root, EPERM) X(chroot, EPERM) \
	X(open_tree, EPERM) X(move_mount, EPERM) X(fsopen, EPERM) X(fsconfig, EPERM) \
	X(fsmount, EPERM) X(fspick, EPERM) X(mount_setattr, EPERM) X(bpf, EPERM) \
	X(perf_event_open, EPERM) X(add_key, EPERM) X(request_key, EPERM) X(keyctl, EPERM) \
	X(init_module, EPERM) X(finit_module, EPERM) X(delete_module, EPERM) \
	X(kexec_load, EPERM) X(kexec_file_load, EPERM) X(reboot, EPERM) X(syslog, EPERM) \
	X(acct, EPERM) X(vhangup, EPERM) X(sethostname, EPERM) X(setdomainname, EPERM) \
	X(lookup_dcookie, EPERM)

/* Calls that x86-64 alone has. */
#define EXPECTED_X86_64(X) \
	X(open, ALLOW) X(creat, ALLOW) X(stat, ALLOW) X(lstat, ALLOW) X(access, ALLOW) \
	X(dup2, ALLOW) X(pipe, ALLOW) X(poll, ALLOW) X(select, ALLOW) X(epoll_create, ALLOW) \
	X(epoll_wait, ALLOW) X(eventfd, ALLOW) X(signalfd, ALLOW) X(inotify_init, ALLOW) \
	X(mkdir, ALLOW) X(rmdir, ALLOW) X(link, ALLOW) X(unlink, ALLOW) X(symlink, ALLOW) \
	X(readlink, ALLOW) X(rename, ALLOW) X(mknod, ALLOW) X(chmod, ALLOW) X(chown, ALLOW) \
	X(lchown, ALLOW) X(utime, ALLOW) X(utimes, ALLOW) X(futimesat, ALLOW) X(getdents, ALLOW) \
	X(fork, ALLOW) X(vfork, ALLOW) X(getpgrp, ALLOW) X(alarm, ALLOW) X(pause, ALLOW) \
	X(time, ALLOW) X(arch_prctl, ALLOW) X(modify_ldt, EPERM) X(iopl, EPERM) X(ioperm, EPERM) \
	X(set_thread_area, ENOSYS) X(get_thread_area, ENOSYS) X(_sysctl, ENOSYS) \
	X(uselib, ENOSYS) X(ustat, ENOSYS) X(sysfs, ENOSYS) X(create_module, ENOSYS) \
	X(query_module, ENOSYS) X(epoll_ctl_old, ENOSYS) X(getpmsg, ENOSYS)

/* From Linux 5.17 on, with numbers, because the headers of a supported system may be older. */
#define EXPECTED_RECENT(X) \
	X(set_mempolicy_home_node, 450, ENOSYS) X(cachestat, 451, ENOSYS) \
	X(fchmodat2, 452, ALLOW) X(map_shadow_stack, 453, ALLOW) X(futex_wake, 454, ALLOW) \
	X(futex_wait, 455, ALLOW) X(futex_requeue, 456, ALLOW) X(statmount, 457, ENOSYS) \
	X(listmount, 458, ENOSYS) X(lsm_get_self_attr, 459, ENOSYS) \
	X(lsm_set_self_attr, 460, ENOSYS) X(lsm_list_modules, 461, ENOSYS) X(mseal, 462, ALLOW) \
	X(setxattrat, 463, ALLOW) X(getxattrat, 464, ALLOW) X(listxattrat, 465, ALLOW) \
	X(removexattrat, 466, ALLOW) X(open_tree_attr, 467, EPERM) X(file_getattr, 468, ENOSYS) \
	X(file_setattr, 469, ENOSYS)

#define EXPECTED_LINE(name, verdict) {__NR_##name, EXPECT_##verdict, #name},
#define EXPECTED_RECENT_LINE(name, number, verdict) {number, EXPECT_##verdict, #name},

#endif
