/* SPDX-License-Identifier: MIT */
/* Rules of what may be reached: see policy.h. */
#define _GNU_SOURCE
#include "gate/policy.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

enum { LABEL_MAX = 63, PORT_DNS = 53, PORT_HTTP = 80, PORT_HTTPS = 443 };

static bool is_of_name(unsigned char character)
{
	return isalnum(character) || character == '-' || character == '_';
}

bool policy_normalize(const char *name, size_t length, char ret[POLICY_NAME_MAX + 1])
{
	size_t label = 0;

	if (length > 0 && name[length - 1] == '.')
		length--;
	if (length == 0 || length > POLICY_NAME_MAX)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (name[i] == '.' && (label == 0 || ret[i - 1] == '-'))
			return false;
		if (name[i] != '.' && (!is_of_name((unsigned char)name[i]) || label == LABEL_MAX ||
					      (name[i] == '-' && label == 0)))
			return false;
		label = name[i] == '.' ? 0 : label + 1;
		ret[i] = (char)tolower((unsigned char)name[i]);
	}
	ret[length] = '\0';
	return ret[length - 1] != '-';
}

static int wrong(const char *what, const char *text, const char *why, struct error *err)
{
	char buffer[QUOTED_MAX];

	error_set(err, 0, "%s: %s %s", what, quoted(text, buffer), why);
	return error_hint(err,
		"write a host as pypi.org, db.example.org:5432, *.example.org or [2001:db8::1]:443");
}

static int refuse(const char *what, const char *text, const char *why, const char *hint, struct error *err)
{
	char buffer[QUOTED_MAX];

	error_set(err, 0, "%s: %s: %s", what, quoted(text, buffer), why);
	return error_hint(err, "%s", hint);
}

/* Cuts «:PORT» off. An IPv6 address without brackets has none. */
static int take_port(const char *what, char *host, struct policy_rule *rule, struct error *err)
{
	char *colon = strrchr(host, ':'), *end;
	bool brackets = host[0] == '[' && strchr(host, ']');
	unsigned long port;

	rule->ports[0] = PORT_HTTPS;
	rule->ports[1] = PORT_HTTP;
	if (!colon || (brackets && colon < strrchr(host, ']')) ||
		(!brackets && strchr(host, ':') != colon))
		return 0;
	port = isdigit((unsigned char)colon[1]) ? strtoul(colon + 1, &end, 10) : 0;
	if (port == 0 || port > UINT16_MAX || *end)
		return wrong(what, host, "has no port from 1 to 65535 behind its colon", err);
	*colon = '\0';
	rule->ports[0] = (uint16_t)port;
	rule->ports[1] = 0;
	return 0;
}

/* The last label of a name has a letter: what is nearly an address is none. */
static bool is_numeric(const char *name)
{
	const char *last = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;

	return strspn(last, "0123456789") == strlen(last) || strncmp(last, "0x", 2) == 0;
}

/* «ADDRESS» or «ADDRESS/BITS», where no bit behind those that count is set. */
static bool take_address(const char *host, struct policy_rule *rule)
{
	const char *slash = strchr(host, '/');
	cleanup_free char *address = xmemdup(host, slash ? (size_t)(slash - host) : strlen(host));
	unsigned base, most, bits = 0;

	if (!address_parse(address, &rule->address))
		return false;
	base = address_is_v4(&rule->address) && !strchr(address, ':') ? 96 : 0;
	most = 128 - base;
	if (slash && (!isdigit((unsigned char)slash[1]) ||
			     strspn(slash + 1, "0123456789") != strlen(slash + 1) ||
			     strlen(slash + 1) > 3 || (bits = (unsigned)atoi(slash + 1)) > most))
		return false;
	rule->bits = slash ? base + bits : 128;
	for (unsigned bit = rule->bits; bit < 128; bit++)
		if (rule->address.bytes[bit / 8] & (0x80 >> bit % 8))
			return false;
	return true;
}

/* Whether there is no other address in it. */
static bool is_loopback(const struct policy_rule *rule)
{
	return address_is_loopback(&rule->address) && rule->bits >= (address_is_v4(&rule->address) ? 96 + 8 : 128);
}

static const char own_loopback[] = "inside, that is the sandbox's own loopback interface",
		  own_loopback_hint[] = "what listens on the host's is reached as " POLICY_HOST_NAME ":PORT";

static int parse_rule(const char *what, char *host, struct policy_rule *ret, struct error *err)
{
	const char *name = host;

	*ret = (struct policy_rule){.wildcard = false};
	if (strstr(host, "://"))
		return refuse(what, host, "rules have no scheme and no path",
			"write its host alone, with :PORT where that is neither 443 nor 80", err);
	if (take_port(what, host, ret, err) < 0)
		return -1;
	if (ret->ports[0] == PORT_DNS)
		return refuse(what, host, "port 53 is the gate's own, whose name server asks the host's", "leave it out", err);
	if (take_address(host, ret))
		return !is_loopback(ret) ? 0
					 : refuse(what, host, own_loopback, own_loopback_hint, err);
	ret->wildcard = strncmp(host, "*.", 2) == 0;
	if (ret->wildcard)
		name += 2;
	if (!policy_normalize(name, strlen(name), ret->name) || is_numeric(ret->name))
		return wrong(what, host, "is no name of a host and no address", err);
	if (strcmp(ret->name, "localhost") == 0)
		return refuse(what, host, own_loopback, own_loopback_hint, err);
	if (ret->wildcard && !strchr(ret->name, '.'))
		return wrong(what, host,
			"is a whole top-level domain: name the hosts that are meant", err);
	return 0;
}

