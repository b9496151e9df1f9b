/* SPDX-License-Identifier: MIT */
/* From apt's sources to rules of the gate: see sources.h. */
#define _GNU_SOURCE
#include "packages/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gate/policy.h"
#include "image/layers.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { FILE_MAX = 1 << 20 /* bytes */ };

static const char blanks[] = " \t\r";

struct sources {
	char *const *layers;
	bool private;
	char **rules; /* each once; owned */
	size_t count;
	char *left_out;
	bool in_mirror_list; /* whose lines are addresses, and lead to no further list */
};

/* --- rules --- */

static void add_rule(struct sources *sources, const char *rule)
{
	struct policy policy = {0};
	struct error unimportant;
	int r = policy_add(&policy, "", rule, &unimportant);

	policy_free(&policy);
	/* Such as a number in place of a name. */
	if (r < 0)
		return;
	for (size_t i = 0; i < sources->count; i++)
		if (strcmp(sources->rules[i], rule) == 0)
			return;
	sources->rules = xrealloc(sources->rules, sources->count + 2, sizeof *sources->rules);
	sources->rules[sources->count++] = xstrdup(rule);
	sources->rules[sources->count] = NULL;
}

/* `authority` as in RFC 3986, 3.2: [USER@]HOST[:PORT]. What is no host is apt's to complain about. */
static void add_authority(struct sources *sources, const char *authority, size_t length, unsigned port)
{
	cleanup_free char *text = xmemdup(authority, length);
	char *at = strrchr(text, '@'), *host = at ? at + 1 : text, *end = NULL, *number, *colon;
	cleanup_free char *rule = NULL;
	char name[POLICY_NAME_MAX + 1];
	struct address address;
	bool is_address, is_private;

	colon = *host == '[' ? strstr(host, "]:") : strrchr(host, ':');
	if (colon) {
		colon += *colon == ']';
		number = colon + 1;
		*colon = '\0';
		if (*number)
			port = (unsigned)strtoul(number, &end, 10);
		if ((end && *end) || port == 0 || port > UINT16_MAX)
			return;
	}
	/* An IPv6 address has brackets (RFC 3986, 3.2.2): without them its end and the port behind it would be another address. */
	if (*host != '[' && strchr(host, ':'))
		return;
	is_address = address_parse(host, &address);
	if (!is_address && !policy_normalize(host, strlen(host), name))
		return;
	/* «10.0.0.1.» is a name that becomes an address, as which the gate would take it. */
	if (!is_address && address_parse(name, &address))
		return;
	is_private = is_address ? address_is_private(&address) : strcmp(name, POLICY_HOST_NAME) == 0;
	rule = xasprintf("%s:%u", is_address ? host : name, port);
	if (sources->private || !is_private)
		add_rule(sources, rule);
	else if (!sources->left_out)
		sources->left_out = xstrdup(rule);
}

static void read_mirrors(struct sources *sources, const char *path);

static void add_uri(struct sources *sources, const char *uri)
{
	static const struct {
		const char *scheme;
		unsigned port;
	} schemes[] = {{"http://", 80}, {"https://", 443}, {"mirror://", 80}, {"mirror+http://", 80},
		{"mirror+https://", 443}};

	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
		size_t length = strlen(schemes[i].scheme);

		if (strncasecmp(uri, schemes[i].scheme, length) == 0)
			add_authority(sources, uri + length, strcspn(uri + length, "/?#"), schemes[i].port);
	}
	if (strncasecmp(uri, "mirror+file:/", 13) == 0 && !sources->in_mirror_list)
		read_mirrors(sources, uri + 12);
}

/* --- files --- */

/* Takes one line from *rest, without its end; NULL: there is none more. */
static char *next_line(char **rest)
{
	char *line = *rest;

	if (!line || !*line)
		return NULL;
	*rest = line + strcspn(line, "\n");
	if (**rest)
		*(*rest)++ = '\0';
	return line;
}

static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, blanks);

	*rest = word + strcspn(word, blanks);
	if (**rest)
		*(*rest)++ = '\0';
	return *word ? word : NULL;
}

