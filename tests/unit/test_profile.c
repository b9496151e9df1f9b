/* SPDX-License-Identifier: MIT */
/* Profiles in Docker's format: what they mean, and what is said of those that are wrong. */
#define _GNU_SOURCE
#include "seccomp/codegen.h"
#include "seccomp/profile.h"
#include "seccomp/syscalls.h"
#include "util/error.h"
#include "bpf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <cmocka.h>

#define ALLOW SECCOMP_RET_ALLOW
#define REFUSE(number) (SECCOMP_RET_ERRNO | (number))

/* Compiles a profile; the caller frees. */
static struct bpf_program compile(const char *json, bool tier2)
{
	struct bpf_program program;
	struct error err;

	if (profile_compile(json, strlen(json), "test.json", tier2, &program, &err) < 0)
		fail_msg("%s: %s", json, err.text);
	assert_true(bpf_is_valid(program.instructions, program.length));
	return program;
}

static uint32_t run(struct bpf_program program, int number, uint64_t first, uint64_t second)
{
	struct seccomp_data data = {
		.nr = number, .arch = seccomp_arch_host->audit_arch, .args = {first, second}};

	return bpf_run(program.instructions, program.length, &data);
}

/* The verdict on one call by a profile that has these entries and answers ENOSYS by default. */
static uint32_t verdict(const char *entries, int number, uint64_t first, uint64_t second)
{
	struct bpf_program program;
	char json[4096];
	uint32_t result;

	snprintf(json, sizeof json,
		"{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 38, \"syscalls\": [%s]}",
		entries);
	program = compile(json, false);
	result = run(program, number, first, second);
	free(program.instructions);
	return result;
}

#define ENTRY(names, action, more)                                                                 \
	"{\"names\": [" names "], \"action\": \"SCMP_ACT_" action "\"" more "}"
#define ARG(index, value, two, op)                                                                 \
	"{\"index\": " #index ", \"value\": " #value ", \"valueTwo\": " #two                       \
	", \"op\": \"SCMP_CMP_" op "\"}"

static void actions_have_their_verdicts(void **state)
{
	static const struct {
		const char *action, *more;
		uint32_t verdict;
	} cases[] = {
		{"ALLOW", "", SECCOMP_RET_ALLOW},
		{"ERRNO", "", REFUSE(EPERM)},
		{"ERRNO", ", \"errnoRet\": 13", REFUSE(EACCES)},
		{"ERRNO", ", \"errnoRet\": 0", REFUSE(0)},
		{"ERRNO", ", \"errnoRet\": 1, \"errno\": \"EROFS\"", REFUSE(EROFS)},
		{"KILL", "", SECCOMP_RET_KILL_THREAD},
		{"KILL_THREAD", "", SECCOMP_RET_KILL_THREAD},
		{"KILL_PROCESS", "", SECCOMP_RET_KILL_PROCESS},
		{"TRAP", "", SECCOMP_RET_TRAP},
		{"TRACE", ", \"errnoRet\": 7", SECCOMP_RET_TRACE | 7},
		{"LOG", "", SECCOMP_RET_LOG},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char entry[256];

		snprintf(entry, sizeof entry,
			"{\"names\": [\"read\"], \"action\": \"SCMP_ACT_%s\"%s}", cases[i].action,
			cases[i].more);
		assert_int_equal(verdict(entry, SYS_read, 0, 0), cases[i].verdict);
		assert_int_equal(verdict(entry, SYS_write, 0, 0), REFUSE(ENOSYS));
	}
}

static void default_action_and_errno(void **state)
{
	static const struct {
		const char *json;
		uint32_t verdict;
	} cases[] = {
		{"{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": []}", REFUSE(EPERM)},
		{"{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 38, \"syscalls\": []}",
			REFUSE(ENOSYS)},
		{"{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrno\": \"ENOSYS\", \"syscalls\": []}",
			REFUSE(ENOSYS)},
		{"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": []}", ALLOW},
		{"{\"defaultAction\": \"SCMP_ACT_KILL_PROCESS\", \"syscalls\": []}",
			SECCOMP_RET_KILL_PROCESS},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct bpf_program program = compile(cases[i].json, false);

		assert_int_equal(run(program, SYS_read, 0, 0), cases[i].verdict);
		assert_int_equal(run(program, 1000, 0, 0), cases[i].verdict);
		free(program.instructions);
	}
}

