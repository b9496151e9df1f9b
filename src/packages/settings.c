/* SPDX-License-Identifier: MIT */
/* The host's settings for package managers: see settings.h. */
#define _GNU_SOURCE
#include "packages/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gate/policy.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/file.h"

enum { FILE_MAX = 256 << 10 /* bytes */ };

/* --- what is gathered --- */

static void list_append(char ***list, char *string)
{
	size_t count = 0;

	for (; *list && (*list)[count]; count++)
		if (strcmp((*list)[count], string) == 0) {
			free(string);
			return;
		}
	*list = xrealloc(*list, count + 2, sizeof **list);
	(*list)[count] = string;
	(*list)[count + 1] = NULL;
}

static void add_env(struct host_settings *settings, const char *name, const char *value)
{
	list_append(&settings->env, xasprintf("%s=%s", name, value));
}

/* Takes over `text`; an empty one is no file. */
static void add_file(struct host_settings *settings, const char *path, char *text)
{
	if (!*text) {
		free(text);
		return;
	}
	settings->files = xrealloc(settings->files, settings->files_count + 1, sizeof *settings->files);
	settings->files[settings->files_count++] = (struct host_file){.path = xstrdup(path), .text = text};
}

/* Text that grows. */
static void __attribute__((format(printf, 2, 3))) append(char **text, const char *format, ...)
{
	cleanup_free char *before = *text, *added = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&added, format, ap);
	va_end(ap);
	if (n < 0)
		added = NULL;
	*text = xasprintf("%s%s", before ?: "", added ?: "");
}

/* --- the host's files --- */

static char *home_path(const char *below)
{
	const char *home = getenv("HOME");

	return home && home[0] == '/' ? xasprintf("%s/%s", home, below) : NULL;
}

static char *config_path(const char *below)
{
	const char *config = getenv("XDG_CONFIG_HOME");
	cleanup_free char *in_home = NULL;

	if (config && config[0] == '/')
		return xasprintf("%s/%s", config, below);
	in_home = xasprintf(".config/%s", below);
	return home_path(in_home);
}

/* Its text, malloc'd; NULL: there is none. Takes over `path`, which may be NULL. */
static char *read_text(char *path)
{
	cleanup_free char *owned = path;
	cleanup_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
	struct stat st;
	size_t length;
	char *text;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || read_fd_whole(fd, FILE_MAX, &text, &length) < 0)
		return NULL;
	return text;
}

/* --- URLs --- */

static bool is_loopback(const char *host)
{
	return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "[::1]") == 0;
}

static size_t host_length(const char *text, size_t length)
{
	const char *end = *text == '[' ? memchr(text, ']', length) : NULL;
	size_t at = 0;

	if (end)
		return (size_t)(end - text) + 1;
	while (at < length && text[at] != ':')
		at++;
	return at;
}

char *host_settings_carry_url(struct host_settings *settings, const char *where, const char *url, size_t length)
{
	cleanup_free char *text = xmemdup(url, length), *host = NULL;
	const char *authority = strstr(text, "://"), *at, *port = "";
	size_t scheme, rest;
	bool secure;

	if (!authority)
		return NULL;
	scheme = (size_t)(authority - text);
	/* Behind what managers put before it, such as «sparse+». */
	secure = scheme >= 5 && strncasecmp(authority - 5, "https", 5) == 0;
	if (!secure && !(scheme >= 4 && strncasecmp(authority - 4, "http", 4) == 0))
		return NULL;
	authority += strlen("://");
	rest = strcspn(authority, "/?#");
	at = memrchr(authority, '@', rest);
	if (at) {
		list_append(&settings->warnings,
			xasprintf("%s: the name and password of %.*s are not given to the install", where,
				(int)(rest - (size_t)(at + 1 - authority)), at + 1));
		rest -= (size_t)(at + 1 - authority);
		authority = at + 1;
	}
	host = xmemdup(authority, host_length(authority, rest));
	if (rest > strlen(host) + 1)
		port = authority + strlen(host) + 1;
	if (!*host)
		return NULL;
	list_append(&settings->hosts,
		xasprintf("%s:%.*s", is_loopback(host) ? POLICY_HOST_NAME : host,
			*port ? (int)(authority + rest - port) : 4, *port ? port : secure ? "443" : "80"));
	return xasprintf("%.*s://%s%s", (int)scheme, text, is_loopback(host) ? POLICY_HOST_NAME : host,
		authority + strlen(host));
}

