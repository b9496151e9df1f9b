/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_LANGUAGE_NEEDS_H
#define NSBOX_LANGUAGE_NEEDS_H

struct error;
struct language;
struct spec;

/* Where programs are looked for, inside: the PATH of every language that does not set its own. */
#define LANGUAGE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/*
 * Whether the programs that `language` needs will be there in a sandbox of `spec`. Returns 0, or -1 with *err naming
 * the first that is missing and the hint saying how to get it.
 */
int needs_check(const struct language *language, const struct spec *spec, struct error *err);

#endif