static void another_abi_stays_out_when_all_is_allowed(void **state)
{
	struct bpf_program program =
		compile("{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": []}", false);
	struct seccomp_data foreign = {.nr = SYS_read, .arch = seccomp_arch_host->audit_arch ^ 1};

	assert_int_equal(
		bpf_run(program.instructions, program.length, &foreign), SECCOMP_RET_KILL_PROCESS);
#ifdef __x86_64__
	assert_int_equal(run(program, 0x40000000 | SYS_read, 0, 0), REFUSE(ENOSYS));
	assert_int_equal(run(program, -1, 0, 0), REFUSE(ENOSYS));
	assert_int_equal(run(program, 0x3fffffff, 0, 0), ALLOW);
#endif
	free(program.instructions);
}

/* Values around the boundaries of both halves of an argument. */
static const uint64_t samples[] = {0, 1, 4, 5, 6, 0xfffffffe, 0xffffffff, 0x100000000, 0x100000004,
	0x100000005, 0x100000006, 0x1ffffffff, 0x200000000, 0x200000005, 0x7fffffffffffffff,
	0x8000000000000005, 0xffffffff00000005, 0xffffffffffffffff};

static void operators_compare_64_bits(void **state)
{
	static const uint64_t values[] = {0, 5, 0xffffffff, 0x100000005, 0x7fffffffffffffff};
	static const char *const names[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};

	for (size_t o = 0; o < 6; o++)
		for (size_t v = 0; v < sizeof values / sizeof *values; v++)
			for (size_t s = 0; s < sizeof samples / sizeof *samples; s++) {
				uint64_t a = samples[s], b = values[v];
				bool holds[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
				char entry[256];

				snprintf(entry, sizeof entry,
					"{\"names\": [\"dup\"], \"action\": \"SCMP_ACT_ALLOW\", \"args\": [{\"index\": 0, "
					"\"value\": %llu, \"op\": \"SCMP_CMP_%s\"}]}",
					(unsigned long long)b, names[o]);
				if (verdict(entry, SYS_dup, a, 0) !=
					(holds[o] ? ALLOW : REFUSE(ENOSYS)))
					fail_msg("%#llx %s %#llx", (unsigned long long)a, names[o],
						(unsigned long long)b);
			}
}

static void masks_leave_out_bits(void **state)
{
	/* A 32-bit mask: value is the mask, valueTwo what must be left of the argument. */
	const char *low =
		ENTRY("\"dup\"", "ALLOW", ", \"args\": [" ARG(0, 4294967295, 5, "MASKED_EQ") "]");
	const char *high = ENTRY("\"dup\"", "ALLOW",
		", \"args\": [" ARG(0, 25769803776, 8589934592, "MASKED_EQ") "]");
	const char *never =
		ENTRY("\"dup\"", "ALLOW", ", \"args\": [" ARG(0, 3, 4, "MASKED_EQ") "]");
	const char *always =
		ENTRY("\"dup\"", "ALLOW", ", \"args\": [" ARG(0, 0, 0, "MASKED_EQ") "]");

	for (size_t s = 0; s < sizeof samples / sizeof *samples; s++) {
		uint64_t a = samples[s];

		assert_int_equal(
			verdict(low, SYS_dup, a, 0), (uint32_t)a == 5 ? ALLOW : REFUSE(ENOSYS));
		assert_int_equal(verdict(high, SYS_dup, a, 0),
			(a & 25769803776) == 8589934592 ? ALLOW : REFUSE(ENOSYS));
		assert_int_equal(verdict(never, SYS_dup, a, 0), REFUSE(ENOSYS));
		assert_int_equal(verdict(always, SYS_dup, a, 0), ALLOW);
	}
}

static void conditions_on_several_arguments_all_hold(void **state)
{
	const char *both = ENTRY(
		"\"dup\"", "ALLOW", ", \"args\": [" ARG(0, 1, 0, "EQ") "," ARG(1, 2, 0, "EQ") "]");

	assert_int_equal(verdict(both, SYS_dup, 1, 2), ALLOW);
	assert_int_equal(verdict(both, SYS_dup, 1, 3), REFUSE(ENOSYS));
	assert_int_equal(verdict(both, SYS_dup, 0, 2), REFUSE(ENOSYS));
}

/* Docker writes «any family but 40» as <40, >40 over several entries or in one. */
static void conditions_on_one_argument_are_alternatives(void **state)
{
	const char *one = ENTRY("\"socket\"", "ALLOW",
		", \"args\": [" ARG(0, 38, 0, "LT") "," ARG(0, 39, 0, "EQ") "," ARG(
			0, 40, 0, "GT") "]");
	const char *three = ENTRY("\"socket\"", "ALLOW",
		", \"args\": [" ARG(0, 38, 0, "LT") "]") "," ENTRY("\"socket\"", "ALLOW",
		", \"args\": [" ARG(0, 39, 0, "EQ") "]") "," ENTRY("\"socket\"", "ALLOW",
		", \"args\": [" ARG(0, 40, 0, "GT") "]");

	for (uint64_t family = 0; family < 80; family++)
		for (int dirty = 0; dirty <= 1; dirty++) {
			uint64_t a = family + (dirty ? 0x100000000 : 0);
			uint32_t wanted = a == 38 || a == 40 ? REFUSE(ENOSYS) : ALLOW;

			assert_int_equal(verdict(one, SYS_socket, a, 0), wanted);
			assert_int_equal(verdict(three, SYS_socket, a, 0), wanted);
		}
}

static void the_stricter_of_two_entries_wins(void **state)
{
	const char *allow = ENTRY("\"dup\"", "ALLOW", "");
	const char *refuse_5 = ENTRY("\"dup\"", "ERRNO", ", \"args\": [" ARG(0, 5, 0, "EQ") "]");
	const char *allow_5 = ENTRY("\"dup\"", "ALLOW", ", \"args\": [" ARG(0, 5, 0, "EQ") "]");
	const char *refuse = ENTRY("\"dup\"", "ERRNO", "");
	const char *kill = ENTRY("\"dup\"", "KILL_PROCESS", "");
	const char *pairs[][2] = {
		{allow, refuse_5}, {refuse_5, allow}, {allow_5, refuse}, {refuse, allow_5}};
	char entries[1024];

	for (size_t i = 0; i < 4; i++) {
		snprintf(entries, sizeof entries, "%s, %s", pairs[i][0], pairs[i][1]);
		assert_int_equal(verdict(entries, SYS_dup, 5, 0), REFUSE(EPERM));
		assert_int_equal(verdict(entries, SYS_dup, 6, 0), i < 2 ? ALLOW : REFUSE(EPERM));
		snprintf(entries, sizeof entries, "%s, %s, %s", pairs[i][0], kill, pairs[i][1]);
		assert_int_equal(verdict(entries, SYS_dup, 6, 0), SECCOMP_RET_KILL_PROCESS);
	}
}

static void includes_and_excludes(void **state)
{
	struct utsname running;
	unsigned major, minor;
	char ours[32], next[32], native[64], foreign[64], entry[512];
	const char *other = strcmp(seccomp_arch_host->name, "amd64") == 0 ? "arm64" : "amd64";

	assert_int_equal(uname(&running), 0);
	assert_int_equal(sscanf(running.release, "%u.%u", &major, &minor), 2);
	snprintf(ours, sizeof ours, "\"minKernel\": \"%u.%u\"", major, minor);
	snprintf(next, sizeof next, "\"minKernel\": \"%u.%u\"", major, minor + 1);
	snprintf(native, sizeof native, "\"arches\": [\"s390\", \"%s\"]", seccomp_arch_host->name);
	snprintf(foreign, sizeof foreign, "\"arches\": [\"s390\", \"%s\"]", other);

	const struct {
		const char *key, *first, *second;
		bool applies;
	} cases[] = {
		{"includes", "", "", true},
		{"includes", "\"caps\": [\"CAP_SYS_ADMIN\"]", "", false},
		{"includes", "\"caps\": []", "", true},
		{"includes", native, "", true},
		{"includes", foreign, "", false},
		{"includes", ours, "", true},
		{"includes", next, "", false},
		{"includes", native, ours, true},
		{"includes", native, next, false},
		{"includes", native, "\"caps\": [\"CAP_SYS_ADMIN\"]", false},
		{"excludes", "", "", true},
		{"excludes", "\"caps\": [\"CAP_SYS_ADMIN\"]", "", true},
		{"excludes", native, "", false},
		{"excludes", foreign, "", true},
		{"excludes", ours, "", false},
		{"excludes", next, "", true},
		{"excludes", "\"caps\": [\"CAP_SYS_ADMIN\"]", native, false},
		{"excludes", foreign, ours, false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(entry, sizeof entry,
			"{\"names\": [\"dup\"], \"action\": \"SCMP_ACT_ALLOW\", \"%s\": {%s%s%s}}",
			cases[i].key, cases[i].first, *cases[i].second ? ", " : "",
			cases[i].second);
		if (verdict(entry, SYS_dup, 0, 0) != (cases[i].applies ? ALLOW : REFUSE(ENOSYS)))
			fail_msg("%s", entry);
	}
}

static void names_of_other_architectures_and_times(void **state)
{
	const char *names = ENTRY(
		"\"breakpoint\", \"s390_pci_mmio_read\", \"socketcall\", \"not_invented_yet\", \"mseal\", \"dup\"",
		"ALLOW", "");
	const char *old_style = "{\"name\": \"dup\", \"action\": \"SCMP_ACT_ALLOW\", \"args\": []}";
	struct bpf_program program =
		compile("{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [" ENTRY(
				"\"s390_pci_mmio_read\", \"mseal\"", "ERRNO", "") "]}",
			false);

	assert_int_equal(verdict(names, SYS_dup, 0, 0), ALLOW);
	assert_int_equal(verdict(names, 462, 0, 0), ALLOW);
	assert_int_equal(verdict(names, 463, 0, 0), REFUSE(ENOSYS));
	assert_int_equal(verdict(old_style, SYS_dup, 0, 0), ALLOW);
	assert_int_equal(run(program, 462, 0, 0), REFUSE(EPERM));
	free(program.instructions);
}

static void numbers_are_those_of_the_architecture(void **state)
{
	assert_int_equal(syscall_number(&seccomp_arch_x86_64, "read"), 0);
	assert_int_equal(syscall_number(&seccomp_arch_aarch64, "read"), 63);
	assert_int_equal(syscall_number(&seccomp_arch_aarch64, "open"), SYSCALL_ABSENT);
	assert_int_equal(syscall_number(&seccomp_arch_x86_64, "uretprobe"), 335);
	assert_int_equal(syscall_number(&seccomp_arch_aarch64, "uretprobe"), SYSCALL_ABSENT);
	assert_int_equal(syscall_number(&seccomp_arch_x86_64, "file_setattr"), 469);
	assert_int_equal(syscall_number(&seccomp_arch_aarch64, "file_setattr"), 469);
	assert_int_equal(syscall_number(&seccomp_arch_x86_64, "raed"), SYSCALL_UNKNOWN);
}

static void uncounted_memory_is_absent_in_tier_2(void **state)
{
	static const char json[] = "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": []}";
	struct bpf_program program = compile(json, true);

	assert_int_equal(run(program, SYS_memfd_create, 0, 0), REFUSE(ENOSYS));
	assert_int_equal(run(program, 447, 0, 0), REFUSE(ENOSYS));
	assert_int_equal(run(program, SYS_shmget, 0, 0), REFUSE(ENOSYS));
	assert_int_equal(run(program, SYS_shmat, 0, 0), ALLOW);
	free(program.instructions);
}

static void numbers_have_64_bits(void **state)
{
	const char *all = ENTRY("\"dup\"", "ALLOW", ", \"args\": [" ARG(0, 18446744073709551615, 0, "EQ") "]");
	const char *top = ENTRY("\"dup\"", "ALLOW",
		", \"args\": [" ARG(0, 9223372036854775808, 9223372036854775808, "MASKED_EQ") "]");
	const char *greater = ENTRY("\"dup\"", "ALLOW", ", \"args\": [" ARG(0, 18446744073709551613, 0, "GT") "]");

	assert_int_equal(verdict(all, SYS_dup, UINT64_MAX, 0), ALLOW);
	assert_int_equal(verdict(all, SYS_dup, UINT64_MAX - 1, 0), REFUSE(ENOSYS));
	assert_int_equal(verdict(top, SYS_dup, UINT64_C(1) << 63 | 5, 0), ALLOW);
	assert_int_equal(verdict(top, SYS_dup, INT64_MAX, 0), REFUSE(ENOSYS));
	assert_int_equal(verdict(greater, SYS_dup, UINT64_MAX - 1, 0), ALLOW);
	assert_int_equal(verdict(greater, SYS_dup, UINT64_MAX - 2, 0), REFUSE(ENOSYS));
}

/* The keys and idioms of the profiles that Docker and Podman ship. */
static void a_profile_as_docker_ships_it(void **state)
{
	/* clang-format off */
	static const char json[] =
		"{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 1, \"defaultErrno\": \"\","
		"\"archMap\": [{\"architecture\": \"SCMP_ARCH_X86_64\","
		"  \"subArchitectures\": [\"SCMP_ARCH_X86\", \"SCMP_ARCH_X32\"]}],"
		"\"syscalls\": ["
		ENTRY("\"dup\", \"llseek\"", "ALLOW",
			", \"args\": null, \"comment\": \"\", \"includes\": {}, \"excludes\": {}") ","
		ENTRY("\"ptrace\"", "ALLOW", ", \"includes\": {\"minKernel\": \"4.8\"}") ","
		ENTRY("\"personality\"", "ALLOW", ", \"args\": [" ARG(0, 131072, 0, "EQ") "]") ","
		ENTRY("\"clone\"", "ALLOW", ", \"args\": [" ARG(0, 2114060288, 0, "MASKED_EQ") "],"
			"\"excludes\": {\"caps\": [\"CAP_SYS_ADMIN\"], \"arches\": [\"s390\", \"s390x\"]}") ","
		ENTRY("\"clone\"", "ALLOW", ", \"args\": [" ARG(1, 2114060288, 0, "MASKED_EQ") "],"
			"\"comment\": \"s390\", \"includes\": {\"arches\": [\"s390\", \"s390x\"]}") ","
		ENTRY("\"clone3\"", "ERRNO",
			", \"errnoRet\": 38, \"excludes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}") ","
		ENTRY("\"bpf\", \"mount\"", "ALLOW", ", \"includes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}")
		"]}";
	/* clang-format on */
	struct bpf_program program = compile(json, false);

	assert_int_equal(run(program, SYS_dup, 0, 0), ALLOW);
	assert_int_equal(run(program, SYS_ptrace, 0, 0), ALLOW);
	assert_int_equal(run(program, SYS_personality, 131072, 0), ALLOW);
	assert_int_equal(run(program, SYS_personality, 0, 0), REFUSE(EPERM));
	assert_int_equal(run(program, SYS_clone, 0x3d0f00, 0), ALLOW);
	assert_int_equal(run(program, SYS_clone, 0x10000000, 0), REFUSE(EPERM));
	assert_int_equal(run(program, SYS_clone3, 0, 0), REFUSE(ENOSYS));
	assert_int_equal(run(program, SYS_mount, 0, 0), REFUSE(EPERM));
	free(program.instructions);
}

#define PROFILE(entries) "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [" entries "]}"

static void errors_name_the_place(void **state)
{
	static const struct {
		const char *json, *text;
	} cases[] = {
		{"{\n\"defaultAction\": \"SCMP_ACT_ALLOW\",\n\"syscalls\": [,]}", "test.json:3: "},
		{"", "test.json:1: "},
		{"{\n\"a\": 1,\n\"a\": 2}", "test.json:3: duplicate"},
		{"[]", "test.json:1: not a seccomp profile"},
		{"{}", "test.json:1: \"defaultAction\" is missing"},
		{"{\"defaultAction\": 1}", "test.json:1: \"defaultAction\" is not a string"},
		{"{\"defaultAction\": \"SCMP_ACT_ALLOW\"}", "test.json:1: \"syscalls\" is missing"},
		{"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": {}}",
			"test.json:1: \"syscalls\" is not an array"},
		{"{\"defaultAction\": \"ALLOW\", \"syscalls\": []}",
			"test.json:1: unknown action \"ALLOW\""},
		{"{\"defaultActoin\": \"SCMP_ACT_ALLOW\", \"syscalls\": []}",
			"test.json:1: unknown key \"defaultActoin\""},
		{"{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 4096, \"syscalls\": []}",
			"test.json:1: \"defaultErrnoRet\" is not a whole number from 0 to 4095"},
		{"{\n\"syscalls\": [\n{\"names\": [\"dup\"],\n\"action\": \"X\"}\n],\n\"defaultAction\": \"SCMP_ACT_ALLOW\"}",
			"test.json:4: syscalls[0]: unknown action \"X\""},
		{"{\n\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [\n{\"names\": [\"dup\",\n\"]}{\\\"\",\n\"foo\"],\n"
		 "\"action\": \"SCMP_ACT_ERRNO\"}]}",
			"test.json:4: syscalls[0]: unknown system call \"]}{\"\""},
		{"{\n\"defaultAction\": \"SCMP_ACT_ALLOW\",\n \"syscalls\": [{}, {\n\"names\": []}]}",
			"test.json:3: syscalls[0]: \"action\" is missing"},
		{"{\"syscalls\": [], \"defaultAction\": \"SCMP_ACT_ALLOW\",\n\"flags\": [\n\"SECCOMP_FILTER_FLAG_LOG\",\n\"LOG\"]}",
			"test.json:4: \"flags\": unknown name \"LOG\""},
		{"{\"syscalls\": [], \"defaultAction\": \"SCMP_ACT_ALLOW\",\n\"listenerPath\": \"/run/x\"}",
			"test.json:2: \"listenerPath\" needs a supervising program"},
		{"{\"syscalls\": [], \"defaultAction\": \"SCMP_ACT_ALLOW\",\n\"archMap\": [{\"architecture\": 3}]}",
			"test.json:2: archMap[0]: \"architecture\" is not a string"},
		{"{\"syscalls\": [], \"defaultAction\": \"SCMP_ACT_ALLOW\",\n\"archMap\": [{}], \"architectures\": [\"SCMP_ARCH_X86\"]}",
			"test.json:2: \"archMap\" and \"architectures\" exclude"},
		{PROFILE("{\"name\": \"dup\", \"names\": [\"dup\"], \"action\": \"SCMP_ACT_ALLOW\"}"),
			"test.json:1: syscalls[0]: \"name\" and \"names\" exclude each other"},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", ", \"args\": [" ARG(0, 18446744073709551616, 0, "EQ") "]")),
			"test.json:1: too big integer"},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", ", \"args\": [" "{\"index\": 0, \"op\": \"SCMP_CMP_EQ\", \"value\": \"12\"}]")),
			"test.json:1: syscalls[0]: args[0]: \"value\" is not a whole number of 64 bits"},
		{PROFILE("1"), "test.json:1: syscalls[0]: not an object"},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", "") "," ENTRY("\"dup\"", "NOTIFY", "")),
			"test.json:1: syscalls[1]: SCMP_ACT_NOTIFY needs"},
		{PROFILE("{\"action\": \"SCMP_ACT_ALLOW\"}"),
			"test.json:1: syscalls[0]: \"names\" is missing"},
		{PROFILE("{\"names\": [\"dup\"]}"),
			"test.json:1: syscalls[0]: \"action\" is missing"},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", ", \"arg\": []")),
			"test.json:1: syscalls[0]: unknown key \"arg\""},
		{PROFILE(ENTRY("1", "ALLOW", "")),
			"test.json:1: syscalls[0]: the name of a system call is not"},
		{PROFILE(ENTRY("\"dup\"", "ERRNO", ", \"errno\": \"ENOWAY\"")),
			"test.json:1: syscalls[0]: unknown error name \"ENOWAY\""},
		{PROFILE(ENTRY("\"dup\"", "ALLOW",
			 ", \"args\": [" ARG(0, 1, 0, "EQ") "," ARG(1, 1, 0, "XX") "]")),
			"test.json:1: syscalls[0]: args[1]: unknown op \"SCMP_CMP_XX\""},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", ", \"args\": [" ARG(6, 1, 0, "EQ") "]")),
			"test.json:1: syscalls[0]: args[0]: \"index\" is not a whole number from 0 to 5"},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", ", \"args\": [" ARG(0, -1, 0, "EQ") "]")),
			"test.json:1: syscalls[0]: args[0]: \"value\" is not a whole number"},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", ", \"args\": [{\"index\": 0, \"value\": 1}]")),
			"test.json:1: syscalls[0]: args[0]: \"op\" is missing"},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", ", \"args\": [{\"op\": \"SCMP_CMP_EQ\"}]")),
			"test.json:1: syscalls[0]: args[0]: \"index\" is missing"},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", ", \"includes\": {\"minKernel\": \"new\"}")),
			"test.json:1: syscalls[0]: \"includes\": \"minKernel\": \"new\" is not MAJOR.MINOR"},
		{PROFILE(ENTRY("\"dup\"", "ALLOW", ", \"excludes\": {\"cap\": []}")),
			"test.json:1: syscalls[0]: \"excludes\": unknown key \"cap\""},
		{"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [" ENTRY(
			 "\"uptrace\"", "ERRNO", "") "]}",
			"test.json:1: syscalls[0]: unknown system call \"uptrace\""},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct bpf_program program = {NULL, 0};
		struct error err = {0};

		assert_int_equal(profile_compile(cases[i].json, strlen(cases[i].json), "test.json",
					 false, &program, &err),
			-1);
		assert_null(program.instructions);
		if (strncmp(err.text, cases[i].text, strlen(cases[i].text)) != 0)
			fail_msg("%s: «%s», not «%s»", cases[i].json, err.text, cases[i].text);
	}
}

