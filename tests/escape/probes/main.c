/* SPDX-License-Identifier: MIT */
/* The probe program: runs one probe by its name, or lists them all for tests/escape/run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"

static const struct probe *const tables[] = {namespace_probes, mount_probes, process_probes, syscall_probes,
	socket_probes, file_probes, terminal_probes, shared_probes, NULL};

void note(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

enum outcome refused(const char *what, long result)
{
	int error = errno;

	if (result >= 0) {
		note("%s: succeeded", what);
		return ALLOWED;
	}
	note("%s: %s", what, strerror(error));
	switch (error) {
	case EPERM:
	case EACCES:
	case EROFS:
	case ENOSYS:
	case EAFNOSUPPORT:
	case EPROTONOSUPPORT:
	case ESOCKTNOSUPPORT:
		return BLOCKED;
	default:
		return ALLOWED;
	}
}

enum outcome worse(enum outcome a, enum outcome b)
{
	if (a == ALLOWED || b == ALLOWED)
		return ALLOWED;
	return a == UNCLEAR || b == UNCLEAR ? UNCLEAR : BLOCKED;
}

enum outcome opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0) {
		note("%s: %s", path, strerror(errno));
		return BLOCKED;
	}
	note("%s: opened", path);
	close(fd);
	return ALLOWED;
}

int target_pid(int argc, char **argv)
{
	return argc > 0 ? atoi(argv[0]) : 1;
}

static void list(void)
{
	static const char *const controls[] = {"none", "plain", "root", "admin", "target", "terminal"};

	for (const struct probe *const *table = tables; *table; table++)
		for (const struct probe *probe = *table; probe->name; probe++)
			printf("%s\t%s\t%s\n", probe->name, controls[probe->control], probe->what);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list();
		return 0;
	}
	for (const struct probe *const *table = tables; argc > 1 && *table; table++)
		for (const struct probe *probe = *table; probe->name; probe++)
			if (strcmp(probe->name, argv[1]) == 0)
				return probe->run(argc - 2, argv + 2);
	fprintf(stderr, "usage: probe --list | NAME [ARGUMENT]...\n");
	return UNCLEAR;
}
