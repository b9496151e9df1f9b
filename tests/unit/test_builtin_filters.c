/* SPDX-License-Identifier: MIT */
/*
 * Every built-in filter, interpreted for every system call number and for the arguments that matter, against a
 * reading of its JSON that knows nothing of how filters are made: names are looked up in the kernel's headers
 * (expected_calls.h), and each entry is weighed as the format has it. Then the properties that the profiles have
 * to each other, and the second filter against set-user-ID files.
 */
#define _GNU_SOURCE
#include "sandbox/filter.h"
#include "sandbox/modefilter.h"
#include "sandbox/refusal.h"
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
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <jansson.h>
#include <cmocka.h>

#define REFUSE(number) (SECCOMP_RET_ERRNO | (number))
#define DIRTY 0xdeadbeef00000000 /* what may stand above an int in its register */
#define X32 0x40000000U

enum { NUMBERS = 1024, ENTRIES_MAX = 128, CONDITIONS_MAX = 64, SUBJECTS_MAX = 16, VALUES_MAX = 1024 };

enum operator { EQ, NE, LT, LE, GT, GE, MASKED_EQ };

static const char *const operators[] = {"SCMP_CMP_EQ", "SCMP_CMP_NE", "SCMP_CMP_LT", "SCMP_CMP_LE", "SCMP_CMP_GT",
	"SCMP_CMP_GE", "SCMP_CMP_MASKED_EQ"};

struct condition_read {
	unsigned index;
	enum operator op;
	uint64_t value, value_two;
};

/* An entry of "syscalls". */
struct entry {
	uint32_t verdict;
	bool any; /* one argument is spoken of twice */
	struct condition_read conditions[CONDITIONS_MAX];
	size_t count;
	bool names[NUMBERS]; /* the calls that it speaks of */
};

/* A profile as it is written, for one architecture. */
struct reading {
	uint32_t otherwise;
	struct entry *entries;
	size_t count;
};

struct subject {
	const char *profile;
	char name[64];
	const struct seccomp_arch *arch;
	bool tier2;
	const struct expected_call *calls;
	size_t call_count;
	struct bpf_program program;
	struct reading reading;
};

static struct subject subjects[SUBJECTS_MAX];
static size_t subject_count;

#define for_each_subject(s) for (const struct subject *s = subjects; s < subjects + subject_count; s++)

/* ---- reading ---- */

static uint32_t read_verdict(const json_t *object, const char *action_key, const char *errno_key)
{
	const char *action = json_string_value(json_object_get(object, action_key));
	const json_t *number = json_object_get(object, errno_key);

	assert_non_null(action);
	if (strcmp(action, "SCMP_ACT_ALLOW") == 0)
		return SECCOMP_RET_ALLOW;
	assert_string_equal(action, "SCMP_ACT_ERRNO");
	return REFUSE(number ? (uint32_t)json_integer_value(number) : EPERM);
}

static unsigned number_of(const struct subject *s, const char *name)
{
	for (size_t i = 0; i < s->call_count; i++)
		if (strcmp(s->calls[i].name, name) == 0)
			return s->calls[i].number;
	return NUMBERS;
}

static void read_conditions(const json_t *args, struct entry *entry)
{
	unsigned seen = 0;
	json_t *arg;
	size_t i;

	assert_in_range(json_array_size(args), 0, CONDITIONS_MAX);
	json_array_foreach((json_t *)args, i, arg) {
		struct condition_read *c = &entry->conditions[entry->count++];
		const char *op = json_string_value(json_object_get(arg, "op"));

		c->index = (unsigned)json_integer_value(json_object_get(arg, "index"));
		c->value = (uint64_t)json_integer_value(json_object_get(arg, "value"));
		c->value_two = (uint64_t)json_integer_value(json_object_get(arg, "valueTwo"));
		for (c->op = EQ; strcmp(operators[c->op], op) != 0; c->op++)
			assert_int_not_equal(c->op, MASKED_EQ);
		entry->any |= (seen >> c->index & 1) != 0;
		seen |= 1U << c->index;
	}
}

static void read_entry(const struct subject *s, const json_t *object, struct entry *entry)
{
	json_t *name;
	size_t i;

	assert_null(json_object_get(object, "includes"));
	assert_null(json_object_get(object, "excludes"));
	entry->verdict = read_verdict(object, "action", "errnoRet");
	read_conditions(json_object_get(object, "args"), entry);
	json_array_foreach(json_object_get(object, "names"), i, name) {
		unsigned number = number_of(s, json_string_value(name));

		if (number < NUMBERS)
			entry->names[number] = true;
	}
}

