/* SPDX-License-Identifier: MIT */
/* Caches of compilers, and how they are filled: see language.h. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "language/cache.h"
#include "language/language.h"
#include "language/preparation.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { MEMORY_BYTES = 1 << 30, DISK_BYTES = 1 << 30 };

/* The directory is bound by the caller's own hand, writable for this one sandbox. */
static int add_filling(struct preparation *preparation, const char *directory)
{
	const struct toolchain *toolchain = preparation->choice.toolchain;
	struct spec *spec = preparation->spec;

	spec_add_bind(spec, directory, DEFINITION_CACHE, false);
	preparation->values.cache_bound = true;
	preparation->values.source = "";
	spec->capture = true;
	spec->limits.memory_bytes = MEMORY_BYTES;
	spec->limits.disk_bytes = DISK_BYTES;
	if (preparation_add_exec(preparation, "run", toolchain->cache_argv, toolchain->cache_timeout_ms) < 0)
		return -1;
	spec->execs[spec->execs_count - 1].stdin_kind = STDIN_NULL;
	return 0;
}

static void cache_release(struct language_cache *cache)
{
	free(cache->directory);
	free(cache->path);
	close_fd(&cache->lock);
	*cache = (struct language_cache){.lock = -1};
}

/* Whether the cache at `path` (NULL: no use for one) is missing. -1: it is there, and not to be used. */
static int is_missing(const struct preparation *preparation, const char *path)
{
	struct error reason;
	cleanup_free char *usable =
		cache_find(preparation->language, &preparation->choice, &reason);

	if (!path || usable)
		return 0;
	if (!reason.text[0])
		return 1;
	*preparation->err = reason;
	return -1;
}

bool language_wants_cache(const struct language *language, const struct spec *spec)
{
	cleanup_preparation struct preparation preparation = {0};
	cleanup_free char *path = NULL;
	struct error err = {0};

	preparation.language = language;
	preparation.err = &err;
	if (needs_choose(language, spec, &preparation.choice, &err) < 0)
		return false;
	path = cache_path(language, &preparation.choice);
	return is_missing(&preparation, path) > 0;
}

int language_prepare_cache(const struct language *language, bool wait, struct spec *spec,
	struct language_cache *ret_cache, struct error *err)
{
	cleanup_preparation struct preparation preparation = {0};
	int result;

	*ret_cache = (struct language_cache){.lock = -1};
	if (preparation_begin(language, spec, &preparation, err) < 0)
		return -1;
	ret_cache->path = cache_path(language, &preparation.choice);
	result = is_missing(&preparation, ret_cache->path);
	if (result > 0)
		result = cache_begin(
			ret_cache->path, wait, &ret_cache->directory, &ret_cache->lock, err);
	if (result > 0 && add_filling(&preparation, ret_cache->directory) < 0) {
		cache_abandon(ret_cache->directory);
		result = -1;
	}
	if (result <= 0)
		cache_release(ret_cache);
	return result;
}

int language_finish_cache(struct language_cache *cache, bool filled, struct error *err)
{
	int result = 0;

	if (filled)
		result = cache_commit(cache->directory, cache->path, err);
	if (!filled || result < 0)
		cache_abandon(cache->directory);
	cache_release(cache);
	return result;
}
