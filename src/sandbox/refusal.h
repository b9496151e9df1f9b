/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_REFUSAL_H
#define NSBOX_SANDBOX_REFUSAL_H

/*
 * The system calls that a filter refused a command: which, with which of the arguments that tell why, with which
 * error, how often. The first REFUSALS_MAX that differ are kept, the rest is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REFUSALS_MAX = 64, TELLING_MAX = 3 };

struct refusal {
	int number; /* of the system call */
	int errnum;
	uint32_t arguments[TELLING_MAX]; /* those of telling_find, in its order; the others are 0 */
	uint64_t count;
};

struct refusals {
	struct refusal list[REFUSALS_MAX];
	size_t count;
	uint64_t others; /* calls that differ from all in `list` */
};

/* How a person reads an argument. */
enum argument_form {
	FORM_NUMBER, /* signed, of 32 bits */
	FORM_HEX,
	FORM_OCTAL,
	FORM_CLONE_FLAGS,
	FORM_FAMILY,
	FORM_SOCKET_TYPE,
	FORM_IOCTL,
	FORM_PRCTL,
	FORM_PTRACE,
};

/* The arguments of a call that say what was wanted of it. All are ints: the upper half is nothing to the kernel. */
struct telling {
	int number;
	size_t count;
	struct {
		unsigned index;
		enum argument_form form;
	} arguments[TELLING_MAX];
};

/* NULL: the call's name says all that there is to say. */
const struct telling *telling_find(int number);

void refusals_note(struct refusals *refusals, int number, int errnum, const uint64_t arguments[6]);

/* Looks for the words of an error that the built-in filters give, in output that passes by in pieces. */
struct refusal_words {
	char tail[48]; /* the end of what has passed: a word may be cut */
	size_t tail_length;
	bool seen;
	bool network; /* words of programs that looked for a network and found none */
	bool port;    /* the same, of a connection that was refused */
	bool package; /* the same, of code that uses a package which is not there */
};

void refusal_words_add(struct refusal_words *words, const void *data, size_t length);

#endif