static void read_profile(struct subject *s, const char *text, size_t length)
{
	json_t *root = json_loadb(text, length, 0, NULL), *entry;
	size_t i;

	assert_non_null(root);
	s->reading.otherwise = read_verdict(root, "defaultAction", "defaultErrnoRet");
	s->reading.count = json_array_size(json_object_get(root, "syscalls"));
	s->reading.entries = calloc(s->reading.count, sizeof *s->reading.entries);
	json_array_foreach(json_object_get(root, "syscalls"), i, entry)
		read_entry(s, entry, &s->reading.entries[i]);
	json_decref(root);
}

static void add_subject(const char *profile, const struct seccomp_arch *arch, bool tier2,
	const struct expected_call *calls, size_t count)
{
	static char text[1 << 20];
	struct subject *s = &subjects[subject_count++];
	const char *source = getenv("srcdir");
	char path[PATH_MAX];
	struct error err;
	size_t length;
	FILE *file;

	snprintf(path, sizeof path, "%s/seccomp-profiles/%s.json", source ? source : ".", profile);
	file = fopen(path, "re");
	assert_non_null(file);
	length = fread(text, 1, sizeof text, file);
	fclose(file);
	snprintf(s->name, sizeof s->name, "%s, %s, tier %d", profile, arch->name, tier2 ? 2 : 1);
	s->profile = profile;
	s->arch = arch;
	s->tier2 = tier2;
	s->calls = calls;
	s->call_count = count;
	read_profile(s, text, length);
	if (profile_compile_for(arch, text, length, path, tier2, &s->program, &err) < 0)
		fail_msg("%s", err.text);
}

static int make_subjects(void **state)
{
	static const char *const profiles[] = {"default", "strict", "debug", "essential"};

	for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
		for (int tier2 = 0; tier2 <= 1; tier2++) {
			size_t count;
			const struct expected_call *calls = expected_calls_aarch64(&count);

			add_subject(profiles[i], &seccomp_arch_aarch64, tier2, calls, count);
			calls = expected_calls_x86_64(&count);
			if (calls)
				add_subject(profiles[i], &seccomp_arch_x86_64, tier2, calls, count);
		}
	return 0;
}

static int free_subjects(void **state)
{
	for (size_t i = 0; i < subject_count; i++) {
		free(subjects[i].program.instructions);
		free(subjects[i].reading.entries);
	}
	return 0;
}

/* ---- weighing ---- */

static bool holds(const struct condition_read *c, const uint64_t args[6])
{
	uint64_t value = args[c->index];

	switch (c->op) {
	case EQ:
		return value == c->value;
	case NE:
		return value != c->value;
	case LT:
		return value < c->value;
	case LE:
		return value <= c->value;
	case GT:
		return value > c->value;
	case GE:
		return value >= c->value;
	case MASKED_EQ:
		return (value & c->value) == c->value_two;
	}
	abort();
}

static bool applies(const struct entry *entry, unsigned number, const uint64_t args[6])
{
	size_t held = 0;

	if (number >= NUMBERS || !entry->names[number])
		return false;
	for (size_t i = 0; i < entry->count; i++)
		held += holds(&entry->conditions[i], args);
	return entry->any ? held > 0 : held == entry->count;
}

/* Of the entries that apply, a refusal before a permission; of refusals the first. */
static uint32_t weigh(const struct subject *s, unsigned number, const uint64_t args[6])
{
	bool found = false;

	if (s->tier2 && (number == number_of(s, "memfd_create") || number == number_of(s, "memfd_secret") ||
				number == number_of(s, "shmget")))
		return REFUSE(ENOSYS);
	for (size_t i = 0; i < s->reading.count; i++) {
		const struct entry *entry = &s->reading.entries[i];

		if (!applies(entry, number, args))
			continue;
		if (entry->verdict != SECCOMP_RET_ALLOW)
			return entry->verdict;
		found = true;
	}
	return found ? SECCOMP_RET_ALLOW : s->reading.otherwise;
}

static uint32_t run_as(const struct subject *s, uint32_t arch, uint32_t number, const uint64_t args[6])
{
	struct seccomp_data data = {.nr = (int)number, .arch = arch, .instruction_pointer = UINT64_MAX};

	memcpy(data.args, args, sizeof data.args);
	return bpf_run(s->program.instructions, s->program.length, &data);
}

static uint32_t verdict_of(const struct subject *s, unsigned number, const uint64_t args[6])
{
	return run_as(s, s->arch->audit_arch, number, args);
}

