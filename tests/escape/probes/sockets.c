/* SPDX-License-Identifier: MIT */
/* Sockets of other kinds than the network's own, and ways out of the sandbox's network. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

static enum outcome make_socket(long family, int type, int protocol)
{
	char what[64];
	long fd = syscall(SYS_socket, family, type, protocol);

	if (fd < 0 && errno != EPERM && errno != EAFNOSUPPORT && errno != EPROTONOSUPPORT && errno != ESOCKTNOSUPPORT &&
		errno != ENOSYS)
		fd = 0; /* the family's own code looked at it */
	if (fd < 0)
		return BLOCKED;
	if (fd > 0)
		close((int)fd);
	snprintf(what, sizeof what, "family %#lx, type %d, protocol %d", (unsigned long)family, type, protocol);
	note("%s: allowed", what);
	return ALLOWED;
}

static bool is_ordinary(int family)
{
	return family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
}

static enum outcome families(int argc, char **argv)
{
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET};
	enum outcome outcome = BLOCKED;

	for (int family = 0; family < 64; family++)
		for (size_t i = 0; i < sizeof types / sizeof *types && !is_ordinary(family); i++)
			outcome = worse(outcome, make_socket(family, types[i], 0));
	return outcome;
}

static enum outcome vsock(int argc, char **argv)
{
	return make_socket(AF_VSOCK, SOCK_STREAM, 0);
}

static enum outcome vsock_high_bits(int argc, char **argv)
{
	return make_socket(1L << 32 | AF_VSOCK, SOCK_STREAM, 0);
}

static enum outcome alg(int argc, char **argv)
{
	return make_socket(AF_ALG, SOCK_SEQPACKET, 0);
}

static enum outcome packet(int argc, char **argv)
{
	return worse(make_socket(AF_PACKET, SOCK_RAW, htons(3)), make_socket(AF_PACKET, SOCK_DGRAM, htons(3)));
}

static enum outcome netlink(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;

	for (int protocol = NETLINK_ROUTE + 1; protocol < 32; protocol++)
		outcome = worse(outcome, make_socket(AF_NETLINK, SOCK_RAW, protocol));
	return outcome;
}

static enum outcome raw(int argc, char **argv)
{
	return worse(make_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), make_socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
}

static enum outcome set_loopback_down(int argc, char **argv)
{
	struct ifreq request = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		note("socket: %s", strerror(errno));
		return UNCLEAR;
	}
	return refused("SIOCSIFFLAGS of lo", ioctl(fd, SIOCSIFFLAGS, &request));
}

static enum outcome other_interfaces(int argc, char **argv)
{
	enum outcome outcome = BLOCKED;
	char line[256];
	FILE *file = fopen("/proc/net/dev", "re");

	if (!file) {
		note("/proc/net/dev: %s", strerror(errno));
		return UNCLEAR;
	}
	while (fgets(line, sizeof line, file)) {
		char *colon = strchr(line, ':');
		char *name = line + strspn(line, " ");

		if (!colon)
			continue;
		*colon = '\0';
		note("interface %s", name);
		if (strcmp(name, "lo") != 0)
			outcome = ALLOWED;
	}
	fclose(file);
	return outcome;
}

/* To an address for documentation, which nobody has: unreachable at once where there is no route. */
static enum outcome leave_network(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
		note("there is a route to 192.0.2.1");
		return ALLOWED;
	}
	note("192.0.2.1: %s", strerror(errno));
	return errno == ENETUNREACH ? BLOCKED : UNCLEAR;
}

const struct probe socket_probes[] = {
	{"socket-families", "make a socket of any uncommon family", CONTROL_PLAIN, families},
	{"socket-vsock", "make a socket to the hypervisor", CONTROL_PLAIN, vsock},
	{"socket-high-bits", "the same with a bit above the 32 that socket looks at", CONTROL_PLAIN, vsock_high_bits},
	{"socket-alg", "make a socket to the kernel's ciphers", CONTROL_PLAIN, alg},
	{"socket-packet", "make a socket for whole packets", CONTROL_ADMIN, packet},
	{"socket-netlink", "make a netlink socket other than for routes", CONTROL_PLAIN, netlink},
	{"socket-raw", "make a raw socket", CONTROL_ADMIN, raw},
	{"loopback-down", "take the loopback interface down", CONTROL_ADMIN, set_loopback_down},
	{"interfaces", "see an interface of the host's", CONTROL_PLAIN, other_interfaces},
	{"route", "find a route to anywhere", CONTROL_PLAIN, leave_network},
	{0},
};
