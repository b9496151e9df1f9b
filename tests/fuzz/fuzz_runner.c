/* SPDX-License-Identifier: MIT */
/*
 * What a supervisor writes to its server: frames, and descriptors with them. Whatever comes, it is made messages of
 * or the run has failed, and no descriptor is left open.
 *
 * Input: for each piece that is sent a byte of flags (descriptors, whether a header is made for it), its type, its
 * length, and its bytes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/socket.h>

#include "fuzz/fuzz.h"
#include "sandbox/wire.h"
#include "session/runner.h"
#include "session/spawner.h"
#include "util/error.h"

enum { BODY_MAX = 255 };

/* Returns false when the run is over. */
static bool drain(struct runner_io *io)
{
	for (;;) {
		struct error err = {0};
		json_t *object = NULL;
		enum runner_message message = runner_read(io, &object, &err);

		if (message == RUNNER_PROGRESS || message == RUNNER_RESULT)
			require(object != NULL, "a message has an object");
		if (message == RUNNER_FAILED)
			require(err.text[0] && !strchr(err.text, '\n'), "a failure has a reason of one line");
		json_decref(object);
		if (message == RUNNER_AGAIN)
			return true;
		if (message != RUNNER_PROGRESS)
			return false;
	}
}

static void send_piece(struct input *input, int socket)
{
	struct {
		struct frame_header header;
		char body[BODY_MAX];
	} piece = {0};
	uint8_t flags = take_byte(input), type = take_byte(input), length = take_byte(input);
	size_t size = take_bytes(input, piece.body, length);
	int fds[3];
	bool bare = flags & 8;

	piece.header.type = type;
	piece.header.length = flags & 16 ? UINT32_MAX - size : (uint32_t)(size + (flags & 32));
	for (int i = 0; i < flags % 4; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* An empty message would be the end. */
	if (!bare || size > 0)
		wire_send(socket, bare ? piece.body : (char *)&piece, size + (bare ? 0 : sizeof piece.header), fds,
			flags % 4, 1);
	for (int i = 0; i < flags % 4; i++)
		close(fds[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct runner_io io = RUNNER_IO_NONE;
	int sockets[2], descriptor = next_descriptor();
	bool going_on = true;

	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0, "a socket can be made");
	io.fd = sockets[0];
	while (input.left > 0 && going_on) {
		send_piece(&input, sockets[1]);
		going_on = drain(&io);
	}
	close(sockets[1]);
	if (going_on)
		require(!drain(&io), "the end of the supervisor is the end of the run");
	for (int i = 0; i < RUNNER_KEPT_MAX; i++)
		if (io.kept_fds[i] >= 0)
			close(io.kept_fds[i]);
	runner_io_close(&io);
	require(next_descriptor() == descriptor, "no descriptor is left open");
	return 0;
}
