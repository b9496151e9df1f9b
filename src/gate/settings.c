/* SPDX-License-Identifier: MIT */
/* What a gate takes over from its host: see settings.h. */
#define _GNU_SOURCE
#include "gate/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { FILE_MAX = 4 << 20, PORT_PROXY = 80 };

/* The next word of a line, which is cut off; NULL: there is none. A comment ends the line. */
static char *next_word(char **line)
{
	char *word;

	*line += strspn(*line, " \t\r");
	if (!**line || **line == '#' || **line == ';')
		return NULL;
	word = *line;
	*line += strcspn(*line, " \t\r");
	if (**line)
		*(*line)++ = '\0';
	return word;
}

/* «fe80::1%eth0»: of a link-local address also the interface. */
static bool parse_server(char *text, struct name_server *ret)
{
	char *scope = strchr(text, '%');

	*ret = (struct name_server){.scope = 0};
	if (scope) {
		*scope++ = '\0';
		ret->scope = isdigit((unsigned char)*scope) ? (uint32_t)strtoul(scope, NULL, 10)
							    : if_nametoindex(scope);
	}
	return address_parse(text, &ret->address);
}

void settings_read_resolver(const char *text, struct settings *settings)
{
	static const uint8_t own[4] = {127, 0, 0, 1};
	cleanup_free char *copy = xstrdup(text);

	for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
		char *key = next_word(&line), *value = key ? next_word(&line) : NULL;
		struct name_server server;

		if (value && strcmp(key, "nameserver") == 0 &&
			settings->servers_count < SETTINGS_SERVERS_MAX &&
			parse_server(value, &server))
			settings->servers[settings->servers_count++] = server;
	}
	if (settings->servers_count == 0)
		settings->servers[settings->servers_count++].address = address_of_v4(own);
}

static void add_host(struct settings *settings, const char *name, const struct address *address)
{
	if (settings->hosts_count == SETTINGS_HOSTS_MAX)
		return;
	if (!settings->hosts)
		settings->hosts = xcalloc(SETTINGS_HOSTS_MAX, sizeof *settings->hosts);
	settings->hosts[settings->hosts_count].address = *address;
	memcpy(settings->hosts[settings->hosts_count++].name, name, strlen(name) + 1);
}

void settings_read_hosts(const char *text, const struct policy *policy, struct settings *settings)
{
	cleanup_free char *copy = xstrdup(text);

	for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
		char *word = next_word(&line), name[POLICY_NAME_MAX + 1];
		struct address address;

		if (!word || !address_parse(word, &address))
			continue;
		while ((word = next_word(&line)))
			if (policy_normalize(word, strlen(word), name) &&
				(policy_allows_name(policy, name) ||
					strcmp(name, settings->proxy.name) == 0))
				add_host(settings, name, &address);
	}
}

/* --- proxies --- */

static int hexadecimal(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	return isxdigit((unsigned char)digit) ? tolower((unsigned char)digit) - 'a' + 10 : -1;
}

/* «USER:PASSWORD», where %XX stands for a byte. Malloc'd. */
static char *encode_credentials(const char *text, size_t length)
{
	cleanup_free char *plain = xmalloc(length + 1);
	size_t size = 0;

	for (size_t i = 0; i < length; i++) {
		bool escaped = text[i] == '%' && i + 2 < length && hexadecimal(text[i + 1]) >= 0 &&
			       hexadecimal(text[i + 2]) >= 0;

		plain[size++] =
			escaped ? (char)(hexadecimal(text[i + 1]) << 4 | hexadecimal(text[i + 2]))
				: text[i];
		i += escaped ? 2 : 0;
	}
	return base64_encode(plain, size);
}

/* Without what could be a password. */
static int wrong_proxy(const char *what, const char *why, struct error *err)
{
	error_set(err, 0, "%s: %s", what, why);
	return error_hint(err,
		"the gate of --network allow=… goes through a proxy such as http://proxy.example.org:3128, and "
		"directly where the variable is not set or NO_PROXY is *");
}

