/* SPDX-License-Identifier: MIT */
/* Addresses: see address.h. */
#define _GNU_SOURCE
#include "gate/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:0:0/96 */

struct address address_of_v4(const uint8_t bytes[4])
{
	struct address address;

	memcpy(address.bytes, mapped, sizeof mapped);
	memcpy(address.bytes + sizeof mapped, bytes, 4);
	return address;
}

struct address address_of_v6(const uint8_t bytes[16])
{
	struct address address;

	memcpy(address.bytes, bytes, sizeof address.bytes);
	return address;
}

bool address_is_v4(const struct address *address)
{
	return memcmp(address->bytes, mapped, sizeof mapped) == 0;
}

bool address_equal(const struct address *one, const struct address *other)
{
	return memcmp(one->bytes, other->bytes, sizeof one->bytes) == 0;
}

struct range {
	uint8_t bytes[16];
	unsigned bits;
};

static bool is_in(const uint8_t *bytes, const struct range *range)
{
	unsigned whole = range->bits / 8, rest = range->bits % 8;

	if (memcmp(bytes, range->bytes, whole) != 0)
		return false;
	return rest == 0 || (bytes[whole] ^ range->bytes[whole]) >> (8 - rest) == 0;
}

static bool is_in_one_of(const uint8_t *bytes, const struct range *ranges, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (is_in(bytes, &ranges[i]))
			return true;
	return false;
}

static const struct range v4_ranges[] = {
	{{0}, 8},         /* unspecified, "this network" */
	{{10}, 8},        /* private */
	{{100, 64}, 10},  /* shared */
	{{127}, 8},       /* loopback */
	{{169, 254}, 16}, /* link-local */
	{{172, 16}, 12},  /* private */
	{{192, 168}, 16}, /* private */
	{{224}, 4},       /* multicast */
	{{255, 255, 255, 255}, 32},
};

static const struct range v6_ranges[] = {
	/* Translation to IPv4 that is local (RFC 8215): where in it the address is, only its network knows. */
	{{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48},
	{{0xfc}, 7},        /* unique-local */
	{{0xfe, 0x80}, 10}, /* link-local */
	{{0xfe, 0xc0}, 10}, /* site-local, which is unique-local before that was there (RFC 3879) */
	{{0xff}, 8},        /* multicast */
};

static bool v4_is_private(const uint8_t bytes[4])
{
	return is_in_one_of(bytes, v4_ranges, sizeof v4_ranges / sizeof *v4_ranges);
}

/* Of a client of Teredo: its IPv4 address, all bits inverted, is at the end (RFC 4380). */
static bool teredo_is_private(const uint8_t bytes[16])
{
	uint8_t client[4];

	for (int i = 0; i < 4; i++)
		client[i] = (uint8_t)~bytes[12 + i];
	return v4_is_private(client) || v4_is_private(bytes + 4);
}

bool address_is_private(const struct address *address)
{
	/*
	 * ::/96 is the old form of IPv4 addresses (RFC 4291), with :: and ::1 in it, which 0.0.0.0/8 has too;
	 * ::ffff:0:0:0/96 is that of an old translation (RFC 2765).
	 */
	static const struct range compatible = {{0}, 96}, translated = {{[8] = 0xff, [9] = 0xff}, 96},
				  nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96},
				  six_to_four = {{0x20, 0x02}, 16}, teredo = {{0x20, 0x01, 0, 0}, 32};
	const uint8_t *bytes = address->bytes;

	if (address_is_v4(address) || is_in(bytes, &compatible) || is_in(bytes, &translated) ||
		is_in(bytes, &nat64))
		return v4_is_private(bytes + 12);
	if (is_in(bytes, &six_to_four))
		return v4_is_private(bytes + 2);
	if (is_in(bytes, &teredo))
		return teredo_is_private(bytes);
	return is_in_one_of(bytes, v6_ranges, sizeof v6_ranges / sizeof *v6_ranges);
}

bool address_is_loopback(const struct address *address)
{
	static const struct range v4[] = {{{0}, 8}, {{127}, 8}}, v6[] = {{{0}, 128}, {{[15] = 1}, 128}};

	return address_is_v4(address) ? is_in_one_of(address->bytes + 12, v4, 2) : is_in_one_of(address->bytes, v6, 2);
}

const char *address_format(const struct address *address, char ret[ADDRESS_TEXT_MAX])
{
	if (address_is_v4(address))
		inet_ntop(AF_INET, address->bytes + sizeof mapped, ret, ADDRESS_TEXT_MAX);
	else
		inet_ntop(AF_INET6, address->bytes, ret, ADDRESS_TEXT_MAX);
	return ret;
}

bool address_parse(const char *text, struct address *ret)
{
	size_t length = strlen(text);
	bool brackets = length > 2 && text[0] == '[' && text[length - 1] == ']';
	char bare[ADDRESS_TEXT_MAX + 2];
	uint8_t v4[4];

	if (length >= sizeof bare)
		return false;
	snprintf(bare, sizeof bare, "%.*s", (int)(brackets ? length - 2 : length), text + brackets);
	if (!brackets && inet_pton(AF_INET, bare, v4) == 1) {
		*ret = address_of_v4(v4);
		return true;
	}
	return inet_pton(AF_INET6, bare, ret->bytes) == 1;
}