/* What is no URL that can be used may still be one with a password. */
static void warn_of_path(struct host_settings *settings, const char *where, const char *word)
{
	const char *at = strrchr(word, '@'), *authority = strstr(word, "//");
	int before = at && authority && authority < at ? (int)(authority + strlen("//") - word) : 0;

	list_append(&settings->warnings,
		xasprintf("%s: %.*s%s is not carried over: an install sees no folder of the host and no other protocol than HTTP",
			where, before, word, at ? at + 1 : word));
}

/* A folder, or an address that lacks what makes a URL of it, such as «name:password@host». */
static bool is_other_place(const char *word)
{
	return strchr("/~.", *word) || strchr(word, '@') || strstr(word, "://");
}

/* Words with white space between: URLs as they can be used, and what else does not name a folder. malloc'd. */
static char *carry_words(struct host_settings *settings, const char *where, const char *text)
{
	char *carried = xstrdup("");

	for (text += strspn(text, " \t\r\n"); *text; text += strspn(text, " \t\r\n")) {
		size_t length = strcspn(text, " \t\r\n");
		cleanup_free char *word = xmemdup(text, length);
		cleanup_free char *url = host_settings_carry_url(settings, where, text, length);

		text += length;
		if (!url && is_other_place(word)) {
			warn_of_path(settings, where, word);
			continue;
		}
		append(&carried, "%s%s", *carried ? " " : "", url ?: word);
	}
	return carried;
}

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(name, *list) == 0)
			return true;
	return false;
}

/* --- files of lines «key = value» with sections --- */

struct line {
	char *key, *value; /* trimmed; value NULL: a section, whose name is the key */
};

static char *trim(char *text)
{
	size_t length;

	text += strspn(text, " \t\r");
	for (length = strlen(text); length > 0 && strchr(" \t\r", text[length - 1]); length--)
		text[length - 1] = '\0';
	return text;
}

/* The next line that says something, of *rest, which is changed. One that begins with a space goes on the last value. */
static bool next_line(char **rest, struct line *ret)
{
	char *text, *equals;

	while ((text = strsep(rest, "\n"))) {
		text = trim(text);
		if (!*text || strchr("#;", *text))
			continue;
		if (*text == '[') {
			*ret = (struct line){.key = text + 1};
			ret->key[strcspn(ret->key, "]")] = '\0';
			return true;
		}
		equals = strchr(text, '=');
		if (!equals)
			continue;
		*equals = '\0';
		*ret = (struct line){.key = trim(text), .value = trim(equals + 1)};
		/* Values of several lines, as pip has them. */
		while (*rest && (**rest == ' ' || **rest == '\t')) {
			char *more = *rest, *end = more + strcspn(more, "\n");

			*rest = *end ? end + 1 : NULL;
			*end = '\0';
			/* It is all one buffer: what was cut off is filled up with spaces again. */
			for (char *gap = ret->value + strlen(ret->value); gap < more; gap++)
				*gap = ' ';
		}
		return true;
	}
	return false;
}

/* --- pip --- */

static const char *const pip_keys[] = {"index-url", "extra-index-url", "find-links", "trusted-host", "no-index",
	"no-binary", "only-binary", "prefer-binary", "pre", "timeout", "default-timeout", "retries", NULL};

enum { PIP_KEYS_COUNT = sizeof pip_keys / sizeof *pip_keys - 1 };

/* What files say, the later over the earlier: in general, and of «install», which goes over that. */
struct pip_values {
	char *values[2][PIP_KEYS_COUNT];
};

static void read_pip_file(struct host_settings *settings, char *path, struct pip_values *values)
{
	cleanup_free char *where = path ? xstrdup(path) : NULL, *content = read_text(path);
	char *rest = content;
	int section = -1;
	struct line line;

	while (rest && next_line(&rest, &line)) {
		if (!line.value)
			section = strcmp(line.key, "global") == 0 ? 0 : strcmp(line.key, "install") == 0 ? 1 : -1;
		for (size_t i = 0; line.value && section >= 0 && i < PIP_KEYS_COUNT; i++)
			if (strcmp(line.key, pip_keys[i]) == 0) {
				free(values->values[section][i]);
				values->values[section][i] = carry_words(settings, where, line.value);
			}
	}
}

