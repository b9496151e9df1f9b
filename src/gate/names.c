/* SPDX-License-Identifier: MIT */
/* Names of addresses: see names.h. */
#define _GNU_SOURCE
#include "gate/names.h"

#include <string.h>

/* 198.18.0.0/15 (RFC 2544), but for its first and last address. */
enum { PLACES_FIRST = (198U << 24) + (18U << 16) + 1, PLACES = (1U << 17) - 2 };

static struct name_record *take(
	struct names *names, const char *name, const struct address *address)
{
	struct name_record *oldest = &names->records[0];

	for (size_t i = 0; i < NAMES_MAX; i++) {
		struct name_record *record = &names->records[i];

		if (address_equal(&record->address, address) && strcmp(record->name, name) == 0) {
			oldest = record;
			break;
		}
		if (record->stamp < oldest->stamp)
			oldest = record;
	}
	oldest->stamp = ++names->stamp;
	return oldest;
}

static void put(
	struct names *names, const char *name, const struct address *address, enum name_way way)
{
	struct name_record *record = take(names, name, address);

	record->address = *address;
	record->way = way;
	memmove(record->name, name, strlen(name) + 1);
}

void names_add(struct names *names, const char *name, const struct address *address)
{
	put(names, name, address, NAME_DIRECT);
}

struct address names_place(struct names *names, const char *name, enum name_way way)
{
	uint32_t number;
	struct address address;

	for (size_t i = 0; i < NAMES_MAX; i++) {
		struct name_record *record = &names->records[i];

		if (record->name[0] && record->way == way && strcmp(record->name, name) == 0) {
			record->stamp = ++names->stamp;
			return record->address;
		}
	}
	number = PLACES_FIRST + names->places++ % PLACES;
	address = address_of_v4((const uint8_t[]){(uint8_t)(number >> 24), (uint8_t)(number >> 16),
		(uint8_t)(number >> 8), (uint8_t)number});
	put(names, name, &address, way);
	return address;
}

const struct name_record *names_next(
	const struct names *names, const struct address *address, const struct name_record *after)
{
	for (const struct name_record *record = after ? after + 1 : names->records;
		record < names->records + NAMES_MAX; record++)
		if (record->name[0] && address_equal(&record->address, address))
			return record;
	return NULL;
}
