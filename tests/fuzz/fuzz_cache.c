/* SPDX-License-Identifier: MIT */
/*
 * An entry of the cache of compiled profiles that was cut, lengthened or changed. What is found in spite of that is
 * filters that the kernel would take.
 *
 * Input: a byte that says how the entry is changed, two that say where, and the bytes that are put there.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "fuzz/fuzz.h"
#include "seccomp/cache.h"
#include "unit/bpf.h"

static const char text[] = "{\"defaultAction\": \"SCMP_ACT_ALLOW\"}";
static char *entry;
static size_t entry_length;
static char path[300];

/* Stores one good entry, in the current folder, and keeps its bytes. */
static void store(void)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct bpf_program program = {code, 1};
	struct dirent *found;
	DIR *folder;
	int fd;

	setenv("XDG_CACHE_HOME", getcwd(path, sizeof path), 1);
	profile_cache_store(text, sizeof text - 1, &program, &program);
	folder = opendir("nsbox/seccomp");
	require(folder != NULL, "an entry was stored");
	while ((found = readdir(folder)) && found->d_name[0] == '.')
		;
	require(found != NULL, "an entry was stored");
	snprintf(path, sizeof path, "nsbox/seccomp/%.200s", found->d_name);
	closedir(folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	entry_length = (size_t)lseek(fd, 0, SEEK_END);
	entry = malloc(entry_length);
	require(entry && pread(fd, entry, entry_length, 0) == (ssize_t)entry_length, "it can be read");
	close(fd);
}

static void write_changed(struct input *input)
{
	uint8_t how = take_byte(input);
	size_t at = take_byte(input) | (size_t)take_byte(input) << 8;
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	require(fd >= 0 && write(fd, entry, entry_length) == (ssize_t)entry_length, "it can be written");
	at %= entry_length;
	/* From the end, where the programs are. */
	if (how & 1)
		at = entry_length - at;
	if (input->left > 0)
		require(pwrite(fd, input->data, input->left, (off_t)at) == (ssize_t)input->left, "it can be changed");
	if (how & 2)
		require(ftruncate(fd, (off_t)at) == 0, "it can be cut");
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bpf_program plain = {0}, tier2 = {0};
	struct input input = {data, size};

	if (!entry)
		store();
	write_changed(&input);
	if (!profile_cache_find(text, sizeof text - 1, &plain, &tier2))
		return 0;
	require(plain.length > 0 && bpf_is_valid(plain.instructions, plain.length), "the kernel would take what was found");
	require(tier2.length > 0 && bpf_is_valid(tier2.instructions, tier2.length), "and the other of the two");
	free(plain.instructions);
	free(tier2.instructions);
	return 0;
}