/* ---- the arguments that matter ---- */

struct values {
	uint64_t list[VALUES_MAX];
	size_t count;
};

static void add_value(struct values *values, uint64_t value)
{
	for (size_t i = 0; i < values->count; i++)
		if (values->list[i] == value)
			return;
	assert_in_range(values->count, 0, VALUES_MAX - 1);
	values->list[values->count++] = value;
}

/* What is near to where a condition changes its mind, also with something in the upper half. */
static void add_near(struct values *values, uint64_t value)
{
	const uint64_t near[] = {value, value + 1, value - 1, ~value};

	for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
		add_value(values, near[i]);
		add_value(values, near[i] | DIRTY);
		add_value(values, near[i] ^ UINT64_C(1) << 32);
	}
}

static void common_values(struct values *values)
{
	values->count = 0;
	for (uint64_t small = 0; small < 70; small++)
		add_value(values, small);
	for (int bit = 0; bit < 64; bit++) {
		add_value(values, UINT64_C(1) << bit);
		add_value(values, UINT64_MAX << bit);
	}
	add_near(values, TIOCSTI);
	add_near(values, TIOCLINUX);
	add_near(values, TIOCSETD);
}

/* Of one argument of one call: what its conditions in any entry speak of. */
static bool values_of(const struct subject *s, unsigned number, unsigned index, struct values *values)
{
	bool spoken_of = false;

	values->count = 0;
	add_value(values, 0);
	add_value(values, UINT64_MAX);
	for (size_t i = 0; i < s->reading.count; i++) {
		const struct entry *entry = &s->reading.entries[i];

		for (size_t c = 0; entry->names[number] && c < entry->count; c++) {
			if (entry->conditions[c].index != index)
				continue;
			spoken_of = true;
			add_near(values, entry->conditions[c].op == MASKED_EQ ? entry->conditions[c].value_two
									       : entry->conditions[c].value);
		}
	}
	return spoken_of;
}

static void compare(const struct subject *s, unsigned number, const uint64_t args[6])
{
	uint32_t wanted = weigh(s, number, args), got = verdict_of(s, number, args);

	if (got != wanted)
		fail_msg("%s: number %u (%#llx, %#llx, %#llx, …): %#x, not %#x", s->name, number,
			(unsigned long long)args[0], (unsigned long long)args[1],
			(unsigned long long)args[2], got, wanted);
}

static bool has_conditions(const struct subject *s, unsigned number)
{
	for (size_t i = 0; i < s->reading.count; i++)
		if (s->reading.entries[i].names[number] && s->reading.entries[i].count > 0)
			return true;
	return false;
}

/* A call without conditions must not have any in the filter either: a few values of each argument show it. */
static void every_number_is_as_the_profile_says(void **state)
{
	static struct values common;
	static const struct values few = {{0, 1, TIOCSTI, DIRTY, UINT64_MAX}, 5};

	common_values(&common);
	for_each_subject(s) for (unsigned number = 0; number < NUMBERS; number++) {
		const struct values *values = has_conditions(s, number) ? &common : &few;

		for (unsigned index = 0; index < 6; index++)
			for (size_t v = 0; v < values->count; v++) {
				uint64_t args[6] = {0}, full[6] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
							 UINT64_MAX, UINT64_MAX};

				args[index] = full[index] = values->list[v];
				compare(s, number, args);
				compare(s, number, full);
			}
	}
}

/* Each value of each argument that a call's conditions speak of, with each of the others. */
static void every_condition_is_as_the_profile_says(void **state)
{
	static struct values values[3];

	for_each_subject(s) for (unsigned number = 0; number < NUMBERS; number++) {
		bool any = false;

		for (unsigned index = 0; index < 3; index++)
			if (values_of(s, number, index, &values[index]))
				any = true;
		for (size_t i = 0; any && i < values[0].count; i++)
			for (size_t j = 0; j < values[1].count; j++)
				for (size_t k = 0; k < values[2].count; k++)
					compare(s, number, (const uint64_t[6]){values[0].list[i],
								   values[1].list[j], values[2].list[k]});
	}
}

/* Else the test above would have to look at them. */
static void no_condition_is_on_a_later_argument(void **state)
{
	for_each_subject(s) for (size_t i = 0; i < s->reading.count; i++)
		for (size_t c = 0; c < s->reading.entries[i].count; c++)
			assert_in_range(s->reading.entries[i].conditions[c].index, 0, 2);
}

