/* SPDX-License-Identifier: MIT */
/*
 * Seccomp profiles: Docker's JSON → rules, which codegen.c makes a filter of.
 *
 * What the format leaves open, or what would make a profile weaker than its author thinks, is
 * decided here: a key that nobody knows is an error (a misspelt "args" would drop a condition); so
 * is a name in a refusal of a profile that allows by default, where no system call of that name is
 * known. Other names that nobody knows are skipped, as Docker does, and so are names that other architectures
 * have, and sub-architectures: nsbox runs native code only. "flags" are checked and not used: there is one
 * thread, the kernel's log is not ours to fill, and a mitigation is not to be left out. An entry whose "args" speak of one argument more than once means that any of
 * its conditions is enough, as in runc and crun.
 */
#define _GNU_SOURCE
#include "seccomp/profile.h"
#include "seccomp/codegen.h"
#include "seccomp/syscalls.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/jsonline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <jansson.h>
#include <linux/seccomp.h>

enum { PROFILE_MAX_BYTES = 4 << 20, ERRNO_MAX = 4095 };

struct action {
	const char *name;
	uint32_t verdict;
	bool takes_data; /* errnoRet */
};

static const struct action actions[] = {
	{"SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW, false},
	{"SCMP_ACT_ERRNO", SECCOMP_RET_ERRNO, true},
	{"SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD, false},
	{"SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD, false},
	{"SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS, false},
	{"SCMP_ACT_TRAP", SECCOMP_RET_TRAP, false},
	{"SCMP_ACT_TRACE", SECCOMP_RET_TRACE, true},
	{"SCMP_ACT_LOG", SECCOMP_RET_LOG, false},
};

struct operator
{
	const char *name;
	enum comparison comparison;
};

static const struct operator operators[] = {
	{"SCMP_CMP_EQ", COMPARE_EQ},
	{"SCMP_CMP_NE", COMPARE_NE},
	{"SCMP_CMP_LT", COMPARE_LT},
	{"SCMP_CMP_LE", COMPARE_LE},
	{"SCMP_CMP_GT", COMPARE_GT},
	{"SCMP_CMP_GE", COMPARE_GE},
	{"SCMP_CMP_MASKED_EQ", COMPARE_MASKED_EQ},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const profile_keys[] = {"defaultAction", "defaultErrnoRet", "defaultErrno",
	"archMap", "architectures", "syscalls", "flags", "listenerPath", "listenerMetadata",
	"comment", "$schema", NULL};
static const char *const entry_keys[] = {"name", "names", "action", "errnoRet", "errno", "args",
	"comment", "includes", "excludes", NULL};
static const char *const argument_keys[] = {"index", "value", "valueTwo", "op", NULL};
static const char *const filter_keys[] = {"caps", "arches", "minKernel", NULL};
static const char *const arch_map_keys[] = {"architecture", "subArchitectures", NULL};
static const char *const listener_keys[] = {"listenerPath", "listenerMetadata", NULL};
static const char *const filter_flags[] = {"SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_LOG",
	"SECCOMP_FILTER_FLAG_SPEC_ALLOW", "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", NULL};

/* ---- problems ---- */

enum { STEPS_MAX = 8 };

/* What is wrong, and the way to where it is. */
struct problem {
	struct error *err;
	struct json_step steps[STEPS_MAX];
	size_t depth;
};

static void enter(struct problem *problem, const char *key, size_t index)
{
	if (problem->depth < STEPS_MAX)
		problem->steps[problem->depth++] = (struct json_step){key, index};
}

static void leave(struct problem *problem)
{
	problem->depth--;
}

/* Of the member `key` of where we are; NULL: of that itself. Returns -1. */
static int __attribute__((format(printf, 3, 4)))
wrong(struct problem *problem, const char *key, const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list ap;

	if (key)
		enter(problem, key, 0);
	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	return error_set(problem->err, 0, "%s", text);
}

/* ---- numbers of 64 bits ---- */

/* A whole number above INT64_MAX and not above UINT64_MAX. */
static bool is_large_number(const char *digits, size_t length)
{
	static const char least[] = "9223372036854775808", most[] = "18446744073709551615";

	for (size_t i = 0; i < length; i++)
		if (digits[i] < (i == 0 ? '1' : '0') || digits[i] > '9')
			return false;
	if (length == sizeof least - 1)
		return strncmp(digits, least, length) >= 0;
	return length == sizeof most - 1 && strncmp(digits, most, length) <= 0;
}

/*
 * Masks such as 18446744073709551615 are more than jansson takes for an integer. So they are put in quotes; all
 * other text, and so each line, stays as it is. *ret is malloc'd.
 */
static size_t quote_large_numbers(const char *text, size_t length, char **ret)
{
	char *out = *ret = xcalloc(length * 2 + 1, 1);
	bool in_string = false;

	for (size_t i = 0; i < length;) {
		size_t digits = 0;

		while (!in_string && i + digits < length && text[i + digits] >= '0' &&
			text[i + digits] <= '9')
			digits++;
		if (digits > 0) {
			bool quote = is_large_number(text + i, digits);

			out += snprintf(out, digits + 3, quote ? "\"%.*s\"" : "%.*s", (int)digits,
				text + i);
			i += digits;
			continue;
		}
		if (in_string && text[i] == '\\' && i + 1 < length)
			*out++ = text[i++];
		else if (text[i] == '"')
			in_string = !in_string;
		*out++ = text[i++];
	}
	return (size_t)(out - *ret);
}

/* ---- pieces of JSON ---- */

static int check_keys(const json_t *object, const char *const *known, struct problem *problem)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		size_t i = 0;

		while (known[i] && strcmp(known[i], key) != 0)
			i++;
		if (!known[i])
			return wrong(problem, key, "unknown key \"%s\"", key);
	}
	return 0;
}

/* The member `key`, NULL where it is absent or null (Docker writes "args": null). */
static json_t *member(const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	return json_is_null(value) ? NULL : value;
}

/* *ret is NULL where the member is absent. */
static int optional_string(
	const json_t *object, const char *key, const char **ret, struct problem *problem)
{
	const json_t *value = member(object, key);

	if (value && !json_is_string(value))
		return wrong(problem, key, "\"%s\" is not a string", key);
	*ret = json_string_value(value);
	return 0;
}

static int optional_array(
	const json_t *object, const char *key, const json_t **ret, struct problem *problem)
{
	*ret = member(object, key);
	if (*ret && !json_is_array(*ret))
		return wrong(problem, key, "\"%s\" is not an array", key);
	return 0;
}

/* *ret stays as it is where the member is absent. */
static int optional_number(
	const json_t *object, const char *key, uint64_t max, uint64_t *ret, struct problem *problem)
{
	const json_t *value = member(object, key);

	if (!value)
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		(uint64_t)json_integer_value(value) > max)
		return wrong(problem, key, "\"%s\" is not a whole number from 0 to %llu", key,
			(unsigned long long)max);
	*ret = (uint64_t)json_integer_value(value);
	return 0;
}

/*
 * The same for a number of 64 bits, which jansson cannot hold: one that is too large for it is a string by now
 * (see quote_large_numbers).
 */
static int optional_wide_number(
	const json_t *object, const char *key, uint64_t *ret, struct problem *problem)
{
	const char *digits = json_string_value(member(object, key));

	if (!digits)
		return optional_number(object, key, INT64_MAX, ret, problem);
	if (!is_large_number(digits, strlen(digits)))
		return wrong(problem, key, "\"%s\" is not a whole number of 64 bits", key);
	*ret = strtoull(digits, NULL, 10);
	return 0;
}

/* Whether an array of strings has that one. */
static bool contains(const json_t *array, const char *text)
{
	const json_t *item;
	size_t i;

	json_array_foreach((json_t *)array, i,
		item) if (json_is_string(item) &&
			  strcmp(json_string_value(item), text) == 0) return true;
	return false;
}

/* ---- verdicts ---- */

static int errno_of_name(const char *key, const char *name, uint64_t *ret, struct problem *problem)
{
	for (int number = 1; number < ERRNO_MAX; number++) {
		const char *known = strerrorname_np(number);

		if (known && strcmp(known, name) == 0) {
			*ret = (uint64_t)number;
			return 0;
		}
	}
	return wrong(problem, key, "unknown error name \"%s\"", name);
}

/* Action and error number, in members of these names; EPERM where no number is given. */
static int parse_verdict(const json_t *object, const char *action_key, const char *number_key,
	const char *name_key, uint32_t *ret, struct problem *problem)
{
	const char *action, *error_name_text;
	uint64_t number = EPERM;

	if (optional_string(object, action_key, &action, problem) < 0 ||
		optional_number(object, number_key, ERRNO_MAX, &number, problem) < 0 ||
		optional_string(object, name_key, &error_name_text, problem) < 0)
		return -1;
	if (!action)
		return wrong(problem, NULL, "\"%s\" is missing", action_key);
	if (error_name_text && *error_name_text &&
		errno_of_name(name_key, error_name_text, &number, problem) < 0)
		return -1;
	if (strcmp(action, "SCMP_ACT_NOTIFY") == 0)
		return wrong(problem, action_key,
			"SCMP_ACT_NOTIFY needs a supervising program, which nsbox does not run");
	for (size_t i = 0; i < COUNT(actions); i++) {
		if (strcmp(actions[i].name, action) != 0)
			continue;
		*ret = actions[i].verdict | (actions[i].takes_data ? (uint32_t)number : 0);
		return 0;
	}
	return wrong(problem, action_key, "unknown action \"%s\"", action);
}

/* ---- includes and excludes ---- */

/* Whether the running kernel is at least "MAJOR.MINOR". */
static int kernel_at_least(const char *wanted, bool *ret, struct problem *problem)
{
	struct utsname running;
	unsigned major, minor, our_major = 0, our_minor = 0;

	if (sscanf(wanted, "%u.%u", &major, &minor) != 2)
		return wrong(
			problem, "minKernel", "\"minKernel\": \"%s\" is not MAJOR.MINOR", wanted);
	if (uname(&running) < 0)
		return error_set(problem->err, errno, "uname");
	sscanf(running.release, "%u.%u", &our_major, &our_minor);
	*ret = our_major > major || (our_major == major && our_minor >= minor);
	return 0;
}

/* How many things "includes" or "excludes" names, and how many of them are so here. */
struct tally {
	unsigned named, true_here;
};

/* No capability is ever held. */
static int tally_filter(const json_t *entry, const char *key, const struct seccomp_arch *arch,
	struct tally *ret, struct problem *problem)
{
	const json_t *filter = member(entry, key), *caps, *arches;
	const char *kernel;
	bool recent = false;

	*ret = (struct tally){0, 0};
	if (!filter)
		return 0;
	if (!json_is_object(filter))
		return wrong(problem, key, "\"%s\" is not an object", key);
	enter(problem, key, 0);
	if (check_keys(filter, filter_keys, problem) < 0 ||
		optional_array(filter, "caps", &caps, problem) < 0 ||
		optional_array(filter, "arches", &arches, problem) < 0 ||
		optional_string(filter, "minKernel", &kernel, problem) < 0 ||
		(kernel && *kernel && kernel_at_least(kernel, &recent, problem) < 0))
		return error_context(problem->err, "\"%s\"", key);
	leave(problem);
	ret->named =
		(kernel && *kernel) + (json_array_size(caps) > 0) + (json_array_size(arches) > 0);
	ret->true_here = recent + contains(arches, arch->name);
	return 0;
}

static int entry_applies(
	const json_t *entry, const struct seccomp_arch *arch, bool *ret, struct problem *problem)
{
	struct tally includes, excludes;

	if (tally_filter(entry, "includes", arch, &includes, problem) < 0 ||
		tally_filter(entry, "excludes", arch, &excludes, problem) < 0)
		return -1;
	*ret = includes.true_here == includes.named && excludes.true_here == 0;
	return 0;
}

/* ---- entries of "syscalls" ---- */

/* What an entry says of each of its names. */
struct body {
	uint32_t verdict;
	bool any_is_enough; /* any of the conditions, not all */
	struct condition *conditions;
	size_t condition_count;
};

static int parse_condition(const json_t *argument, struct condition *ret, struct problem *problem)
{
	uint64_t index = UINT64_MAX, value = 0, value_two = 0;
	const char *operator;
	size_t i = 0;

	if (!json_is_object(argument))
		return wrong(problem, NULL, "not an object");
	if (check_keys(argument, argument_keys, problem) < 0 ||
		optional_number(argument, "index", SECCOMP_ARGUMENTS - 1, &index, problem) < 0 ||
		optional_wide_number(argument, "value", &value, problem) < 0 ||
		optional_wide_number(argument, "valueTwo", &value_two, problem) < 0 ||
		optional_string(argument, "op", &operator, problem) < 0)
		return -1;
	if (index == UINT64_MAX)
		return wrong(problem, NULL, "\"index\" is missing");
	if (!operator)
		return wrong(problem, NULL, "\"op\" is missing");
	while (i < COUNT(operators) && strcmp(operators[i].name, operator) != 0)
		i++;
	if (i == COUNT(operators))
		return wrong(problem, "op", "unknown op \"%s\"", operator);
	*ret = (struct condition){
		.index = (unsigned)index, .comparison = operators[i].comparison, .value = value};
	if (ret->comparison == COMPARE_MASKED_EQ) {
		ret->mask = value;
		ret->value = value_two;
	}
	return 0;
}

/* Fills in the conditions; body->conditions is the caller's to free, also on failure. */
static int parse_conditions(const json_t *args, struct body *body, struct problem *problem)
{
	unsigned seen = 0;
	const json_t *argument;
	size_t i;

	body->conditions = xcalloc(json_array_size(args) + 1, sizeof *body->conditions);
	body->condition_count = json_array_size(args);
	enter(problem, "args", 0);
	json_array_foreach((json_t *)args, i, argument)
	{
		struct condition *condition = &body->conditions[i];

		enter(problem, NULL, i);
		if (parse_condition(argument, condition, problem) < 0)
			return error_context(problem->err, "args[%zu]", i);
		leave(problem);
		if (seen & 1U << condition->index)
			body->any_is_enough = true;
		seen |= 1U << condition->index;
	}
	leave(problem);
	return 0;
}

static void add_rules(struct ruleset *set, unsigned number, const struct body *body)
{
	struct rule rule = {.number = number, .verdict = body->verdict};

	if (!body->any_is_enough) {
		/* No argument is spoken of twice, so there are at most six. */
		rule.condition_count = body->condition_count;
		for (size_t i = 0; i < body->condition_count; i++)
			rule.conditions[i] = body->conditions[i];
		ruleset_add(set, &rule);
		return;
	}
	for (size_t i = 0; i < body->condition_count; i++) {
		rule.condition_count = 1;
		rule.conditions[0] = body->conditions[i];
		ruleset_add(set, &rule);
	}
}

static bool lets_pass(uint32_t verdict)
{
	uint32_t action = verdict & SECCOMP_RET_ACTION_FULL;

	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

/* Adds the entry's rules for one of its names, unless this architecture has no such call. */
static int add_name(
	struct ruleset *set, const json_t *name, const struct body *body, struct problem *problem)
{
	int number;

	if (!json_is_string(name))
		return wrong(problem, NULL, "the name of a system call is not a string");
	number = syscall_number(set->arch, json_string_value(name));
	if (number >= 0)
		add_rules(set, (unsigned)number, body);
	else if (number == SYSCALL_UNKNOWN && lets_pass(set->default_verdict) &&
		 !lets_pass(body->verdict))
		return wrong(problem, NULL,
			"unknown system call \"%s\": a profile that allows by default cannot "
			"refuse it",
			json_string_value(name));
	return 0;
}

/* "names", or the older "name". */
static int add_names(
	struct ruleset *set, const json_t *entry, const struct body *body, struct problem *problem)
{
	const json_t *names, *name = member(entry, "name");
	size_t i;

	if (optional_array(entry, "names", &names, problem) < 0)
		return -1;
	if (!names && !name)
		return wrong(problem, NULL, "\"names\" is missing");
	if (json_array_size(names) > 0 && name)
		return wrong(problem, "name", "\"name\" and \"names\" exclude each other");
	if (name) {
		enter(problem, "name", 0);
		if (add_name(set, name, body, problem) < 0)
			return -1;
		leave(problem);
	}
	enter(problem, "names", 0);
	json_array_foreach((json_t *)names, i, name)
	{
		enter(problem, NULL, i);
		if (add_name(set, name, body, problem) < 0)
			return -1;
		leave(problem);
	}
	leave(problem);
	return 0;
}

static int parse_entry(const json_t *entry, struct ruleset *set, struct problem *problem)
{
	struct body body = {0};
	const json_t *args;
	bool applies;
	int result;

	if (!json_is_object(entry))
		return wrong(problem, NULL, "not an object");
	if (check_keys(entry, entry_keys, problem) < 0 ||
		parse_verdict(entry, "action", "errnoRet", "errno", &body.verdict, problem) < 0 ||
		optional_array(entry, "args", &args, problem) < 0 ||
		entry_applies(entry, set->arch, &applies, problem) < 0)
		return -1;
	result = parse_conditions(args, &body, problem);
	if (result == 0 && applies)
		result = add_names(set, entry, &body, problem);
	free(body.conditions);
	return result;
}

/* ---- the profile ---- */

/* Names of a fixed set, in an array of strings; what they say has no meaning here (see the top). */
static int check_names(const json_t *array, const char *const *known, struct problem *problem)
{
	const json_t *item;
	size_t i;

	json_array_foreach((json_t *)array, i, item)
	{
		const char *name = json_string_value(item);
		size_t k = 0;

		enter(problem, NULL, i);
		if (!name)
			return wrong(problem, NULL, "not a string");
		while (known[k] && strcmp(known[k], name) != 0)
			k++;
		if (!known[k])
			return wrong(problem, NULL, "unknown name \"%s\"", name);
		leave(problem);
	}
	return 0;
}

static int check_arch_map(const json_t *map, struct problem *problem)
{
	const json_t *item, *sub;
	size_t i;

	json_array_foreach((json_t *)map, i, item)
	{
		const char *architecture;

		enter(problem, NULL, i);
		if (!json_is_object(item))
			return wrong(problem, NULL, "archMap[%zu]: not an object", i);
		if (check_keys(item, arch_map_keys, problem) < 0 ||
			optional_string(item, "architecture", &architecture, problem) < 0 ||
			optional_array(item, "subArchitectures", &sub, problem) < 0)
			return error_context(problem->err, "archMap[%zu]", i);
		leave(problem);
	}
	return 0;
}

static int check_surroundings(const json_t *root, struct problem *problem)
{
	const json_t *map, *architectures, *flags;

	if (optional_array(root, "archMap", &map, problem) < 0 ||
		optional_array(root, "architectures", &architectures, problem) < 0 ||
		optional_array(root, "flags", &flags, problem) < 0)
		return -1;
	if (json_array_size(map) > 0 && json_array_size(architectures) > 0)
		return wrong(problem, "architectures",
			"\"archMap\" and \"architectures\" exclude each other");
	enter(problem, "archMap", 0);
	if (check_arch_map(map, problem) < 0)
		return -1;
	leave(problem);
	enter(problem, "flags", 0);
	if (check_names(flags, filter_flags, problem) < 0)
		return error_context(problem->err, "\"flags\"");
	leave(problem);
	for (size_t i = 0; listener_keys[i]; i++)
		if (member(root, listener_keys[i]))
			return wrong(problem, listener_keys[i],
				"\"%s\" needs a supervising program, which nsbox does not run",
				listener_keys[i]);
	return 0;
}

static int parse_profile(const json_t *root, struct ruleset *set, struct problem *problem)
{
	const json_t *entries, *entry;
	size_t i;

	if (!json_is_object(root))
		return wrong(problem, NULL, "not a seccomp profile: no JSON object");
	if (check_keys(root, profile_keys, problem) < 0 ||
		parse_verdict(root, "defaultAction", "defaultErrnoRet", "defaultErrno",
			&set->default_verdict, problem) < 0 ||
		check_surroundings(root, problem) < 0 ||
		optional_array(root, "syscalls", &entries, problem) < 0)
		return -1;
	if (!entries)
		return wrong(problem, NULL, "\"syscalls\" is missing");
	enter(problem, "syscalls", 0);
	json_array_foreach((json_t *)entries, i, entry)
	{
		enter(problem, NULL, i);
		if (parse_entry(entry, set, problem) < 0)
			return error_context(problem->err, "syscalls[%zu]", i);
		leave(problem);
	}
	return 0;
}

/*
 * Memory that a memfd, a secret memfd or a System V segment holds while nobody maps it is seen by
 * no watcher, so where no cgroup counts it these calls are as absent.
 */
static void refuse_uncounted_memory(struct ruleset *set)
{
	static const char *const names[] = {"memfd_create", "memfd_secret", "shmget"};

	for (size_t i = 0; i < COUNT(names); i++) {
		int number = syscall_number(set->arch, names[i]);

		if (number >= 0)
			ruleset_add(set, &(struct rule){.number = (unsigned)number,
						 .verdict = SECCOMP_RET_ERRNO | ENOSYS});
	}
}

int profile_compile_for(const struct seccomp_arch *arch, const char *json, size_t length,
	const char *origin, bool tier2, struct bpf_program *ret, struct error *err)
{
	struct ruleset set = {.arch = arch};
	struct problem problem = {.err = err};
	cleanup_free char *text = NULL;
	size_t text_length = quote_large_numbers(json, length, &text);
	json_error_t where;
	json_t *root = json_loadb(text, text_length, JSON_REJECT_DUPLICATES, &where);
	int result;

	if (!root)
		return error_set(err, 0, "%s:%d: %s", origin, where.line, where.text);
	result = parse_profile(root, &set, &problem);
	if (result < 0)
		error_context(err, "%s:%u", origin,
			json_line_of(json, length, problem.steps, problem.depth));
	json_decref(root); /* steps are into it */
	if (result == 0 && tier2)
		refuse_uncounted_memory(&set);
	if (result == 0 && codegen(&set, ret, err) < 0)
		result = error_context(err, "%s", origin);
	ruleset_free(&set);
	return result;
}

int profile_compile(const char *json, size_t length, const char *origin, bool tier2,
	struct bpf_program *ret, struct error *err)
{
	return profile_compile_for(seccomp_arch_host, json, length, origin, tier2, ret, err);
}

int profile_read(const char *path, char **ret, size_t *ret_length, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0 || read_fd_whole(fd, PROFILE_MAX_BYTES, ret, ret_length) < 0)
		return error_set(err, errno, "reading the seccomp profile %s", path);
	return 0;
}

int profile_compile_file(const char *path, bool tier2, struct bpf_program *ret, struct error *err)
{
	cleanup_free char *text = NULL;
	size_t length;

	if (profile_read(path, &text, &length, err) < 0)
		return -1;
	return profile_compile(text, length, path, tier2, ret, err);
}
