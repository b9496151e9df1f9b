/* SPDX-License-Identifier: MIT */
/*
 * Refused system calls as a person reads them: see report.h. A flag, family or request that is not named here is
 * its number.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <linux/prctl.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>

#include "report/report.h"
#include "sandbox/refusal.h"
#include "sandbox/result.h"
#include "seccomp/syscalls.h"
#include "util/error.h"

enum { ARGUMENTS_MAX = 256, SIGNAL_MASK = 0xff, TYPE_MASK = 0xf };

struct name {
	uint32_t value;
	const char *name;
};

#define NAME(constant)                                                                             \
	{                                                                                          \
		constant, #constant                                                                \
	}
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct name clone_flags[] = {NAME(CLONE_NEWUSER), NAME(CLONE_NEWNS),
	NAME(CLONE_NEWPID), NAME(CLONE_NEWNET), NAME(CLONE_NEWIPC), NAME(CLONE_NEWUTS),
	NAME(CLONE_NEWCGROUP), {0x80, "CLONE_NEWTIME"}};

static const struct name families[] = {NAME(AF_UNSPEC), NAME(AF_UNIX), NAME(AF_INET),
	NAME(AF_INET6), NAME(AF_NETLINK), NAME(AF_PACKET), NAME(AF_ALG), NAME(AF_VSOCK),
	NAME(AF_BLUETOOTH), NAME(AF_CAN), NAME(AF_TIPC), NAME(AF_RDS), {44, "AF_XDP"},
	{43, "AF_SMC"}, NAME(AF_KCM), {42, "AF_QIPCRTR"}};

static const struct name socket_types[] = {NAME(SOCK_STREAM), NAME(SOCK_DGRAM), NAME(SOCK_RAW),
	NAME(SOCK_RDM), NAME(SOCK_SEQPACKET), NAME(SOCK_DCCP), NAME(SOCK_PACKET)};

static const struct name ioctls[] = {NAME(TIOCSTI), NAME(TIOCLINUX), NAME(TIOCSETD), NAME(TIOCCONS),
	{0x80045430, "TIOCGPTN"}, {0x40045431, "TIOCSPTLCK"}, {0x5441, "TIOCGPTPEER"},
	{0x40049409, "FICLONE"}, {0x80086601, "FS_IOC_GETFLAGS"}, {0x8912, "SIOCGIFCONF"}};

static const struct name prctls[] = {NAME(PR_SET_SECCOMP), NAME(PR_SET_MM),
	{53, "PR_SET_SPECULATION_CTRL"}, {59, "PR_SET_SYSCALL_USER_DISPATCH"},
	{62, "PR_SCHED_CORE"}, {67, "PR_SET_MEMORY_MERGE"}, NAME(PR_SET_SECUREBITS),
	NAME(PR_CAPBSET_DROP), NAME(PR_SET_KEEPCAPS)};

static const struct name ptraces[] = {NAME(PTRACE_TRACEME), NAME(PTRACE_ATTACH), NAME(PTRACE_SEIZE),
	NAME(PTRACE_PEEKDATA), NAME(PTRACE_POKEDATA)};

static const char *find_name(const struct name *names, size_t count, uint32_t value)
{
	for (size_t i = 0; i < count; i++)
		if (names[i].value == value)
			return names[i].name;
	return NULL;
}

/* A name, or the number in hexadecimal. */
static int format_named(
	char *ret, size_t size, const struct name *names, size_t count, uint32_t value)
{
	const char *name = find_name(names, count, value);

	return name ? snprintf(ret, size, "%s", name) : snprintf(ret, size, "%#" PRIx32, value);
}

/* The flags for namespaces, which are what is refused; the rest of them says nothing more. */
static int format_clone_flags(char *ret, size_t size, uint32_t value)
{
	size_t used = 0;

	for (size_t i = 0; i < COUNT(clone_flags) && used < size; i++)
		if (value & clone_flags[i].value)
			used += (size_t)snprintf(ret + used, size - used, "%s%s", used ? "|" : "",
				clone_flags[i].name);
	return used > 0 ? (int)used : snprintf(ret, size, "%#" PRIx32, value & ~SIGNAL_MASK);
}

