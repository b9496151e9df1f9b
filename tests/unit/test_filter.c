/* SPDX-License-Identifier: MIT */
/*
 * The default filter, interpreted for every system call number and for the arguments that matter,
 * on both architectures and in both tiers; and loaded into the kernel.
 */
#define _GNU_SOURCE
#include "seccomp/profile.h"
#include "seccomp/syscalls.h"
#include "util/error.h"
#include "bpf.h"
#include "expected_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/audit.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

#define ALLOW SECCOMP_RET_ALLOW
#define REFUSE(number) (SECCOMP_RET_ERRNO | (number))
#define EVERY_BIT UINT64_MAX
#define DIRTY 0xdeadbeef00000000 /* what may stand above an int in its register */

enum { NUMBERS = 1024, SUBJECTS_MAX = 4 };

/* A filter under test. */
struct subject {
	char name[32];
	const struct seccomp_arch *arch;
	bool tier2;
	struct bpf_program program;
	const struct expected_call *calls;
	size_t call_count;
};

static struct subject subjects[SUBJECTS_MAX];
static size_t subject_count;

#define for_each_subject(s)                                                                        \
	for (const struct subject *s = subjects; s < subjects + subject_count; s++)

static const char *profile_path(void)
{
	static char path[PATH_MAX];
	const char *source = getenv("srcdir");

	snprintf(path, sizeof path, "%s/seccomp-profiles/default.json", source ? source : ".");
	return path;
}

static void read_profile(char *text, size_t size, size_t *ret_length)
{
	FILE *file = fopen(profile_path(), "re");

	assert_non_null(file);
	*ret_length = fread(text, 1, size, file);
	assert_true(*ret_length > 0 && *ret_length < size);
	fclose(file);
}

static void add_subject(const struct seccomp_arch *arch, bool tier2,
	const struct expected_call *calls, size_t count)
{
	static char text[1 << 20];
	struct subject *s = &subjects[subject_count++];
	struct error err;
	size_t length;

	read_profile(text, sizeof text, &length);
	snprintf(s->name, sizeof s->name, "%s tier %d", arch->name, tier2 ? 2 : 1);
	s->arch = arch;
	s->tier2 = tier2;
	s->calls = calls;
	s->call_count = count;
	if (profile_compile_for(arch, text, length, "default.json", tier2, &s->program, &err) < 0)
		fail_msg("%s", err.text);
}

static int make_subjects(void **state)
{
	for (int tier2 = 0; tier2 <= 1; tier2++) {
		size_t count;
		const struct expected_call *calls = expected_calls_aarch64(&count);

		add_subject(&seccomp_arch_aarch64, tier2, calls, count);
		calls = expected_calls_x86_64(&count);
		if (calls)
			add_subject(&seccomp_arch_x86_64, tier2, calls, count);
	}
	return 0;
}

static int free_subjects(void **state)
{
	for (size_t i = 0; i < subject_count; i++)
		free(subjects[i].program.instructions);
	return 0;
}

static uint32_t verdict_of(
	const struct subject *s, uint32_t arch, uint32_t number, const uint64_t args[6])
{
	struct seccomp_data data = {
		.nr = (int)number, .arch = arch, .instruction_pointer = EVERY_BIT};

	memcpy(data.args, args, sizeof data.args);
	return bpf_run(s->program.instructions, s->program.length, &data);
}

static const struct expected_call *find_call(const struct subject *s, const char *name)
{
	for (size_t i = 0; i < s->call_count; i++)
		if (strcmp(s->calls[i].name, name) == 0)
			return &s->calls[i];
	fail_msg("no call %s in the table of %s", name, s->name);
	return NULL;
}

/* Arguments that are not given are 0. */
#define expect(s, name, wanted, ...)                                                               \
	expect_verdict(s, name, wanted, (const uint64_t[6]){__VA_ARGS__}, __LINE__)

