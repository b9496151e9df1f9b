/* SPDX-License-Identifier: MIT */
/* Compiled profiles: see cache.h. */
#define _GNU_SOURCE
#include "config.h"
#include "seccomp/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "sandbox/filter.h"
#include "seccomp/syscalls.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/file.h"

enum { FORMAT = 1, ENTRY_MAX_BYTES = 8 << 20, NAME_MAX_LENGTH = 64, KEY_MAX = 256 };

/* A file: this, then the key, the profile's text, and the instructions of both filters. */
struct header {
	char magic[16];
	uint32_t format;
	uint32_t key_length;  /* bytes */
	uint64_t text_length; /* bytes */
	uint64_t lengths[2];  /* instructions */
};

static const char magic[16] = "nsbox seccomp";

/* FNV-1a */
static uint64_t digest(uint64_t hash, const void *data, size_t length)
{
	const unsigned char *byte = data;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static const uint64_t DIGEST_START = UINT64_C(0xcbf29ce484222325);

/* What a built-in filter looks like says how this nsbox makes filters. */
static uint64_t digest_of_generator(void)
{
	static const char *const names[] = {"default", "strict", "essential"};
	uint64_t hash = DIGEST_START;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const struct builtin_filter *filter = builtin_filter_find(names[i], true);

		hash = digest(
			hash, filter->instructions, filter->length * sizeof *filter->instructions);
	}
	return hash;
}

/* Everything but the text. minKernel looks at the kernel's release; names are libseccomp's. */
static void make_key(char key[KEY_MAX])
{
	const struct scmp_version *library = seccomp_version();
	struct utsname kernel;

	snprintf(key, KEY_MAX, "nsbox %s, %s, Linux %.65s, libseccomp %u.%u.%u, %" PRIx64,
		PACKAGE_VERSION, seccomp_arch_host->name, uname(&kernel) == 0 ? kernel.release : "",
		library ? library->major : 0, library ? library->minor : 0,
		library ? library->micro : 0, digest_of_generator());
}

static void make_name(const char *key, const char *text, size_t length, char name[NAME_MAX_LENGTH])
{
	uint64_t hash = digest(digest(DIGEST_START, key, strlen(key)), text, length);

	snprintf(name, NAME_MAX_LENGTH, "%016" PRIx64, hash);
}

/* --- folders --- */

static bool is_ours_alone(int fd, mode_t type)
{
	struct stat status;

	return fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == type &&
	       status.st_uid == geteuid() && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

/* With `make`, it is made where it is not there. */
static int open_below(int dir, const char *name, bool make, int flags)
{
	int fd;

	if (make && mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return -1;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	if (fd >= 0 && !is_ours_alone(fd, S_IFDIR))
		close_fd(&fd);
	return fd;
}

/*
 * The user's folder of caches. Where HOME is another user's (sudo keeps it) it is not ours: nothing is left there
 * that this other could not change.
 */
static int open_caches(bool make)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	cleanup_close int parent = -1;

	if (cache && cache[0] == '/')
		return open_below(AT_FDCWD, cache, make, 0);
	if (!home || home[0] != '/')
		return -1;
	parent = open_below(AT_FDCWD, home, false, 0);
	return parent < 0 ? -1 : open_below(parent, ".cache", make, 0);
}

static int open_folder(bool make)
{
	cleanup_close int caches = open_caches(make), ours = -1;

	if (caches >= 0)
		ours = open_below(caches, "nsbox", make, O_NOFOLLOW);
	return ours < 0 ? -1 : open_below(ours, "seccomp", make, O_NOFOLLOW);
}

/* --- files --- */

static int read_entry(const char *name, char **ret, size_t *ret_length)
{
	cleanup_close int folder = open_folder(false), fd = -1;

	if (folder >= 0)
		fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || !is_ours_alone(fd, S_IFREG))
		return -1;
	return read_fd_whole(fd, ENTRY_MAX_BYTES, ret, ret_length);
}

static struct bpf_program copy_program(const void *instructions, size_t length)
{
	return (struct bpf_program){
		xmemdup(instructions, length * sizeof(struct sock_filter)), length};
}

static bool programs_are_valid(const struct bpf_program *plain, const struct bpf_program *tier2)
{
	return filter_is_valid((struct filter){plain->instructions, plain->length}) &&
	       filter_is_valid((struct filter){tier2->instructions, tier2->length});
}

/* Whether an entry is that of this key and text; then *programs is where its instructions begin. */
static bool matches(const char *entry, size_t entry_length, const char *key, const char *text,
	size_t length, struct header *header, const char **programs)
{
	size_t before = sizeof *header + strlen(key) + length;

	if (entry_length < before)
		return false;
	memcpy(header, entry, sizeof *header);
	if (memcmp(header->magic, magic, sizeof magic) != 0 || header->format != FORMAT ||
		header->key_length != strlen(key) || header->text_length != length ||
		header->lengths[0] > BPF_MAXINSNS || header->lengths[1] > BPF_MAXINSNS)
		return false;
	if (entry_length !=
		before + (header->lengths[0] + header->lengths[1]) * sizeof(struct sock_filter))
		return false;
	*programs = entry + before;
	return memcmp(entry + sizeof *header, key, strlen(key)) == 0 &&
	       memcmp(entry + sizeof *header + strlen(key), text, length) == 0;
}

bool profile_cache_find(
	const char *text, size_t length, struct bpf_program *plain, struct bpf_program *tier2)
{
	char key[KEY_MAX], name[NAME_MAX_LENGTH];
	cleanup_free char *entry = NULL;
	const char *programs;
	struct header header;
	size_t entry_length;

	make_key(key);
	make_name(key, text, length, name);
	if (read_entry(name, &entry, &entry_length) < 0 ||
		!matches(entry, entry_length, key, text, length, &header, &programs))
		return false;
	*plain = copy_program(programs, header.lengths[0]);
	*tier2 = copy_program(
		programs + header.lengths[0] * sizeof(struct sock_filter), header.lengths[1]);
	if (programs_are_valid(plain, tier2))
		return true;
	free(plain->instructions);
	free(tier2->instructions);
	return false;
}

static int write_entry(int fd, const char *key, const char *text, size_t length,
	const struct bpf_program *plain, const struct bpf_program *tier2)
{
	struct header header = {.format = FORMAT,
		.key_length = (uint32_t)strlen(key),
		.text_length = length,
		.lengths = {plain->length, tier2->length}};

	memcpy(header.magic, magic, sizeof magic);
	if (write_whole(fd, &header, sizeof header) < 0 || write_whole(fd, key, strlen(key)) < 0 ||
		write_whole(fd, text, length) < 0 ||
		write_whole(fd, plain->instructions, plain->length * sizeof *plain->instructions) <
			0)
		return -1;
	return write_whole(fd, tier2->instructions, tier2->length * sizeof *tier2->instructions);
}

void profile_cache_store(const char *text, size_t length, const struct bpf_program *plain,
	const struct bpf_program *tier2)
{
	cleanup_close int folder = open_folder(true), fd = -1;
	char key[KEY_MAX], name[NAME_MAX_LENGTH], new[NAME_MAX_LENGTH];

	if (folder < 0)
		return;
	make_key(key);
	make_name(key, text, length, name);
	snprintf(new, sizeof new, "new.%d", (int)getpid());
	unlinkat(folder, new, 0); /* of one who had our number and was killed */
	fd = openat(folder, new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (write_entry(fd, key, text, length, plain, tier2) < 0 ||
		renameat(folder, new, folder, name) < 0)
		unlinkat(folder, new, 0);
}