static void read_pip_files(struct host_settings *settings, struct pip_values *values)
{
	const char *own = getenv("PIP_CONFIG_FILE");

	/* pip's own word for no files at all. */
	if (own && strcmp(own, "/dev/null") == 0)
		return;
	read_pip_file(settings, xstrdup("/etc/xdg/pip/pip.conf"), values);
	read_pip_file(settings, xstrdup("/etc/pip.conf"), values);
	read_pip_file(settings, home_path(".pip/pip.conf"), values);
	read_pip_file(settings, config_path("pip/pip.conf"), values);
	if (own && *own)
		read_pip_file(settings, xstrdup(own), values);
}

static void write_pip_file(struct host_settings *settings, struct pip_values *values)
{
	char *text = xstrdup("");

	for (size_t i = 0; i < PIP_KEYS_COUNT; i++) {
		char **general = &values->values[0][i], **install = &values->values[1][i];
		const char *value = *install ?: *general;

		if (value && *value)
			append(&text, "%s%s = %s\n", *text ? "" : "[global]\n", pip_keys[i], value);
		free(*general);
		free(*install);
	}
	add_file(settings, ".config/pip/pip.conf", text);
}

/* Of what a variable says, or else a file. */
static void read_pip_variable(struct host_settings *settings, size_t key, struct pip_values *values)
{
	cleanup_free char *name = xasprintf("PIP_%s", pip_keys[key]);

	for (char *letter = name; *letter; letter++)
		*letter = *letter == '-' ? '_' : (char)toupper((unsigned char)*letter);
	if (!getenv(name))
		return;
	free(values->values[1][key]);
	values->values[1][key] = carry_words(settings, name, getenv(name));
}

/* pip speaks plain HTTP to localhost, which has another name inside. */
static void trust_own_host(const struct host_settings *settings, char **trusted)
{
	cleanup_free char *before = NULL;
	bool named = false;

	for (char **host = settings->hosts; host && *host; host++)
		named |= strncmp(*host, POLICY_HOST_NAME, strlen(POLICY_HOST_NAME)) == 0;
	if (!named)
		return;
	before = *trusted;
	*trusted = xasprintf("%s%s%s", before ?: "", before ? " " : "", POLICY_HOST_NAME);
}

static void read_pip(struct host_settings *settings)
{
	struct pip_values values = {0};

	read_pip_files(settings, &values);
	for (size_t i = 0; i < PIP_KEYS_COUNT; i++)
		read_pip_variable(settings, i, &values);
	for (size_t i = 0; i < PIP_KEYS_COUNT; i++)
		if (strcmp(pip_keys[i], "trusted-host") == 0)
			trust_own_host(settings, &values.values[values.values[1][i] != NULL][i]);
	write_pip_file(settings, &values);
}

/* --- npm --- */

static void read_npm_file(struct host_settings *settings, char *path, char **text)
{
	static const char *const keys[] = {"registry", "strict-ssl", "fetch-retries", "fetch-timeout", "maxsockets",
		"omit-lockfile-registry-resolved", "legacy-peer-deps", "prefer-dedupe", "node-linker", NULL};
	cleanup_free char *where = path ? xstrdup(path) : NULL, *content = read_text(path);
	char *rest = content;
	struct line line;

	while (rest && next_line(&rest, &line)) {
		cleanup_free char *value = NULL;
		size_t length = strlen(line.key);
		bool scoped = *line.key == '@' && length > 9 && strcmp(line.key + length - 9, ":registry") == 0;

		if (strncmp(line.key, "//", 2) == 0 && strstr(line.key, ":_"))
			list_append(&settings->warnings,
				xasprintf("%s: the token or password of %.*s is not given to the install", where,
					(int)strcspn(line.key + 2, "/:"), line.key + 2));
		if (!line.value || (!scoped && !is_one_of(line.key, keys)))
			continue;
		value = carry_words(settings, where, line.value);
		if (*value)
			append(text, "%s=%s\n", line.key, value);
	}
}

