/* SPDX-License-Identifier: MIT */
/*
 * What the gate reads of strangers. A beginning of what is taken is never refused, and what is taken is the same however
 * much comes after it; an answer that is written can be read again.
 *
 * Input: a byte that says what it is, then that.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "gate/dns.h"
#include "gate/hello.h"
#include "gate/policy.h"
#include "gate/request.h"
#include "util/error.h"

static void check_name(const char *name)
{
	char again[POLICY_NAME_MAX + 1];

	require(policy_normalize(name, strlen(name), again), "a name that was taken is one");
	require(strcmp(name, again) == 0, "and is as it is in rules");
}

static void fuzz_hello(const char *data, size_t length, size_t cut)
{
	char name[POLICY_NAME_MAX + 1], of_part[POLICY_NAME_MAX + 1];
	enum hello_result whole = hello_read(data, length, name), part = hello_read(data, cut, of_part);

	if (whole == HELLO_NAME)
		check_name(name);
	if (whole != HELLO_INVALID)
		require(part == HELLO_MORE || part == whole, "what is taken was not refused before");
	if (part == HELLO_NAME && whole == HELLO_NAME)
		require(strcmp(name, of_part) == 0, "the name stays the same");
}

static void fuzz_request(const char *data, size_t length, size_t cut)
{
	struct request_host host, of_part;
	enum request_result whole = request_read(data, length, &host), part = request_read(data, cut, &of_part);

	if (whole == REQUEST_NAME)
		check_name(host.name);
	if (whole != REQUEST_INVALID)
		require(part == REQUEST_MORE || part == whole, "what is taken was not refused before");
	if (part != REQUEST_MORE)
		require(whole == part && strcmp(host.name, of_part.name) == 0 && host.port == of_part.port,
			"what comes after the head changes nothing");
}

static void fuzz_question(const char *data, size_t length)
{
	static uint8_t bytes[DNS_MESSAGE_MAX];
	struct dns_addresses addresses = {.ttl = 1, .count = DNS_ADDRESSES_MAX}, found;
	struct dns_question question;
	enum dns_code code;
	size_t written;

	if (dns_read_question(data, length, &question, &code) != DNS_OK)
		return;
	check_name(question.name);
	require(question.udp_max >= DNS_UDP_MAX && question.udp_max <= DNS_EDNS_MAX, "the size of an answer is bounded");
	require(dns_write_question(&question, 1, bytes) <= DNS_UDP_MAX, "a question is short");
	if (question.type != DNS_A && question.type != DNS_AAAA)
		return;
	written = dns_write_answer(&question, &addresses, DNS_NO_ERROR, bytes, question.udp_max);
	require(written <= question.udp_max, "an answer has room");
	require(dns_read_answer(bytes, written, &question, question.id, &found), "what was written can be read");
	require(found.count > 0 && found.ttl == 1, "and is the same");
}

static void fuzz_answer(const char *data, size_t length)
{
	static const uint8_t asked[] = "\0\1\1\0\0\1\0\0\0\0\0\0\1a\3org\0\0\1\0\1";
	struct dns_addresses found;
	struct dns_question question;
	enum dns_code code;

	require(dns_read_question(asked, sizeof asked - 1, &question, &code) == DNS_OK, "the question is one");
	if (length >= 2 && dns_read_answer(data, length, &question, (uint16_t)((uint8_t)data[0] << 8 | (uint8_t)data[1]), &found))
		require(found.count <= DNS_ADDRESSES_MAX, "so many addresses are taken");
}

static void fuzz_rules(const char *text)
{
	struct policy policy = {.count = 0};
	struct error err;
	uint16_t *ports;

	if (policy_add(&policy, "allow", text, &err) == 0) {
		require(policy.count > 0, "there is a rule");
		require(policy_ports(&policy, &ports) > 0 && ports[0] > 0, "with a port");
		free(ports);
	}
	policy_free(&policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	uint8_t kind = take_byte(&input) % 5;
	size_t cut = take_byte(&input) * (input.left + 1) / 256;
	char *exact = to_string(input.data, input.left); /* with a NUL behind it */
	char *bytes = malloc(input.left ? input.left : 1);

	memcpy(bytes, input.data, input.left); /* without, so that reading too far shows */
	if (kind == 0)
		fuzz_hello(bytes, input.left, cut);
	else if (kind == 1)
		fuzz_request(bytes, input.left, cut);
	else if (kind == 2)
		fuzz_question(bytes, input.left);
	else if (kind == 3)
		fuzz_answer(bytes, input.left);
	else
		fuzz_rules(exact);
	free(bytes);
	free(exact);
	return 0;
}
