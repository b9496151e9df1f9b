/* SPDX-License-Identifier: MIT */
/*
 * Seccomp profiles: Docker's JSON → rules, which codegen.c makes a filter of.
 *
 * What the format leaves open, or what would make a profile weaker than its author thinks, is
 * decided here: a key that nobody knows is an error (a misspelt "args" would drop a condition); so
 * is a name in a refusal of a profile that allows by default, where no system call of that name is
 * known. Names that other architectures have are skipped, and so are sub-architectures: nsbox runs
 * native code only. An entry whose "args" speak of one argument more than once means that any of
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

#include <errno.h>
#include <fcntl.h>
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

/* ---- pieces of JSON ---- */

static int check_keys(const json_t *object, const char *const *known, struct error *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		size_t i = 0;

		while (known[i] && strcmp(known[i], key) != 0)
			i++;
		if (!known[i])
			return error_set(err, 0, "unknown key \"%s\"", key);
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
	const json_t *object, const char *key, const char **ret, struct error *err)
{
	const json_t *value = member(object, key);

	if (value && !json_is_string(value))
		return error_set(err, 0, "\"%s\" is not a string", key);
	*ret = json_string_value(value);
	return 0;
}

static int optional_array(
	const json_t *object, const char *key, const json_t **ret, struct error *err)
{
	*ret = member(object, key);
	if (*ret && !json_is_array(*ret))
		return error_set(err, 0, "\"%s\" is not an array", key);
	return 0;
}

/* *ret stays as it is where the member is absent. */
static int optional_number(
	const json_t *object, const char *key, uint64_t max, uint64_t *ret, struct error *err)
{
	const json_t *value = member(object, key);

	if (!value)
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		(uint64_t)json_integer_value(value) > max)
		return error_set(err, 0, "\"%s\" is not a whole number from 0 to %llu", key,
			(unsigned long long)max);
	*ret = (uint64_t)json_integer_value(value);
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

static int errno_of_name(const char *name, uint64_t *ret, struct error *err)
{
	for (int number = 1; number < ERRNO_MAX; number++) {
		const char *known = strerrorname_np(number);

		if (known && strcmp(known, name) == 0) {
			*ret = (uint64_t)number;
			return 0;
		}
	}
	return error_set(err, 0, "unknown error name \"%s\"", name);
}

/* Action and error number, in members of these names; EPERM where no number is given. */
static int parse_verdict(const json_t *object, const char *action_key, const char *number_key,
	const char *name_key, uint32_t *ret, struct error *err)
{
	const char *action, *error_name_text;
	uint64_t number = EPERM;

	if (optional_string(object, action_key, &action, err) < 0 ||
		optional_number(object, number_key, ERRNO_MAX, &number, err) < 0 ||
		optional_string(object, name_key, &error_name_text, err) < 0)
		return -1;
	if (!action)
		return error_set(err, 0, "\"%s\" is missing", action_key);
	if (error_name_text && *error_name_text && errno_of_name(error_name_text, &number, err) < 0)
		return -1;
	if (strcmp(action, "SCMP_ACT_NOTIFY") == 0)
		return error_set(err, 0,
			"SCMP_ACT_NOTIFY needs a supervising program, which nsbox does not run");
	for (size_t i = 0; i < COUNT(actions); i++) {
		if (strcmp(actions[i].name, action) != 0)
			continue;
		*ret = actions[i].verdict | (actions[i].takes_data ? (uint32_t)number : 0);
		return 0;
	}
	return error_set(err, 0, "unknown action \"%s\"", action);
}

/* ---- includes and excludes ---- */

/* Whether the running kernel is at least "MAJOR.MINOR". */
static int kernel_at_least(const char *wanted, bool *ret, struct error *err)
{
	struct utsname running;
	unsigned major, minor, our_major = 0, our_minor = 0;

	if (sscanf(wanted, "%u.%u", &major, &minor) != 2)
		return error_set(err, 0, "\"minKernel\": \"%s\" is not MAJOR.MINOR", wanted);
	if (uname(&running) < 0)
		return error_set(err, errno, "uname");
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
	struct tally *ret, struct error *err)
{
	const json_t *filter = member(entry, key), *caps, *arches;
	const char *kernel;
	bool recent = false;

	*ret = (struct tally){0, 0};
	if (!filter)
		return 0;
	if (!json_is_object(filter))
		return error_set(err, 0, "\"%s\" is not an object", key);
	if (check_keys(filter, filter_keys, err) < 0 ||
		optional_array(filter, "caps", &caps, err) < 0 ||
		optional_array(filter, "arches", &arches, err) < 0 ||
		optional_string(filter, "minKernel", &kernel, err) < 0 ||
		(kernel && *kernel && kernel_at_least(kernel, &recent, err) < 0))
		return error_context(err, "\"%s\"", key);
	ret->named =
		(kernel && *kernel) + (json_array_size(caps) > 0) + (json_array_size(arches) > 0);
	ret->true_here = recent + contains(arches, arch->name);
	return 0;
}

