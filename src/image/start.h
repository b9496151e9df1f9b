/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_START_H
#define NSBOX_IMAGE_START_H

/*
 * The programs that nsbox-image starts: nsbox-unpack, which makes namespaces and mounts, and the helpers that keep
 * people's credentials, which may need anything. Neither can be done from behind the wall (wall.h), so a process made
 * before does it (util/starter.h): it knows these two kinds, and nothing else can be had from it. What is unpacked, and
 * into what, is of the store, or whoever has taken nsbox-image over could have what it likes put anywhere.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct store;

/*
 * With the store open; before the wall, and before there are threads. What is started without it says that it is missing.
 */
int start_prepare(const struct store *store, struct error *err);

enum { START_UNPACK_OWN = 4, START_PASSED_FIRST = 16, START_REFUSED = 126 /* a status */ };

/*
 * Starts nsbox-unpack, without our environment. `words` end with NULL; own[] become the descriptors UNPACK_BLOB (-1:
 * something that is no file), _CONTROL, _DIRECTORY and _NOTES of unpack/wire.h, passed[] those from
 * START_PASSED_FIRST on. Returns its process id, a child of ours.
 */
pid_t start_unpack(char *const *words, const int own[START_UNPACK_OWN], const int *passed,
	size_t count, struct error *err);

/*
 * Starts «docker-credential-NAME get» from PATH, with `in` and `out` as standard input and output; its status is
 * 127 where it is not there. Returns its process id, a child of ours.
 */
pid_t start_credential_helper(const char *name, int in, int out, struct error *err);

/* Whether such a name can be one: it is a part of a file's name in PATH. */
bool helper_name_valid(const char *name);

#endif
