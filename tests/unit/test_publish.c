/* SPDX-License-Identifier: MIT */
/* Published ports: how they are written, and where is listened for them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "gate/publish.h"
#include "sandbox/spec.h"
#include "util/error.h"

static void a_port_is_written_alone_or_after_that_of_the_host(void **state)
{
	static const struct {
		const char *text;
		uint32_t host_port, port;
	} cases[] = {{"80", 80, 80}, {"8080:80", 8080, 80}, {"0:80", 0, 80}, {"65535:1", 65535, 1}};
	static const struct {
		const char *text, *why;
	} refused[] = {
		{"", "--publish: \"\" is not a whole number"},
		{"0", "--publish: \"0\" is out of range; it goes from 1 to 65535"},
		{"80:0", "--publish: \"0\" is out of range; it goes from 1 to 65535"},
		{"65536", "--publish: \"65536\" is out of range; it goes from 1 to 65535"},
		{"65536:80", "--publish: \"65536\" is out of range; it goes from 0 to 65535"},
		{"80:", "--publish: \"\" is not a whole number"},
		{":80", "--publish: \":80\" is not a port; "},
		{"-1", "--publish: \"-1\" is not a whole number"},
		{"http", "--publish: \"http\" is not a whole number"},
		{"80/udp", "--publish: \"80/udp\" is not a whole number"},
		{"127.0.0.1:80:80", "--publish: \"127.0.0.1:80:80\" is not a port; "},
		{"0.0.0.0:80", "--publish: \"0.0.0.0\" is not a whole number"},
		{"00000000000000000080:80", "--publish: \"00000000000000000080:80\" is not a port; "},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct publish_spec publish;
		struct error err = {0};

		if (publish_parse("--publish", cases[i].text, &publish, &err) < 0)
			fail_msg("%s: %s", cases[i].text, err.text);
		assert_int_equal(publish.host_port, cases[i].host_port);
		assert_int_equal(publish.port, cases[i].port);
	}
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct publish_spec publish;
		struct error err = {0};

		if (publish_parse("--publish", refused[i].text, &publish, &err) == 0)
			fail_msg("%s was taken", refused[i].text);
		if (strncmp(err.text, refused[i].why, strlen(refused[i].why)) != 0)
			fail_msg("%s: %s", refused[i].text, err.text);
	}
}

static struct sockaddr_in6 address_of(int fd)
{
	struct sockaddr_in6 address = {0};
	socklen_t length = sizeof address;

	assert_int_equal(getsockname(fd, (void *)&address, &length), 0);
	return address;
}

static void listeners_are_on_loopback_addresses_alone(void **state)
{
	const struct publish_spec specs[] = {{0, 80}, {0, 81}};
	struct published published[2];
	struct error err = {0};

	(void)state;
	assert_int_equal(publish_listen(specs, 2, published, &err), 0);
	for (int i = 0; i < 2; i++) {
		struct sockaddr_in6 six;
		struct sockaddr_in four;

		assert_int_equal(published[i].port, specs[i].port);
		assert_int_not_equal(published[i].host_port, 0);
		six = address_of(published[i].listeners[0]);
		memcpy(&four, &six, sizeof four);
		assert_int_equal(four.sin_family, AF_INET);
		assert_int_equal(ntohl(four.sin_addr.s_addr), INADDR_LOOPBACK);
		assert_int_equal(ntohs(four.sin_port), published[i].host_port);
		if (published[i].listeners[1] < 0)
			continue; /* no IPv6 here */
		six = address_of(published[i].listeners[1]);
		assert_true(IN6_IS_ADDR_LOOPBACK(&six.sin6_addr));
		assert_int_equal(ntohs(six.sin6_port), published[i].host_port);
	}
	publish_close(published, 2);
	assert_int_equal(published[0].listeners[0], -1);
}

/* Of the first, nothing is left. */
static void a_port_that_is_taken_is_an_error(void **state)
{
	struct publish_spec specs[] = {{0, 80}, {0, 81}};
	struct published taken, published[2];
	struct error err = {0};
	int fd;

	(void)state;
	assert_int_equal(publish_listen(specs, 1, &taken, &err), 0);
	specs[1].host_port = taken.host_port;
	fd = dup(0);
	close(fd);
	assert_int_equal(publish_listen(specs, 2, published, &err), -1);
	assert_non_null(strstr(err.text, "publishing port 81 at 127.0.0.1:"));
	assert_non_null(strstr(err.hint, "--publish HOSTPORT:81"));
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2; j++)
			assert_int_equal(published[i].listeners[j], -1);
	assert_int_equal(dup(0), fd);
	close(fd);
	publish_close(&taken, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_is_written_alone_or_after_that_of_the_host),
		cmocka_unit_test(listeners_are_on_loopback_addresses_alone),
		cmocka_unit_test(a_port_that_is_taken_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
