/* SPDX-License-Identifier: MIT */
/* The sandbox's end of a gate: see sockets.h. */
#define _GNU_SOURCE
#include "gate/sockets.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/error.h"

enum {
	LOOPBACK = 1, /* the index of the first interface of a network namespace */
	BACKLOG = 4096,
	BATCH = 250, /* descriptors in one message: the kernel takes 253 (SCM_MAX_FD) */
	READY_S = 10,
};

/* What goes with a message of descriptors. */
struct batch {
	uint32_t count, left; /* that come with this one, and after it */
	uint16_t ports[BATCH];
	uint8_t udp[BATCH];
};

/* --- routes --- */

/*
 * «ip route add local 0.0.0.0/0 dev lo», or the same of IPv6. By hand, as libmnl has no static archive everywhere, and
 * without one the launcher could not be static for the sake of these two messages.
 */
static int add_route(int netlink, unsigned char family)
{
	struct {
		struct nlmsghdr header;
		struct rtmsg route;
		struct rtattr attribute;
		uint32_t interface;
	} request = {
		.header = {.nlmsg_len = sizeof request,
			.nlmsg_type = RTM_NEWROUTE,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK,
			.nlmsg_seq = family},
		.route = {.rtm_family = family,
			.rtm_table = RT_TABLE_LOCAL,
			.rtm_protocol = RTPROT_STATIC,
			.rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
			.rtm_type = RTN_LOCAL},
		.attribute = {.rta_len = RTA_LENGTH(sizeof request.interface), .rta_type = RTA_OIF},
		.interface = LOOPBACK,
	};
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[sizeof request];
	} answer;
	ssize_t n;

	if (send(netlink, &request, sizeof request, 0) != sizeof request)
		return -1;
	n = recv(netlink, &answer, sizeof answer, 0);
	if (n < (ssize_t)(sizeof answer.header + sizeof answer.error.error) ||
		answer.header.nlmsg_type != NLMSG_ERROR || answer.header.nlmsg_seq != family) {
		errno = n < 0 ? errno : EPROTO;
		return -1;
	}
	errno = -answer.error.error;
	return answer.error.error ? -1 : 0;
}

/* *ret_v6: whether there is IPv6, which the host may have switched off. */
static int add_routes(bool *ret_v6, struct error *err)
{
	cleanup_close int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	cleanup_close int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (netlink < 0 || add_route(netlink, AF_INET) < 0)
		return error_set(err, errno, "making the route to the gate");
	*ret_v6 = probe >= 0;
	/* With the sysctl disable_ipv6 there are sockets all the same, which then carry IPv4 only. */
	if (*ret_v6 && add_route(netlink, AF_INET6) < 0 && errno != EACCES && errno != ENODEV &&
		errno != EOPNOTSUPP && errno != EINVAL && errno != ENETDOWN)
		return error_set(err, errno, "making the IPv6 route to the gate");
	return 0;
}

/* --- sockets --- */

/* Neither SO_REUSEADDR nor SO_REUSEPORT: with them code could listen on the same port. */
static int open_socket(bool v6, bool udp, uint16_t port, struct error *err)
{
	static const int on = 1, off = 0;
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	const struct sockaddr *any = v6 ? (struct sockaddr *)&any6 : (struct sockaddr *)&any4;
	cleanup_close int fd = socket(v6 ? AF_INET6 : AF_INET,
		(udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = fd;

	if (r >= 0 && v6)
		r = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	/* An answer comes from the address that was asked, which for IPv6 has to be let be anybody's. */
	if (r >= 0 && udp && v6 &&
		(r = setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on)) == 0)
		r = setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof on);
	if (r >= 0 && udp && !v6 &&
		(r = setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on)) == 0)
		r = setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on);
	if (r >= 0)
		r = bind(fd, any, v6 ? sizeof any6 : sizeof any4);
	if (r >= 0 && !udp)
		r = listen(fd, BACKLOG);
	return r < 0 ? error_set(err, errno, "opening the gate's %s port %u", udp ? "UDP" : "TCP",
			       port)
		     : move_fd(&fd);
}