static void other_abis_are_refused(void **state)
{
	static const uint32_t archs[] = {AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, AUDIT_ARCH_ARM, AUDIT_ARCH_AARCH64,
		AUDIT_ARCH_RISCV64, AUDIT_ARCH_S390X, 0, UINT32_MAX};
	static const uint64_t args[6];

	for_each_subject(s) for (uint32_t number = 0; number < NUMBERS; number++) {
		for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
			if (archs[i] != s->arch->audit_arch)
				assert_int_equal(run_as(s, archs[i], number, args), SECCOMP_RET_KILL_PROCESS);
		if (s->arch == &seccomp_arch_x86_64) {
			assert_int_equal(verdict_of(s, number | X32, args), REFUSE(ENOSYS));
			assert_int_equal(verdict_of(s, number | X32 | 0x80000000U, args), REFUSE(ENOSYS));
		}
	}
}

static void the_embedded_filters_are_those_of_the_profiles(void **state)
{
	for_each_subject(s) {
		const struct builtin_filter *embedded = builtin_filter_find(s->profile, s->tier2);

		assert_true(bpf_is_valid(s->program.instructions, s->program.length));
		if (s->arch != seccomp_arch_host)
			continue;
		assert_non_null(embedded);
		assert_int_equal(embedded->length, s->program.length);
		assert_memory_equal(embedded->instructions, s->program.instructions,
			s->program.length * sizeof *s->program.instructions);
	}
}

/* The interpreter that nsbox itself uses, and that of the tests. */
static void both_interpreters_agree(void **state)
{
	static const struct values common = {{0, 1, 2, 16, TIOCSTI, CLONE_NEWUSER, DIRTY, UINT64_MAX}, 8};

	for_each_subject(s) {
		struct filter filter = {s->program.instructions, s->program.length};

		assert_true(filter_is_valid(filter));
		for (unsigned number = 0; number < NUMBERS; number++)
			for (size_t v = 0; v < common.count; v++) {
				struct seccomp_data data = {.nr = (int)number, .arch = s->arch->audit_arch,
					.args = {common.list[v], common.list[v], common.list[v]}};

				assert_int_equal(filter_run(filter, &data),
					bpf_run(filter.instructions, filter.length, &data));
			}
	}
}

/* ---- what the profiles are to each other ---- */

static const struct subject *sibling(const struct subject *s, const char *profile)
{
	for_each_subject(other) if (strcmp(other->profile, profile) == 0 && other->arch == s->arch &&
				    other->tier2 == s->tier2) return other;
	fail_msg("no %s", profile);
	return NULL;
}

/* Calls `check` with every argument that matters to either. */
static void for_both(const struct subject *s, const struct subject *other,
	void (*check)(const struct subject *, const struct subject *, unsigned, const uint64_t[6]))
{
	static struct values values[3], more;

	for (unsigned number = 0; number < NUMBERS; number++) {
		for (unsigned index = 0; index < 3; index++) {
			values_of(s, number, index, &values[index]);
			values_of(other, number, index, &more);
			for (size_t i = 0; i < more.count; i++)
				add_value(&values[index], more.list[i]);
		}
		for (size_t i = 0; i < values[0].count; i++)
			for (size_t j = 0; j < values[1].count; j++)
				for (size_t k = 0; k < values[2].count; k++)
					check(s, other, number, (const uint64_t[6]){values[0].list[i],
								values[1].list[j], values[2].list[k]});
	}
}

static void check_not_laxer(
	const struct subject *s, const struct subject *other, unsigned number, const uint64_t args[6])
{
	if (verdict_of(other, number, args) != SECCOMP_RET_ALLOW &&
		verdict_of(s, number, args) == SECCOMP_RET_ALLOW)
		fail_msg("%s allows what %s refuses: number %u (%#llx, %#llx, %#llx, …)", s->name, other->name,
			number, (unsigned long long)args[0], (unsigned long long)args[1],
			(unsigned long long)args[2]);
}

static void every_profile_refuses_what_is_essential(void **state)
{
	for_each_subject(s) if (strcmp(s->profile, "essential") != 0)
		for_both(s, sibling(s, "essential"), check_not_laxer);
}

static void strict_refuses_all_that_the_default_does(void **state)
{
	for_each_subject(s) if (strcmp(s->profile, "strict") == 0) for_both(s, sibling(s, "default"), check_not_laxer);
}

