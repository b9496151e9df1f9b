/* SPDX-License-Identifier: MIT */
/*
 * Requests for work on files, right and wrong ones, with any paths, on a small tree that is made anew for each.
 * Whatever is asked, the answer is one of its kind, whole, and no descriptor is left open.
 *
 * The paths are the fuzzer's, so requests are carried out by a thread that Landlock holds in the tree: it can read and
 * change nothing else. Where the kernel has no Landlock, requests go no further than being taken apart. What the
 * thread does to itself (umask, signals) does the rest no harm, and all else of libFuzzer's works on outside of it.
 *
 * Input: a byte that says how the lengths are meant (as they are in the bytes, or made to add up), the bytes of the
 * struct, then up to 255 bytes of content with their length before them, and the rest is strings.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"
#include "sandbox/fileops.h"
#include "sandbox/landlock.h"
#include "util/error.h"

enum { ADD_UP = 1, KIND = 2, CUT = 4, CONTENT_MAX = 255, DRAIN = 64 << 10 };

/* Not on a disk, which would be what takes the time. */
static char tree[] = "/dev/shm/nsbox-fuzz-fileops.XXXXXX", directory[sizeof tree + 5];

/* --- the tree --- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (type == FTW_DP || ftw->level == 0)
		return ftw->level == 0 ? 0 : rmdir(path);
	return unlink(path);
}

static int open_up(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return type == FTW_D || type == FTW_DNR ? chmod(path, 0700) : 0;
}

static void empty_tree(void)
{
	nftw(tree, open_up, 16, FTW_PHYS);
	nftw(tree, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

static void remove_all(void)
{
	empty_tree();
	rmdir(tree);
}

static void make_file(int dir, const char *name, const char *content)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	require(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content), "a file can be made");
	close(fd);
}

/* Returns the directory that relative paths begin at. */
static void make_tree(void)
{
	int top, dir;

	empty_tree();
	require(mkdir(directory, 0755) == 0, "a directory can be made");
	top = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_file(top, "a", "one two one");
	make_file(top, "b", "");
	require(mkdirat(top, "d", 0755) == 0 && mkdirat(top, "d/e", 0500) == 0, "directories can be made");
	dir = openat(top, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_file(dir, "c", "content");
	linkat(top, "a", dir, "h", 0);
	symlinkat("../a", dir, "l");
	symlinkat("d", top, "s");
	symlinkat("o", top, "o");
	symlinkat("/etc/hostname", top, "z");
	mkfifoat(top, "f", 0644);
	close(dir);
	close(top);
}

/* --- the thread --- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool confined, refused, wanted, done;
	const void *request;
	size_t length;
	int channel, result;
} worker = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool confine(void)
{
	struct landlock wall = LANDLOCK_INIT;
	struct error err = {0};
	int dir = open(tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int begun = landlock_begin_own(0, &wall, &err);

	if (begun == 0)
		return false;
	require(begun > 0 && landlock_allow(&wall, dir, LANDLOCK_CHANGE, &err) == 0, "a wall can be made");
	require(landlock_enforce(&wall, &err) == 0, "the thread can be confined");
	close(dir);
	require(open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES, "the thread is confined");
	return true;
}

static void *serve(void *unused)
{
	bool confined = confine();

	pthread_mutex_lock(&worker.lock);
	worker.confined = confined;
	worker.refused = !confined;
	for (;;) {
		pthread_cond_broadcast(&worker.changed);
		while (!worker.wanted)
			pthread_cond_wait(&worker.changed, &worker.lock);
		worker.wanted = false;
		pthread_mutex_unlock(&worker.lock);
		worker.result = fileop_serve(worker.request, worker.length, worker.channel, directory);
		shutdown(worker.channel, SHUT_RDWR);
		pthread_mutex_lock(&worker.lock);
		worker.done = true;
	}
	return NULL;
}

static void start_worker(void)
{
	pthread_t thread;

	require(mkdtemp(tree) != NULL, "a directory can be made");
	snprintf(directory, sizeof directory, "%s/work", tree);
	atexit(remove_all);
	require(pthread_create(&thread, NULL, serve, NULL) == 0, "a thread can be made");
	pthread_mutex_lock(&worker.lock);
	while (!worker.confined && !worker.refused)
		pthread_cond_wait(&worker.changed, &worker.lock);
	pthread_mutex_unlock(&worker.lock);
	if (worker.refused)
		fprintf(stderr, "fuzz_fileops: no Landlock here: requests are not carried out\n");
}

/* --- answers --- */

/* libFuzzer's timer interrupts. */
static size_t receive(int fd, void *data, size_t size)
{
	size_t length = 0;

	while (length < size) {
		ssize_t n = recv(fd, (char *)data + length, size - length, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		length += (size_t)n;
	}
	return length;
}

static void check_listing(int fd)
{
	static char text[FILEOP_PATH_MAX + 1];
	struct fileop_entry entry;

	for (;;) {
		require(receive(fd, &entry, sizeof entry) == sizeof entry, "a record is whole");
		if (entry.type == 0)
			break;
		require(entry.name_length > 0 && entry.name_length < FILEOP_PATH_MAX, "a name has a length");
		require(receive(fd, text, entry.name_length + 1) == entry.name_length + 1, "a name is whole");
		require(strlen(text) == entry.name_length, "a name ends where it should");
		require(entry.type == S_IFLNK || entry.target_length == 0, "a target is a link's");
		if (entry.type != S_IFLNK)
			continue;
		require(entry.target_length < FILEOP_PATH_MAX, "a target has a length");
		require(receive(fd, text, entry.target_length + 1) == entry.target_length + 1, "a target is whole");
	}
	require(entry.count <= 1, "entries were left out or not");
}

static void check_scan(int fd, uint64_t limit)
{
	static char text[FILEOP_PATH_MAX];
	struct fileop_directory directory;
	struct fileop_node node;
	uint64_t nodes = 0;

	for (uint64_t left = 1; left > 0; left--) {
		require(receive(fd, &directory, sizeof directory) == sizeof directory, "a directory is whole");
		require(directory.errnum == 0 || directory.count == 0, "what was not looked into has nothing");
		nodes += directory.count;
		for (uint32_t i = 0; i < directory.count; i++) {
			require(receive(fd, &node, sizeof node) == sizeof node, "a node is whole");
			require(node.name_length > 0 && node.name_length <= 256, "a name has a length");
			require(receive(fd, text, node.name_length) == node.name_length, "a name is whole");
			require((text[node.name_length - 1] == '/') == S_ISDIR(node.mode), "directories have a slash");
			left += S_ISDIR(node.mode);
		}
	}
	require(nodes <= limit && nodes <= FILEOP_SCAN_MAX, "no more than asked for is told");
}

static void check_answer(int fd, const struct fileop *request)
{
	static char buffer[DRAIN];
	struct fileop_answer answer;
	uint64_t left;

	require(receive(fd, &answer, sizeof answer) == sizeof answer, "there is an answer");
	require(answer.stage <= FILEOP_MAKING, "a stage is one");
	require(answer.stage != FILEOP_DONE || answer.errnum == 0, "what is done has no error");
	if (answer.stage == FILEOP_DONE && request->kind == FILEOP_LIST)
		check_listing(fd);
	if (answer.stage == FILEOP_DONE && request->kind == FILEOP_SCAN)
		check_scan(fd, request->limit);
	left = answer.stage == FILEOP_DONE && request->kind == FILEOP_READ ? answer.count : 0;
	require(left <= request->limit || request->kind != FILEOP_READ, "no more is read than was asked for");
	while (left > 0) {
		size_t n = receive(fd, buffer, left < sizeof buffer ? (size_t)left : sizeof buffer);

		require(n > 0, "content is whole");
		left -= n;
	}
	require(receive(fd, buffer, 1) == 0, "nothing follows");
}

/* --- requests --- */

/* Sets the lengths as three parts of `size`: the strings are parted by their first two newlines. */
static void add_up(struct fileop *request, uint8_t *strings, size_t size)
{
	uint8_t *first = memchr(strings, '\n', size);
	size_t path = first ? (size_t)(first - strings) : size, rest = size - path;
	uint8_t *second = rest > 1 ? memchr(first + 1, '\n', rest - 1) : NULL;

	request->path_length = (uint32_t)path;
	request->from_length = 0;
	request->to_length = (uint32_t)rest;
	if (request->kind == FILEOP_EDIT && second) {
		request->from_length = (uint32_t)(second - first);
		request->to_length = (uint32_t)(size - path - request->from_length);
	}
	if (request->kind == FILEOP_MOVE && rest > 1)
		first[0] = 'm'; /* no newline: a name that can be told */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	uint8_t how = take_byte(&input), content[CONTENT_MAX];
	struct fileop request = {0};
	size_t content_length, length;
	int sockets[2], descriptor;
	uint8_t *message;
	static bool started;

	if (!started)
		start_worker();
	started = true;
	make_tree();
	descriptor = next_descriptor();
	take_bytes(&input, &request, sizeof request);
	content_length = take_bytes(&input, content, take_byte(&input));
	length = sizeof request + input.left;
	message = malloc(length);
	require(message != NULL, "there is memory");
	memcpy(message + sizeof request, input.data, input.left);
	if (how & KIND) {
		request.kind = request.kind % FILEOP_SCAN + 1;
		request.flags &= 63;
		request.mode &= 07777;
	}
	if (how & ADD_UP)
		add_up(&request, message + sizeof request, input.left);
	memcpy(message, &request, sizeof request);
	if (how & CUT && input.left == 0)
		length = request.flags % sizeof request;
	if (worker.refused)
		request.kind = 0;
	if (worker.refused && length >= sizeof request)
		memcpy(message, &request, sizeof request);
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "a socket can be made");
	send(sockets[0], content, content_length, MSG_NOSIGNAL);
	shutdown(sockets[0], SHUT_WR);
	pthread_mutex_lock(&worker.lock);
	worker.request = message;
	worker.length = length;
	worker.channel = sockets[1];
	worker.done = false;
	worker.wanted = true;
	pthread_cond_broadcast(&worker.changed);
	pthread_mutex_unlock(&worker.lock);
	check_answer(sockets[0], &request);
	pthread_mutex_lock(&worker.lock);
	while (!worker.done)
		pthread_cond_wait(&worker.changed, &worker.lock);
	pthread_mutex_unlock(&worker.lock);
	require(worker.result == 0, "the answer was given");
	close(sockets[0]);
	close(sockets[1]);
	free(message);
	require(next_descriptor() == descriptor, "no descriptor is left open");
	return 0;
}
