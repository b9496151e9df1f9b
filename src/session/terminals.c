/* SPDX-License-Identifier: MIT */
/*
 * Terminals of a session's commands. The devpts is the sandbox's own, and a descriptor of its directory came up while
 * the sandbox was made: so the supervisor opens both ends itself, and nothing that the code has made. The devpts has
 * room for 64 terminals, of which the code may take any number: then there is none to be had until it gives some back.
 *
 * The master goes to the client. The supervisor never reads or writes it, so it never waits for either side.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "sandbox/mounts.h"
#include "session/supervise.h"
#include "util/cleanup.h"
#include "util/error.h"

enum { PTMX_MODE = 0666, TERMINAL_MODE = 0620, ROWS_MAX = UINT16_MAX };

static int open_master(const struct session *session)
{
	const int flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(session->devpts_fd, "ptmx", flags);

	/* The code, where its id is ours, can have taken that from its owner. */
	if (fd < 0 && errno == EACCES && fchmodat(session->devpts_fd, "ptmx", PTMX_MODE, 0) == 0)
		fd = openat(session->devpts_fd, "ptmx", flags);
	return fd;
}

static uint16_t number(const json_t *size, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(size, key));

	return value > 0 && value <= ROWS_MAX ? (uint16_t)value : 0;
}

/* Root: whoever opens a terminal owns it, and the command is somebody else. */
static int give_to_sandbox(const struct session *session, int peer)
{
	const struct idmap *idmap = &session->sandbox.idmap;

	if (!idmap->by_parent)
		return 0;
	return fchown(peer, idmap->host_uid, idmap->host_gid) < 0 || fchmod(peer, TERMINAL_MODE) < 0 ? -1 : 0;
}

int terminal_open(
	const struct session *session, const json_t *size, int *ret_master, int *ret_peer, struct error *err)
{
	const struct winsize window = {.ws_row = number(size, "rows"), .ws_col = number(size, "columns")};
	cleanup_close int master = open_master(session), peer = -1;
	int unlock = 0;

	if (master < 0 && errno == ENOSPC) {
		error_set(err, 0, "the session's sandbox has no room for another terminal");
		return error_hint(err, "end those of its commands that have opened so many: nsbox session ps lists them");
	}
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCSWINSZ, &window) < 0)
		return error_set(err, errno, "opening a terminal in the sandbox");
	peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (peer < 0 || give_to_sandbox(session, peer) < 0)
		return error_set(err, errno, "opening a terminal in the sandbox");
	*ret_master = move_fd(&master);
	*ret_peer = move_fd(&peer);
	return 0;
}