static void check_debug(
	const struct subject *s, const struct subject *other, unsigned number, const uint64_t args[6])
{
	static const char *const added[] = {"kcmp", "pidfd_getfd", "process_madvise", "process_vm_readv",
		"process_vm_writev", "ptrace"};
	uint32_t wanted = verdict_of(other, number, args);

	for (size_t i = 0; i < sizeof added / sizeof *added; i++)
		if (number == number_of(s, added[i]))
			wanted = SECCOMP_RET_ALLOW;
	if (number == number_of(s, "personality") &&
		((uint32_t)args[0] == 0x40000 || (uint32_t)args[0] == 0x40008)) /* ADDR_NO_RANDOMIZE */
		wanted = SECCOMP_RET_ALLOW;
	if (verdict_of(s, number, args) != wanted)
		fail_msg("%s: number %u (%#llx, …): not %#x", s->name, number, (unsigned long long)args[0], wanted);
}

static void debug_is_the_default_but_for_debugging(void **state)
{
	for_each_subject(s) if (strcmp(s->profile, "debug") == 0) for_both(s, sibling(s, "default"), check_debug);
}

/* ---- what must be so, whatever the JSON says ---- */

#define expect(s, call, wanted, ...)                                                               \
	assert_int_equal(verdict_of(s, number_of(s, call), (const uint64_t[6]){__VA_ARGS__}), wanted)

static void no_filter_gives_a_way_out(void **state)
{
	static const uint64_t namespaces[] = {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
		CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, 0x80};
	static const uint64_t typing[] = {TIOCSTI, TIOCLINUX, TIOCSETD};
	static const char *const always[] = {"mount", "umount2", "move_mount", "open_tree", "fsopen", "fsmount",
		"fsconfig", "fspick", "mount_setattr", "pivot_root", "chroot", "setns", "bpf", "perf_event_open",
		"userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl", "add_key",
		"request_key", "open_by_handle_at", "syslog"};

	for_each_subject(s) {
		for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
			expect(s, always[i], REFUSE(EPERM), 0);
			expect(s, always[i], REFUSE(EPERM), UINT64_MAX, UINT64_MAX, UINT64_MAX);
		}
		for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
			expect(s, "clone", REFUSE(EPERM), namespaces[i] | 17);
			expect(s, "clone", REFUSE(EPERM), namespaces[i] | DIRTY);
			expect(s, "unshare", REFUSE(EPERM), namespaces[i]);
		}
		expect(s, "clone", SECCOMP_RET_ALLOW, CLONE_VM | CLONE_VFORK | 17);
		expect(s, "clone3", REFUSE(ENOSYS), 0, 88);
		for (size_t i = 0; i < sizeof typing / sizeof *typing; i++) {
			expect(s, "ioctl", REFUSE(EPERM), 0, typing[i]);
			expect(s, "ioctl", REFUSE(EPERM), 0, typing[i] | DIRTY);
		}
		for (uint64_t family = 0; family < 64; family++)
			if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK) {
				expect(s, "socket", REFUSE(EAFNOSUPPORT), family);
				expect(s, "socketpair", REFUSE(EAFNOSUPPORT), family | DIRTY);
			}
		expect(s, "prlimit64", REFUSE(EPERM), 1, 7, 1);
		expect(s, "sched_setaffinity", REFUSE(EPERM), 1);
		expect(s, "setpriority", REFUSE(EPERM), 0, 1);
	}
}

static void strict_has_pairs_of_unix_sockets_alone(void **state)
{
	for_each_subject(s) if (strcmp(s->profile, "strict") == 0) {
		for (uint64_t family = 0; family < 64; family++) {
			expect(s, "socket", REFUSE(EAFNOSUPPORT), family);
			expect(s, "socketpair", family == AF_UNIX ? SECCOMP_RET_ALLOW : REFUSE(EAFNOSUPPORT), family);
		}
		expect(s, "connect", REFUSE(EPERM), 3);
		expect(s, "bind", REFUSE(EPERM), 3);
		expect(s, "setsockopt", SECCOMP_RET_ALLOW, 3, SOL_SOCKET, SO_SNDBUF);
		expect(s, "setsockopt", REFUSE(ENOPROTOOPT), 3, SOL_SOCKET, SO_ATTACH_FILTER);
		expect(s, "setsockopt", REFUSE(ENOSYS), 3, 6, 1);
		expect(s, "prctl", SECCOMP_RET_ALLOW, PR_SET_NAME);
		expect(s, "prctl", REFUSE(ENOSYS), PR_SET_SECCOMP);
		expect(s, "prctl", REFUSE(ENOSYS), PR_SET_SECCOMP | DIRTY);
		expect(s, "prctl", REFUSE(ENOSYS), PR_SET_MM);
		expect(s, "seccomp", REFUSE(ENOSYS), 1);
		expect(s, "ioctl", SECCOMP_RET_ALLOW, 0, TCGETS);
		expect(s, "ioctl", REFUSE(ENOSYS), 0, TIOCCONS);
		expect(s, "mknodat", SECCOMP_RET_ALLOW, AT_FDCWD, 0, 0x1000 | 0600);
		expect(s, "mknodat", REFUSE(EPERM), AT_FDCWD, 0, 0x2000 | 0600);
		expect(s, "memfd_create", REFUSE(ENOSYS), 0);
		expect(s, "shmget", REFUSE(ENOSYS), 0);
		expect(s, "ptrace", REFUSE(EPERM), 0);
	}
}