static void read_npm(struct host_settings *settings)
{
	const char *own = getenv("NPM_CONFIG_USERCONFIG") ?: getenv("npm_config_userconfig");
	const char *registry = getenv("npm_config_registry") ?: getenv("NPM_CONFIG_REGISTRY");
	char *text = xstrdup("");

	read_npm_file(settings, xstrdup("/etc/npmrc"), &text);
	read_npm_file(settings, xstrdup("/usr/local/etc/npmrc"), &text);
	read_npm_file(settings, own && *own ? xstrdup(own) : home_path(".npmrc"), &text);
	add_file(settings, ".npmrc", text);
	if (registry && *registry) {
		cleanup_free char *value = carry_words(settings, "npm_config_registry", registry);

		if (*value)
			add_env(settings, "npm_config_registry", value);
	}
}

/* --- cargo --- */

/* The first text in quotation marks; its URL as it can be used, in quotation marks. malloc'd; NULL: it has none. */
static char *carry_quoted(struct host_settings *settings, const char *where, const char *value)
{
	size_t length = *value == '"' || *value == '\'' ? strcspn(value + 1, "\"'") : 0;
	cleanup_free char *url = host_settings_carry_url(settings, where, value + 1, length);

	return url ? xasprintf("\"%s\"", url) : NULL;
}

static void read_cargo(struct host_settings *settings)
{
	static const char *const urls[] = {"registry", "index", NULL}, *const words[] = {"replace-with", NULL};
	const char *own = getenv("CARGO_HOME");
	bool carried_section = false;
	cleanup_free char *path =
		own && own[0] == '/' ? xasprintf("%s/config.toml", own) : home_path(".cargo/config.toml");
	cleanup_free char *content = path ? read_text(xstrdup(path)) : NULL;
	char *text = xstrdup(""), *rest = content;
	struct line line;

	if (!content && path) {
		path[strlen(path) - strlen(".toml")] = '\0';
		rest = content = read_text(xstrdup(path));
	}
	while (rest && next_line(&rest, &line)) {
		cleanup_free char *url = NULL;

		if (!line.value) {
			carried_section =
				strncmp(line.key, "source.", 7) == 0 || strncmp(line.key, "registries.", 11) == 0;
			if (carried_section)
				append(&text, "[%s]\n", line.key);
			continue;
		}
		if (!carried_section)
			continue;
		if (is_one_of(line.key, urls))
			url = carry_quoted(settings, path, line.value);
		if (url)
			append(&text, "%s = %s\n", line.key, url);
		else if (is_one_of(line.key, words))
			append(&text, "%s = %s\n", line.key, line.value);
		else if (strcmp(line.key, "directory") == 0 || strcmp(line.key, "local-registry") == 0)
			warn_of_path(settings, path, line.value);
		else if (strcmp(line.key, "token") == 0)
			list_append(&settings->warnings, xasprintf("%s: a token is not given to the install", path));
	}
	add_file(settings, ".cargo/config.toml", text);
}

/* --- Go --- */

/* The variable, or what «go env -w» has written. malloc'd or NULL. */
static char *go_variable(const char *name, const char *file)
{
	cleanup_free char *content = NULL;
	char *rest;
	struct line line;

	if (getenv(name))
		return xstrdup(getenv(name));
	rest = content = file ? xstrdup(file) : NULL;
	while (rest && next_line(&rest, &line))
		if (line.value && strcmp(line.key, name) == 0)
			return xstrdup(line.value);
	return NULL;
}

/* A list with commas and bars between: where one is not to be had, Go asks the next. */
static char *carry_proxies(struct host_settings *settings, const char *text)
{
	char *carried = xstrdup("");

	while (*text) {
		size_t length = strcspn(text, ",|");
		cleanup_free char *word = xmemdup(text, length);
		cleanup_free char *url = host_settings_carry_url(settings, "GOPROXY", text, length);
		char between[2] = {text[length]};

		if (url || !is_other_place(word))
			append(&carried, "%s%s", url ?: word, between);
		else
			warn_of_path(settings, "GOPROXY", word);
		text += length + (text[length] != '\0');
	}
	return carried;
}

