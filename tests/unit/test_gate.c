/* SPDX-License-Identifier: MIT */
/* What the gate reads of strangers, and what it lets through: addresses, rules, DNS, TLS, HTTP. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gate/address.h"
#include "gate/dns.h"
#include "gate/hello.h"
#include "gate/policy.h"
#include "gate/report.h"
#include "gate/request.h"
#include "util/error.h"

/* --- addresses --- */

static struct address address(const char *text)
{
	struct address address;

	if (!address_parse(text, &address))
		fail_msg("%s is no address", text);
	return address;
}

static void places_of_the_host_s_network_are_private(void **state)
{
	static const char *const own[] = {"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1",
		"127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.1.1", "224.0.0.251",
		"239.255.255.255", "255.255.255.255", "::", "::1", "::7f00:1", "::ffff:10.0.0.1",
		"::ffff:0:10.0.0.1", "::ffff:169.254.169.254",
		"64:ff9b::10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "64:ff9b:1:7f00:0:100::", "2002:7f00:1::1",
		"2002:c0a8:101::", "2002:e000:1::", "2001:0:101:101::80ff:fffe" /* 127.0.0.1 */,
		"2001:0:a00:1::fefe:fefe" /* its server is 10.0.0.1 */, "2001:0:101:101::5601:5601" /* 169.254.169.254 */,
		"fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1"};
	static const char *const others[] = {"1.1.1.1", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1",
		"126.255.255.255", "128.0.0.1", "169.253.0.1", "172.15.255.255", "172.32.0.1", "192.167.255.255",
		"192.0.0.8", "192.0.2.1", "192.88.99.1", "198.17.255.255", "198.18.0.1", "198.20.0.1", "198.51.100.7",
		"203.0.113.9", "223.255.255.255", "240.0.0.1", "255.255.255.254", "::101:101", "::ffff:1.1.1.1",
		"::ffff:0:1.1.1.1",
		"64:ff9b::1.1.1.1", "100::1", "2001:4860:4860::8888", "2001:db8::1", "2001:0:101:101::fefe:fefe",
		"2002:101:101::1", "2606:4700::1111", "2a00:1450::1", "3fff::1", "5f00::1"};

	(void)state;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		struct address one = address(own[i]);

		if (!address_is_private(&one))
			fail_msg("%s counts as public", own[i]);
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct address one = address(others[i]);

		if (address_is_private(&one))
			fail_msg("%s counts as private", others[i]);
	}
}

static void addresses_are_written_as_they_are_read(void **state)
{
	static const char *const texts[] = {"1.2.3.4", "2001:db8::1", "::1", "::"};
	static const char *const none[] = {"", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "[1.2.3.4]", "[::1", "::1]",
		"fe80::1%eth0", "0x7f.1", "localhost",
		"11111111111111111111111111111111111111111111111111111111111111111111"};
	char text[ADDRESS_TEXT_MAX];
	struct address one, other;

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		one = address(texts[i]);
		assert_string_equal(address_format(&one, text), texts[i]);
	}
	one = address("::ffff:1.2.3.4");
	other = address("1.2.3.4");
	assert_true(address_equal(&one, &other));
	one = address("[2001:db8::1]");
	other = address("2001:db8::1");
	assert_true(address_equal(&one, &other));
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		if (address_parse(none[i], &one))
			fail_msg("%s is taken for an address", none[i]);
}

/* --- rules --- */

static struct policy policy_of(const char *text)
{
	struct policy policy = {.count = 0};
	struct error err;

