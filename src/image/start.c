/* SPDX-License-Identifier: MIT */
/* Programs that are started for nsbox-image: see start.h. */
#define _GNU_SOURCE
#include "image/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/manifest.h"
#include "image/store.h"
#include "unpack/wire.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/starter.h"

enum {
	FDS_MAX = START_UNPACK_OWN + MANIFEST_LAYERS_MAX,
	WORDS_MAX = MANIFEST_LAYERS_MAX + 16,
	TEXT_MAX = WORDS_MAX * 24,
};

enum kind { START_UNPACK, START_HELPER };

/* Its text is the words, each with its NUL; of a helper, the name. */
struct request {
	uint32_t kind, fds_count, words_count, text_length;
	int32_t fds[FDS_MAX]; /* for a helper: standard input and output */
	char text[TEXT_MAX];
};
_Static_assert(sizeof(struct request) <= STARTER_REQUEST_MAX, "a request is one message");

static struct starter starter = {.socket = -1, .pidfd = -1};

/* The store's directory, told by what it is: the descriptors are common with who asks, and can be exchanged. */
static struct {
	dev_t device;
	ino_t inode;
} home;

/* --- in the new process --- */

/* Beside us: in the same folder as this program. */
static void program_path(char ret[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	snprintf(ret, PATH_MAX, "%.4000s/nsbox-unpack", slash ? self : LIBEXEC_DIR);
}

/* All out of each other's way first, then to where they belong. */
static void place_descriptors(const int32_t *fds, size_t count, const int *targets)
{
	static int high[FDS_MAX];

	for (size_t i = 0; i < count; i++) {
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, START_PASSED_FIRST + FDS_MAX);
		if (high[i] < 0)
			_exit(127);
	}
	for (size_t i = 0; i < count; i++)
		if (dup2(high[i], targets[i]) < 0)
			_exit(127);
}

/* Whether it is a directory below the store's. Nothing from elsewhere can be moved there from behind the wall. */
static bool is_in_store(int fd)
{
	int at = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat below, st;
	bool found = false;

	if (at < 0 || fstat(fd, &below) < 0 || !S_ISDIR(below.st_mode))
		return false;
	while (at >= 0 && fstat(at, &st) == 0) {
		int up;

		found = st.st_dev == home.device && st.st_ino == home.inode;
		/* The top is above itself. */
		if (found || (st.st_dev == below.st_dev && st.st_ino == below.st_ino))
			break;
		below = st;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = up;
	}
	close_fd(&at);
	return found;
}

/* What is to be unpacked into, and the layers below it. */
static bool directories_valid(const struct request *request)
{
	if (!is_in_store(UNPACK_DIRECTORY))
		return false;
	for (uint32_t i = START_UNPACK_OWN; i < request->fds_count; i++)
		if (!is_in_store(START_PASSED_FIRST + (int)(i - START_UNPACK_OWN)))
			return false;
	return true;
}

static void run_unpack(struct request *request)
{
	static char *environment[] = {(char *)"PATH=/usr/bin:/bin", NULL};
	static int targets[FDS_MAX] = {UNPACK_BLOB, UNPACK_CONTROL, UNPACK_DIRECTORY, UNPACK_NOTES};
	static char *words[WORDS_MAX + 1];
	char path[PATH_MAX], *next = request->text, *end = next + request->text_length;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (uint32_t i = 0; i < request->words_count && next < end; i++) {
		words[i] = next;
		next += strlen(next) + 1;
	}
	for (size_t i = START_UNPACK_OWN; i < request->fds_count; i++)
		targets[i] = START_PASSED_FIRST + (int)(i - START_UNPACK_OWN);
	program_path(path);
	place_descriptors(request->fds, request->fds_count, targets);
	if (!directories_valid(request))
		_exit(START_REFUSED);
	execve(path, words, environment);
}

static void run_helper(struct request *request)
{
	static const int targets[] = {STDIN_FILENO, STDOUT_FILENO};
	char program[NAME_MAX];

	if (request->fds_count != 2 || !helper_name_valid(request->text))
		return;
	snprintf(program, sizeof program, "docker-credential-%s", request->text);
	place_descriptors(request->fds, 2, targets);
	execlp(program, program, "get", (char *)NULL);
}

static void run(const void *data, size_t size)
{
	static struct request request;

	if (size < offsetof(struct request, text) || size > sizeof request)
		return;
	memcpy(&request, data, size);
	/* Whatever was sent, what is used of it is there, and ends. */
	if (request.fds_count > FDS_MAX || request.words_count > WORDS_MAX ||
		request.text_length != size - offsetof(struct request, text) ||
		request.text_length == 0 || request.text[request.text_length - 1] != '\0')
		return;
	if (request.kind == START_UNPACK && request.fds_count >= START_UNPACK_OWN)
		run_unpack(&request);
	else if (request.kind == START_HELPER)
		run_helper(&request);
}

/* --- in this one --- */

int start_prepare(const struct store *store, struct error *err)
{
	struct stat st;

	if (fstat(store->fd, &st) < 0)
		return error_set(err, errno, "%s", store->path);
	home.device = st.st_dev;
	home.inode = st.st_ino;
	return starter_open(run, &starter, err);
}

static int add_word(struct request *request, const char *word, struct error *err)
{
	size_t length = strlen(word) + 1;

	if (request->text_length + length > TEXT_MAX || request->words_count == WORDS_MAX)
		return error_set(err, E2BIG, "starting a program");
	memcpy(request->text + request->text_length, word, length);
	request->text_length += (uint32_t)length;
	request->words_count++;
	return 0;
}

static pid_t start(const struct request *request, struct error *err)
{
	return starter_start(
		&starter, request, offsetof(struct request, text) + request->text_length, err);
}

pid_t start_unpack(char *const *words, const int own[START_UNPACK_OWN], const int *passed,
	size_t count, struct error *err)
{
	static struct request request;

	request = (struct request){.kind = START_UNPACK};
	for (size_t i = 0; words[i]; i++)
		if (add_word(&request, words[i], err) < 0)
			return -1;
	if (count > MANIFEST_LAYERS_MAX)
		return error_set(err, E2BIG, "starting nsbox-unpack");
	for (size_t i = 0; i < START_UNPACK_OWN; i++)
		request.fds[request.fds_count++] = own[i] >= 0 ? own[i] : own[1];
	for (size_t i = 0; i < count; i++)
		request.fds[request.fds_count++] = passed[i];
	return start(&request, err);
}

pid_t start_credential_helper(const char *name, int in, int out, struct error *err)
{
	static struct request request;

	request = (struct request){.kind = START_HELPER, .fds_count = 2, .fds = {in, out}};
	return add_word(&request, name, err) < 0 ? -1 : start(&request, err);
}

bool helper_name_valid(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length < 64 && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
		       length;
}