static void expect_verdict(const struct subject *s, const char *name, uint32_t wanted,
	const uint64_t args[6], int line)
{
	uint32_t got = verdict_of(s, s->arch->audit_arch, find_call(s, name)->number, args);

	if (got != wanted)
		fail_msg("line %d: %s: %s(%#llx, %#llx, %#llx, …): %#x, not %#x", line, s->name,
			name, (unsigned long long)args[0], (unsigned long long)args[1],
			(unsigned long long)args[2], got, wanted);
}

/* ---- numbers ---- */

static void every_number_has_the_verdict_of_the_table(void **state)
{
	static const uint64_t zeroes[6],
		ones[6] = {EVERY_BIT, EVERY_BIT, EVERY_BIT, EVERY_BIT, EVERY_BIT, EVERY_BIT};
	static const uint32_t verdicts[] = {[EXPECT_ALLOW] = ALLOW,
		[EXPECT_EPERM] = REFUSE(EPERM),
		[EXPECT_ENOSYS] = REFUSE(ENOSYS)};

	for_each_subject(s)
	{
		for (unsigned number = 0; number < NUMBERS; number++) {
			struct expected_call call = {
				number, EXPECT_ENOSYS, "a call that is not known"};
			uint32_t wanted;

			for (size_t i = 0; i < s->call_count; i++)
				if (s->calls[i].number == number)
					call = s->calls[i];
			if (call.verdict == EXPECT_ARGS)
				continue;
			wanted = verdicts[call.verdict];
			if (s->tier2 && (strcmp(call.name, "memfd_create") == 0 ||
						strcmp(call.name, "shmget") == 0))
				wanted = REFUSE(ENOSYS);
			if (verdict_of(s, s->arch->audit_arch, number, zeroes) != wanted ||
				verdict_of(s, s->arch->audit_arch, number, ones) != wanted)
				fail_msg(
					"%s: %s (%u): not %#x", s->name, call.name, number, wanted);
		}
	}
}

static void the_tables_are_not_empty(void **state)
{
	for_each_subject(s) assert_in_range(s->call_count, 300, NUMBERS);
}

static void numbers_of_another_abi_are_unknown(void **state)
{
	static const uint64_t args[6];
	static const uint32_t starts[] = {
		0x40000000, 0x40000200, 0x7ffffc00, 0x80000000, 0xfffffc00, 0x10000};

	for_each_subject(s) for (size_t i = 0; i < sizeof starts / sizeof *starts;
				 i++) for (uint32_t number = 0; number < NUMBERS; number++)
		assert_int_equal(verdict_of(s, s->arch->audit_arch, starts[i] + number, args),
			REFUSE(ENOSYS));
}

static void another_architecture_is_killed(void **state)
{
	static const uint64_t args[6];
	static const uint32_t archs[] = {AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, AUDIT_ARCH_ARM,
		AUDIT_ARCH_AARCH64, AUDIT_ARCH_RISCV64, AUDIT_ARCH_S390X, 0, UINT32_MAX};

	for_each_subject(s) for (size_t i = 0; i < sizeof archs / sizeof *archs;
				 i++) for (uint32_t number = 0;
					   number < NUMBERS && archs[i] != s->arch->audit_arch;
					   number++)
	{
		assert_int_equal(verdict_of(s, archs[i], number, args), SECCOMP_RET_KILL_PROCESS);
		assert_int_equal(verdict_of(s, archs[i], number | 0x40000000, args),
			SECCOMP_RET_KILL_PROCESS);
	}
}

/* ---- arguments ---- */

