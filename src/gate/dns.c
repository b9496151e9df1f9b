/* SPDX-License-Identifier: MIT */
/* Messages of DNS: see dns.h. */
#define _GNU_SOURCE
#include "gate/dns.h"

#include <string.h>

enum {
	HEADER_SIZE = 12,
	FLAG_RESPONSE = 0x8000,
	FLAG_TRUNCATED = 0x0200,
	FLAG_RECURSION_DESIRED = 0x0100,
	FLAG_RECURSION_AVAILABLE = 0x0080,
	OPCODE_MASK = 0x7800,
	CODE_MASK = 0x000f,
	CLASS_IN = 1,
	TYPE_OPT = 41,
	POINTER_TO_QUESTION = 0xc00c, /* the name behind the header */
	POINTERS_MAX = 64,            /* of one name */
	RECORDS_MAX = 512,            /* that are looked at */
	TTL_MAX = 24 * 60 * 60,
};

/* What is left of a message. Reading behind its end makes it broken, and gives zeros. */
struct reader {
	const uint8_t *message;
	size_t length, at;
	bool broken;
};

static bool has(struct reader *reader, size_t count)
{
	if (reader->broken || reader->length - reader->at < count)
		reader->broken = true;
	return !reader->broken;
}

static uint8_t read_8(struct reader *reader)
{
	return has(reader, 1) ? reader->message[reader->at++] : 0;
}

static uint16_t read_16(struct reader *reader)
{
	uint8_t high = read_8(reader);

	return (uint16_t)(high << 8 | read_8(reader));
}

static uint32_t read_32(struct reader *reader)
{
	uint32_t high = read_16(reader);

	return high << 16 | read_16(reader);
}

static void skip(struct reader *reader, size_t count)
{
	if (has(reader, count))
		reader->at += count;
}

/* A name as labels on the wire, its pointers followed, with the zero at its end. At most 255 bytes. */
struct wire_name {
	uint8_t bytes[256];
	size_t length;
};

static bool add_label(struct wire_name *name, const uint8_t *label, size_t length)
{
	if (name->length + 1 + length > 255)
		return false;
	name->bytes[name->length++] = (uint8_t)length;
	memcpy(name->bytes + name->length, label, length);
	name->length += length;
	return true;
}

static void read_name(struct reader *reader, struct wire_name *ret)
{
	struct reader label = *reader;
	bool jumped = false;

	ret->length = 0;
	for (int pointers = 0;;) {
		uint8_t length = read_8(&label);

		if (label.broken || (length & 0xc0) == 0x40 || (length & 0xc0) == 0x80)
			break;
		if ((length & 0xc0) == 0xc0) {
			size_t target = (size_t)(length & 0x3f) << 8 | read_8(&label);

			if (!jumped)
				reader->at = label.at;
			jumped = true;
			/* Only back, and not for ever. */
			if (label.broken || target >= label.at - 2 || ++pointers > POINTERS_MAX)
				break;
			label.at = target;
			continue;
		}
		if (!has(&label, length) || !add_label(ret, label.message + label.at, length))
			break;
		label.at += length;
		if (length > 0)
			continue;
		if (!jumped)
			reader->at = label.at;
		return;
	}
	reader->broken = true;
}

static uint8_t small(uint8_t byte)
{
	return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 32) : byte;
}

/* Lengths of labels are below the letters, so all bytes can be compared alike. */
static bool same_name(const struct wire_name *one, const struct wire_name *other)
{
	if (one->length != other->length)
		return false;
	for (size_t i = 0; i < one->length; i++)
		if (small(one->bytes[i]) != small(other->bytes[i]))
			return false;
	return true;
}

/* «host.example» of labels. False where it is no name of a host. */
static bool name_of_host(const struct wire_name *name, char ret[POLICY_NAME_MAX + 1])
{
	char text[256];
	size_t length = 0;

	for (size_t i = 0; name->bytes[i]; i += name->bytes[i] + 1U) {
		if (length > 0)
			text[length++] = '.';
		/* A dot inside of a label is not the one between two. */
		if (memchr(name->bytes + i + 1, '.', name->bytes[i]))
			return false;
		memcpy(text + length, name->bytes + i + 1, name->bytes[i]);
		length += name->bytes[i];
	}
	return policy_normalize(text, length, ret);
}

/* --- questions --- */

