/* SPDX-License-Identifier: MIT */
/* Which layers are to be merged: see flatten.h. */
#include "image/flatten.h"

/* Also a layer without a name is one. */
static uint64_t size_of(uint64_t entries)
{
	return entries > 0 ? entries : 1;
}

/* How many from `first` on are of about the same size. */
static size_t run_from(const uint64_t *entries, size_t count, size_t first)
{
	uint64_t sum = size_of(entries[first]);
	size_t i = first + 1;

	while (i < count && size_of(entries[i]) / FLATTEN_RATIO <= sum)
		sum += size_of(entries[i++]);
	return i - first;
}

static uint64_t sum_of(const uint64_t *entries, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += size_of(entries[i]);
	return sum;
}

/* Whatever their sizes are: the fewest names that FLATTEN_LEAST neighbours have. */
static size_t cheapest(const uint64_t *entries, size_t count)
{
	size_t best = 0;

	for (size_t first = 1; first + FLATTEN_LEAST <= count; first++)
		if (sum_of(entries + first, FLATTEN_LEAST) < sum_of(entries + best, FLATTEN_LEAST))
			best = first;
	return best;
}

bool flatten_choose(const uint64_t *entries, size_t count, struct flatten_range *ret)
{
	struct flatten_range longest = {0};

	if (count < FLATTEN_FROM)
		return false;
	for (size_t first = 0; first < count; first++) {
		size_t run = run_from(entries, count, first);

		if (run > longest.count)
			longest = (struct flatten_range){first, run};
	}
	if (longest.count < FLATTEN_LEAST)
		longest = (struct flatten_range){cheapest(entries, count), FLATTEN_LEAST};
	*ret = longest;
	return true;
}
