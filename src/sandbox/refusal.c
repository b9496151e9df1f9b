/* SPDX-License-Identifier: MIT */
/* Refused system calls, counted: see refusal.h. */
#define _GNU_SOURCE
#include "sandbox/refusal.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "util/error.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6, on every architecture */
#endif

/* clang-format off */
static const struct telling tellings[] = {
	{SYS_clone, 1, {{0, FORM_CLONE_FLAGS}}},
	{SYS_unshare, 1, {{0, FORM_CLONE_FLAGS}}},
	{SYS_setns, 1, {{1, FORM_CLONE_FLAGS}}},
	{SYS_socket, 3, {{0, FORM_FAMILY}, {1, FORM_SOCKET_TYPE}, {2, FORM_NUMBER}}},
	{SYS_socketpair, 3, {{0, FORM_FAMILY}, {1, FORM_SOCKET_TYPE}, {2, FORM_NUMBER}}},
	{SYS_setsockopt, 2, {{1, FORM_NUMBER}, {2, FORM_NUMBER}}},
	{SYS_ioctl, 1, {{1, FORM_IOCTL}}},
	{SYS_prctl, 1, {{0, FORM_PRCTL}}},
	{SYS_ptrace, 2, {{0, FORM_PTRACE}, {1, FORM_NUMBER}}},
	{SYS_personality, 1, {{0, FORM_HEX}}},
	{SYS_fcntl, 1, {{1, FORM_NUMBER}}},
	{SYS_keyctl, 1, {{0, FORM_NUMBER}}},
	{SYS_bpf, 1, {{0, FORM_NUMBER}}},
	{SYS_seccomp, 2, {{0, FORM_NUMBER}, {1, FORM_HEX}}},
	{SYS_prlimit64, 2, {{0, FORM_NUMBER}, {1, FORM_NUMBER}}},
	{SYS_setpriority, 2, {{0, FORM_NUMBER}, {1, FORM_NUMBER}}},
	{SYS_ioprio_set, 2, {{0, FORM_NUMBER}, {1, FORM_NUMBER}}},
	{SYS_sched_setaffinity, 1, {{0, FORM_NUMBER}}},
	{SYS_sched_setattr, 1, {{0, FORM_NUMBER}}},
	{SYS_sched_setparam, 1, {{0, FORM_NUMBER}}},
	{SYS_sched_setscheduler, 1, {{0, FORM_NUMBER}}},
	{SYS_process_vm_readv, 1, {{0, FORM_NUMBER}}},
	{SYS_process_vm_writev, 1, {{0, FORM_NUMBER}}},
	{SYS_kcmp, 2, {{0, FORM_NUMBER}, {1, FORM_NUMBER}}},
	{SYS_memfd_create, 1, {{1, FORM_HEX}}},
	{SYS_syslog, 1, {{0, FORM_NUMBER}}},
	{SYS_openat, 2, {{2, FORM_HEX}, {3, FORM_OCTAL}}},
	{SYS_fchmod, 1, {{1, FORM_OCTAL}}},
	{SYS_fchmodat, 1, {{2, FORM_OCTAL}}},
	{SYS_fchmodat2, 1, {{2, FORM_OCTAL}}},
	{SYS_mknodat, 1, {{2, FORM_OCTAL}}},
	{SYS_mprotect, 1, {{2, FORM_HEX}}},
	{SYS_mmap, 2, {{2, FORM_HEX}, {3, FORM_HEX}}},
	{SYS_madvise, 1, {{2, FORM_NUMBER}}},
#ifdef SYS_open
	{SYS_open, 2, {{1, FORM_HEX}, {2, FORM_OCTAL}}},
	{SYS_creat, 1, {{1, FORM_OCTAL}}},
	{SYS_chmod, 1, {{1, FORM_OCTAL}}},
	{SYS_mknod, 1, {{1, FORM_OCTAL}}},
#endif
};
/* clang-format on */

const struct telling *telling_find(int number)
{
	for (size_t i = 0; i < sizeof tellings / sizeof *tellings; i++)
		if (tellings[i].number == number)
			return &tellings[i];
	return NULL;
}

void refusals_note(struct refusals *refusals, int number, int errnum, const uint64_t arguments[6])
{
	struct refusal refusal = {.number = number, .errnum = errnum, .count = 1};
	const struct telling *telling = telling_find(number);

	for (size_t i = 0; telling && i < telling->count; i++)
		refusal.arguments[i] = (uint32_t)arguments[telling->arguments[i].index];
	for (size_t i = 0; i < refusals->count; i++) {
		struct refusal *known = &refusals->list[i];

		if (known->number == number && known->errnum == errnum &&
			memcmp(known->arguments, refusal.arguments, sizeof refusal.arguments) ==
				0) {
			known->count++;
			return;
		}
	}
	if (refusals->count == REFUSALS_MAX)
		refusals->others++;
	else
		refusals->list[refusals->count++] = refusal;
}

static bool has_words(const void *data, size_t length)
{
	static const int errnums[] = {EPERM, ENOSYS, EAFNOSUPPORT};

	for (size_t i = 0; i < sizeof errnums / sizeof *errnums; i++) {
		const char *text = strerror(errnums[i]), *name = error_name(errnums[i]);

		if (memmem(data, length, text, strlen(text)) ||
			memmem(data, length, name, strlen(name)))
			return true;
	}
	return false;
}

static bool has_one_of(const char *const *words, size_t count, const void *data, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (memmem(data, length, words[i], strlen(words[i])))
			return true;
	return false;
}

/* Words are shorter than the tail that is kept. */
static void add_words(struct refusal_words *words, const void *data, size_t length)
{
	static const char *const network[] = {"name resolution", "Network is unreachable", "ENETUNREACH", "Could not resolve host",
		"EAI_AGAIN", "ENOTFOUND", "UnknownHostException", "on [::1]:53:"};
	static const char *const port[] = {"Connection refused", "connection refused", "ECONNREFUSED", "Couldn't connect to server"};
	static const char *const package[] = {"No module named '", "Cannot find module '", "ERR_MODULE_NOT_FOUND",
		"cannot find package \"", "error: package ", "error[E0432]", "error[E0433]", "in @INC", "cannot load such file -- ",
		"there is no package called", "no field package.preload["};

	words->seen = words->seen || has_words(data, length);
	words->network = words->network || has_one_of(network, sizeof network / sizeof *network, data, length);
	words->port = words->port || has_one_of(port, sizeof port / sizeof *port, data, length);
	words->package = words->package || has_one_of(package, sizeof package / sizeof *package, data, length);
}

void refusal_words_add(struct refusal_words *words, const void *data, size_t length)
{
	char seam[2 * sizeof words->tail];
	size_t head = length < sizeof words->tail ? length : sizeof words->tail;
	size_t kept;

	memcpy(seam, words->tail, words->tail_length);
	memcpy(seam + words->tail_length, data, head);
	add_words(words, data, length);
	add_words(words, seam, words->tail_length + head);
	if (length >= sizeof words->tail) {
		memcpy(words->tail, (const char *)data + length - sizeof words->tail,
			sizeof words->tail);
		words->tail_length = sizeof words->tail;
		return;
	}
	/* The end of both together. */
	kept = words->tail_length + length;
	kept = kept < sizeof words->tail ? kept : sizeof words->tail;
	memcpy(words->tail, seam + words->tail_length + length - kept, kept);
	words->tail_length = kept;
}