/* What EDNS says of the size of answers, in the additional section. */
static void read_options(struct reader *reader, unsigned records, struct dns_question *question)
{
	struct wire_name name;

	for (unsigned i = 0; i < records && !reader->broken; i++) {
		uint16_t type, size;

		read_name(reader, &name);
		type = read_16(reader);
		size = read_16(reader);
		skip(reader, 4);
		skip(reader, read_16(reader));
		if (!reader->broken && type == TYPE_OPT && size > DNS_UDP_MAX)
			question->udp_max = size > DNS_EDNS_MAX ? DNS_EDNS_MAX : size;
	}
}

enum dns_result dns_read_question(
	const void *message, size_t length, struct dns_question *ret, enum dns_code *ret_code)
{
	struct reader reader = {.message = message, .length = length};
	uint16_t flags, questions, answers, authorities, additional, class;
	struct wire_name name;
	size_t begin;

	*ret = (struct dns_question){.id = read_16(&reader), .udp_max = DNS_UDP_MAX};
	flags = read_16(&reader);
	questions = read_16(&reader);
	answers = read_16(&reader);
	authorities = read_16(&reader);
	additional = read_16(&reader);
	if (reader.broken || flags & FLAG_RESPONSE)
		return DNS_IGNORE;
	ret->recursion = flags & FLAG_RECURSION_DESIRED;
	*ret_code = flags & OPCODE_MASK ? DNS_NOT_IMPLEMENTED : DNS_FORMAT_ERROR;
	if (flags & OPCODE_MASK || questions != 1 || answers || authorities)
		return DNS_WRONG;
	begin = reader.at;
	read_name(&reader, &name);
	ret->type = read_16(&reader);
	class = read_16(&reader);
	/* A question is at its place: a pointer in it could only lead to the header. */
	if (reader.broken || reader.at - begin != name.length + 4)
		return DNS_WRONG;
	memcpy(ret->wire, reader.message + begin, reader.at - begin);
	ret->wire_length = reader.at - begin;
	*ret_code = DNS_REFUSED;
	if (class != CLASS_IN || !name_of_host(&name, ret->name))
		return DNS_WRONG;
	read_options(&reader, additional, ret);
	*ret_code = DNS_FORMAT_ERROR;
	return reader.broken ? DNS_WRONG : DNS_OK;
}

void dns_ask(const char *name, uint16_t type, struct dns_question *ret)
{
	uint8_t *next = ret->wire;

	*ret = (struct dns_question){.type = type, .udp_max = DNS_UDP_MAX, .recursion = true};
	memcpy(ret->name, name, strlen(name) + 1);
	/* At most POLICY_NAME_MAX bytes, so with lengths, the zero, type and class there is room. */
	while (*name) {
		size_t length = strcspn(name, ".");

		*next++ = (uint8_t)length;
		memcpy(next, name, length);
		next += length;
		name += length + (name[length] == '.');
	}
	*next++ = 0;
	*next++ = (uint8_t)(type >> 8);
	*next++ = (uint8_t)type;
	*next++ = 0;
	*next++ = CLASS_IN;
	ret->wire_length = (size_t)(next - ret->wire);
}

/* --- writing --- */

static uint8_t *put_16(uint8_t *next, unsigned value)
{
	*next++ = (uint8_t)(value >> 8);
	*next++ = (uint8_t)value;
	return next;
}

static uint8_t *put_header(
	uint8_t *next, uint16_t id, unsigned flags, unsigned questions, unsigned answers)
{
	next = put_16(next, id);
	next = put_16(next, flags);
	next = put_16(next, questions);
	next = put_16(next, answers);
	return put_16(put_16(next, 0), 0);
}

size_t dns_write_question(const struct dns_question *question, uint16_t id, uint8_t *ret)
{
	uint8_t *next = put_header(ret, id, FLAG_RECURSION_DESIRED, 1, 0);

	memcpy(next, question->wire, question->wire_length);
	return HEADER_SIZE + question->wire_length;
}

static uint8_t *put_address(uint8_t *next, const struct dns_question *question,
	const struct address *address, uint32_t ttl)
{
	size_t length = question->type == DNS_A ? 4 : 16;

	next = put_16(next, POINTER_TO_QUESTION);
	next = put_16(next, question->type);
	next = put_16(next, CLASS_IN);
	next = put_16(put_16(next, ttl >> 16), ttl & 0xffff);
	next = put_16(next, (unsigned)length);
	memcpy(next, address->bytes + 16 - length, length);
	return next + length;
}

