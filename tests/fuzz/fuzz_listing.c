/* SPDX-License-Identifier: MIT */
/*
 * What a scan tells of a tree, as the code may tell it: two of them, and their differences. Whatever they say, what is
 * told of it is bounded, and the reverse of it is what is told of them the other way round.
 *
 * Input: two bytes with the length of the first, then both.
 */
#define _GNU_SOURCE
#include <jansson.h>

#include "fuzz/fuzz.h"
#include "session/listing.h"

static size_t count(const json_t *changes, const char *key)
{
	return json_array_size(json_object_get(changes, key));
}

static size_t check(const json_t *changes)
{
	size_t told = count(changes, "created") + count(changes, "modified") + count(changes, "deleted");
	json_int_t omitted = json_integer_value(json_object_get(changes, "omitted"));
	char *text = json_dumps(changes, JSON_COMPACT);

	require(text != NULL, "it can be written");
	free(text);
	require(told <= LISTING_CHANGES_MAX, "only so many are told of");
	require(omitted >= 0 && (omitted == 0 || told == LISTING_CHANGES_MAX), "none is left out without need");
	return told + (size_t)omitted;
}

static struct listing *parse(const uint8_t *data, size_t size)
{
	char *exact = to_string(data, size);
	struct listing *listing = listing_parse(exact, size);

	free(exact);
	return listing;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	size_t length = take_byte(&input);
	struct listing *one, *other;
	json_t *there, *back, *none;

	length = (length | (size_t)take_byte(&input) << 8) % (input.left + 1);
	one = parse(input.data, length);
	other = parse(input.data + length, input.left - length);
	if (!one)
		one = listing_empty();
	if (!other)
		other = listing_empty();
	there = listing_compare(one, other, "/workspace");
	back = listing_compare(other, one, "/workspace");
	none = listing_compare(one, one, "/workspace");
	require(check(there) == check(back), "as much is different the other way round");
	require(check(none) == 0, "nothing is different from itself");
	if (json_integer_value(json_object_get(there, "omitted")) == 0)
		require(count(there, "created") == count(back, "deleted"), "what is new there is gone here");
	listing_leave_out(other, "a");
	json_decref(there);
	there = listing_compare(one, other, "/workspace");
	check(there);
	json_decref(there);
	json_decref(back);
	json_decref(none);
	listing_release(&one);
	listing_release(&other);
	return 0;
}