static void clone_makes_no_namespace(void **state)
{
	const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
				    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
				    0x80 /* CLONE_NEWTIME */;
	const uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
				CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
				CLONE_CHILD_CLEARTID;

	for_each_subject(s)
	{
		for (int bit = 0; bit < 64; bit++) {
			uint64_t flag = UINT64_C(1) << bit;
			uint32_t wanted = flag & namespaces ? REFUSE(EPERM) : ALLOW;

			expect(s, "clone", wanted, flag);
			expect(s, "clone", wanted, flag | SIGCHLD);
			expect(s, "clone", wanted, flag | DIRTY | SIGCHLD);
			expect(s, "clone", REFUSE(EPERM), flag | CLONE_NEWUSER);
		}
		expect(s, "clone", ALLOW, SIGCHLD, EVERY_BIT, EVERY_BIT, EVERY_BIT, EVERY_BIT);
		expect(s, "clone", ALLOW, thread);
		expect(s, "clone", ALLOW, CLONE_VM | CLONE_VFORK | SIGCHLD);
		expect(s, "clone", REFUSE(EPERM), EVERY_BIT);
		expect(s, "clone", REFUSE(EPERM), namespaces);
	}
}

static void terminals_are_not_typed_into(void **state)
{
	static const uint64_t refused[] = {TIOCSTI, TIOCLINUX, TIOCSETD};

	for_each_subject(s)
	{
		for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
			for (int bit = 32; bit < 64; bit++) {
				expect(s, "ioctl", REFUSE(EPERM), 0, refused[i]);
				expect(s, "ioctl", REFUSE(EPERM), 0,
					refused[i] | UINT64_C(1) << bit);
				expect(s, "ioctl", REFUSE(EPERM), EVERY_BIT, refused[i] | DIRTY,
					EVERY_BIT);
			}
		for (uint64_t request = 0; request < 0x10000; request++)
			if (request != TIOCSTI && request != TIOCLINUX && request != TIOCSETD)
				expect(s, "ioctl", ALLOW, 0, request);
		expect(s, "ioctl", ALLOW, TIOCSTI, TIOCGWINSZ, TIOCSTI);
		expect(s, "ioctl", ALLOW, 0, EVERY_BIT);
	}
}

static void files_are_not_leased(void **state)
{
	for_each_subject(s)
	{
		for (uint64_t command = 0; command < 2048; command++)
			expect(s, "fcntl", command == F_SETLEASE ? REFUSE(EPERM) : ALLOW, 0,
				command);
		expect(s, "fcntl", REFUSE(EPERM), EVERY_BIT, F_SETLEASE | DIRTY, EVERY_BIT);
		expect(s, "fcntl", ALLOW, F_SETLEASE, F_GETLEASE, F_SETLEASE);
	}
}

static void sockets_are_of_few_families(void **state)
{
	for_each_subject(s)
	{
		for (uint64_t family = 0; family < 64; family++) {
			bool common = family == AF_UNIX || family == AF_INET || family == AF_INET6;
			uint32_t wanted =
				common || family == AF_NETLINK ? ALLOW : REFUSE(EAFNOSUPPORT);

			expect(s, "socket", wanted, family, SOCK_STREAM);
			expect(s, "socket", wanted, family | DIRTY, SOCK_DGRAM);
			if (family != AF_NETLINK)
				expect(s, "socket", wanted, family, SOCK_RAW, EVERY_BIT);
			expect(s, "socketpair", family == AF_UNIX ? ALLOW : REFUSE(EAFNOSUPPORT),
				family);
			expect(s, "socketpair", family == AF_UNIX ? ALLOW : REFUSE(EAFNOSUPPORT),
				family | DIRTY, SOCK_SEQPACKET, EVERY_BIT);
		}
		for (int bit = 6; bit < 32; bit++)
			for (uint64_t family = 0; family < 64; family++) {
				expect(s, "socket", REFUSE(ENOSYS), family | UINT64_C(1) << bit);
				expect(s, "socketpair", REFUSE(ENOSYS),
					family | UINT64_C(1) << bit);
			}
		for (uint64_t protocol = 1; protocol < 256; protocol++)
			expect(s, "socket", REFUSE(EPROTONOSUPPORT), AF_NETLINK, SOCK_RAW,
				protocol);
		expect(s, "socket", REFUSE(EPROTONOSUPPORT), AF_NETLINK, SOCK_RAW, DIRTY);
		expect(s, "socket", ALLOW, AF_NETLINK | DIRTY, SOCK_RAW, 0);
	}
}