static void a_file_that_is_not_there(void **state)
{
	struct bpf_program program;
	struct error err;

	assert_int_equal(
		profile_compile_file("/nonexistent/profile.json", false, &program, &err), -1);
	assert_string_equal(err.text,
		"reading the seccomp profile /nonexistent/profile.json: No such file or directory");
}

/* ---- the generator against a second reading of the rules ---- */

static bool condition_holds(const struct condition *c, const uint64_t args[6])
{
	uint64_t a = args[c->index];

	switch (c->comparison) {
	case COMPARE_EQ:
		return a == c->value;
	case COMPARE_NE:
		return a != c->value;
	case COMPARE_LT:
		return a < c->value;
	case COMPARE_LE:
		return a <= c->value;
	case COMPARE_GT:
		return a > c->value;
	case COMPARE_GE:
		return a >= c->value;
	case COMPARE_MASKED_EQ:
		return (a & c->mask) == c->value;
	}
	return false;
}

static bool rule_holds(const struct rule *rule, unsigned number, const uint64_t args[6])
{
	if (rule->number != number)
		return false;
	for (size_t i = 0; i < rule->condition_count; i++)
		if (!condition_holds(&rule->conditions[i], args))
			return false;
	return true;
}

static uint32_t reference(const struct ruleset *set, unsigned number, const uint64_t args[6])
{
	const struct rule *best = NULL;

	for (size_t i = 0; i < set->count; i++) {
		const struct rule *rule = &set->rules[i];
		int32_t ours = (int32_t)(rule->verdict & SECCOMP_RET_ACTION_FULL), its;

		if (!rule_holds(rule, number, args))
			continue;
		its = best ? (int32_t)(best->verdict & SECCOMP_RET_ACTION_FULL) : INT32_MAX;
		if (!best || ours < its || (ours == its && rule->order < best->order))
			best = rule;
	}
	return best ? best->verdict : set->default_verdict;
}

