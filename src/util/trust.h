/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_TRUST_H
#define NSBOX_UTIL_TRUST_H

/*
 * Whether others than the caller and root can change what a path leads to. HOME may be another user's (sudo keeps
 * it), and XDG_… may lead anywhere: what we write, remove or run by such a path must be nobody else's to exchange.
 */

struct error;

/*
 * `path` is canonical and exists. Fails where one of the directories on the way, or the last, belongs to somebody
 * else or can be written by others; sticky ones, as /tmp, can be on the way.
 */
int path_check_writers(const char *path, struct error *err);

/*
 * The same for a path that may not exist yet, and may have links: of the part that exists. *ret, which is malloc'd and may
 * be NULL, is the path with that part made canonical.
 */
int path_check_future(const char *path, char **ret, struct error *err);

#endif