/* ---- set-user-ID files ---- */

struct mode_call {
	const char *name;
	int flags, mode; /* which arguments; -1: none */
};

static const struct mode_call mode_calls[] = {
	{"fchmod", -1, 1},
	{"fchmodat", -1, 2},
	{"fchmodat2", -1, 2},
	{"mknodat", -1, 2},
	{"openat", 2, 3},
#ifdef __x86_64__
	{"chmod", -1, 1},
	{"creat", -1, 1},
	{"mknod", -1, 1},
	{"open", 1, 2},
#endif
};

static uint32_t mode_verdict(const struct subject *s, unsigned number, const uint64_t args[6])
{
	bool special, makes;

	if (number == number_of(s, "openat2"))
		return REFUSE(ENOSYS);
	for (size_t i = 0; i < sizeof mode_calls / sizeof *mode_calls; i++) {
		const struct mode_call *call = &mode_calls[i];

		if (number != number_of(s, call->name))
			continue;
		special = args[call->mode] & 06000;
		makes = call->flags < 0 || args[call->flags] & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY));
		return special && makes ? REFUSE(EPERM) : SECCOMP_RET_ALLOW;
	}
	return SECCOMP_RET_ALLOW;
}

static void no_file_becomes_set_user_id(void **state)
{
	static const uint64_t flags[] = {0, O_CREAT, O_TMPFILE, O_DIRECTORY, O_WRONLY | O_CREAT | O_EXCL, O_APPEND};
	const struct subject *s = NULL;
	struct filter filter = modefilter();
	struct seccomp_data data = {.arch = seccomp_arch_host->audit_arch};

	for_each_subject(other) if (other->arch == seccomp_arch_host) s = other;
	assert_non_null(s);
	assert_true(filter_is_valid(filter));
	for (unsigned number = 0; number < NUMBERS; number++)
		for (uint64_t mode = 0; mode < 010000; mode += 0100)
			for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
				uint64_t args[6] = {flags[i] | DIRTY, flags[i], flags[i], mode | DIRTY};

				args[1] |= mode;
				args[2] |= mode;
				data.nr = (int)number;
				memcpy(data.args, args, sizeof args);
				if (filter_run(filter, &data) != mode_verdict(s, number, args))
					fail_msg("number %u, flags %#llx, mode %#llo", number,
						(unsigned long long)flags[i], (unsigned long long)mode);
			}
	for (unsigned number = 0; number < NUMBERS; number++) {
		data.arch = seccomp_arch_host->audit_arch;
		data.nr = (int)(number | X32);
		assert_int_equal(filter_run(filter, &data), REFUSE(ENOSYS));
		data.nr = (int)number;
		data.arch = AUDIT_ARCH_I386;
		assert_int_equal(filter_run(filter, &data), REFUSE(ENOSYS));
	}
}

/* ---- several filters together ---- */

static void the_strictest_of_several_counts(void **state)
{
	static const uint32_t verdicts[] = {SECCOMP_RET_ALLOW, SECCOMP_RET_LOG, SECCOMP_RET_TRACE | 7,
		SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_TRAP, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_KILL_PROCESS};
	struct seccomp_data data = {.nr = 1};

	for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
		for (size_t j = 0; j < sizeof verdicts / sizeof *verdicts; j++) {
			struct sock_filter a = BPF_STMT(BPF_RET | BPF_K, verdicts[i]),
					   b = BPF_STMT(BPF_RET | BPF_K, verdicts[j]);

			assert_int_equal(filter_run_all((struct filter[]){{&a, 1}, {&b, 1}}, 2, &data),
				verdicts[i > j ? i : j]);
		}
}

static struct bpf_program compile(const char *json)
{
	struct bpf_program program;
	struct error err;

	if (profile_compile(json, strlen(json), "test.json", false, &program, &err) < 0)
		fail_msg("%s", err.text);
	return program;
}

