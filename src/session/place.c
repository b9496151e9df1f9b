/* SPDX-License-Identifier: MIT */
/* The places of sessions: see place.h. */
#define _GNU_SOURCE
#include "session/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

enum { CONNECT_S = 10, UNNAMED_S = 60, BACKLOG = 64, TRIES = 4, ID_BYTES = SESSION_ID_LENGTH / 2 };

/* The folder of what is nsbox's, in which that of sessions is. */
static void choose_folder(char ret[PATH_MAX])
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (runtime && *runtime == '/')
		snprintf(ret, PATH_MAX, "%s/nsbox", runtime);
	else if (geteuid() == 0)
		snprintf(ret, PATH_MAX, "/run/nsbox");
	else
		snprintf(ret, PATH_MAX, "/tmp/nsbox-%u", (unsigned)geteuid());
}

/* Whoever else can write there could put a socket of theirs in the place of a session. */
static int check_owner(int fd, const char *path, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "%s", path);
	if (st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0)
		return 0;
	error_set(err, 0,
		"%s, the folder of sessions, belongs to somebody else or can be changed by others",
		path);
	return error_hint(err, "remove it, or set XDG_RUNTIME_DIR to a folder of your own");
}

static int cannot_use(const char *folder, const char *what, struct error *err)
{
	error_set(err, errno, "%s %s, the folder of sessions", what, folder);
	if (err->errnum == EACCES || err->errnum == EPERM)
		error_hint(err, "set XDG_RUNTIME_DIR to a folder of your own, or unset it");
	return -1;
}

/* A folder in `dir`, called `path` for people. Nobody can exchange it between the looks. */
static int open_folder(
	int dir, const char *name, mode_t mode, bool create, const char *path, struct error *err)
{
	cleanup_close int fd = -1;

	if (create && mkdirat(dir, name, mode) < 0 && errno != EEXIST)
		return cannot_use(path, "making", err);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return cannot_use(path, "opening", err);
	return check_owner(fd, path, err) < 0 ? -1 : move_fd(&fd);
}

int session_place_open(bool create, struct error *err)
{
	/* /run/nsbox is shared with the file of ids, which any process of root's makes. */
	mode_t mode = geteuid() == 0 ? 0755 : 0700;
	cleanup_close int folder = -1;
	char path[PATH_MAX];

	choose_folder(path);
	folder = open_folder(AT_FDCWD, path, mode, create, path, err);
	return folder < 0 ? -1 : open_folder(folder, "sessions", 0700, create, path, err);
}

bool session_id_valid(const char *id)
{
	return strlen(id) == SESSION_ID_LENGTH &&
	       strspn(id, "0123456789abcdef") == SESSION_ID_LENGTH;
}

enum { NAME_SIZE = SESSION_ID_SIZE + 1 /* an id, and a dot before it */ };

/* By the folder's descriptor: paths may be longer than a socket's address has room for. */
static void address_of(int place, const char *name, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%.*s", place, NAME_SIZE - 1, name);
}

static int make_id(char ret[SESSION_ID_SIZE], struct error *err)
{
	unsigned char bytes[ID_BYTES];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return error_set(err, errno, "getting random bytes");
	for (size_t i = 0; i < sizeof bytes; i++)
		sprintf(ret + 2 * i, "%02x", bytes[i]);
	return 0;
}

/* It gets the name of a session when somebody listens: one that refuses is taken for what a dead session left. */
int session_listen(int place, bool shared, char ret_id[SESSION_ID_SIZE], struct error *err)
{
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	char name[NAME_SIZE];
	mode_t mask;
	int r;

	if (fd < 0)
		return error_set(err, errno, "making a socket");
	if (make_id(ret_id, err) < 0)
		return -1;
	snprintf(name, sizeof name, ".%s", ret_id);
	address_of(place, name, &address);
	mask = umask(shared ? 077 : 0177);
	r = bind(fd, (struct sockaddr *)&address, sizeof address);
	umask(mask);
	if (r < 0)
		return error_set(err, errno, "making the socket of the session");
	if (listen(fd, BACKLOG) < 0 || renameat(place, name, place, ret_id) < 0) {
		error_set(err, errno, "making the socket of the session");
		unlinkat(place, name, 0);
		return -1;
	}
	return move_fd(&fd);
}

void session_remove(int place, const char *id)
{
	unlinkat(place, id, 0);
}

/* Returns -1 with errno; ECONNREFUSED where nobody listens: then it is removed. EAGAIN: too many wait. */
static int try_connect(int place, const char *id, int flags)
{
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	const struct timeval wait = {.tv_sec = CONNECT_S}, none = {.tv_sec = 0};
	struct sockaddr_un address;

	if (fd < 0)
		return -1;
	address_of(place, id, &address);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
		return move_fd(&fd);
	}
	if (errno == ECONNREFUSED) {
		session_remove(place, id);
		errno = ECONNREFUSED;
	}
	return -1;
}

struct ids {
	char (*list)[SESSION_ID_SIZE];
	size_t count;
};