static uint64_t random_state = 0x9e3779b97f4a7c15;

static unsigned random_below(unsigned limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)((random_state >> 32) % limit);
}

static uint64_t random_value(void)
{
	return samples[random_below(sizeof samples / sizeof *samples)];
}

static void add_random_rule(struct ruleset *set, unsigned numbers)
{
	static const uint32_t verdicts[] = {ALLOW, ALLOW, REFUSE(EPERM), REFUSE(ENOSYS),
		SECCOMP_RET_LOG, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD,
		SECCOMP_RET_TRAP};
	struct rule rule = {.number = random_below(numbers),
		.verdict = verdicts[random_below(8)],
		.condition_count = random_below(4)};

	for (size_t i = 0; i < rule.condition_count; i++) {
		struct condition *c = &rule.conditions[i];

		c->index = random_below(SECCOMP_ARGUMENTS);
		c->comparison = (enum comparison)random_below(COMPARE_MASKED_EQ + 1);
		c->value = random_value();
		c->mask = random_below(2) ? random_value() : UINT64_MAX;
	}
	ruleset_add(set, &rule);
}

static void compare_with_reference(
	const struct ruleset *set, struct bpf_program program, unsigned numbers)
{
	for (unsigned number = 0; number < numbers + 2; number++)
		for (int round = 0; round < 8; round++) {
			struct seccomp_data data = {
				.nr = (int)number, .arch = set->arch->audit_arch};

			for (size_t i = 0; i < SECCOMP_ARGUMENTS; i++)
				data.args[i] = random_value();
			assert_int_equal(bpf_run(program.instructions, program.length, &data),
				reference(set, number, (const uint64_t *)data.args));
		}
}