/* As several filters, but that errors are asked about. */
static void compare_joined(struct filter joined, const struct filter *filters, size_t count, const struct seccomp_data *data)
{
	uint32_t wanted = filter_run_all(filters, count, data);

	if ((wanted & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO && (wanted & SECCOMP_RET_DATA) != 0)
		wanted = SECCOMP_RET_USER_NOTIF;
	if (filter_run(joined, data) != wanted)
		fail_msg("number %#x (%#llx, %#llx, …): %#x, not %#x", (unsigned)data->nr,
			(unsigned long long)data->args[0], (unsigned long long)data->args[1],
			filter_run(joined, data), wanted);
}

static void check_joined(const struct filter *filters, size_t count)
{
	static const uint64_t values[] = {0, 1, 2, 16, 40, 04755, TIOCSTI, 0x20000, CLONE_NEWUSER, DIRTY, UINT64_MAX};
	static const uint32_t archs[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, AUDIT_ARCH_I386};
	struct filter joined;
	struct error err;

	if (filter_join(filters, count, &joined, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(filter_is_valid(joined));
	for (unsigned number = 0; number < 2 * NUMBERS; number++)
		for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
			for (size_t i = 0; i < sizeof values / sizeof *values; i++)
				for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
					struct seccomp_data data = {.nr = (int)(number < NUMBERS ? number : number | X32),
						.arch = archs[a], .args = {values[i], values[j], values[i], values[j]}};

					/* Only ours kill another architecture: see filter_join. */
					compare_joined(joined, filters, count, &data);
				}
	free((void *)joined.instructions);
}

static void joined_filters_answer_as_several(void **state)
{
	static const char *const profiles[] = {
		"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": []}",
		"{\"defaultAction\": \"SCMP_ACT_LOG\", \"syscalls\": [{\"names\": [\"read\", \"mount\", \"bpf\"],"
		" \"action\": \"SCMP_ACT_KILL_PROCESS\"}, {\"names\": [\"ioctl\"], \"action\": \"SCMP_ACT_TRACE\", \"errnoRet\": 9},"
		" {\"names\": [\"clone\", \"openat\", \"fchmodat\"], \"action\": \"SCMP_ACT_ALLOW\"},"
		" {\"names\": [\"write\"], \"action\": \"SCMP_ACT_TRAP\"},"
		" {\"names\": [\"chown\", \"fchown\"], \"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 0}]}",
		"{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [{\"names\": [\"openat\", \"setns\"], \"action\": \"SCMP_ACT_ALLOW\"}]}",
		"{\"defaultAction\": \"SCMP_ACT_KILL\", \"syscalls\": []}",
	};
	const struct builtin_filter *essential = builtin_filter_find("essential", false);

	for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
		struct bpf_program program = compile(profiles[i]);
		struct filter filters[3] = {{program.instructions, program.length},
			{essential->instructions, essential->length}, modefilter()};

		for (size_t count = 1; count <= 3; count++)
			check_joined(filters, count);
		free(program.instructions);
	}
	for (int tier2 = 0; tier2 <= 1; tier2++) {
		const struct builtin_filter *built_in = builtin_filter_find("strict", tier2);

		check_joined((struct filter[]){{built_in->instructions, built_in->length}, modefilter()}, 2);
	}
}

static void what_is_too_long_is_not_joined(void **state)
{
	static struct sock_filter long_one[BPF_MAXINSNS], other[2];
	struct filter joined;
	struct error err;

	for (size_t i = 0; i < BPF_MAXINSNS; i++)
		long_one[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	other[0] = other[1] = long_one[0];
	assert_int_equal(filter_join((struct filter[]){{long_one, BPF_MAXINSNS}, {other, 2}}, 2, &joined, &err), -1);
	assert_int_equal(filter_join((struct filter[]){{long_one, BPF_MAXINSNS - 2}, {other, 2}}, 2, &joined, &err), 0);
	free((void *)joined.instructions);
	assert_int_equal(filter_join((struct filter[]){{other, 2}, {long_one, BPF_MAXINSNS - 1}}, 2, &joined, &err), -1);
}

/* ---- what is noted ---- */

static void words_are_found_however_they_are_cut(void **state)
{
	static const char *const with[] = {"Operation not permitted", "EPERM", "x: Function not implemented\n",
		"ENOSYS", "Address family not supported by protocol", "Error: EPERM: operation not permitted, open"};
	static const char *const without[] = {"", "operation permitted", "Operation not permitte", "EPER M", "ENOSY",
		"No such file or directory"};
	char text[256];

	for (size_t i = 0; i < sizeof with / sizeof *with; i++)
		for (size_t before = 0; before < 100; before++)
			for (size_t piece = 1; piece < 70; piece++) {
				struct refusal_words words = {.seen = false};
				size_t length = before + strlen(with[i]);

				memset(text, 'E', before);
				memcpy(text + before, with[i], strlen(with[i]));
				for (size_t at = 0; at < length; at += piece)
					refusal_words_add(&words, text + at, length - at < piece ? length - at : piece);
				if (!words.seen)
					fail_msg("%s after %zu in pieces of %zu", with[i], before, piece);
			}
	for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
		struct refusal_words words = {.seen = false};

		for (int turn = 0; turn < 5; turn++)
			refusal_words_add(&words, without[i], strlen(without[i]));
		refusal_words_add(&words, "", 0);
		assert_false(words.seen || words.network || words.port || words.package);
	}
}