static void limits_are_set_for_oneself_only(void **state)
{
	static const uint64_t others[] = {
		1, 2, 1000, INT_MAX, UINT32_MAX, EVERY_BIT, UINT64_C(1) << 32};

	for_each_subject(s)
	{
		expect(s, "prlimit64", ALLOW, 0, 7, 0, 0x7ffff000);
		expect(s, "prlimit64", ALLOW, 0, 7, 0x7ffff000, 0);
		expect(s, "prlimit64", ALLOW, 0, 7, EVERY_BIT, EVERY_BIT);
		for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
			expect(s, "prlimit64", ALLOW, others[i], 7, 0, 0x7ffff000);
			expect(s, "prlimit64", REFUSE(EPERM), others[i], 7, 1, 0);
			expect(s, "prlimit64", REFUSE(EPERM), others[i], 7, UINT64_C(1) << 32, 0);
			expect(s, "prlimit64", REFUSE(EPERM), others[i], 7, EVERY_BIT, EVERY_BIT);
		}
	}
}

static bool personality_is_harmless(uint64_t persona)
{
	return persona == 0 || persona == 8 || persona == 0x20000 || persona == 0x20008 ||
	       persona == UINT32_MAX;
}

static void personalities_keep_the_address_space_random(void **state)
{
	for_each_subject(s) for (uint64_t low = 0; low < 64;
				 low++) for (int bit = 0; bit < 32; bit++) for (int other = bit;
										other < 32; other++)
	{
		uint64_t persona = low | UINT64_C(1) << bit | UINT64_C(1) << other;
		uint32_t wanted = personality_is_harmless(persona) ? ALLOW : REFUSE(ENOSYS);

		expect(s, "personality", wanted, persona);
		expect(s, "personality", wanted, persona | DIRTY);
	}
	for_each_subject(s)
	{
		expect(s, "personality", ALLOW, 0);
		expect(s, "personality", ALLOW, UINT32_MAX);
		expect(s, "personality", ALLOW, EVERY_BIT);
	}
}

static void the_first_process_is_not_rescheduled(void **state)
{
	static const char *const by_pid[] = {
		"sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"};
	static const uint64_t free_pids[] = {0, 2, 3, 1000, INT_MAX, UINT32_MAX, EVERY_BIT};

	for_each_subject(s)
	{
		for (size_t c = 0; c < sizeof by_pid / sizeof *by_pid; c++) {
			expect(s, by_pid[c], REFUSE(EPERM), 1, 0, EVERY_BIT);
			expect(s, by_pid[c], REFUSE(EPERM), 1 | DIRTY);
			for (size_t i = 0; i < sizeof free_pids / sizeof *free_pids; i++)
				expect(s, by_pid[c], ALLOW, free_pids[i], 1, 1);
		}
		for (uint64_t which = 0; which < 4; which++) {
			uint32_t nice = which == 2 ? REFUSE(EPERM) : ALLOW,
				 io = which == 3 ? REFUSE(EPERM) : ALLOW;

			expect(s, "setpriority", REFUSE(EPERM), which, 1, 19);
			expect(s, "setpriority", REFUSE(EPERM), which, 1 | DIRTY, 19);
			expect(s, "ioprio_set", REFUSE(EPERM), which, 1, 0x6000);
			for (size_t i = 0; i < sizeof free_pids / sizeof *free_pids; i++) {
				expect(s, "setpriority", nice, which | DIRTY, free_pids[i], 1);
				expect(s, "ioprio_set", io, which, free_pids[i], 1);
			}
		}
	}
}

/* ---- the embedded filters, and the kernel ---- */

static void the_filters_are_valid(void **state)
{
	for_each_subject(s) assert_true(bpf_is_valid(s->program.instructions, s->program.length));
}

