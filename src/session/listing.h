/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_LISTING_H
#define NSBOX_SESSION_LISTING_H

/*
 * What there was in a tree at a time, as FILEOP_SCAN has told it (sandbox/fileops.h), and what is different in a later
 * one. Pure functions. What the scan says is hostile input: whatever it is, no more is made of it than it is long.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LISTING_CHANGES_MAX = 200 /* that are told of by name */ };

struct listing;

/* Of what follows the answer. NULL: it makes no sense. Released by listing_release. */
struct listing *listing_parse(const void *data, size_t length);

/* As if what has this name in the tree itself, and is no directory, were not there. */
void listing_leave_out(struct listing *listing, const char *name);

/* Of a directory that is not there. */
struct listing *listing_empty(void);

/* Several can hold one. Returns it. */
struct listing *listing_hold(struct listing *listing);

/* *listing becomes NULL; it may be so. */
void listing_release(struct listing **listing);

/* Memory that it takes. */
size_t listing_bytes(const struct listing *listing);

/* The newest time of change, in ns since 1970, of what is not a directory; 0: there is none. */
uint64_t listing_newest(const struct listing *listing);

/*
 * The differences, as an object (new reference):
 *
 *     {"created": [{"path", "size"}], "modified": [{"path", "size"}], "deleted": [PATH], "omitted": N,
 *      "incomplete": "…"}
 *
 * Paths are relative to the tree and sorted by their bytes; those of directories end with a slash, and their size is
 * 0. One that is not UTF-8 is {"base64": …}. Where there are more than LISTING_CHANGES_MAX, those that lie deepest
 * are only counted. "incomplete" is there only where it is, and says which directories were not looked into, and why;
 * `name` is the tree's in that. Of what something else is mounted on, nothing is said at all.
 *
 * What is not a directory is modified when any of its type, mode, inode, size and time of change is another. A
 * directory is when its mode is.
 */
json_t *listing_compare(const struct listing *before, const struct listing *after, const char *name);

/* The object that says that nothing is known, or, without `incomplete`, that nothing has changed. */
json_t *listing_no_changes(const char *incomplete);

#endif
