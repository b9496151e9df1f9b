/* SPDX-License-Identifier: MIT */
/* What a process can do where it is: see inner.h. Here: who it is, what it sees of others, and its limits. */
#define _GNU_SOURCE
#include "doctor/inner.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/file.h"

enum { STATUS_MAX = 8192, MAP_MAX = 4096 };

/* --- findings --- */

void inner_add(json_t *report, const char *name, enum inner_verdict verdict, json_t *details, const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	json_array_append_new(report,
		json_pack("{s:s, s:o, s:s, s:o}", "name", name, "ok",
			verdict == INNER_INFORMATION ? json_null() : json_boolean(verdict == INNER_OK), "text", text,
			"details", details ?: json_object()));
}

const char *inner_list(const json_t *array, char ret[static INNER_LIST_MAX])
{
	size_t length = 0, i, size = json_array_size(array);
	json_t *value;

	snprintf(ret, INNER_LIST_MAX, "none");
	json_array_foreach(array, i, value) {
		if (length + strlen(json_string_value(value)) + 24 > INNER_LIST_MAX) {
			snprintf(ret + length, INNER_LIST_MAX - length, " and %zu more", size - i);
			break;
		}
		length += (size_t)snprintf(ret + length, INNER_LIST_MAX - length, "%s%s", i ? ", " : "",
			json_string_value(value));
	}
	return ret;
}

bool inner_passed(const json_t *report)
{
	size_t i;
	json_t *finding;

	json_array_foreach(report, i, finding)
		if (json_is_false(json_object_get(finding, "ok")))
			return false;
	return json_array_size(report) > 0;
}

/* --- who it is --- */

/* The value of a field of /proc/self/status, without what is around it; "" where there is none. */
static const char *status_field(const char *status, const char *name, char ret[static 128])
{
	char line[64];
	const char *at;

	snprintf(line, sizeof line, "\n%s:", name);
	at = strstr(status, line);
	ret[0] = '\0';
	if (at)
		sscanf(at + strlen(line) + strspn(at + strlen(line), " \t"), "%127[^\n]", ret);
	return ret;
}

/* Whether an id map shows an id of the host's root, or the whole host. */
static bool maps_root(const char *map)
{
	unsigned long inner, outer, count;

	for (; map && *map; map = strchr(map, '\n') ? strchr(map, '\n') + 1 : NULL)
		if (sscanf(map, "%lu %lu %lu", &inner, &outer, &count) == 3 && outer == 0)
			return true;
	return false;
}

static void examine_user(json_t *report, const char *status)
{
	char uids[MAP_MAX] = "", gids[MAP_MAX] = "", groups[128];
	bool root;

	read_small_file(AT_FDCWD, "/proc/self/uid_map", uids, sizeof uids);
	read_small_file(AT_FDCWD, "/proc/self/gid_map", gids, sizeof gids);
	root = maps_root(uids) || maps_root(gids);
	inner_add(report, "user", root ? INNER_FAILED : INNER_OK,
		json_pack("{s:i, s:i, s:s, s:s, s:s}", "uid", (int)getuid(), "gid", (int)getgid(), "groups",
			status_field(status, "Groups", groups), "uid_map", uids, "gid_map", gids),
		"uid %d, gid %d%s%s%s", (int)getuid(), (int)getgid(), *groups ? ", groups " : "", groups,
		root ? "; an id of the host's root is mapped" : "");
}

static void examine_capabilities(json_t *report, const char *status)
{
	static const char *const sets[] = {"CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"};
	json_t *details = json_object(), *held = json_array();
	char value[128], text[INNER_LIST_MAX];

	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		status_field(status, sets[i], value);
		json_object_set_new(details, sets[i], json_string(value));
		if (strtoull(value, NULL, 16) != 0)
			json_array_append_new(held, json_string(sets[i]));
	}
	inner_add(report, "capabilities", json_array_size(held) ? INNER_FAILED : INNER_OK, details,
		json_array_size(held) ? "in the sets %s" : "%s in any set", inner_list(held, text));
	json_decref(held);
}

static void examine_flags(json_t *report, const char *status)
{
	char value[128];
	int filters;
	bool on = strcmp(status_field(status, "NoNewPrivs", value), "1") == 0;

	inner_add(report, "no_new_privs", on ? INNER_OK : INNER_FAILED, NULL,
		on ? "set: no program that is executed gains a right" : "not set: set-user-ID programs have their effect");
	on = strcmp(status_field(status, "Seccomp", value), "2") == 0;
	filters = atoi(status_field(status, "Seccomp_filters", value));
	inner_add(report, "seccomp", on ? INNER_OK : INNER_FAILED, json_pack("{s:i}", "filters", filters),
		on ? "%d filter%s of system calls" : "no filter of system calls", filters, filters == 1 ? "" : "s");
}

/* --- namespaces --- */

static const char *const namespaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};

enum { NAMESPACES = sizeof namespaces / sizeof *namespaces };

/* The kernel numbers the namespaces that it begins with from here downwards, and others from here upwards. */
static const unsigned long FIRST_MADE = 0xf0000000;

static unsigned long namespace_of(const char *name)
{
	char path[40], link[64];
	unsigned long number = 0;
	ssize_t length;

	snprintf(path, sizeof path, "/proc/self/ns/%s", name);
	length = readlink(path, link, sizeof link - 1);
	if (length < 0)
		return 0;
	link[length] = '\0';
	sscanf(link, "%*[^[][%lu", &number);
	return number;
}