static void words_are_of_different_things(void **state)
{
	static const struct {
		const char *text;
		bool network, port, package;
	} cases[] = {
		{"curl: (6) Could not resolve host: a.org", true, false, false},
		{"ConnectionRefusedError: [Errno 111] Connection refused", false, true, false},
		{"curl: (7) Failed to connect to a.org port 1 after 0 ms: Couldn't connect to server", false, true, false},
		{"ModuleNotFoundError: No module named 'six'", false, false, true},
		{"main.go:2:16: cannot find package \"a.org/b\" in any of:", false, false, true},
		{"main.rs:1:5: error[E0432]: unresolved import `serde`", false, false, true},
		{"main.c:1:10: error: 'package' undeclared", false, false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct refusal_words words = {.seen = false};

		for (const char *at = cases[i].text; *at; at++)
			refusal_words_add(&words, at, 1);
		assert_int_equal(words.network, cases[i].network);
		assert_int_equal(words.port, cases[i].port);
		assert_int_equal(words.package, cases[i].package);
	}
}

static void refusals_are_told_apart_by_what_tells(void **state)
{
	static struct refusals refusals;
	const uint64_t vsock[6] = {AF_VSOCK, SOCK_STREAM, 0}, dirty[6] = {AF_VSOCK | DIRTY, SOCK_STREAM, DIRTY, 7, 8, 9},
		       other[6] = {AF_ALG, SOCK_STREAM, 0};
	unsigned number = 1000;

	refusals_note(&refusals, (int)number_of(sibling(subjects + subject_count - 1, "default"), "socket"), EPERM, vsock);
	refusals_note(&refusals, refusals.list[0].number, EPERM, dirty);
	refusals_note(&refusals, refusals.list[0].number, EPERM, other);
	refusals_note(&refusals, refusals.list[0].number, EACCES, vsock);
	assert_int_equal(refusals.count, 3);
	assert_int_equal(refusals.list[0].count, 2);
	for (; number < 1000 + 2 * REFUSALS_MAX; number++)
		refusals_note(&refusals, (int)number, ENOSYS, vsock);
	assert_int_equal(refusals.count, REFUSALS_MAX);
	assert_int_equal(refusals.others, 2 * REFUSALS_MAX - (REFUSALS_MAX - 3));
	refusals_note(&refusals, 1000, ENOSYS, other);
	assert_int_equal(refusals.list[3].count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_is_as_the_profile_says),
		cmocka_unit_test(every_condition_is_as_the_profile_says),
		cmocka_unit_test(no_condition_is_on_a_later_argument),
		cmocka_unit_test(other_abis_are_refused),
		cmocka_unit_test(the_embedded_filters_are_those_of_the_profiles),
		cmocka_unit_test(both_interpreters_agree),
		cmocka_unit_test(every_profile_refuses_what_is_essential),
		cmocka_unit_test(strict_refuses_all_that_the_default_does),
		cmocka_unit_test(debug_is_the_default_but_for_debugging),
		cmocka_unit_test(no_filter_gives_a_way_out),
		cmocka_unit_test(strict_has_pairs_of_unix_sockets_alone),
		cmocka_unit_test(no_file_becomes_set_user_id),
		cmocka_unit_test(the_strictest_of_several_counts),
		cmocka_unit_test(joined_filters_answer_as_several),
		cmocka_unit_test(what_is_too_long_is_not_joined),
		cmocka_unit_test(words_are_found_however_they_are_cut),
		cmocka_unit_test(words_are_of_different_things),
		cmocka_unit_test(refusals_are_told_apart_by_what_tells),
	};

	return cmocka_run_group_tests(tests, make_subjects, free_subjects);
}
