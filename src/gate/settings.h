/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_SETTINGS_H
#define NSBOX_GATE_SETTINGS_H

/*
 * What a gate takes over from its host, read once, before it shuts itself in: name servers (resolv.conf(5)), what hosts(5)
 * says of names that are allowed, and the proxy of HTTPS_PROXY or ALL_PROXY with NO_PROXY.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/address.h"
#include "gate/policy.h"

struct error;

enum { SETTINGS_SERVERS_MAX = 3 /* as resolv.conf(5) has it */, SETTINGS_HOSTS_MAX = 512 };

struct name_server {
	struct address address;
	uint32_t scope; /* the interface of a link-local one; else 0 */
};

struct host_line {
	char name[POLICY_NAME_MAX + 1];
	struct address address;
};

struct proxy {
	bool used;
	char name[POLICY_NAME_MAX + 1]; /* empty: it has an address */
	struct address address;
	uint16_t port;
	char *credentials; /* as Basic has them (RFC 7617); owned; NULL: none */
};

struct settings {
	struct name_server servers[SETTINGS_SERVERS_MAX];
	size_t servers_count;
	struct host_line *hosts; /* owned */
	size_t hosts_count;
	struct proxy proxy;
	char *no_proxy; /* owned, or NULL */
};

/* Reads the host's. Of hosts(5) what `policy` allows, and the proxy. Returns 0, or -1 with *err. */
int settings_read(const struct policy *policy, struct settings *ret, struct error *err);

void settings_free(struct settings *settings);

/* Whether a name (as policy_normalize has it), or else an address, is reached through the proxy. */
bool settings_wants_proxy(
	const struct settings *settings, const char *name, const struct address *address);

/* --- the parts, pure but for interfaces' numbers --- */

/* The content of a resolv.conf. One that names no server means the host's own. */
void settings_read_resolver(const char *text, struct settings *settings);

/* The content of a hosts file. */
void settings_read_hosts(const char *text, const struct policy *policy, struct settings *settings);

/* A proxy's URL: «http://[USER:PASSWORD@]HOST[:PORT]», the scheme may be missing. `what` names it in errors. */
int settings_read_proxy(const char *what, const char *url, struct proxy *ret, struct error *err);

#endif