static void the_embedded_filters_are_those_of_the_profile(void **state)
{
	for_each_subject(s)
	{
		const struct builtin_filter *embedded = builtin_filter_find("default", s->tier2);

		if (s->arch != seccomp_arch_host)
			continue;
		assert_non_null(embedded);
		assert_int_equal(embedded->length, s->program.length);
		assert_memory_equal(embedded->instructions, s->program.instructions,
			s->program.length * sizeof *s->program.instructions);
	}
	assert_null(builtin_filter_find("nonesuch", false));
}

static int load(bool tier2)
{
	const struct builtin_filter *filter = builtin_filter_find("default", tier2);
	struct sock_fprog program = {
		(unsigned short)filter->length, (struct sock_filter *)filter->instructions};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* Runs `body` in a child process under the built-in filter; it returns the child's exit status. */
static int status_under_filter(bool tier2, int (*body)(void))
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		_exit(load(tier2) < 0 ? 99 : body());
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static bool fails_with(long result, int number)
{
	return result == -1 && errno == number;
}

/* The number of the step that did not go as it should, or 0. */
static int try_calls(void)
{
	if (getppid() <= 0)
		return 1;
	if (!fails_with(unshare(CLONE_NEWUSER), EPERM))
		return 2;
	if (!fails_with(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), EPERM))
		return 3;
	if (!fails_with(syscall(SYS_ioctl, 0, DIRTY | TIOCSTI, "x"), EPERM))
		return 4;
	if (!fails_with(socket(AF_ALG, SOCK_SEQPACKET, 0), EAFNOSUPPORT))
		return 5;
	if (!fails_with(syscall(SYS_clone3, NULL, 0), ENOSYS) || !fails_with(syscall(1000), ENOSYS))
		return 6;
	if (!fails_with(syscall(SYS_getpid | 0x40000000), ENOSYS))
		return 7;
	return 0;
}

static int try_memfd(void)
{
	return syscall(SYS_memfd_create, "test", 0) < 0 ? errno : 0;
}

static void the_kernel_takes_and_obeys_it(void **state)
{
	assert_int_equal(status_under_filter(false, try_calls), 0);
	assert_int_equal(status_under_filter(true, try_calls), 0);
	assert_int_equal(status_under_filter(false, try_memfd), 0);
	assert_int_equal(status_under_filter(true, try_memfd), ENOSYS << 8);
}

#ifdef __x86_64__
/* getpid through the 32-bit entry. */
static int enter_as_i386(void)
{
	int number = 20;

	__asm__ volatile("int $0x80" : "+a"(number) : : "memory");
	return 0;
}

static void a_32_bit_call_kills(void **state)
{
	int status = status_under_filter(false, enter_as_i386);

	/* A kernel without 32-bit support kills it too, in its own way. */
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_has_the_verdict_of_the_table),
		cmocka_unit_test(the_tables_are_not_empty),
		cmocka_unit_test(numbers_of_another_abi_are_unknown),
		cmocka_unit_test(another_architecture_is_killed),
		cmocka_unit_test(clone_makes_no_namespace),
		cmocka_unit_test(terminals_are_not_typed_into),
		cmocka_unit_test(files_are_not_leased),
		cmocka_unit_test(sockets_are_of_few_families),
		cmocka_unit_test(limits_are_set_for_oneself_only),
		cmocka_unit_test(personalities_keep_the_address_space_random),
		cmocka_unit_test(the_first_process_is_not_rescheduled),
		cmocka_unit_test(the_filters_are_valid),
		cmocka_unit_test(the_embedded_filters_are_those_of_the_profile),
		cmocka_unit_test(the_kernel_takes_and_obeys_it),
#ifdef __x86_64__
		cmocka_unit_test(a_32_bit_call_kills),
#endif
	};

	return cmocka_run_group_tests(tests, make_subjects, free_subjects);
}
