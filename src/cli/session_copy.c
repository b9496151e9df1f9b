/* SPDX-License-Identifier: MIT */
/*
 * Copying files of sessions: see session_copy.h. The content goes by a socket pair, whose other end comes with the
 * request; this side alone reads and writes the host's file, and so it alone can have to wait for it.
 */
#define _GNU_SOURCE
#include "cli/session_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/report.h"
#include "session/client.h"
#include "session/place.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { PIECE = 256 << 10 };

/* A request, and the way of its content. */
struct copy {
	int session, content;
};

/* «ID:PATH»: *ret_id is malloc'd. NULL: a file of the host. */
static const char *split_place(const char *text, char **ret_id)
{
	const char *colon = strchr(text, ':'), *slash = strchr(text, '/');

	/* «./a:b» is a file of the host. */
	if (!colon || colon == text || (slash && slash < colon))
		return NULL;
	*ret_id = xmemdup(text, (size_t)(colon - text));
	return colon + 1;
}

/* `request` (taken over) is what there is besides the path. */
static int begin(const char *id, const char *path, json_t *request, struct copy *ret, struct error *err)
{
	cleanup_close int session = session_connect(id, NULL, err), theirs = -1, ours = -1;
	int ends[2];

	json_object_set_new(request, "op", json_string("file"));
	json_object_set_new(request, "path", bytes_to_json(path, strlen(path)));
	json_object_set_new(request, "stream", json_true());
	if (session < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		json_decref(request);
		return session < 0 ? -1 : error_set(err, errno, "making a socket");
	}
	ours = ends[0];
	theirs = ends[1];
	if (session_send(session, request, &theirs, 1, err) < 0)
		return -1;
	ret->session = move_fd(&session);
	ret->content = move_fd(&ours);
	return 0;
}

/* *ret: what the session says of it; a new reference. */
static int end(struct copy *copy, json_t **ret, struct error *err)
{
	*ret = session_receive(copy->session, NULL, err);
	return *ret ? 0 : -1;
}

static void give_up(struct copy *copy)
{
	close_fd(&copy->content);
	close_fd(&copy->session);
}

/* --- out of a session --- */

/* A new file beside the old one, which takes its place when it is whole. */
static int open_beside(const char *path, char **ret_name, struct error *err)
{
	struct stat old;
	mode_t mask = umask(0);
	mode_t mode = stat(path, &old) == 0 ? old.st_mode & 0777 : 0666 & ~mask;
	int fd;

	umask(mask);
	*ret_name = xasprintf("%s.nsbox-XXXXXX", path);
	fd = mkostemp(*ret_name, O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "making a file beside %s", path);
	if (fchmod(fd, mode) < 0) {
		error_set(err, errno, "setting the mode of %s", *ret_name);
		unlink(*ret_name);
		close_fd(&fd);
	}
	return fd;
}

