/* SPDX-License-Identifier: MIT */
/* Users and groups by name or number, in the files of an image. Pure functions. */
#define _GNU_SOURCE
#include "image/user.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/parse.h"

enum { ID_MAX = 65535, FIELDS_MAX = 7 };

struct line {
	const char *fields[FIELDS_MAX];
	size_t lengths[FIELDS_MAX];
	size_t count;
};

/* Takes one line of colon-separated fields apart; returns where the next one begins. */
static const char *take_line(const char *text, struct line *ret)
{
	const char *end = text + strcspn(text, "\n");

	ret->count = 0;
	while (ret->count < FIELDS_MAX) {
		size_t length = 0;

		while (text + length < end && text[length] != ':')
			length++;
		ret->fields[ret->count] = text;
		ret->lengths[ret->count++] = length;
		if (text + length >= end)
			break;
		text += length + 1;
	}
	return *end ? end + 1 : end;
}

static bool field_is(const struct line *line, size_t field, const char *text)
{
	return field < line->count && strlen(text) == line->lengths[field] &&
	       memcmp(line->fields[field], text, line->lengths[field]) == 0;
}

static bool number(const char *text, size_t length, uint32_t *ret)
{
	uint32_t value = 0;

	if (length == 0 || length > 9)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = 10 * value + (uint32_t)(text[i] - '0');
	}
	*ret = value;
	return true;
}

/* The line of `file` whose first field is `name`, or else whose third is the same number. */
static bool find(const char *file, const char *name, struct line *ret)
{
	uint32_t wanted = 0, id;
	bool by_number = number(name, strlen(name), &wanted);

	for (int pass = 0; file && pass < 2; pass++)
		for (const char *next = file; *next;) {
			next = take_line(next, ret);
			if (ret->count < 3)
				continue;
			if (pass == 0 ? field_is(ret, 0, name)
				      : by_number && number(ret->fields[2], ret->lengths[2], &id) &&
						id == wanted)
				return true;
		}
	return false;
}

static int find_id(const char *file, const char *what, const char *where, const char *name,
	struct line *line, bool *ret_found, uint32_t *ret, struct error *err)
{
	char quotation[QUOTED_MAX];

	*ret_found = find(file, name, line);
	if (*ret_found ? !number(line->fields[2], line->lengths[2], ret)
		       : !number(name, strlen(name), ret))
		return error_set(err, 0, "the image's %s %s is not in its %s", what,
			quoted(name, quotation), where);
	if (*ret > ID_MAX)
		return error_set(err, 0,
			"the image's %s %s is above %d, the greatest id in a sandbox", what,
			quoted(name, quotation), ID_MAX);
	return 0;
}

int image_user_resolve(const char *text, const char *passwd, const char *group,
	struct image_user *ret, struct error *err)
{
	struct image_user user = {0};
	char name[256];
	const char *colon, *group_name = NULL;
	struct line line;
	bool found;

	if (!text || !*text)
		text = "0";
	colon = strchr(text, ':');
	if (colon && colon[1])
		group_name = colon + 1;
	if (snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - text) : (int)strlen(text),
		    text) >= (int)sizeof name)
		return error_set(err, ENAMETOOLONG, "the image's user");
	if (!*name)
		strcpy(name, "0");
	if (find_id(passwd, "user", "/etc/passwd", name, &line, &found, &user.uid, err) < 0)
		return -1;
	if (found && line.count >= 4 && !group_name &&
		(!number(line.fields[3], line.lengths[3], &user.gid) || user.gid > ID_MAX))
		return error_set(err, 0,
			"the group of the image's user %.100s is no id from 0 to %d", name, ID_MAX);
	if (found && line.count >= 6 && line.lengths[5] < sizeof user.home)
		memcpy(user.home, line.fields[5], line.lengths[5]);
	if (group_name && find_id(group, "group", "/etc/group", group_name, &line, &found,
				  &user.gid, err) < 0)
		return -1;
	*ret = user;
	return 0;
}