	if (policy_add(&policy, "--network allow", text, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return policy;
}

static bool allows(const struct policy *policy, const char *name, const char *where, uint16_t port)
{
	struct address one = address(where);
	char normal[POLICY_NAME_MAX + 1];

	return policy_normalize(name, strlen(name), normal) && policy_allows(policy, normal, &one, port);
}

static void names_are_let_through_with_their_ports(void **state)
{
	struct policy policy = policy_of("pypi.org,*.Example.org,db.example.net:5432");

	(void)state;
	assert_true(allows(&policy, "pypi.org", "1.1.1.1", 443));
	assert_true(allows(&policy, "PyPI.org.", "1.1.1.1", 80));
	assert_false(allows(&policy, "pypi.org", "1.1.1.1", 22));
	assert_false(allows(&policy, "evilpypi.org", "1.1.1.1", 443));
	assert_false(allows(&policy, "pypi.org.evil.net", "1.1.1.1", 443));
	assert_false(allows(&policy, "files.pypi.org", "1.1.1.1", 443));
	assert_true(allows(&policy, "a.example.org", "1.1.1.1", 443));
	assert_true(allows(&policy, "a.b.example.org", "1.1.1.1", 443));
	assert_false(allows(&policy, "example.org", "1.1.1.1", 443));
	assert_false(allows(&policy, "xexample.org", "1.1.1.1", 443));
	assert_true(allows(&policy, "db.example.net", "1.1.1.1", 5432));
	assert_false(allows(&policy, "db.example.net", "1.1.1.1", 443));
	assert_false(allows(&policy, "db.example.net", "1.1.1.1", 0));
	assert_true(policy_allows_name(&policy, "db.example.net"));
	assert_false(policy_allows_name(&policy, "example.net"));
	policy_free(&policy);
}

static void the_host_itself_is_named_or_not_reached(void **state)
{
	struct policy policy = policy_of("*.nsbox.internal:5432"), asked = policy_of("host.nsbox.internal:5432");
	static const char *const none[] = {"127.0.0.1", "127.0.0.1:5432", "127.0.0.0/8", "127.1.0.0/16:1", "[::1]:80", "::1",
		"0.0.0.0", "0.0.0.0/8", "::", "a.org:53", "1.2.3.4:53", "[2001:db8::1]:53"};
	struct error err;
	uint16_t port;
	size_t rule;

	(void)state;
	assert_false(policy_allows_name(&policy, "host.nsbox.internal"));
	assert_true(policy_allows_name(&policy, "other.nsbox.internal"));
	assert_true(policy_allows_name(&asked, "host.nsbox.internal"));
	assert_false(policy_covers(&policy, &asked, &rule, &port));
	assert_true(policy_covers(&asked, &asked, &rule, &port));
	policy_free(&policy);
	policy_free(&asked);
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		if (policy_add(&policy, "", none[i], &err) == 0)
			fail_msg("%s is taken", none[i]);
	policy = policy_of("0.0.0.0/0:1,[::]/0:1");
	policy_free(&policy);
}

static void private_addresses_only_where_a_rule_has_them(void **state)
{
	struct policy policy = policy_of("db.internal:5432,10.1.0.0/16:5432,192.168.7.7,[fd00::1]:22,[2001:db8::]/32:1,fd01::/16");
	struct address one;

	(void)state;
	assert_true(allows(&policy, "db.internal", "10.1.2.3", 5432));
	assert_false(allows(&policy, "db.internal", "10.2.0.1", 5432));
	assert_false(allows(&policy, "db.internal", "127.0.0.1", 5432));
	assert_false(allows(&policy, "db.internal", "169.254.169.254", 5432));
	assert_false(allows(&policy, "db.internal", "192.168.7.7", 5432));
	assert_true(allows(&policy, "db.internal", "1.2.3.4", 5432));
	one = address("192.168.7.7");
	assert_true(policy_allows_address(&policy, &one, 443));
	assert_false(policy_allows_address(&policy, &one, 22));
	one = address("fd00::1");
	assert_true(policy_allows_address(&policy, &one, 22));
	one = address("fd00::2");
	assert_false(policy_allows_address(&policy, &one, 22));
	one = address("2001:db8:1::1");
	assert_true(policy_allows_address(&policy, &one, 1));
	one = address("fd01:ffff::1");
	assert_true(policy_allows_address(&policy, &one, 80));
	one = address("::ffff:10.1.255.255");
	assert_true(policy_allows_address(&policy, &one, 5432));
	policy_free(&policy);
}

static void wrong_rules_are_refused_in_a_line(void **state)
{
	static const char *const wrong[] = {"", ",", "a.org,", "a..org", ".a.org", "*", "*.", "*.org", "a.*.org", "a*.org",
		"a.org:", "a.org:0", "a.org:65536", "a.org:x", "a.org:+1", "-a.org", "a-.org", "a b.org", "http://a.org",
		"a.org/", "1.2.3", "1.2.3.4.5", "1.2.3.4/33", "1.2.3.4/8", "10.0.0.0/", "10.0.0.0/-1", "::1/129",
		"[::1", "0x7f.0.0.1", "127.1", "2130706433", "\xc3\xa9.org", "https://a.org/x", "localhost", "LocalHost:80",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.org"};
	struct policy policy = {.count = 0};
	struct error err;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		err = (struct error){0};
		if (policy_add(&policy, "--network allow", wrong[i], &err) == 0)
			fail_msg("%s is taken", wrong[i]);
		assert_int_equal(strncmp(err.text, "--network allow: ", 17), 0);
		assert_null(strchr(err.text, '\n'));
	}
	policy_free(&policy);
}

static void every_port_is_listened_on_once(void **state)
{
	struct policy policy = policy_of("a.org,b.org:443,c.org:22,10.0.0.1:22");
	uint16_t *ports;

	(void)state;
	assert_int_equal(policy_ports(&policy, &ports), 3);
	assert_int_equal(ports[0], 22);
	assert_int_equal(ports[1], 80);
	assert_int_equal(ports[2], 443);
	free(ports);
	policy_free(&policy);
}

static bool covers(const char *ceiling, const char *asked, const char *first)
{
	struct policy all = policy_of(ceiling), some = policy_of(asked);
	uint16_t port = 0;
	size_t rule = 99;
	bool covered = policy_covers(&all, &some, &rule, &port);
	char text[32];

	snprintf(text, sizeof text, "%zu:%u", rule, port);
	if (!covered && strcmp(text, first) != 0)
		fail_msg("%s does not cover %s: %s", ceiling, asked, text);
	policy_free(&all);
	policy_free(&some);
	return covered;
}

static void a_ceiling_covers_what_it_allows_and_no_more(void **state)
{
	static const char *const covered[][2] = {{"a.org", "A.org"}, {"a.org", "a.org:80,a.org:443"}, {"*.a.org", "b.a.org"},
		{"*.a.org", "*.a.org"}, {"*.a.org", "*.b.a.org"}, {"a.org:1,a.org:2", "a.org:2"},
		{"10.0.0.0/8:22", "10.1.0.0/16:22"}, {"10.0.0.0/8:22", "10.1.2.3:22"}, {"[fd00::]/8", "[fd00::1]"},
		{"a.org:443,*.a.org:80,c.org:80", "b.a.org:80,a.org:443,c.org:80"}, {"::/0", "1.2.3.4"}};
	static const char *const refused[][3] = {{"a.org", "b.org", "0:443"}, {"a.org:443", "a.org", "0:80"},
		{"a.org", "b.a.org", "0:443"}, {"a.org", "*.a.org", "0:443"}, {"*.a.org", "a.org", "0:443"},
		{"*.b.a.org", "*.a.org", "0:443"}, {"a.org", "a.org,a.org:22", "1:22"}, {"10.0.0.0/8:22", "10.0.0.0/7:22", "0:22"},
		{"10.0.0.0/8:22", "11.0.0.1:22", "0:22"}, {"10.0.0.0/8:22", "a.org:22", "0:22"}, {"a.org", "1.2.3.4", "0:443"},
		{"*.a.org", "xa.org", "0:443"}, {"a.org:80", "a.org:443,a.org:80", "0:443"}};

	(void)state;
	for (size_t i = 0; i < sizeof covered / sizeof *covered; i++)
		if (!covers(covered[i][0], covered[i][1], ""))
			fail_msg("%s does not cover %s", covered[i][0], covered[i][1]);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (covers(refused[i][0], refused[i][1], refused[i][2]))
			fail_msg("%s covers %s", refused[i][0], refused[i][1]);
}

/* --- DNS --- */

struct message {
	uint8_t bytes[2048];
	size_t length;
};

static void put(struct message *message, const void *data, size_t length)
{
	assert_true(message->length + length <= sizeof message->bytes);
	memcpy(message->bytes + message->length, data, length);
	message->length += length;
}

static void put_number(struct message *message, unsigned long value, unsigned bytes)
{
	for (unsigned i = bytes; i > 0; i--)
		put(message, &(uint8_t){(uint8_t)(value >> (8 * (i - 1)))}, 1);
}

static void put_name(struct message *message, const char *name)
{
	while (*name) {
		size_t length = strcspn(name, ".");

		put_number(message, length, 1);
		put(message, name, length);
		name += length + (name[length] == '.');
	}
	put_number(message, 0, 1);
}

static void put_head(struct message *message, unsigned id, unsigned flags, unsigned questions, unsigned answers)
{
	message->length = 0;
	put_number(message, id, 2);
	put_number(message, flags, 2);
	put_number(message, questions, 2);
	put_number(message, answers, 2);
	put_number(message, 0, 4);
}

static void put_question(struct message *message, const char *name, unsigned type)
{
	put_name(message, name);
	put_number(message, type, 2);
	put_number(message, 1, 2);
}

static void put_record(struct message *message, const char *name, unsigned type, unsigned ttl)
{
	put_question(message, name, type);
	put_number(message, ttl, 4);
}

static void put_a(struct message *message, const char *name, const char *where)
{
	struct address one = address(where);
	bool v4 = address_is_v4(&one);

	put_record(message, name, v4 ? DNS_A : DNS_AAAA, 60);
	put_number(message, v4 ? 4 : 16, 2);
	put(message, one.bytes + (v4 ? 12 : 0), v4 ? 4 : 16);
}

static void put_cname(struct message *message, const char *name, const char *target)
{
	struct message data = {.length = 0};

	put_name(&data, target);
	put_record(message, name, DNS_CNAME, 30);
	put_number(message, data.length, 2);
	put(message, data.bytes, data.length);
}

static struct dns_question question(const char *name, unsigned type)
{
	struct dns_question question;
	struct message message;
	enum dns_code code;

	put_head(&message, 0x1234, 0x0100, 1, 0);
	put_question(&message, name, type);
	assert_int_equal(dns_read_question(message.bytes, message.length, &question, &code), DNS_OK);
	return question;
}

static void a_question_is_read_and_asked_again(void **state)
{
	struct dns_question one = question("WWW.Example.org", DNS_A);
	uint8_t bytes[DNS_UDP_MAX];
	struct message expected;
	size_t length;

	(void)state;
	assert_string_equal(one.name, "www.example.org");
	assert_int_equal(one.id, 0x1234);
	assert_int_equal(one.type, DNS_A);
	assert_int_equal(one.udp_max, DNS_UDP_MAX);
	length = dns_write_question(&one, 0x4321, bytes);
	put_head(&expected, 0x4321, 0x0100, 1, 0);
	put_question(&expected, "WWW.Example.org", DNS_A);
	assert_int_equal(length, expected.length);
	assert_memory_equal(bytes, expected.bytes, length);
}

static void what_is_no_question_is_refused(void **state)
{
	struct dns_question one;
	struct message message;
	enum dns_code code;

	(void)state;
	put_head(&message, 1, 0x0100, 1, 0);
	put_question(&message, "a.org", DNS_A);
	for (size_t length = 0; length < message.length; length++)
		assert_int_not_equal(dns_read_question(message.bytes, length, &one, &code), DNS_OK);
	message.bytes[2] |= 0x80; /* an answer */
	assert_int_equal(dns_read_question(message.bytes, message.length, &one, &code), DNS_IGNORE);
	put_head(&message, 1, 0x2900, 1, 0); /* UPDATE */
	put_question(&message, "a.org", DNS_A);
	assert_int_equal(dns_read_question(message.bytes, message.length, &one, &code), DNS_WRONG);
	assert_int_equal(code, DNS_NOT_IMPLEMENTED);
	put_head(&message, 1, 0x0100, 2, 0);
	put_question(&message, "a.org", DNS_A);
	put_question(&message, "b.org", DNS_A);
	assert_int_equal(dns_read_question(message.bytes, message.length, &one, &code), DNS_WRONG);
	put_head(&message, 1, 0x0100, 1, 0);
	put_name(&message, "a.org");
	put_number(&message, DNS_A, 2);
	put_number(&message, 3, 2); /* CHAOS */
	assert_int_equal(dns_read_question(message.bytes, message.length, &one, &code), DNS_WRONG);
	assert_int_equal(code, DNS_REFUSED);
	put_head(&message, 1, 0x0100, 1, 0);
	put_number(&message, 0xc00c, 2); /* its own beginning */
	put_number(&message, 0x00010001, 4);
	assert_int_equal(dns_read_question(message.bytes, message.length, &one, &code), DNS_WRONG);
	put_head(&message, 1, 0x0100, 1, 0);
	put_number(&message, 3, 1);
	put(&message, "a.b", 3); /* a dot inside of a label */
	put_number(&message, 0, 1);
	put_number(&message, 0x00010001, 4);
	assert_int_equal(dns_read_question(message.bytes, message.length, &one, &code), DNS_WRONG);
}

static void addresses_are_taken_through_a_chain_of_names(void **state)
{
	struct dns_question one = question("www.a.org", DNS_A);
	struct dns_addresses found;
	struct message message;

	(void)state;
	put_head(&message, 7, 0x8180, 1, 5);
	put_question(&message, "WWW.a.org", DNS_A);
	put_a(&message, "other.org", "6.6.6.6"); /* nobody asked for that */
	put_cname(&message, "www.a.org", "cdn.b.org");
	put_cname(&message, "CDN.b.org", "edge.c.org");
	put_a(&message, "edge.c.org", "1.1.1.1");
	put_a(&message, "edge.c.org", "2.2.2.2");
	assert_true(dns_read_answer(message.bytes, message.length, &one, 7, &found));
	assert_int_equal(found.count, 2);
	assert_int_equal(found.ttl, 30);
	assert_int_equal(found.code, DNS_NO_ERROR);
	assert_memory_equal(found.list[1].bytes + 12, "\2\2\2\2", 4);
	assert_false(dns_read_answer(message.bytes, message.length, &one, 8, &found));
	for (size_t length = 0; length < message.length; length++)
		assert_false(dns_read_answer(message.bytes, length, &one, 7, &found));
}

static void an_answer_that_makes_no_sense_is_none(void **state)
{
	struct dns_question one = question("a.org", DNS_A);
	struct dns_addresses found;
	struct message message;

	(void)state;
	put_head(&message, 7, 0x8180, 1, 2); /* a chain in a circle */
	put_question(&message, "a.org", DNS_A);
	put_cname(&message, "a.org", "b.org");
	put_cname(&message, "b.org", "a.org");
	assert_false(dns_read_answer(message.bytes, message.length, &one, 7, &found));
	put_head(&message, 7, 0x8180, 1, 1); /* another question */
	put_question(&message, "b.org", DNS_A);
	put_a(&message, "a.org", "1.1.1.1");
	assert_false(dns_read_answer(message.bytes, message.length, &one, 7, &found));
	put_head(&message, 7, 0x8180, 1, 1); /* an address of three bytes */
	put_question(&message, "a.org", DNS_A);
	put_record(&message, "a.org", DNS_A, 1);
	put_number(&message, 3, 2);
	put(&message, "\1\1\1", 3);
	assert_false(dns_read_answer(message.bytes, message.length, &one, 7, &found));
	put_head(&message, 7, 0x8180, 1, 1); /* a pointer forward */
	put_question(&message, "a.org", DNS_A);
	put_number(&message, 0xc0ff, 2);
	put_number(&message, 0, 5);
	put_number(&message, 0, 5);
	assert_false(dns_read_answer(message.bytes, message.length, &one, 7, &found));
	put_head(&message, 7, 0x8183, 1, 0); /* there is no such name: that makes sense */
	put_question(&message, "a.org", DNS_A);
	assert_true(dns_read_answer(message.bytes, message.length, &one, 7, &found));
	assert_int_equal(found.code, DNS_NO_NAME);
	assert_int_equal(found.count, 0);
}

static void an_answer_is_written_for_the_client(void **state)
{
	struct dns_question one = question("a.org", DNS_AAAA);
	struct dns_addresses addresses = {.ttl = 5, .count = DNS_ADDRESSES_MAX}, found;
	uint8_t bytes[DNS_MESSAGE_MAX];
	size_t length;

	(void)state;
	for (size_t i = 0; i < addresses.count; i++)
		addresses.list[i] = address("2a00::1");
	length = dns_write_answer(&one, &addresses, DNS_NO_ERROR, bytes, sizeof bytes);
	assert_true(dns_read_answer(bytes, length, &one, one.id, &found));
	assert_int_equal(found.count, DNS_ADDRESSES_MAX);
	assert_int_equal(found.ttl, 5);
	assert_false(found.truncated);
	length = dns_write_answer(&one, &addresses, DNS_NO_ERROR, bytes, DNS_UDP_MAX);
	assert_true(length <= DNS_UDP_MAX);
	assert_true(dns_read_answer(bytes, length, &one, one.id, &found));
	assert_true(found.truncated);
	assert_int_equal(found.count, (DNS_UDP_MAX - 12 - one.wire_length) / 28);
	length = dns_write_answer(&one, NULL, DNS_REFUSED, bytes, DNS_UDP_MAX);
	assert_true(dns_read_answer(bytes, length, &one, one.id, &found));
	assert_int_equal(found.code, DNS_REFUSED);
}

/* --- TLS --- */

/* A ClientHello with these extensions, in records of at most `piece` bytes. */
static struct message hello(const struct message *extensions, size_t piece)
{
	struct message body = {.length = 0}, handshake = {.length = 0}, all = {.length = 0};
	static const uint8_t zeros[32];

	put_number(&body, 0x0303, 2);
	put(&body, zeros, 32);
	put_number(&body, 32, 1);
	put(&body, zeros, 32);
	put_number(&body, 4, 2);
	put_number(&body, 0x13011302, 4);
	put_number(&body, 0x0100, 2);
	if (extensions) {
		put_number(&body, extensions->length, 2);
		put(&body, extensions->bytes, extensions->length);
	}
	put_number(&handshake, 1, 1);
	put_number(&handshake, body.length, 3);
	put(&handshake, body.bytes, body.length);
	for (size_t at = 0; at < handshake.length; at += piece) {
		size_t length = handshake.length - at < piece ? handshake.length - at : piece;

		put_number(&all, 22, 1);
		put_number(&all, 0x0301, 2);
		put_number(&all, length, 2);
		put(&all, handshake.bytes + at, length);
	}
	return all;
}

static void put_server_name(struct message *extensions, const char *name)
{
	size_t length = strlen(name);

	put_number(extensions, 0, 2);
	put_number(extensions, length + 5, 2);
	put_number(extensions, length + 3, 2);
	put_number(extensions, 0, 1);
	put_number(extensions, length, 2);
	put(extensions, name, length);
}

static void a_name_is_found_however_it_is_cut(void **state)
{
	struct message extensions = {.length = 0}, all;
	char name[POLICY_NAME_MAX + 1];

	(void)state;
	put_number(&extensions, 0x00170000, 4);
	put_server_name(&extensions, "Files.Example.org");
	put_number(&extensions, 0x002b0000, 4);
	for (size_t piece = 1; piece < 300; piece += 13) {
		all = hello(&extensions, piece);
		for (size_t length = 0; length < all.length; length++) {
			enum hello_result result = hello_read(all.bytes, length, name);

			assert_true(result == HELLO_MORE || (result == HELLO_NAME && length > 100));
		}
		assert_int_equal(hello_read(all.bytes, all.length, name), HELLO_NAME);
		assert_string_equal(name, "files.example.org");
	}
}

static void a_hello_without_a_name_or_with_a_wrong_one(void **state)
{
	static const char *const wrong[] = {"", "a b", "a..b", "a.org.", "-a.org", "\xc3\xa9.org"};
	struct message extensions = {.length = 0}, all;
	char name[POLICY_NAME_MAX + 1];

	(void)state;
	all = hello(NULL, 1000);
	assert_int_equal(hello_read(all.bytes, all.length, name), HELLO_NO_NAME);
	all = hello(&extensions, 1000);
	assert_int_equal(hello_read(all.bytes, all.length, name), HELLO_NO_NAME);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		extensions.length = 0;
		put_server_name(&extensions, wrong[i]);
		all = hello(&extensions, 1000);
		if (hello_read(all.bytes, all.length, name) != HELLO_INVALID)
			fail_msg("«%s» is taken for a name", wrong[i]);
	}
	extensions.length = 0;
	put_server_name(&extensions, "a.org");
	put_server_name(&extensions, "b.org");
	all = hello(&extensions, 1000);
	assert_int_equal(hello_read(all.bytes, all.length, name), HELLO_INVALID);
	extensions.length -= 1;
	all = hello(&extensions, 1000); /* the second ends too early */
	assert_int_equal(hello_read(all.bytes, all.length, name), HELLO_INVALID);
}

static void what_is_no_hello_is_told_at_once(void **state)
{
	static const char *const others[] = {"SSH-2.0-x\r\n", "GET / HTTP/1.1\r\n", "\x15\x03\x01", "\x16\x02\x00\x00\x05\x01",
		"\x16\x03\x01\x00\x05\x02", "\x16\x03\x01\xff\xff\x01"};
	static uint8_t large[HELLO_MAX + 1] = {22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff};
	static const size_t lengths[] = {11, 16, 3, 6, 6, 6};
	char name[POLICY_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_int_equal(hello_read(others[i], lengths[i], name), HELLO_INVALID);
	assert_int_equal(hello_read("", 0, name), HELLO_MORE);
	assert_int_equal(hello_read(large, sizeof large, name), HELLO_INVALID);
}

/* --- HTTP --- */

static enum request_result read_request(const char *text, struct request_host *ret)
{
	return request_read(text, strlen(text), ret);
}

static void the_host_of_a_request_is_found(void **state)
{
	static const struct {
		const char *text, *name;
		uint16_t port;
	} cases[] = {
		{"GET / HTTP/1.1\r\nHost: A.org\r\n\r\n", "a.org", 0},
		{"GET /x?y=http://b.org/ HTTP/1.1\r\nX: y\r\nhOST:\ta.org:8080 \r\nY:\r\n\r\nbody", "a.org", 8080},
		{"OPTIONS * HTTP/1.0\r\nHost: a.org.\r\n\r\n", "a.org", 0},
		{"GET http://a.org HTTP/1.1\r\nHost: a.org\r\n\r\n", "a.org", 0},
		{"GET http://a.org:81/x HTTP/1.1\r\nHost: a.org:81\r\n\r\n", "a.org", 81},
	};
	struct request_host host;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t head = (size_t)(strstr(cases[i].text, "\r\n\r\n") - cases[i].text) + 4;

		for (size_t length = 0; length < head; length++)
			assert_int_equal(request_read(cases[i].text, length, &host), REQUEST_MORE);
		assert_int_equal(read_request(cases[i].text, &host), REQUEST_NAME);
		assert_string_equal(host.name, cases[i].name);
		assert_int_equal(host.port, cases[i].port);
	}
	assert_int_equal(read_request("GET / HTTP/1.1\r\nHost: [2a00::1]:80\r\n\r\n", &host), REQUEST_ADDRESS);
	assert_int_equal(host.port, 80);
	assert_int_equal(read_request("GET / HTTP/1.1\r\nHost: 1.2.3.4\r\n\r\n", &host), REQUEST_ADDRESS);
}

static void what_two_could_read_differently_is_refused(void **state)
{
	static const char *const wrong[] = {"GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.org\r\nHost: b.org\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.org\r\nHost: a.org\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.org\r\n b.org\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a.org\r\n\r\n", "GET / HTTP/1.1\nHost: a.org\n\n\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.org\rX: y\r\n\r\n", "GET http://b.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
		"GET http://a.org:81/ HTTP/1.1\r\nHost: a.org\r\n\r\n", "GET http://a.org@b.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
		"CONNECT a.org:443 HTTP/1.1\r\nHost: a.org\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET a.org HTTP/1.1\r\nHost: a.org\r\n\r\n", "GET /  HTTP/1.1\r\nHost: a.org\r\n\r\n",
		"GET / HTTP/1.1 \r\nHost: a.org\r\n\r\n", "GET /\r\nHost: a.org\r\n\r\n", " GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.org,b.org\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.org/b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: user@a.org\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.org:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.org:99999\r\n\r\n", "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n\r\n", "\x16\x03\x01", "GET / HTTP/1.1\r\nno colon\r\nHost: a.org\r\n\r\n"};
	struct request_host host;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (read_request(wrong[i], &host) != REQUEST_INVALID)
			fail_msg("it is taken:\n%s", wrong[i]);
	assert_int_equal(request_read("GET / HTTP/1.1\r\nHost: a.org\r\nX: \0\r\n\r\n", 38, &host), REQUEST_INVALID);
	/* At once, as no more may come. */
	assert_int_equal(read_request("GET / HTTP/1.0\n", &host), REQUEST_INVALID);
	assert_int_equal(read_request("GET / HTTP/1.1\r\nHost: a.org\n\n", &host), REQUEST_INVALID);
}

/* --- what is told --- */

static void many_that_are_blocked_hide_none_that_is_reached(void **state)
{
	struct report *report, *seen = calloc(1, sizeof *seen);
	struct report_entry entry = {.verdict = REPORT_BLOCKED, .reason = REASON_NAME};
	struct error err;
	size_t blocked = 0, allowed = 0;

	(void)state;
	assert_non_null(seen);
	report = report_new(&err);
	assert_non_null(report);
	for (int i = 0; i < 1000; i++) {
		snprintf(entry.name, sizeof entry.name, "n%d.example.net", i);
		report_add(report, &entry);
	}
	entry = (struct report_entry){.verdict = REPORT_ALLOWED, .port = 443, .name = "a.org"};
	report_add(report, &entry);
	report_add(report, &entry);
	report_read(report, seen);
	for (size_t i = 0; i < REPORT_MAX && seen->entries[i].count > 0; i++) {
		blocked += seen->entries[i].verdict == REPORT_BLOCKED;
		allowed += seen->entries[i].verdict == REPORT_ALLOWED ? seen->entries[i].count : 0;
	}
	assert_in_range(blocked, 1, REPORT_MAX - 1);
	assert_int_equal(allowed, 2);
	assert_int_equal(seen->others[REPORT_BLOCKED], 1000 - blocked);
	report_free(report);
	free(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_of_the_host_s_network_are_private),
		cmocka_unit_test(addresses_are_written_as_they_are_read),
		cmocka_unit_test(names_are_let_through_with_their_ports),
		cmocka_unit_test(the_host_itself_is_named_or_not_reached),
		cmocka_unit_test(private_addresses_only_where_a_rule_has_them),
		cmocka_unit_test(wrong_rules_are_refused_in_a_line),
		cmocka_unit_test(every_port_is_listened_on_once),
		cmocka_unit_test(a_ceiling_covers_what_it_allows_and_no_more),
		cmocka_unit_test(a_question_is_read_and_asked_again),
		cmocka_unit_test(what_is_no_question_is_refused),
		cmocka_unit_test(addresses_are_taken_through_a_chain_of_names),
		cmocka_unit_test(an_answer_that_makes_no_sense_is_none),
		cmocka_unit_test(an_answer_is_written_for_the_client),
		cmocka_unit_test(a_name_is_found_however_it_is_cut),
		cmocka_unit_test(a_hello_without_a_name_or_with_a_wrong_one),
		cmocka_unit_test(what_is_no_hello_is_told_at_once),
		cmocka_unit_test(the_host_of_a_request_is_found),
		cmocka_unit_test(what_two_could_read_differently_is_refused),
		cmocka_unit_test(many_that_are_blocked_hide_none_that_is_reached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