static void read_go(struct host_settings *settings)
{
	static const char *const plain[] = {"GONOSUMDB", "GONOSUMCHECK", "GONOPROXY", "GOPRIVATE", "GOINSECURE",
		"GOTOOLCHAIN", NULL};
	const char *own = getenv("GOENV");
	cleanup_free char *file = read_text(own && own[0] == '/' ? xstrdup(own) : config_path("go/env"));
	cleanup_free char *proxy = go_variable("GOPROXY", file), *sums = go_variable("GOSUMDB", file);

	if (proxy && *proxy) {
		cleanup_free char *carried = carry_proxies(settings, proxy);

		if (*carried)
			add_env(settings, "GOPROXY", carried);
	}
	if (sums && *sums) {
		cleanup_free char *carried = carry_words(settings, "GOSUMDB", sums);

		add_env(settings, "GOSUMDB", carried);
	}
	for (const char *const *name = plain; *name; name++) {
		cleanup_free char *value = go_variable(*name, file);

		if (value)
			add_env(settings, *name, value);
	}
}

/* --- Maven --- */

/* The text of the first element of that name in `text`, up to `end`. malloc'd or NULL. */
static char *element(const char *text, const char *end, const char *name)
{
	cleanup_free char *open = xasprintf("<%s>", name), *close = xasprintf("</%s>", name);
	const char *from = memmem(text, (size_t)(end - text), open, strlen(open)), *to;
	cleanup_free char *content = NULL;

	if (!from)
		return NULL;
	from += strlen(open);
	to = memmem(from, (size_t)(end - from), close, strlen(close));
	content = to ? xmemdup(from, (size_t)(to - from)) : NULL;
	return content ? xstrdup(trim(content)) : NULL;
}

/* An XML that is edited by hand may have comments around what does not hold. */
static void blank_comments(char *text)
{
	for (char *from; (from = strstr(text, "<!--"));) {
		char *to = strstr(from, "-->");
		size_t length = to ? (size_t)(to - from) + 3 : strlen(from);

		memset(from, ' ', length);
		text = from + length;
	}
}

static void read_maven(struct host_settings *settings)
{
	cleanup_free char *path = home_path(".m2/settings.xml"), *content = path ? read_text(xstrdup(path)) : NULL;
	char *text = xstrdup("");

	if (content)
		blank_comments(content);
	for (const char *mirror = content; mirror && (mirror = strstr(mirror, "<mirror>"));) {
		const char *end = strstr(mirror, "</mirror>") ?: mirror + strlen(mirror);
		cleanup_free char *id = element(mirror, end, "id"), *of = element(mirror, end, "mirrorOf");
		cleanup_free char *url = element(mirror, end, "url"), *carried = NULL;

		mirror = end;
		carried = url ? host_settings_carry_url(settings, path, url, strlen(url)) : NULL;
		if (url && !carried)
			warn_of_path(settings, path, url);
		if (!carried)
			continue;
		append(&text, "<mirror><id>%s</id><mirrorOf>%s</mirrorOf><url>%s</url>%s</mirror>\n", id ?: "mirror",
			of ?: "central", carried, strncmp(carried, "http:", 5) == 0 ? "<blocked>false</blocked>" : "");
	}
	if (*text && strstr(content, "<server>"))
		list_append(&settings->warnings,
			xasprintf("%s: names and passwords of servers are not given to the install", path));
	if (*text) {
		cleanup_free char *mirrors = text;

		text = xasprintf("<settings><mirrors>\n%s</mirrors></settings>\n", mirrors);
	}
	add_file(settings, ".m2/settings.xml", text);
}

/* --- Composer --- */

/* A repository that is asked by HTTP; new reference, or NULL. */
static json_t *carry_repository(struct host_settings *settings, const char *where, const json_t *repository)
{
	const char *type = json_string_value(json_object_get(repository, "type"));
	const char *url = json_string_value(json_object_get(repository, "url"));
	cleanup_free char *carried = NULL;

	if (json_is_false(repository))
		return json_false();
	if (json_is_object(repository) && json_is_false(json_object_get(repository, "packagist.org")))
		return json_pack("{s:b}", "packagist.org", 0);
	if (!type || !url || strcmp(type, "composer") != 0)
		return NULL;
	carried = host_settings_carry_url(settings, where, url, strlen(url));
	if (!carried)
		warn_of_path(settings, where, url);
	return carried ? json_pack("{s:s, s:s}", "type", type, "url", carried) : NULL;
}

static json_t *carry_repositories(struct host_settings *settings, const char *where, json_t *repositories)
{
	json_t *carried = json_is_array(repositories) ? json_array() : json_object(), *value;
	const char *key;
	size_t i;

	json_array_foreach(repositories, i, value)
	{
		json_t *one = carry_repository(settings, where, value);

		if (one)
			json_array_append_new(carried, one);
	}
	json_object_foreach(repositories, key, value)
	{
		json_t *one = carry_repository(settings, where, value);

		if (one)
			json_object_set_new(carried, key, one);
	}
	return carried;
}

