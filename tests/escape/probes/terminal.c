/* SPDX-License-Identifier: MIT */
/* What a program could do with a terminal that it is given: type into it, or change what it is. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

static enum outcome type_character(const char *what, unsigned long request)
{
	char character = ' ';

	return refused(what, syscall(SYS_ioctl, 0, request, &character));
}

static enum outcome type(int argc, char **argv)
{
	return type_character("TIOCSTI", TIOCSTI);
}

static enum outcome type_high_bits(int argc, char **argv)
{
	enum outcome outcome = type_character("TIOCSTI and bit 32", 1UL << 32 | TIOCSTI);

	return worse(outcome, type_character("TIOCSTI and bit 63", 1UL << 63 | TIOCSTI));
}

static enum outcome console(int argc, char **argv)
{
	return worse(type_character("TIOCLINUX", TIOCLINUX), type_character("TIOCLINUX and bit 32", 1UL << 32 | TIOCLINUX));
}

static enum outcome line_discipline(int argc, char **argv)
{
	int discipline = 0;

	return refused("TIOCSETD", ioctl(0, TIOCSETD, &discipline));
}

const struct probe terminal_probes[] = {
	{"tiocsti", "type into its terminal", CONTROL_TERMINAL, type},
	{"tiocsti-high-bits", "the same with a bit above the 32 that ioctl looks at", CONTROL_TERMINAL, type_high_bits},
	{"tioclinux", "paste into a console", CONTROL_TERMINAL, console},
	{"tiocsetd", "load another line discipline", CONTROL_TERMINAL, line_discipline},
	{0},
};
