/* SPDX-License-Identifier: MIT */
/* What two sandboxes, or a sandbox and the host, could share by a name: `@share` makes it all, `@find` looks for it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"

/* Made of a word that the driver chooses, so that two runs of the tests do not meet. */
struct names {
	key_t key;
	char file[64], temporary[64], queue[64];
	struct sockaddr_un abstract;
	socklen_t abstract_length;
	struct sockaddr_in port;
};

static struct names make_names(int argc, char **argv)
{
	unsigned number = argc > 0 ? (unsigned)atoi(argv[0]) : 0;
	struct names names = {.key = (key_t)(0x6e730000 + number),
		.abstract.sun_family = AF_UNIX,
		.port = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(20000 + number % 10000))}};

	snprintf(names.file, sizeof names.file, "/dev/shm/nsbox-probe-%u", number);
	snprintf(names.temporary, sizeof names.temporary, "/tmp/nsbox-probe-%u", number);
	snprintf(names.queue, sizeof names.queue, "/nsbox-probe-%u", number);
	snprintf(names.abstract.sun_path + 1, sizeof names.abstract.sun_path - 1, "nsbox-probe-%u", number);
	names.abstract_length =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(names.abstract.sun_path + 1));
	inet_pton(AF_INET, "127.0.0.1", &names.port.sin_addr);
	return names;
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	if (fd >= 0)
		close(fd);
}

static void listen_on(int family, const void *address, socklen_t length)
{
	int fd = socket(family, SOCK_STREAM, 0);

	if (bind(fd, address, length) < 0 || listen(fd, 8) < 0)
		note("listening: %s", strerror(errno));
}

/* Makes everything, says so, and waits until its standard input ends; then it takes it away. */
static enum outcome share(int argc, char **argv)
{
	struct names names = make_names(argc, argv);
	int memory = shmget(names.key, 4096, IPC_CREAT | 0666);
	int semaphore = semget(names.key, 1, IPC_CREAT | 0666);
	int messages = msgget(names.key, IPC_CREAT | 0666);
	mqd_t queue = mq_open(names.queue, O_RDWR | O_CREAT, 0666, NULL);
	char byte;

	make_file(names.file);
	make_file(names.temporary);
	listen_on(AF_UNIX, &names.abstract, names.abstract_length);
	listen_on(AF_INET, &names.port, sizeof names.port);
	note("shared");
	while (read(0, &byte, 1) > 0)
		;
	shmctl(memory, IPC_RMID, NULL);
	semctl(semaphore, 0, IPC_RMID);
	msgctl(messages, IPC_RMID, NULL);
	if (queue != (mqd_t)-1)
		mq_unlink(names.queue);
	unlink(names.file);
	unlink(names.temporary);
	return BLOCKED;
}

static enum outcome found(const char *what, int result)
{
	if (result < 0) {
		note("%s: %s", what, strerror(errno));
		return BLOCKED;
	}
	note("%s: found", what);
	return ALLOWED;
}

static int connect_to(int family, const void *address, socklen_t length)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, address, length);
}

/* argv[1]: which one; the control wants each to be found, the sandbox none. */
static enum outcome find(int argc, char **argv)
{
	struct names names = make_names(argc, argv);
	const char *kind = argc > 1 ? argv[1] : "";

	if (strcmp(kind, "shm") == 0)
		return found("System V shared memory", shmget(names.key, 0, 0));
	if (strcmp(kind, "sem") == 0)
		return found("a System V semaphore", semget(names.key, 0, 0));
	if (strcmp(kind, "msg") == 0)
		return found("a System V message queue", msgget(names.key, 0));
	if (strcmp(kind, "mqueue") == 0)
		return found("a POSIX message queue", (int)mq_open(names.queue, O_RDONLY));
	if (strcmp(kind, "dev-shm") == 0)
		return found(names.file, open(names.file, O_RDONLY));
	if (strcmp(kind, "tmp") == 0)
		return found(names.temporary, open(names.temporary, O_RDONLY));
	if (strcmp(kind, "abstract") == 0)
		return found("an abstract socket", connect_to(AF_UNIX, &names.abstract, names.abstract_length));
	if (strcmp(kind, "tcp") == 0)
		return found("a TCP port of 127.0.0.1", connect_to(AF_INET, &names.port, sizeof names.port));
	return UNCLEAR;
}

const struct probe shared_probes[] = {
	{"@share", "make things that have a name", CONTROL_NONE, share},
	{"@find", "find a thing of another sandbox or of the host", CONTROL_NONE, find},
	{0},
};
