/* SPDX-License-Identifier: MIT */
/* Instructions that change an image's configuration: see instruction.h. */
#define _GNU_SOURCE
#include "image/instruction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/parse.h"
#include "util/utf8.h"

static const char blanks[] = " \t\r\n";

/* --- words --- */

struct words {
	char **list; /* NULL-terminated; owned */
	size_t count;
};

static void add_word(struct words *words, char *word)
{
	words->list = xrealloc(words->list, words->count + 2, sizeof *words->list);
	words->list[words->count++] = word;
	words->list[words->count] = NULL;
}

static int refuse_variable(struct error *err)
{
	error_set(err, 0, "there is a \"$\", and variables are not replaced here");
	return error_hint(err, "a dollar sign that is to stay one is written '$' or \\$");
}

/* One word from *text on, up to a blank that is not quoted; its quotes go. NULL with *err. */
static char *take_word(const char **text, struct error *err)
{
	char *word = xmalloc(strlen(*text) + 1), quote = '\0';
	size_t length = 0;
	const char *c = *text;

	for (; *c && (quote || !strchr(blanks, *c)); c++) {
		if (quote ? *c == quote : *c == '"' || *c == '\'') {
			quote = quote ? '\0' : *c;
			continue;
		}
		if (*c == '$' && quote != '\'') {
			free(word);
			refuse_variable(err);
			return NULL;
		}
		/* In double quotes it is one of its own before all but what it can take the meaning from. */
		if (*c == '\\' && quote != '\'' && c[1] && (!quote || strchr("\"\\$", c[1])))
			c++;
		word[length++] = *c;
	}
	word[length] = '\0';
	*text = c;
	if (!quote)
		return word;
	free(word);
	error_set(err, 0, "a %c is not closed", quote);
	return NULL;
}

static int split(const char *text, struct words *ret, struct error *err)
{
	for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
		char *word = take_word(&text, err);

		if (!word)
			return -1;
		add_word(ret, word);
	}
	return ret->count ? 0 : error_set(err, 0, "nothing follows it");
}

/* --- parts of the configuration --- */

/* The object `key`, made where it is missing. Borrowed. */
static json_t *object_of(json_t *config, const char *key)
{
	json_t *object = json_object_get(config, key);

	if (json_is_object(object))
		return object;
	object = json_object();
	json_object_set_new(config, key, object);
	return object;
}

/* ["WORD", …] as JSON; NULL with *err. New reference. */
static json_t *parse_list(const char *text, struct error *err)
{
	json_t *list = json_loads(text, 0, NULL), *value;
	bool good = json_is_array(list);
	size_t i;

	json_array_foreach(list, i, value) good = good && json_is_string(value);
	if (good)
		return list;
	json_decref(list);
	error_set(err, 0, "it begins with \"[\", and is not a JSON array of strings");
	return NULL;
}

/* --- the instructions --- */

static int set_command(json_t *config, const char *key, const char *text, struct error *err)
{
	json_t *list;

	if (*text != '[') {
		if (!*text)
			return error_set(err, 0, "nothing follows it");
		json_object_set_new(config, key, json_pack("[sss]", "/bin/sh", "-c", text));
		return 0;
	}
	list = parse_list(text, err);
	if (!list)
		return -1;
	if (json_array_size(list) > 0)
		json_object_set(config, key, list);
	else
		json_object_del(config, key);
	json_decref(list);
	return 0;
}

static int apply_cmd(json_t *config, const char *text, struct instructions *before, struct error *err)
{
	before->command = true;
	return set_command(config, "Cmd", text, err);
}

/* The command of the image was for its own entry point. */
static int apply_entrypoint(json_t *config, const char *text, struct instructions *before, struct error *err)
{
	if (!before->command)
		json_object_del(config, "Cmd");
	return set_command(config, "Entrypoint", text, err);
}

static void set_variable(json_t *list, const char *assignment, size_t name)
{
	json_t *value;
	size_t i;

	json_array_foreach(list, i, value)
	{
		const char *text = json_string_value(value);

		if (!text || strncmp(text, assignment, name + 1) != 0)
			continue;
		json_array_set_new(list, i, json_string(assignment));
		return;
	}
	json_array_append_new(list, json_string(assignment));
}

/* The length of what is before the «=». */
static int name_of(const char *word, size_t *ret, struct error *err)
{
	char shown[QUOTED_MAX];

	*ret = strcspn(word, "=");
	if (*ret > 0 && word[*ret])
		return 0;
	return error_set(err, 0, "%s is not NAME=VALUE", quoted(word, shown));
}

static int apply_env(json_t *config, const struct words *words, struct error *err)
{
	json_t *list = json_object_get(config, "Env");

	if (!json_is_array(list)) {
		list = json_array();
		json_object_set_new(config, "Env", list);
	}
	for (size_t i = 0; i < words->count; i++) {
		size_t name;

		if (name_of(words->list[i], &name, err) < 0)
			return -1;
		set_variable(list, words->list[i], name);
	}
	return 0;
}

static int apply_label(json_t *config, const struct words *words, struct error *err)
{
	json_t *labels = object_of(config, "Labels");

	for (size_t i = 0; i < words->count; i++) {
		size_t name;

		if (name_of(words->list[i], &name, err) < 0)
			return -1;
		words->list[i][name] = '\0';
		json_object_set_new(labels, words->list[i], json_string(words->list[i] + name + 1));
	}
	return 0;
}