static int compare_ids(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* A socket that got no name, as its maker was killed before. One that is being made has it in a moment. */
static void sweep(int place, const char *name)
{
	struct stat st;

	if (fstatat(place, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ctime + UNNAMED_S < time(NULL))
		unlinkat(place, name, 0);
}

static int read_ids(int place, struct ids *ret, struct error *err)
{
	int fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	size_t room = 0;

	*ret = (struct ids){0};
	if (!stream) {
		close_fd(&fd);
		return error_set(err, errno, "reading the folder of sessions");
	}
	while ((entry = readdir(stream))) {
		if (entry->d_name[0] == '.' && session_id_valid(entry->d_name + 1))
			sweep(place, entry->d_name);
		if (!session_id_valid(entry->d_name))
			continue;
		if (ret->count == room) {
			room = room ? 2 * room : 16;
			ret->list = xrealloc(ret->list, room, sizeof *ret->list);
		}
		strcpy(ret->list[ret->count++], entry->d_name);
	}
	closedir(stream);
	if (ret->count > 1)
		qsort(ret->list, ret->count, sizeof *ret->list, compare_ids);
	return 0;
}

int session_unknown(const char *id, struct error *err)
{
	char buffer[QUOTED_MAX], folder[PATH_MAX];

	choose_folder(folder);
	error_set(err, 0,
		"there is no session %s in %s: it was stopped, its time was up, or it never was",
		quoted(id, buffer), folder);
	err->errnum = ENOENT;
	return error_hint(
		err, "nsbox session ls lists those that there are; nsbox session new makes one");
}

/* The only id that begins with `prefix`. */
static int complete_id(int place, const char *prefix, char ret[SESSION_ID_SIZE], struct error *err)
{
	char buffer[QUOTED_MAX];
	struct ids ids;
	size_t found = 0;

	if (read_ids(place, &ids, err) < 0)
		return -1;
	for (size_t i = 0; i < ids.count; i++)
		if (*prefix && strncmp(ids.list[i], prefix, strlen(prefix)) == 0) {
			strcpy(ret, ids.list[i]);
			found++;
		}
	free(ids.list);
	if (found == 1)
		return 0;
	return found == 0 ? session_unknown(prefix, err)
			  : error_set(err, 0, "%zu sessions begin with %s: write more of its id",
				    found, quoted(prefix, buffer));
}

int session_connect(const char *id, char ret_id[SESSION_ID_SIZE], struct error *err)
{
	cleanup_close int place = session_place_open(false, err);
	char whole[SESSION_ID_SIZE];
	int fd;

	if (!*id)
		return error_set(err, 0, "the id of the session is empty");
	if (place < 0)
		return err->errnum == ENOENT ? session_unknown(id, err) : -1;
	if (session_id_valid(id))
		strcpy(whole, id);
	else if (complete_id(place, id, whole, err) < 0)
		return -1;
	fd = try_connect(place, whole, 0);
	if (fd < 0 && errno == EAGAIN)
		return error_set(err, 0, "the session %s is so busy that it takes no more requests", whole);
	if (fd < 0 && (errno == ENOENT || errno == ECONNREFUSED))
		return session_unknown(id, err);
	if (fd < 0)
		return error_set(err, errno, "connecting to the session %s", whole);
	if (ret_id)
		strcpy(ret_id, whole);
	return fd;
}

int session_list(
	void (*each)(void *data, const char *id, int socket), void *data, struct error *err)
{
	cleanup_close int place = session_place_open(false, err);
	struct ids ids;

	if (place < 0)
		return err->errnum == ENOENT ? 0 : -1;
	if (read_ids(place, &ids, err) < 0)
		return -1;
	for (size_t i = 0; i < ids.count; i++) {
		int fd = try_connect(place, ids.list[i], SOCK_NONBLOCK);

		if (fd >= 0)
			fcntl(fd, F_SETFL, 0);
		if (fd >= 0 || errno == EAGAIN)
			each(data, ids.list[i], fd);
	}
	free(ids.list);
	return 0;
}

static bool is_shared(int place, const char *id)
{
	struct stat st;

	return fstatat(place, id, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mode & S_IXUSR;
}

int session_connect_shared(const char *id, struct error *err)
{
	cleanup_close int place = session_place_open(false, err);
	int fd;

	if (place < 0)
		return err->errnum == ENOENT ? session_unknown(id, err) : -1;
	if (!session_id_valid(id) || !is_shared(place, id))
		return session_unknown(id, err);
	fd = try_connect(place, id, SOCK_NONBLOCK);
	if (fd >= 0)
		return fd;
	if (errno == ENOENT || errno == ECONNREFUSED)
		return session_unknown(id, err);
	if (errno == EAGAIN)
		return error_set(err, 0, "the sandbox %s is so busy that it takes no more requests", id);
	return error_set(err, errno, "connecting to the sandbox %s", id);
}

/* Those that are, among ids that were read. */
static void keep_shared(int place, struct ids *ids)
{
	size_t kept = 0;

	for (size_t i = 0; i < ids->count; i++)
		if (is_shared(place, ids->list[i]))
			memmove(ids->list[kept++], ids->list[i], SESSION_ID_SIZE);
	ids->count = kept;
}

int session_count_shared(int place, size_t *ret, struct error *err)
{
	struct ids ids;

	*ret = 0;
	if (read_ids(place, &ids, err) < 0)
		return -1;
	keep_shared(place, &ids);
	for (size_t i = 0; i < ids.count; i++) {
		int fd = try_connect(place, ids.list[i], SOCK_NONBLOCK);

		*ret += fd >= 0 || errno == EAGAIN;
		close_fd(&fd);
	}
	free(ids.list);
	return 0;
}

int session_list_shared(char (**ret)[SESSION_ID_SIZE], size_t *ret_count, struct error *err)
{
	cleanup_close int place = session_place_open(false, err);
	struct ids ids;

	*ret = NULL;
	*ret_count = 0;
	if (place < 0)
		return err->errnum == ENOENT ? 0 : -1;
	if (read_ids(place, &ids, err) < 0)
		return -1;
	keep_shared(place, &ids);
	*ret = ids.list;
	*ret_count = ids.count;
	return 0;
}