static void examine_namespaces(json_t *report)
{
	json_t *details = json_object(), *initial = json_array();
	char text[INNER_LIST_MAX];

	for (size_t i = 0; i < NAMESPACES; i++) {
		unsigned long number = namespace_of(namespaces[i]);

		json_object_set_new(details, namespaces[i], json_integer((json_int_t)number));
		/* A sandbox's clock is the host's. A network can be shared on purpose: who made the sandbox knows. */
		if (strcmp(namespaces[i], "time") == 0 || strcmp(namespaces[i], "net") == 0)
			continue;
		if (number >= FIRST_MADE - 16 && number < FIRST_MADE)
			json_array_append_new(initial, json_string(namespaces[i]));
	}
	inner_add(report, "namespaces", json_array_size(initial) ? INNER_FAILED : INNER_OK, details,
		json_array_size(initial) ? "those that the host was booted with: %s" : "of the host: %s",
		inner_list(initial, text));
	json_decref(initial);
}

void inner_compare_namespaces(json_t *report, bool shared_net)
{
	json_t *finding, *shared = json_array(), *wrong = json_array();
	char text[INNER_LIST_MAX], message[INNER_LIST_MAX + 40];
	size_t at;

	json_array_foreach(report, at, finding) {
		const json_t *details = json_object_get(finding, "details");

		if (strcmp(json_string_value(json_object_get(finding, "name")), "namespaces") != 0)
			continue;
		for (size_t i = 0; i < NAMESPACES; i++) {
			json_int_t number = json_integer_value(json_object_get(details, namespaces[i]));

			if (number == 0 || (unsigned long)number != namespace_of(namespaces[i]))
				continue;
			json_array_append_new(shared, json_string(namespaces[i]));
			if (strcmp(namespaces[i], "time") != 0 && !(shared_net && strcmp(namespaces[i], "net") == 0))
				json_array_append_new(wrong, json_string(namespaces[i]));
		}
		snprintf(message, sizeof message, "shared with the caller: %s", inner_list(shared, text));
		json_object_set_new(finding, "text", json_string(message));
		if (json_array_size(wrong) > 0)
			json_object_set_new(finding, "ok", json_false());
		json_object_set(json_object_get(finding, "details"), "shared", shared);
	}
	json_decref(shared);
	json_decref(wrong);
}

/* --- others --- */

static void examine_processes(json_t *report)
{
	DIR *proc = opendir("/proc");
	json_t *names = json_array();
	char path[sizeof "/proc/" + 256 + sizeof "/comm"], name[64], text[INNER_LIST_MAX];
	struct dirent *entry;
	bool kernel = false;

	while (proc && (entry = readdir(proc))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
		if (read_small_file(AT_FDCWD, path, name, sizeof name) < 0)
			continue;
		kernel |= strcmp(name, "kthreadd") == 0;
		json_array_append_new(names, json_stringn(name, strlen(name)) ?: json_string("?"));
	}
	if (proc)
		closedir(proc);
	inner_add(report, "processes", kernel ? INNER_FAILED : INNER_OK, json_pack("{s:O}", "names", names),
		"%zu can be seen%s: %s", json_array_size(names), kernel ? ", threads of the kernel among them" : "",
		inner_list(names, text));
	json_decref(names);
}

static void examine_network(json_t *report)
{
	char table[16384], text[INNER_LIST_MAX], name[32];
	json_t *names = json_array();
	bool others = false;

	if (read_small_file(AT_FDCWD, "/proc/net/dev", table, sizeof table) < 0)
		table[0] = '\0';
	for (char *rest = table, *line; (line = strsep(&rest, "\n"));) {
		char *colon = strchr(line, ':');

		if (!colon || sscanf(line, " %31[^:]", name) != 1)
			continue;
		json_array_append_new(names, json_string(name));
		others |= strcmp(name, "lo") != 0;
	}
	inner_add(report, "network", others ? INNER_INFORMATION : INNER_OK, json_pack("{s:O}", "interfaces", names),
		"interfaces: %s", inner_list(names, text));
	json_decref(names);
}

static void examine_limits(json_t *report)
{
	static const struct {
		const char *name;
		int resource;
	} limits[] = {{"processes", RLIMIT_NPROC}, {"open_files", RLIMIT_NOFILE}, {"file_size", RLIMIT_FSIZE},
		{"core", RLIMIT_CORE}, {"message_queues", RLIMIT_MSGQUEUE}, {"locked_memory", RLIMIT_MEMLOCK},
		{"stack", RLIMIT_STACK}};
	json_t *details = json_object();
	char text[INNER_LIST_MAX] = "";

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct rlimit limit = {0};
		size_t length = strlen(text);
		bool none;

		getrlimit(limits[i].resource, &limit);
		none = limit.rlim_max == RLIM_INFINITY;
		json_object_set_new(details, limits[i].name, none ? json_null() : json_integer((json_int_t)limit.rlim_max));
		if (none)
			snprintf(text + length, sizeof text - length, "%s%s none", i ? ", " : "", limits[i].name);
		else
			snprintf(text + length, sizeof text - length, "%s%s %llu", i ? ", " : "", limits[i].name,
				(unsigned long long)limit.rlim_max);
	}
	inner_add(report, "limits", INNER_INFORMATION, details, "%s", text);
}

json_t *inner_examine(const char *own_file)
{
	json_t *report = json_array();
	char status[STATUS_MAX] = "";

	read_small_file(AT_FDCWD, "/proc/self/status", status, sizeof status);
	examine_user(report, status);
	examine_capabilities(report, status);
	examine_flags(report, status);
	examine_namespaces(report);
	inner_examine_calls(report);
	inner_examine_places(report, own_file);
	inner_examine_kernel(report);
	examine_processes(report);
	examine_network(report);
	examine_limits(report);
	return report;
}