int policy_add(struct policy *policy, const char *what, const char *text, struct error *err)
{
	cleanup_free char *copy = xstrdup(text);

	for (char *save = copy, *host; (host = strsep(&save, ","));) {
		struct policy_rule rule;

		if (!*host)
			return wrong(
				what, text, "has nothing between two commas, or is empty", err);
		if (parse_rule(what, host, &rule, err) < 0)
			return -1;
		if (policy->count == POLICY_RULES_MAX)
			return error_set(
				err, 0, "%s: there are more than %d hosts", what, POLICY_RULES_MAX);
		policy->rules = xrealloc(policy->rules, policy->count + 1, sizeof *policy->rules);
		policy->rules[policy->count++] = rule;
	}
	return 0;
}

void policy_free(struct policy *policy)
{
	free(policy->rules);
	*policy = (struct policy){.count = 0};
}

static bool has_name(const struct policy_rule *rule, const char *name)
{
	size_t length = strlen(name), suffix = strlen(rule->name);

	if (!rule->name[0])
		return false;
	if (!rule->wildcard)
		return strcmp(rule->name, name) == 0;
	/* Who allows all below a domain does not mean the host. */
	return strcmp(name, POLICY_HOST_NAME) != 0 && length > suffix + 1 && name[length - suffix - 1] == '.' &&
	       strcmp(name + length - suffix, rule->name) == 0;
}

static bool has_port(const struct policy_rule *rule, uint16_t port)
{
	return port != 0 && (rule->ports[0] == port || rule->ports[1] == port);
}

bool policy_allows_name(const struct policy *policy, const char *name)
{
	for (size_t i = 0; i < policy->count; i++)
		if (has_name(&policy->rules[i], name))
			return true;
	return false;
}

static bool has_address(const struct policy_rule *rule, const struct address *address)
{
	unsigned whole = rule->bits / 8, rest = rule->bits % 8;

	if (rule->name[0] || memcmp(rule->address.bytes, address->bytes, whole) != 0)
		return false;
	return rest == 0 || (rule->address.bytes[whole] ^ address->bytes[whole]) >> (8 - rest) == 0;
}

bool policy_allows_address(
	const struct policy *policy, const struct address *address, uint16_t port)
{
	for (size_t i = 0; i < policy->count; i++)
		if (has_address(&policy->rules[i], address) && has_port(&policy->rules[i], port))
			return true;
	return false;
}

bool policy_has_address(const struct policy *policy, const struct address *address)
{
	for (size_t i = 0; i < policy->count; i++)
		if (has_address(&policy->rules[i], address))
			return true;
	return false;
}

bool policy_allows(
	const struct policy *policy, const char *name, const struct address *address, uint16_t port)
{
	if (address_is_private(address) && !policy_allows_address(policy, address, port))
		return false;
	for (size_t i = 0; i < policy->count; i++)
		if (has_name(&policy->rules[i], name) && has_port(&policy->rules[i], port))
			return true;
	return false;
}

/* Whether every place of `asked` is one of `rule`, whatever their ports. */
static bool rule_covers(const struct policy_rule *rule, const struct policy_rule *asked)
{
	if (!asked->name[0])
		return rule->bits <= asked->bits && has_address(rule, &asked->address);
	if (!asked->wildcard || !rule->wildcard)
		return asked->wildcard <= rule->wildcard && has_name(rule, asked->name);
	return strcmp(rule->name, asked->name) == 0 || has_name(rule, asked->name);
}

bool policy_covers(const struct policy *ceiling, const struct policy *asked, size_t *ret_rule, uint16_t *ret_port)
{
	for (size_t i = 0; i < asked->count; i++)
		for (size_t j = 0; j < 2; j++) {
			const struct policy_rule *rule = &asked->rules[i];
			bool covered = !rule->ports[j];

			for (size_t k = 0; k < ceiling->count && !covered; k++)
				covered = has_port(&ceiling->rules[k], rule->ports[j]) && rule_covers(&ceiling->rules[k], rule);
			if (covered)
				continue;
			*ret_rule = i;
			*ret_port = rule->ports[j];
			return false;
		}
	return true;
}

static int compare_ports(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

size_t policy_ports(const struct policy *policy, uint16_t **ret)
{
	uint16_t *ports = xcalloc(2 * policy->count + 1, sizeof *ports);
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < policy->count; i++)
		for (size_t j = 0; j < 2; j++)
			if (policy->rules[i].ports[j])
				ports[count++] = policy->rules[i].ports[j];
	qsort(ports, count, sizeof *ports, compare_ports);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || ports[kept - 1] != ports[i])
			ports[kept++] = ports[i];
	*ret = ports;
	return kept;
}