static int send_batch(int socket, const struct gate_sockets *sockets, size_t from, size_t count)
{
	union {
		char buffer[CMSG_SPACE(BATCH * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct batch batch = {
		.count = (uint32_t)count, .left = (uint32_t)(sockets->count - from - count)};
	struct iovec iov = {.iov_base = &batch, .iov_len = sizeof batch};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *header;

	memset(control.buffer, 0, sizeof control.buffer);
	header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(header), sockets->fds + from, count * sizeof(int));
	for (size_t i = 0; i < count; i++) {
		batch.ports[i] = sockets->ports[from + i];
		batch.udp[i] = sockets->udp[from + i];
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof batch ? 0 : -1;
}

static int open_all(
	const struct policy *policy, bool v6, struct gate_sockets *sockets, struct error *err)
{
	cleanup_free uint16_t *ports = NULL;
	size_t count = policy_ports(policy, &ports);

	for (size_t i = 0; i < count + 2; i++) {
		bool udp = i == count + 1;
		uint16_t port = i < count ? ports[i] : GATE_PORT_DNS;
		int fd = open_socket(v6, udp, port, err);

		if (fd < 0)
			return -1;
		sockets->fds[sockets->count] = fd;
		sockets->ports[sockets->count] = port;
		sockets->udp[sockets->count++] = udp;
	}
	return 0;
}

static void close_all(struct gate_sockets *sockets)
{
	while (sockets->count > 0)
		close(sockets->fds[--sockets->count]);
}

/* The gate's word: an error, whose text is empty where there is none. */
static int wait_until_ready(int socket, struct error *err)
{
	static const struct timeval patience = {.tv_sec = READY_S};
	struct error failure;
	int reset = 0;
	ssize_t n;

	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	/* A reset is told of before what was said before it: a gate that fails says why without taking the sockets. */
	do
		n = recv(socket, &failure, sizeof failure, 0);
	while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset++)));
	if (n < 0 && errno != ECONNRESET)
		return error_set(err, errno, "waiting for the gate");
	if (n != sizeof failure)
		return error_set(err, 0, "the gate ended while it was being set up");
	failure.text[sizeof failure.text - 1] = failure.hint[sizeof failure.hint - 1] = '\0';
	if (!*failure.text)
		return 0;
	*err = failure;
	return -1;
}

int sockets_hand_over(int socket, const struct policy *policy, struct error *err)
{
	struct gate_sockets sockets = {.count = 0};
	bool v6;
	int r = add_routes(&v6, err) < 0 || open_all(policy, v6, &sockets, err) < 0 ? -1 : 0;

	for (size_t from = 0; r == 0 && from < sockets.count; from += BATCH) {
		size_t left = sockets.count - from;

		/* A gate that has failed before says why. */
		if (send_batch(socket, &sockets, from, left < BATCH ? left : BATCH) < 0 &&
			errno != EPIPE && errno != ECONNRESET)
			r = error_set(err, errno, "handing the gate its sockets");
	}
	close_all(&sockets);
	return r < 0 ? -1 : wait_until_ready(socket, err);
}

/* --- the gate's side --- */

static int take_batch(int socket, struct gate_sockets *sockets, uint32_t *ret_left)
{
	union {
		char buffer[CMSG_SPACE(BATCH * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct batch batch;
	struct iovec iov = {.iov_base = &batch, .iov_len = sizeof batch};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof control.buffer};
	ssize_t n;
	struct cmsghdr *header;

	do
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	header = n == sizeof batch ? CMSG_FIRSTHDR(&message) : NULL;
	if (!header || message.msg_flags & (MSG_CTRUNC | MSG_TRUNC) ||
		header->cmsg_type != SCM_RIGHTS || batch.count > BATCH ||
		batch.count > GATE_SOCKETS_MAX - sockets->count ||
		header->cmsg_len != CMSG_LEN(batch.count * sizeof(int))) {
		if (n >= 0)
			errno = n == 0 ? ECONNRESET : EMFILE;
		return -1;
	}
	memcpy(sockets->fds + sockets->count, CMSG_DATA(header), batch.count * sizeof(int));
	for (size_t i = 0; i < batch.count; i++) {
		sockets->ports[sockets->count] = batch.ports[i];
		sockets->udp[sockets->count++] = batch.udp[i] != 0;
	}
	*ret_left = batch.left;
	return 0;
}

int sockets_take_over(int socket, struct gate_sockets *ret, struct error *err)
{
	uint32_t left = 1;

	ret->count = 0;
	while (left > 0)
		if (take_batch(socket, ret, &left) < 0)
			return error_set(err, errno, "taking over the gate's sockets");
	return 0;
}

void sockets_say_ready(int socket, const struct error *failure)
{
	struct error none = {.errnum = 0};

	(void)!send(socket, failure ?: &none, sizeof none, MSG_NOSIGNAL);
}