/* What is there, and is no regular file, is written to as it is. *ret_beside: malloc'd, or NULL. */
static int open_target(const char *to, char **ret_beside, struct error *err)
{
	struct stat st;
	int fd;

	if (strcmp(to, "-") == 0)
		fd = dup(STDOUT_FILENO);
	else if (stat(to, &st) == 0 && !S_ISREG(st.st_mode))
		fd = open(to, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	else
		return open_beside(to, ret_beside, err);
	return fd < 0 ? error_set(err, errno, "opening %s", to) : fd;
}

static ssize_t receive(int fd, void *buffer, size_t size, int flags)
{
	ssize_t n;

	do
		n = recv(fd, buffer, size, flags);
	while (n < 0 && errno == EINTR);
	return n;
}

static int take_content(struct copy *copy, int fd, struct error *err)
{
	cleanup_free char *piece = xmalloc(PIECE);
	uint64_t length = 0;
	json_t *answer;
	ssize_t n;
	int r;

	while ((n = receive(copy->content, piece, PIECE, 0)) > 0) {
		if (write_whole(fd, piece, (size_t)n) < 0)
			return error_set(err, errno, "writing it");
		length += (uint64_t)n;
	}
	r = end(copy, &answer, err);
	/* The session's supervisor can die in between. */
	if (r == 0 && (uint64_t)json_integer_value(json_object_get(answer, "count")) != length)
		r = error_set(err, 0, "not all of it came");
	json_decref(answer);
	return r;
}

static int copy_out(struct copy *copy, const char *to, struct error *err)
{
	cleanup_free char *beside = NULL;
	cleanup_close int fd = -1;
	json_t *answer;
	char byte;
	int r;

	/* Where there is nothing to be had, nothing is opened: what is at `to` could be a FIFO, or have to be made. */
	if (receive(copy->content, &byte, 1, MSG_PEEK) <= 0) {
		if (end(copy, &answer, err) < 0)
			return -1;
		json_decref(answer);
		shutdown(copy->session, SHUT_RDWR);
		fd = open_target(to, &beside, err);
		r = fd < 0 ? -1 : 0;
	} else {
		fd = open_target(to, &beside, err);
		r = fd < 0 ? -1 : take_content(copy, fd, err);
	}
	if (r == 0 && beside && rename(beside, to) < 0)
		r = error_set(err, errno, "putting it at %s", to);
	if (r < 0 && beside)
		unlink(beside);
	return r;
}

/* --- into a session --- */

/* Whether the session has answered before it had everything: it does not want the rest. */
static bool has_answered(const struct copy *copy, int fd)
{
	struct pollfd fds[] = {{.fd = copy->session, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	return fds[0].revents;
}

static int send_whole(int fd, const char *data, size_t length)
{
	while (length > 0) {
		ssize_t n = send(fd, data, length, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		length -= (size_t)n;
	}
	return 0;
}

static int copy_in(struct copy *copy, int fd, struct error *err)
{
	cleanup_free char *piece = xmalloc(PIECE);
	json_t *answer;
	ssize_t n;
	int r;

	while (!has_answered(copy, fd)) {
		n = read(fd, piece, PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, errno, "reading it");
		if (n == 0) {
			shutdown(copy->content, SHUT_WR);
			break;
		}
		/* Who does not take it says why. */
		if (send_whole(copy->content, piece, (size_t)n) < 0)
			break;
	}
	r = end(copy, &answer, err);
	json_decref(answer);
	return r;
}

/* --- both --- */

static int open_source(const char *from, unsigned *ret_mode, struct error *err)
{
	cleanup_close int fd = strcmp(from, "-") == 0 ? dup(STDIN_FILENO) : open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "opening %s", from);
	if (S_ISDIR(st.st_mode))
		return error_set(err, EISDIR, "%s", from);
	*ret_mode = S_ISREG(st.st_mode) ? st.st_mode & 0777 : 0;
	return move_fd(&fd);
}

static bool names_directory(const char *path)
{
	return !*path || path[strlen(path) - 1] == '/';
}

static bool is_directory(const char *path)
{
	struct stat st;

	return names_directory(path) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

/* The same name in a directory, which may be empty for where relative paths begin; malloc'd. */
static char *below(const char *directory, const char *from)
{
	const char *slash = strrchr(from, '/'), *name = slash ? slash + 1 : from;
	bool apart = !names_directory(directory);

	return xasprintf("%s%s%s", directory, apart ? "/" : "", name);
}

int session_copy(const char *from, const char *to, struct error *err)
{
	cleanup_free char *from_id = NULL, *to_id = NULL, *into = NULL;
	const char *from_path = split_place(from, &from_id), *to_path = split_place(to, &to_id);
	struct copy copy = {.session = -1, .content = -1};
	cleanup_close int fd = -1;
	unsigned mode = 0;
	int r;

	if (!from_path == !to_path)
		return error_set(err, 0,
			"one of the two must be ID:PATH, a file in a session; see nsbox session cp --help");
	if (from_path && strcmp(to, "-") != 0 && is_directory(to))
		to = into = below(to, from_path);
	if (to_path && strcmp(from, "-") != 0 && names_directory(to_path))
		to_path = into = below(to_path, from);
	if (to_path && (fd = open_source(from, &mode, err)) < 0)
		return -1;
	if (from_path)
		r = begin(from_id, from_path, json_pack("{s:s}", "kind", "read"), &copy, err);
	else
		r = begin(to_id, to_path,
			json_pack("{s:s, s:i, s:b}", "kind", "write", "mode", (int)mode, "parents", 1), &copy, err);
	if (r == 0)
		r = from_path ? copy_out(&copy, to, err) : copy_in(&copy, fd, err);
	give_up(&copy);
	return r;
}