size_t dns_write_answer(const struct dns_question *question, const struct dns_addresses *addresses,
	enum dns_code code, uint8_t *ret, size_t max)
{
	size_t record = 12 + (question->type == DNS_A ? 4U : 16U),
	       length = HEADER_SIZE + question->wire_length;
	unsigned flags = FLAG_RESPONSE | FLAG_RECURSION_AVAILABLE | (unsigned)code;
	bool whole = question->wire_length > 0;
	uint8_t *next = ret + HEADER_SIZE;
	unsigned count = 0;

	if (question->recursion)
		flags |= FLAG_RECURSION_DESIRED;
	memcpy(next, question->wire, question->wire_length);
	next += question->wire_length;
	for (; addresses && count < addresses->count; count++, length += record) {
		if (length + record > max) {
			flags |= FLAG_TRUNCATED;
			break;
		}
		next = put_address(next, question, &addresses->list[count], addresses->ttl);
	}
	put_header(ret, question->id, flags, whole, count);
	return length;
}

/* --- answers --- */

/* What a name leads to next: a record of the section. */
struct record {
	struct wire_name name, target; /* of a CNAME */
	uint16_t type;
	uint32_t ttl;
	const uint8_t *data; /* of an address */
};

static bool read_record(struct reader *reader, struct record *ret)
{
	uint16_t class, length;
	size_t begin;

	read_name(reader, &ret->name);
	ret->type = read_16(reader);
	class = read_16(reader);
	ret->ttl = read_32(reader);
	length = read_16(reader);
	begin = reader->at;
	if (!has(reader, length))
		return false;
	ret->data = reader->message + begin;
	if (class != CLASS_IN)
		ret->type = 0;
	if ((ret->type == DNS_A && length != 4) || (ret->type == DNS_AAAA && length != 16))
		return false;
	if (ret->type == DNS_CNAME) {
		read_name(reader, &ret->target);
		if (reader->broken || reader->at != begin + length)
			return false;
	}
	reader->at = begin + length;
	return true;
}

/* One pass over the answers: the addresses of `name`, or the name that it stands for. False: it makes no sense. */
static bool look_up(struct reader reader, unsigned records, uint16_t type, struct wire_name *name,
	bool *ret_more, struct dns_addresses *ret)
{
	struct record record;

	*ret_more = false;
	for (unsigned i = 0; i < records; i++) {
		if (!read_record(&reader, &record))
			return false;
		if (!same_name(&record.name, name))
			continue;
		if (record.ttl < ret->ttl)
			ret->ttl = record.ttl;
		if (record.type == DNS_CNAME && ret->count == 0) {
			*name = record.target;
			*ret_more = true;
			return true;
		}
		if (record.type == type && ret->count < DNS_ADDRESSES_MAX)
			ret->list[ret->count++] = type == DNS_A ? address_of_v4(record.data)
								: address_of_v6(record.data);
	}
	return true;
}

bool dns_read_answer(const void *message, size_t length, const struct dns_question *question,
	uint16_t id, struct dns_addresses *ret)
{
	struct reader reader = {.message = message, .length = length};
	uint16_t its_id = read_16(&reader), flags = read_16(&reader), questions = read_16(&reader);
	uint16_t answers = read_16(&reader), type, class;
	struct wire_name name, asked;
	struct reader own = {.message = question->wire, .length = question->wire_length};
	bool more = true;

	*ret = (struct dns_addresses){
		.ttl = TTL_MAX, .code = flags & CODE_MASK, .truncated = flags & FLAG_TRUNCATED};
	skip(&reader, 4);
	read_name(&reader, &name);
	type = read_16(&reader);
	class = read_16(&reader);
	read_name(&own, &asked);
	if (reader.broken || own.broken || its_id != id || !(flags & FLAG_RESPONSE) ||
		flags & OPCODE_MASK || questions != 1 || type != question->type ||
		class != CLASS_IN || !same_name(&name, &asked))
		return false;
	if (answers > RECORDS_MAX)
		return false;
	if (type != DNS_A && type != DNS_AAAA)
		return true;
	for (unsigned links = 0; more; links++)
		if (links > DNS_CHAIN_MAX || !look_up(reader, answers, type, &name, &more, ret))
			return false;
	return true;
}
