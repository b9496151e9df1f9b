/* SPDX-License-Identifier: MIT */
/* The network of calls: see network.h. */
#define _GNU_SOURCE
#include "mcp/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/arguments.h"
#include "mcp/server.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

static const char ALLOW[] = "allow=";

static int add_hosts(struct network_ceiling *ceiling, const char *what, const char *text, struct error *err)
{
	char *before = ceiling->hosts_text;

	if (policy_add(&ceiling->hosts, what, text, err) < 0)
		return -1;
	ceiling->hosts_text = before ? xasprintf("%s,%s", before, text) : xstrdup(text);
	free(before);
	return 0;
}

int network_ceiling_add(struct network_ceiling *ceiling, const char *what, const char *text, struct error *err)
{
	bool first = !ceiling->given, none = strcmp(text, "none") == 0;

	ceiling->given = true;
	if (!first && ceiling->none != none)
		return error_set(err, 0, "%s: none goes with nothing else: installs reach nothing then, and so does code", what);
	ceiling->none = none;
	if (none || strcmp(text, "registries") == 0)
		return 0;
	if (strcmp(text, "host") == 0) {
		ceiling->host = true;
		return 0;
	}
	if (strcmp(text, "pasta") == 0) {
		ceiling->pasta = true;
		return 0;
	}
	return add_hosts(ceiling, what, text, err);
}

void network_ceiling_free(struct network_ceiling *ceiling)
{
	policy_free(&ceiling->hosts);
	free(ceiling->hosts_text);
	*ceiling = (struct network_ceiling){.given = false};
}

bool network_ceiling_allows_any(const struct network_ceiling *ceiling)
{
	return ceiling->host || ceiling->pasta || ceiling->hosts.count > 0;
}

char *run_describe_network(const struct mcp_options *options)
{
	const struct network_ceiling *ceiling = &options->network;

	if (!network_ceiling_allows_any(ceiling))
		return xstrdup("Only \"none\" is allowed: what runs has no network");
	return xasprintf("What it reaches: \"none\" if not given%s%s%s%s%s",
		ceiling->hosts_text ? ", or \"allow=HOST[:PORT],…\" with hosts that this server allows: " : "",
		ceiling->hosts_text ?: "", ceiling->hosts_text ? " (ports are 443 and 80 where none is named)" : "",
		ceiling->pasta ? ", or \"pasta\" for all hosts" : "",
		ceiling->host ? ", or \"host\" for this machine's own network" : "");
}

/* One of `rules`, as it was written. Malloc'd. */
static char *rule_at(const char *rules, size_t index)
{
	while (index-- > 0)
		rules = strchr(rules, ',') + 1;
	return xasprintf("%.*s", (int)strcspn(rules, ","), rules);
}

/* A rule of one host or address: whether it says its port. */
static bool has_port(const char *rule)
{
	return strchr(rule, ':') && (*rule != '[' || rule[strlen(rule) - 1] != ']');
}

static int allow(const struct network_ceiling *ceiling, const char *rules, struct spec *spec, struct error *err)
{
	struct policy asked = {.count = 0};
	cleanup_free char *rule = NULL, *beyond = NULL;
	uint16_t port = 0;
	size_t index = 0;
	bool covered;

	if (policy_add(&asked, "network", rules, err) < 0) {
		policy_free(&asked);
		return -1;
	}
	covered = policy_covers(&ceiling->hosts, &asked, &index, &port);
	policy_free(&asked);
	if (covered) {
		spec->network = NETWORK_ALLOW;
		free(spec->allow);
		spec->allow = xstrdup(rules);
		return 0;
	}
	rule = rule_at(rules, index);
	beyond = has_port(rule) ? xstrdup(rule) : xasprintf("%s:%u", rule, port);
	error_set(err, 0, "network: this server does not allow %s", beyond);
	return error_hint(err, "Whoever starts the server can allow it with --allow-network %s%s%s.", rule,
		ceiling->hosts_text ? "; allowed are: " : "", ceiling->hosts_text ?: "");
}

int run_argument_network(const struct mcp_options *options, const json_t *arguments, struct spec *spec, struct error *err)
{
	const struct network_ceiling *ceiling = &options->network;
	const char *network = "none";
	char buffer[QUOTED_MAX];
	bool host, pasta;

	if (argument_string(arguments, "network", false, &network, err) < 0)
		return -1;
	if (strcmp(network, "none") == 0)
		return 0;
	if (strncmp(network, ALLOW, strlen(ALLOW)) == 0)
		return allow(ceiling, network + strlen(ALLOW), spec, err);
	host = strcmp(network, "host") == 0;
	pasta = strcmp(network, "pasta") == 0;
	if (!host && !pasta)
		return error_set(err, 0, "network: expected \"none\" or \"allow=HOST[:PORT],…\", got %s", quoted(network, buffer));
	if ((host && ceiling->host) || (pasta && ceiling->pasta)) {
		spec->network = host ? NETWORK_HOST : NETWORK_PASTA;
		return 0;
	}
	error_set(err, 0, "network: this server does not allow \"%s\"", network);
	return error_hint(err, "Whoever starts the server can allow it with --allow-network %s; without network the program has none: "
			       "pass what it needs as files or stdin.",
		network);
}
