/* SPDX-License-Identifier: MIT */
/* Starting nsbox-unpack, and talking with it: see unpacker.h. */
#define _GNU_SOURCE
#include "image/unpacker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/remove.h"
#include "image/start.h"
#include "image/store.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { WORDS_MAX = MANIFEST_LAYERS_MAX + 16, WORD_SIZE = 24 };

static int spawn(char **words, int blob, int directory, struct unpacker *unpacker,
	const int *passed, size_t count, struct error *err)
{
	int ends[2], own[START_UNPACK_OWN] = {blob, -1, directory, unpacker->notes};
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set(err, errno, "making a socket");
	own[1] = ends[1];
	pid = start_unpack(words, own, passed, count, err);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return error_context(err, "starting nsbox-unpack");
	}
	unpacker->pid = pid;
	close_fd(&unpacker->control);
	unpacker->control = ends[0];
	return 0;
}

/* One attempt; 1 when somebody who tidies up took the new directory for a left one. */
static int try_to_make_directory(
	const struct store *store, struct unpacker *unpacker, struct error *err)
{
	char path[PATH_MAX + 32], *made;

	snprintf(path, sizeof path, "%s/tmp/layer-XXXXXX", store->path);
	made = mkdtemp(path);
	if (!made)
		return error_set(err, errno, "making a directory in %s/tmp", store->path);
	snprintf(unpacker->name, sizeof unpacker->name, "tmp/%s", strrchr(made, '/') + 1);
	unpacker->lock =
		openat(store->fd, unpacker->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (unpacker->lock >= 0 && flock(unpacker->lock, LOCK_EX | LOCK_NB) == 0 &&
		mkdirat(unpacker->lock, "fs", 0755) == 0)
		return 0;
	if (errno == ENOENT || errno == EWOULDBLOCK) {
		close_fd(&unpacker->lock);
		return 1;
	}
	return error_set(err, errno, "making %s/%s", store->path, unpacker->name);
}

/* tmp/layer-XXXXXX with an empty «fs» in it, locked. Returns the descriptor of «fs». */
static int make_directory(const struct store *store, struct unpacker *unpacker, struct error *err)
{
	int r, fd;

	do
		r = try_to_make_directory(store, unpacker, err);
	while (r > 0);
	if (r < 0)
		return -1;
	fd = openat(unpacker->lock, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fchmod(fd, 0755) == 0)
		return fd;
	error_set(err, errno, "opening %s/%s", store->path, unpacker->name);
	close_fd(&fd);
	return -1;
}

static const char *compression_of(enum media media)
{
	return media == MEDIA_LAYER_GZIP ? "gzip" : media == MEDIA_LAYER_ZSTD ? "zstd" : "tar";
}

int unpacker_start(const struct store *store, int blob, enum media media, bool lowest,
	struct unpacker *ret, struct error *err)
{
	char bytes[WORD_SIZE], ratio[WORD_SIZE], entries[WORD_SIZE];
	char *words[8] = {(char *)"nsbox-unpack", (char *)compression_of(media)};
	cleanup_close int directory = -1;
	size_t count = 2;
	int r = -1;

	*ret = UNPACKER_NONE;
	if (lowest)
		words[count++] = (char *)"lowest";
	if (geteuid() == 0)
		words[count++] = (char *)"owners";
	snprintf(bytes, sizeof bytes, "%" PRIu64, UNPACK_BYTES_MAX);
	snprintf(ratio, sizeof ratio, "%d", UNPACK_RATIO_MAX);
	snprintf(entries, sizeof entries, "%d", UNPACK_ENTRIES_MAX);
	words[count++] = bytes;
	words[count++] = ratio;
	words[count++] = entries;
	directory = make_directory(store, ret, err);
	ret->notes = memfd_create("notes", MFD_CLOEXEC);
	if (directory >= 0 && ret->notes < 0)
		error_set(err, errno, "making a file in memory");
	else if (directory >= 0)
		r = spawn(words, blob, directory, ret, NULL, 0, err);
	if (r < 0)
		unpacker_discard(store, ret);
	return r;
}

void unpacker_progress(const struct unpacker *unpacker, uint64_t size, bool final)
{
	const struct blob_progress progress = {.size = size, .final = final};

	/* It is read as it comes; what does not fit is made good by the next one, and the last one waits. */
	(void)send(unpacker->control, &progress, sizeof progress,
		MSG_NOSIGNAL | (final ? 0 : MSG_DONTWAIT));
}

static int end_of(struct unpacker *unpacker, struct error *err)
{
	int status;

	while (waitpid(unpacker->pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set(err, errno, "waiting for nsbox-unpack");
	unpacker->pid = 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		return error_set(err, 0,
			"nsbox-unpack was ended for a system call that unpacking does not need");
	if (WIFSIGNALED(status))
		return error_set(err, 0, "nsbox-unpack was killed by SIG%s",
			sigabbrev_np(WTERMSIG(status)) ?: "?");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return error_set(err, 0,
			"nsbox-unpack, which should be beside nsbox-image, cannot be started");
	return error_set(err, 0, "nsbox-unpack ended without a result");
}

int unpacker_finish(struct unpacker *unpacker, struct unpack_result *ret, struct error *err)
{
	ssize_t n;

	/* ECONNRESET: it ended before it had read all that it was told, and what it said is still there. */
	do
		n = recv(unpacker->control, ret, sizeof *ret, 0);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	end_of(unpacker, err);
	if (n != sizeof *ret)
		return -1;
	ret->digest[sizeof ret->digest - 1] = '\0';
	ret->error.text[ERROR_TEXT_MAX - 1] = ret->error.hint[ERROR_HINT_MAX - 1] = '\0';
	*err = (struct error){0};
	if (!ret->failed)
		return 0;
	/* Through error_set, which makes it printable. */
	error_set(err, 0, "%s", ret->error.text);
	if (ret->error.hint[0])
		error_hint(err, "%s", ret->error.hint);
	err->errnum = ret->error.errnum;
	return -1;
}

int unpacker_settle(const struct store *store, struct unpacker *unpacker, const int *lowers,
	size_t count, struct error *err)
{
	static char numbers[MANIFEST_LAYERS_MAX][WORD_SIZE];
	char *words[WORDS_MAX] = {(char *)"nsbox-unpack", (char *)"settle"};
	cleanup_close int directory =
		openat(unpacker->lock, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct unpack_result result;
	size_t words_count = 2;

	if (directory < 0)
		return error_set(err, errno, "opening %s/%s", store->path, unpacker->name);
	if (geteuid() == 0)
		words[words_count++] = (char *)"owners";
	for (size_t i = 0; i < count; i++) {
		snprintf(numbers[i], WORD_SIZE, "%zu", START_PASSED_FIRST + i);
		words[words_count++] = numbers[i];
	}
	if (spawn(words, -1, directory, unpacker, lowers, count, err) < 0)
		return -1;
	return unpacker_finish(unpacker, &result, err);
}

void unpacker_discard(const struct store *store, struct unpacker *unpacker)
{
	struct error ignored;

	if (unpacker->pid > 0) {
		kill(unpacker->pid, SIGKILL);
		end_of(unpacker, &ignored);
	}
	if (unpacker->name[0])
		remove_tree(store->fd, unpacker->name, &ignored);
	close_fd(&unpacker->control);
	close_fd(&unpacker->notes);
	close_fd(&unpacker->lock);
	*unpacker = UNPACKER_NONE;
}