static int take_place(const char *what, const char *text, struct proxy *ret, struct error *err)
{
	cleanup_free char *host = xmemdup(text, strcspn(text, "/?#"));
	char *end = host[0] == '[' ? strchr(host, ']') : NULL, *colon = strrchr(end ?: host, ':'),
	     *rest;
	unsigned long port = PORT_PROXY;

	if (colon) {
		port = isdigit((unsigned char)colon[1]) ? strtoul(colon + 1, &rest, 10) : 0;
		if (port == 0 || port > UINT16_MAX || *rest)
			return wrong_proxy(what,
				"the proxy has no port from 1 to 65535 behind its colon", err);
		*colon = '\0';
	}
	ret->port = (uint16_t)port;
	if (address_parse(host, &ret->address))
		return 0;
	if (policy_normalize(host, strlen(host), ret->name))
		return 0;
	return wrong_proxy(what, "its value names no host", err);
}

int settings_read_proxy(const char *what, const char *url, struct proxy *ret, struct error *err)
{
	static const char scheme[] = "http://";
	const char *place = url, *colon = strstr(url, "://"), *at;
	struct proxy proxy = {.used = true};

	if (colon && strncasecmp(url, scheme, strlen(scheme)) != 0)
		return wrong_proxy(what,
			"it is a proxy that does not begin with http://, which the gate cannot speak with",
			err);
	if (colon)
		place += strlen(scheme);
	at = memrchr(place, '@', strcspn(place, "/?#"));
	if (at) {
		proxy.credentials = encode_credentials(place, (size_t)(at - place));
		place = at + 1;
	}
	if (take_place(what, place, &proxy, err) < 0) {
		free(proxy.credentials);
		return -1;
	}
	*ret = proxy;
	return 0;
}

/* Of the variables that programs look at, in their order. */
static int find_proxy(struct settings *settings, struct error *err)
{
	static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
	const char *no_proxy = getenv("no_proxy") ?: getenv("NO_PROXY");

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = getenv(names[i]);

		if (!value || !*value)
			continue;
		if (no_proxy && strcmp(no_proxy, "*") == 0)
			return 0;
		settings->no_proxy = no_proxy ? xstrdup(no_proxy) : NULL;
		return settings_read_proxy(names[i], value, &settings->proxy, err);
	}
	return 0;
}

/* «ADDRESS» or «ADDRESS/BITS» */
static bool has_range(const char *range, const struct address *address)
{
	struct policy policy = {.count = 0};
	struct error err;
	bool has = policy_add(&policy, "", range, &err) == 0 &&
		   policy_allows_address(&policy, address, policy.rules[0].ports[0]);

	policy_free(&policy);
	return has;
}

/* «example.org» and «.example.org» are the name and all below it. */
static bool has_name(const char *entry, const char *name)
{
	size_t length = strlen(name), suffix;

	entry += strspn(entry, "*");
	entry += *entry == '.';
	suffix = strlen(entry);
	return suffix > 0 && suffix <= length && strcasecmp(name + length - suffix, entry) == 0 &&
	       (suffix == length || name[length - suffix - 1] == '.');
}

bool settings_wants_proxy(
	const struct settings *settings, const char *name, const struct address *address)
{
	cleanup_free char *copy = NULL;

	if (!settings->proxy.used)
		return false;
	copy = xstrdup(settings->no_proxy ?: "");
	for (char *rest = copy, *entry; (entry = strsep(&rest, ", \t"));)
		if (*entry && (strcmp(entry, "*") == 0 ||
				      (*name ? has_name(entry, name) : has_range(entry, address))))
			return false;
	return true;
}

/* --- all of it --- */

/* What is not there says nothing. */
static int read_text(const char *path, char **ret, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length;

	*ret = NULL;
	if (fd < 0 && errno == ENOENT) {
		*ret = xstrdup("");
		return 0;
	}
	return fd < 0 || read_fd_whole(fd, FILE_MAX, ret, &length) < 0
		       ? error_set(err, errno, "reading %s", path)
		       : 0;
}

int settings_read(const struct policy *policy, struct settings *ret, struct error *err)
{
	cleanup_free char *resolver = NULL, *hosts = NULL;
	struct settings settings = {.hosts = NULL};

	if (find_proxy(&settings, err) < 0)
		return -1;
	if (read_text("/etc/resolv.conf", &resolver, err) < 0 ||
		read_text("/etc/hosts", &hosts, err) < 0) {
		settings_free(&settings);
		return -1;
	}
	settings_read_resolver(resolver, &settings);
	settings_read_hosts(hosts, policy, &settings);
	*ret = settings;
	return 0;
}

void settings_free(struct settings *settings)
{
	free(settings->hosts);
	free(settings->proxy.credentials);
	free(settings->no_proxy);
	*settings = (struct settings){.hosts = NULL};
}
