/* SPDX-License-Identifier: MIT */
/* Platforms of images: this machine's, the one that was asked for, and which of those offered fits best. */
#define _GNU_SOURCE
#include "image/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/parse.h"

/* Of x86-64-v1 to v4, what this processor has (psABI, «Micro-architecture levels»). */
static const char *native_variant(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512vl"))
		return "v4";
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
		__builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"))
		return "v3";
	if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
		return "v2";
	return "v1";
#else
	return "v8";
#endif
}

struct platform platform_native(void)
{
	struct platform platform = {.os = "linux"};

#ifdef __x86_64__
	strcpy(platform.architecture, "amd64");
#else
	strcpy(platform.architecture, "arm64");
#endif
	strcpy(platform.variant, native_variant());
	return platform;
}

static bool part_valid(const char *text, size_t length)
{
	return length > 0 && length < 16 &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") >= length;
}

int platform_parse(const char *text, struct platform *ret, struct error *err)
{
	struct platform platform = {.os = "linux"};
	char *fields[3] = {platform.os, platform.architecture, platform.variant},
	     quotation[QUOTED_MAX];
	const char *rest = text;
	size_t first = strchr(text, '/') ? 0 : 1, last = first;

	for (size_t i = first;; i++) {
		size_t length = strcspn(rest, "/");

		if (i > 2 || !part_valid(rest, length)) {
			error_set(err, 0, "platform %s is not OS/ARCHITECTURE[/VARIANT]",
				quoted(text, quotation));
			return error_hint(err, "write it as linux/amd64 or linux/arm64/v8");
		}
		memcpy(fields[i], rest, length);
		fields[i][length] = '\0';
		last = i;
		if (!rest[length])
			break;
		rest += length + 1;
	}
	if (last == 0) {
		error_set(err, 0, "platform %s has no architecture", quoted(text, quotation));
		return error_hint(err, "write it as linux/amd64 or linux/arm64/v8");
	}
	*ret = platform;
	return 0;
}

/* «v3» is 3; without a variant an architecture has the least that it can be. */
static int level(const struct platform *platform)
{
	if (platform->variant[0] == 'v' && atoi(platform->variant + 1) > 0)
		return atoi(platform->variant + 1);
	return strcmp(platform->architecture, "arm64") == 0 ? 8 : 1;
}

int platform_match(const struct platform *wanted, const struct platform *offered)
{
	if (strcmp(wanted->os, offered->os) != 0 ||
		strcmp(wanted->architecture, offered->architecture) != 0)
		return 0;
	/* The greatest level that the wanted one includes. */
	if (level(offered) > level(wanted))
		return 0;
	return level(offered);
}

const char *platform_format(const struct platform *platform, char buffer[PLATFORM_TEXT_MAX])
{
	snprintf(buffer, PLATFORM_TEXT_MAX, "%s/%s%s%s", platform->os, platform->architecture,
		platform->variant[0] ? "/" : "", platform->variant);
	return buffer;
}
