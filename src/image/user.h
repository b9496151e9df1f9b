/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_USER_H
#define NSBOX_IMAGE_USER_H

/* The user that an image names (image-spec, config.md: «user», «uid», «user:group», «uid:gid», and mixtures). */

#include <stdint.h>

struct error;

struct image_user {
	uint32_t uid, gid;
	char home[1024]; /* empty: not known */
};

/*
 * Resolves `text` (NULL or empty: root) in the contents of the image's /etc/passwd and /etc/group, either of which may be
 * NULL. A number need not be there; its group is then 0, as in Docker.
 */
int image_user_resolve(const char *text, const char *passwd, const char *group,
	struct image_user *ret, struct error *err);

#endif