static void random_rules_mean_the_same_in_bpf(void **state)
{
	size_t longest = 0;

	for (int round = 0; round < 400; round++) {
		unsigned numbers = 1 + random_below(120), rules = random_below(260);
		struct ruleset set = {
			.arch = round % 2 ? &seccomp_arch_x86_64 : &seccomp_arch_aarch64,
			.default_verdict = round % 3 ? REFUSE(ENOSYS) : ALLOW};
		struct bpf_program program;
		struct error err;

		while (rules-- > 0)
			add_random_rule(&set, numbers);
		assert_int_equal(codegen(&set, &program, &err), 0);
		assert_true(bpf_is_valid(program.instructions, program.length));
		compare_with_reference(&set, program, numbers);
		longest = program.length > longest ? program.length : longest;
		free(program.instructions);
		ruleset_free(&set);
	}
	/* Long enough that jumps had to go further than a conditional one reaches. */
	assert_true(longest > 1000);
}

static void a_filter_that_is_too_long_is_refused(void **state)
{
	struct ruleset set = {.arch = seccomp_arch_host, .default_verdict = ALLOW};
	struct bpf_program program;
	struct error err;

	for (unsigned i = 0; i < 2000; i++)
		ruleset_add(&set, &(struct rule){.number = 1,
					  .verdict = REFUSE(EPERM),
					  .condition_count = 1,
					  .conditions = {{.comparison = COMPARE_EQ, .value = i}}});
	assert_int_equal(codegen(&set, &program, &err), -1);
	assert_non_null(strstr(err.text, "4096 instructions"));
	ruleset_free(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(actions_have_their_verdicts),
		cmocka_unit_test(default_action_and_errno),
		cmocka_unit_test(another_abi_stays_out_when_all_is_allowed),
		cmocka_unit_test(operators_compare_64_bits),
		cmocka_unit_test(masks_leave_out_bits),
		cmocka_unit_test(conditions_on_several_arguments_all_hold),
		cmocka_unit_test(conditions_on_one_argument_are_alternatives),
		cmocka_unit_test(the_stricter_of_two_entries_wins),
		cmocka_unit_test(includes_and_excludes),
		cmocka_unit_test(names_of_other_architectures_and_times),
		cmocka_unit_test(numbers_are_those_of_the_architecture),
		cmocka_unit_test(uncounted_memory_is_absent_in_tier_2),
		cmocka_unit_test(numbers_have_64_bits),
		cmocka_unit_test(a_profile_as_docker_ships_it),
		cmocka_unit_test(errors_name_the_place),
		cmocka_unit_test(a_file_that_is_not_there),
		cmocka_unit_test(random_rules_mean_the_same_in_bpf),
		cmocka_unit_test(a_filter_that_is_too_long_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