static void read_composer(struct host_settings *settings)
{
	const char *own = getenv("COMPOSER_HOME");
	cleanup_free char *path =
		own && own[0] == '/' ? xasprintf("%s/config.json", own) : config_path("composer/config.json");
	cleanup_free char *content = path ? read_text(xstrdup(path)) : NULL;
	json_t *config = content ? json_loads(content, 0, NULL) : NULL, *carried;
	json_t *repositories = json_object_get(config, "repositories");
	json_t *secure = json_object_get(json_object_get(config, "config"), "secure-http");

	if (repositories) {
		carried = json_pack("{s:o}", "repositories", carry_repositories(settings, path, repositories));
		if (json_is_boolean(secure))
			json_object_set_new(carried, "config", json_pack("{s:O}", "secure-http", secure));
		add_file(settings, ".config/composer/config.json", json_dumps(carried, JSON_INDENT(2)));
		json_decref(carried);
	}
	json_decref(config);
}

/* --- gem --- */

static void read_gem_file(struct host_settings *settings, char *path, char **text)
{
	cleanup_free char *where = path ? xstrdup(path) : NULL, *content = read_text(path);
	bool sources = false;
	char *rest = content, *line;

	while ((line = strsep(&rest, "\n"))) {
		cleanup_free char *url = NULL;
		char *trimmed = trim(line);

		if (*trimmed != '-') {
			sources = strcmp(trimmed, ":sources:") == 0;
			continue;
		}
		trimmed = trim(trimmed + 1);
		trimmed += strspn(trimmed, "\"'");
		if (sources)
			url = host_settings_carry_url(settings, where, trimmed, strcspn(trimmed, "\"'"));
		if (url)
			append(text, "- %s\n", url);
	}
}

static void read_gem(struct host_settings *settings)
{
	const char *own = getenv("GEMRC");
	char *text = xstrdup("");

	read_gem_file(settings, xstrdup("/etc/gemrc"), &text);
	read_gem_file(settings, own && own[0] == '/' ? xstrdup(own) : home_path(".gemrc"), &text);
	if (*text) {
		cleanup_free char *sources = text;

		text = xasprintf("---\n:sources:\n%s", sources);
	}
	add_file(settings, ".gemrc", text);
}

/* --- cpanm --- */

static void read_cpanm(struct host_settings *settings)
{
	static const char *const valued[] = {"--mirror", "--from", "-M", "--cpanmetadb", NULL};
	const char *options = getenv("PERL_CPANM_OPT");
	cleanup_free char *copy = options ? xstrdup(options) : NULL, *text = xstrdup("");
	char *rest = copy, *word;
	bool expects = false;

	while ((word = strsep(&rest, " \t"))) {
		const char *equals = strchr(word, '=');
		cleanup_free char *name = equals ? xmemdup(word, (size_t)(equals - word)) : xstrdup(word);
		cleanup_free char *url = NULL;

		if (!*word)
			continue;
		if (expects)
			url = host_settings_carry_url(settings, "PERL_CPANM_OPT", word, strlen(word));
		else if (equals && is_one_of(name, valued))
			url = host_settings_carry_url(settings, "PERL_CPANM_OPT", equals + 1, strlen(equals + 1));
		if (expects && url)
			append(&text, " %s", url);
		else if (url)
			append(&text, " %s=%s", name, url);
		else if (strcmp(word, "--mirror-only") == 0)
			append(&text, " %s", word);
		else if (expects || (equals && is_one_of(name, valued)))
			warn_of_path(settings, "PERL_CPANM_OPT", word);
		expects = !expects && !equals && is_one_of(word, valued);
		if (expects)
			append(&text, " %s", word);
	}
	if (*text)
		add_env(settings, "PERL_CPANM_OPT", text + 1);
}

/* --- settings that are programs: only what is written in them as a text is seen --- */

/* The next text in quotation marks that begins with http, from *at on; its length. */
static const char *next_url(const char **at, size_t *ret_length)
{
	for (const char *from; (from = strpbrk(*at, "\"'"));) {
		size_t length = strcspn(from + 1, "\"'\n");

		*at = from + 1 + length + (from[1 + length] == *from);
		if (strncmp(from + 1, "http", 4) == 0) {
			*ret_length = length;
			return from + 1;
		}
	}
	return NULL;
}