/* A line each: an address, and maybe what is said of it. */
static void read_mirrors(struct sources *sources, const char *path)
{
	size_t length;
	cleanup_free char *text = layers_read_file(sources->layers, path, FILE_MAX, &length);
	char *rest = text, *line, *uri;

	sources->in_mirror_list = true;
	while ((line = next_line(&rest))) {
		uri = next_word(&line);
		if (uri && *uri != '#')
			add_uri(sources, uri);
	}
	sources->in_mirror_list = false;
}

/* One-line-style: «deb [ OPTIONS ] URI SUITE COMPONENT…» */
static void read_list(struct sources *sources, char *text)
{
	char *line, *word;

	while ((line = next_line(&text))) {
		line[strcspn(line, "#")] = '\0';
		word = next_word(&line);
		if (!word || (strcmp(word, "deb") != 0 && strcmp(word, "deb-src") != 0))
			continue;
		line += strspn(line, blanks);
		if (*line == '[') {
			line += strcspn(line, "]");
			line += *line == ']';
		}
		word = next_word(&line);
		if (word)
			add_uri(sources, word);
	}
}

/* What a stanza says, as far as it matters here. */
struct stanza {
	char *uris; /* separated by blanks; owned */
	bool disabled;
};

static void end_stanza(struct sources *sources, struct stanza *stanza)
{
	char *rest = stanza->uris, *uri;

	while (rest && !stanza->disabled && (uri = next_word(&rest)))
		add_uri(sources, uri);
	free(stanza->uris);
	*stanza = (struct stanza){0};
}

static bool is_no(char *text)
{
	static const char *const words[] = {"no", "false", "without", "off", "disable", "0"}; /* StringToBool of apt */
	char *word = next_word(&text);

	for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
		if (strcasecmp(word, words[i]) == 0)
			return true;
	return false;
}

static void add_to_uris(struct stanza *stanza, const char *text)
{
	char *uris = xasprintf("%s %s", stanza->uris ? stanza->uris : "", text);

	free(stanza->uris);
	stanza->uris = uris;
}

/* deb822-style: stanzas of «FIELD: VALUE», which goes on in lines that begin with a blank. */
static void read_stanzas(struct sources *sources, char *text)
{
	struct stanza stanza = {0};
	bool in_uris = false;
	char *line;

	while ((line = next_line(&text))) {
		if (*line == '#')
			continue;
		if (!line[strspn(line, blanks)]) {
			end_stanza(sources, &stanza);
			in_uris = false;
		} else if (strchr(blanks, *line)) {
			if (in_uris)
				add_to_uris(&stanza, line);
		} else {
			in_uris = strncasecmp(line, "URIs:", 5) == 0;
			if (in_uris)
				add_to_uris(&stanza, line + 5);
			else if (strncasecmp(line, "Enabled:", 8) == 0)
				stanza.disabled = is_no(line + 8);
		}
	}
	end_stanza(sources, &stanza);
}

static void read_file(struct sources *sources, const char *path, void (*read)(struct sources *sources, char *text))
{
	size_t length;
	cleanup_free char *text = layers_read_file(sources->layers, path, FILE_MAX, &length);

	if (text)
		read(sources, text);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length > end_length && strcmp(text + length - end_length, end) == 0;
}

static char *join(char **rules)
{
	char *joined = xstrdup("");

	for (char **rule = rules; rule && *rule; rule++) {
		char *longer = xasprintf("%s%s%s", joined, *joined ? "," : "", *rule);

		free(joined);
		joined = longer;
	}
	return joined;
}

char *sources_rules(char *const *layers, bool private, char **ret_left_out)
{
	struct sources sources = {.layers = layers, .private = private};
	char **names = layers_list_names(layers, "/etc/apt/sources.list.d");
	char *rules;

	read_file(&sources, "/etc/apt/sources.list", read_list);
	for (char **name = names; *name; name++) {
		cleanup_free char *path = xasprintf("/etc/apt/sources.list.d/%s", *name);

		if (ends_with(*name, ".list"))
			read_file(&sources, path, read_list);
		else if (ends_with(*name, ".sources"))
			read_file(&sources, path, read_stanzas);
	}
	rules = join(sources.rules);
	strings_free(sources.rules);
	strings_free(names);
	*ret_left_out = sources.left_out;
	return rules;
}