static int format_argument(char *ret, size_t size, enum argument_form form, uint32_t value)
{
	switch (form) {
	case FORM_NUMBER:
		return snprintf(ret, size, "%" PRId32, (int32_t)value);
	case FORM_HEX:
		return snprintf(ret, size, "%#" PRIx32, value);
	case FORM_OCTAL:
		return snprintf(ret, size, "%#" PRIo32, value);
	case FORM_CLONE_FLAGS:
		return format_clone_flags(ret, size, value);
	case FORM_FAMILY:
		return format_named(ret, size, families, COUNT(families), value);
	case FORM_SOCKET_TYPE:
		return format_named(
			ret, size, socket_types, COUNT(socket_types), value & TYPE_MASK);
	case FORM_IOCTL:
		return format_named(ret, size, ioctls, COUNT(ioctls), value);
	case FORM_PRCTL:
		return format_named(ret, size, prctls, COUNT(prctls), value);
	case FORM_PTRACE:
		return format_named(ret, size, ptraces, COUNT(ptraces), value);
	}
	return 0;
}

/* Empty where none tells anything. */
static void format_arguments(const struct refusal *refusal, char *ret, size_t size)
{
	const struct telling *telling = telling_find(refusal->number);
	size_t used = 0;

	*ret = '\0';
	for (size_t i = 0; telling && i < telling->count && used < size; i++) {
		used += (size_t)snprintf(ret + used, size - used, "%s", i ? ", " : "");
		if (used < size)
			used += (size_t)format_argument(ret + used, size - used,
				telling->arguments[i].form, refusal->arguments[i]);
	}
}

void refusal_message(const struct refusal *refusal, char *ret, size_t size)
{
	char name[SYSCALL_NAME_MAX], arguments[ARGUMENTS_MAX], times[48] = "once";

	syscall_name(seccomp_arch_host, refusal->number, name);
	format_arguments(refusal, arguments, sizeof arguments);
	if (refusal->count > 1)
		snprintf(times, sizeof times, "%" PRIu64 " times", refusal->count);
	snprintf(ret, size, "%s%s%s%s: %s (%s), %s", name, *arguments ? "(" : "", arguments,
		*arguments ? ")" : "", error_name(refusal->errnum), strerror(refusal->errnum),
		times);
}

static json_t *refusal_to_json(const struct refusal *refusal)
{
	char name[SYSCALL_NAME_MAX], arguments[ARGUMENTS_MAX], message[ERROR_TEXT_MAX];

	syscall_name(seccomp_arch_host, refusal->number, name);
	format_arguments(refusal, arguments, sizeof arguments);
	refusal_message(refusal, message, sizeof message);
	return json_pack("{s:s, s:i, s:o, s:s, s:I, s:s}", "syscall", name, "number",
		refusal->number, "arguments", *arguments ? json_string(arguments) : json_null(),
		"error", error_name(refusal->errnum), "count", (json_int_t)refusal->count,
		"message", message);
}

json_t *refusals_to_json(const struct refusals *refusals)
{
	json_t *array;

	if (!refusals)
		return json_null();
	array = json_array();
	for (size_t i = 0; i < refusals->count; i++)
		json_array_append_new(array, refusal_to_json(&refusals->list[i]));
	return array;
}

void exec_result_hint(
	const struct exec_result *exec, const struct spec *spec, char *ret, size_t size)
{
	bool failed = exec->ended_by != ENDED_SETUP && (exec->ended_by != ENDED_EXITED || exec->exit_code != 0);

	*ret = '\0';
	if (failed && exec->speaks_of_network && spec->network == NETWORK_NONE) {
		snprintf(ret, size, "its output speaks of a network that cannot be reached: the sandbox has none");
		return;
	}
	if (failed && exec->speaks_of_package) {
		snprintf(ret, size, "its output speaks of a package that is not there: --with installs those of its language");
		return;
	}
	/* The kernel refuses these, and the gate sees nothing of it. */
	if (failed && exec->speaks_of_port && spec->network == NETWORK_ALLOW) {
		snprintf(ret, size, "its output speaks of a refused connection, as those to ports are that no rule of the network "
				    "has: 443 and 80 where a rule names none");
		return;
	}
	if (spec->explain || exec->exec_errno || !failed ||
		strcmp(spec->seccomp_name, "unconfined") == 0 || !exec->speaks_of_refusal)
		return;
	snprintf(ret, size,
		"its output names an error that the filter of system calls gives too; --explain says whether "
		"it did, and for which call");
}