static int entry_applies(
	const json_t *entry, const struct seccomp_arch *arch, bool *ret, struct error *err)
{
	struct tally includes, excludes;

	if (tally_filter(entry, "includes", arch, &includes, err) < 0 ||
		tally_filter(entry, "excludes", arch, &excludes, err) < 0)
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

static int parse_condition(const json_t *argument, struct condition *ret, struct error *err)
{
	uint64_t index = UINT64_MAX, value = 0, value_two = 0;
	const char *operator;
	size_t i = 0;

	if (!json_is_object(argument))
		return error_set(err, 0, "not an object");
	if (check_keys(argument, argument_keys, err) < 0 ||
		optional_number(argument, "index", SECCOMP_ARGUMENTS - 1, &index, err) < 0 ||
		optional_number(argument, "value", INT64_MAX, &value, err) < 0 ||
		optional_number(argument, "valueTwo", INT64_MAX, &value_two, err) < 0 ||
		optional_string(argument, "op", &operator, err) < 0)
		return -1;
	if (index == UINT64_MAX)
		return error_set(err, 0, "\"index\" is missing");
	if (!operator)
		return error_set(err, 0, "\"op\" is missing");
	while (i < COUNT(operators) && strcmp(operators[i].name, operator) != 0)
		i++;
	if (i == COUNT(operators))
		return error_set(err, 0, "unknown op \"%s\"", operator);
	*ret = (struct condition){
		.index = (unsigned)index, .comparison = operators[i].comparison, .value = value};
	if (ret->comparison == COMPARE_MASKED_EQ) {
		ret->mask = value;
		ret->value = value_two;
	}
	return 0;
}

/* Fills in the conditions; body->conditions is the caller's to free, also on failure. */
static int parse_conditions(const json_t *args, struct body *body, struct error *err)
{
	unsigned seen = 0;
	const json_t *argument;
	size_t i;

	body->conditions = xcalloc(json_array_size(args) + 1, sizeof *body->conditions);
	body->condition_count = json_array_size(args);
	json_array_foreach((json_t *)args, i, argument)
	{
		struct condition *condition = &body->conditions[i];

		if (parse_condition(argument, condition, err) < 0)
			return error_context(err, "args[%zu]", i);
		if (seen & 1U << condition->index)
			body->any_is_enough = true;
		seen |= 1U << condition->index;
	}
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
	struct ruleset *set, const json_t *name, const struct body *body, struct error *err)
{
	int number;

	if (!json_is_string(name))
		return error_set(err, 0, "the name of a system call is not a string");
	number = syscall_number(set->arch, json_string_value(name));
	if (number >= 0)
		add_rules(set, (unsigned)number, body);
	else if (number == SYSCALL_UNKNOWN && lets_pass(set->default_verdict) &&
		 !lets_pass(body->verdict))
		return error_set(err, 0,
			"unknown system call \"%s\": a profile that allows by default cannot "
			"refuse it",
			json_string_value(name));
	return 0;
}

/* "names", and the older "name". */
static int add_names(
	struct ruleset *set, const json_t *entry, const struct body *body, struct error *err)
{
	const json_t *names, *name = member(entry, "name");
	size_t i;

	if (optional_array(entry, "names", &names, err) < 0)
		return -1;
	if (!names && !name)
		return error_set(err, 0, "\"names\" is missing");
	if (name && add_name(set, name, body, err) < 0)
		return -1;
	json_array_foreach(
		(json_t *)names, i, name) if (add_name(set, name, body, err) < 0) return -1;
	return 0;
}

static int parse_entry(const json_t *entry, struct ruleset *set, struct error *err)
{
	struct body body = {0};
	const json_t *args;
	bool applies;
	int result;

	if (!json_is_object(entry))
		return error_set(err, 0, "not an object");
	if (check_keys(entry, entry_keys, err) < 0 ||
		parse_verdict(entry, "action", "errnoRet", "errno", &body.verdict, err) < 0 ||
		optional_array(entry, "args", &args, err) < 0 ||
		entry_applies(entry, set->arch, &applies, err) < 0)
		return -1;
	result = parse_conditions(args, &body, err);
	if (result == 0 && applies)
		result = add_names(set, entry, &body, err);
	free(body.conditions);
	return result;
}

static int parse_profile(const json_t *root, struct ruleset *set, struct error *err)
{
	const json_t *entries, *entry, *unused;
	size_t i;

	if (!json_is_object(root))
		return error_set(err, 0, "not a seccomp profile: no JSON object");
	if (check_keys(root, profile_keys, err) < 0 ||
		parse_verdict(root, "defaultAction", "defaultErrnoRet", "defaultErrno",
			&set->default_verdict, err) < 0 ||
		optional_array(root, "archMap", &unused, err) < 0 ||
		optional_array(root, "architectures", &unused, err) < 0 ||
		optional_array(root, "syscalls", &entries, err) < 0)
		return -1;
	if (!entries)
		return error_set(err, 0, "\"syscalls\" is missing");
	json_array_foreach((json_t *)entries, i,
		entry) if (parse_entry(entry, set, err) < 0) return error_context(err,
		"syscalls[%zu]", i);
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
	json_error_t where;
	json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &where);
	int result;

	if (!root)
		return error_set(err, 0, "%s:%d: %s", origin, where.line, where.text);
	result = parse_profile(root, &set, err);
	json_decref(root);
	if (result == 0) {
		if (tier2)
			refuse_uncounted_memory(&set);
		result = codegen(&set, ret, err);
	}
	if (result < 0)
		error_context(err, "%s", origin);
	ruleset_free(&set);
	return result;
}

int profile_compile(const char *json, size_t length, const char *origin, bool tier2,
	struct bpf_program *ret, struct error *err)
{
	return profile_compile_for(seccomp_arch_host, json, length, origin, tier2, ret, err);
}

int profile_compile_file(const char *path, bool tier2, struct bpf_program *ret, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	cleanup_free char *text = NULL;
	size_t length;

	if (fd < 0)
		return error_set(err, errno, "reading the seccomp profile %s", path);
	if (read_fd_whole(fd, PROFILE_MAX_BYTES, &text, &length) < 0)
		return error_set(err, errno, "reading the seccomp profile %s", path);
	return profile_compile(text, length, path, tier2, ret, err);
}