static void read_luarocks(struct host_settings *settings)
{
	static const char *const versions[] = {"5.1", "5.2", "5.3", "5.4", NULL};

	for (const char *const *version = versions; *version; version++) {
		cleanup_free char *name = xasprintf(".luarocks/config-%s.lua", *version), *path = home_path(name);
		cleanup_free char *system = xasprintf("/etc/luarocks/config-%s.lua", *version);
		cleanup_free char *content = path ? read_text(xstrdup(path)) : NULL;
		const char *at, *url;
		char *text = xstrdup("");
		size_t length;

		if (!content)
			content = read_text(xstrdup(system));
		at = content ? strstr(content, "rocks_servers") : NULL;
		if (at) {
			cleanup_free char *table = xmemdup(at, strcspn(at, "}"));

			at = table;
			while ((url = next_url(&at, &length))) {
				cleanup_free char *carried =
					host_settings_carry_url(settings, path ?: system, url, length);

				if (carried)
					append(&text, "  \"%s\",\n", carried);
			}
		}
		if (*text) {
			cleanup_free char *servers = text;

			text = xasprintf("rocks_servers = {\n%s}\n", servers);
		}
		add_file(settings, name, text);
	}
}

/* The name before «= "URL"», as in c(CRAN = "https://…"); malloc'd. */
static char *name_before(const char *start, const char *url)
{
	const char *end = url - 1, *from;

	while (end > start && isspace((unsigned char)end[-1]))
		end--;
	if (end == start || end[-1] != '=')
		return xstrdup("CRAN");
	end--;
	while (end > start && isspace((unsigned char)end[-1]))
		end--;
	for (from = end; from > start && (isalnum((unsigned char)from[-1]) || strchr("._", from[-1])); from--)
		;
	return from < end && strncmp(from, "repos", 5) != 0 ? xmemdup(from, (size_t)(end - from)) : xstrdup("CRAN");
}

static void read_r(struct host_settings *settings)
{
	const char *own = getenv("R_PROFILE_USER");
	char *paths[] = {xstrdup("/etc/R/Rprofile.site"), own && own[0] == '/' ? xstrdup(own) : home_path(".Rprofile")};
	cleanup_free char *text = xstrdup("");

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		cleanup_free char *where = paths[i], *content = where ? read_text(xstrdup(where)) : NULL;
		const char *at = content, *url;
		size_t length;

		/* A comment does not count. */
		for (char *hash = content; hash && (hash = strchr(hash, '#'));)
			memset(hash, ' ', strcspn(hash, "\n"));
		at = content ? strstr(content, "repos") : NULL;
		for (bool first = true; at && (url = next_url(&at, &length)); first = false) {
			cleanup_free char *name = name_before(content, url);
			cleanup_free char *carried = host_settings_carry_url(settings, where, url, length);

			/* The user's are in place of the system's. */
			if (first)
				*text = '\0';
			if (carried)
				append(&text, "%s%s = \"%s\"", *text ? ", " : "", name, carried);
		}
	}
	if (*text)
		add_file(settings, ".Rprofile", xasprintf("options(repos = c(%s))\n", text));
}

/* --- all of them --- */

static const struct {
	const char *manager;
	void (*read)(struct host_settings *settings);
} readers[] = {
	{"pip", read_pip},
	{"npm", read_npm},
	{"cargo", read_cargo},
	{"go", read_go},
	{"maven", read_maven},
	{"composer", read_composer},
	{"gem", read_gem},
	{"cpanm", read_cpanm},
	{"luarocks", read_luarocks},
	{"R", read_r},
};

void host_settings_read(const char *manager, struct host_settings *ret)
{
	*ret = (struct host_settings){0};
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
		if (strcmp(readers[i].manager, manager) == 0)
			readers[i].read(ret);
}

void host_settings_free(struct host_settings *settings)
{
	strings_free(settings->env);
	for (size_t i = 0; i < settings->files_count; i++) {
		free(settings->files[i].path);
		free(settings->files[i].text);
	}
	free(settings->files);
	strings_free(settings->hosts);
	strings_free(settings->warnings);
	*settings = (struct host_settings){0};
}