static int apply_expose(json_t *config, const struct words *words, struct error *err)
{
	json_t *ports = object_of(config, "ExposedPorts");

	for (size_t i = 0; i < words->count; i++) {
		char *slash = strchr(words->list[i], '/'), key[32];
		const char *protocol = slash ? slash + 1 : "tcp";
		uint32_t port;

		if (slash)
			*slash = '\0';
		if (parse_count("the port", words->list[i], 1, 65535, &port, err) < 0)
			return -1;
		if (strcmp(protocol, "tcp") != 0 && strcmp(protocol, "udp") != 0 && strcmp(protocol, "sctp") != 0)
			return error_set(err, 0, "what follows the \"/\" of a port is tcp, udp or sctp");
		snprintf(key, sizeof key, "%u/%s", port, protocol);
		json_object_set_new(ports, key, json_object());
	}
	return 0;
}

static int apply_user(json_t *config, const struct words *words, struct error *err)
{
	if (words->count > 1 || !*words->list[0])
		return error_set(err, 0, "it takes one USER or USER:GROUP, by name or number");
	json_object_set_new(config, "User", json_string(words->list[0]));
	return 0;
}

static int refuse_relative(const char *path, struct error *err)
{
	char shown[QUOTED_MAX];

	return *path == '/' ? 0 : error_set(err, 0, "%s is not an absolute path", quoted(path, shown));
}

static int apply_workdir(json_t *config, const struct words *words, struct error *err)
{
	if (words->count > 1)
		return error_set(err, 0, "it takes one path; one with blanks is quoted");
	if (refuse_relative(words->list[0], err) < 0)
		return -1;
	json_object_set_new(config, "WorkingDir", json_string(words->list[0]));
	return 0;
}

static int apply_volume(json_t *config, const struct words *words, struct error *err)
{
	json_t *volumes = object_of(config, "Volumes");

	for (size_t i = 0; i < words->count; i++) {
		if (refuse_relative(words->list[i], err) < 0)
			return -1;
		json_object_set_new(volumes, words->list[i], json_object());
	}
	return 0;
}

static int read_volumes(const char *text, struct words *ret, struct error *err)
{
	json_t *list, *value;
	size_t i;

	if (*text != '[')
		return split(text, ret, err);
	list = parse_list(text, err);
	if (!list)
		return -1;
	json_array_foreach(list, i, value) add_word(ret, xstrdup(json_string_value(value)));
	json_decref(list);
	return ret->count ? 0 : error_set(err, 0, "nothing follows it");
}

/* Instructions of the one and of the other shape. */
static const struct {
	const char *name;
	int (*whole)(json_t *config, const char *text, struct instructions *before, struct error *err);
	int (*words)(json_t *config, const struct words *words, struct error *err);
	int (*read)(const char *text, struct words *ret, struct error *err);
} instructions[] = {
	{"CMD", apply_cmd, NULL, NULL},
	{"ENTRYPOINT", apply_entrypoint, NULL, NULL},
	{"ENV", NULL, apply_env, split},
	{"EXPOSE", NULL, apply_expose, split},
	{"LABEL", NULL, apply_label, split},
	{"USER", NULL, apply_user, split},
	{"VOLUME", NULL, apply_volume, read_volumes},
	{"WORKDIR", NULL, apply_workdir, split},
};

enum { INSTRUCTIONS = sizeof instructions / sizeof *instructions };

static int refuse_name(const char *text, struct error *err)
{
	char shown[QUOTED_MAX], names[128] = "";

	for (size_t i = 0; i < INSTRUCTIONS; i++)
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
			instructions[i].name);
	error_set(err, 0, "%s does not begin with an instruction that changes an image", quoted(text, shown));
	return error_hint(err, "there are: %s", names);
}

static int apply_words(size_t i, const char *text, json_t *config, struct error *err)
{
	struct words words = {0};
	int r = instructions[i].read(text, &words, err);

	if (r == 0)
		r = instructions[i].words(config, &words, err);
	strings_free(words.list);
	return r;
}

int instruction_apply(const char *text, struct instructions *before, json_t *config, struct error *err)
{
	size_t length, i = 0;
	const char *rest;
	int r;

	if (!utf8_valid(text, strlen(text)))
		return error_set(err, 0, "it is not UTF-8");
	text += strspn(text, blanks);
	length = strcspn(text, blanks);
	while (i < INSTRUCTIONS &&
		(strlen(instructions[i].name) != length || strncasecmp(instructions[i].name, text, length) != 0))
		i++;
	if (i == INSTRUCTIONS)
		return refuse_name(text, err);
	rest = text + length + strspn(text + length, blanks);
	r = instructions[i].whole ? instructions[i].whole(config, rest, before, err)
				  : apply_words(i, rest, config, err);
	return r < 0 ? error_context(err, "%s", instructions[i].name) : 0;
}

int instruction_check(const char *text, struct error *err)
{
	struct instructions before = {0};
	json_t *config = json_object();
	int r = instruction_apply(text, &before, config, err);

	json_decref(config);
	return r;
}
