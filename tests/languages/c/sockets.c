/* HTTP over loopback, and a Unix socket of the abstract namespace. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof a;
	char text[256];
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(s, (void *)&a, sizeof a) || listen(s, 1) || getsockname(s, (void *)&a, &length))
		return 1;
	if (fork() == 0) {
		int c = accept(s, NULL, NULL);
		ssize_t n = read(c, text, sizeof text);
		dprintf(c, "HTTP/1.0 200 OK\r\n\r\n%.3s", n > 3 ? text : "?");
		_exit(0);
	}
	int c = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(c, (void *)&a, sizeof a))
		return 2;
	dprintf(c, "GET / HTTP/1.0\r\n\r\n");
	wait(NULL);
	ssize_t n = read(c, text, sizeof text);
	printf("%.*s\n", (int)(n - 19), text + 19);
	struct sockaddr_un u = { .sun_family = AF_UNIX, .sun_path = "\0nsbox-test" };
	int d = socket(AF_UNIX, SOCK_DGRAM, 0), e = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (bind(d, (void *)&u, sizeof u) || sendto(e, "datagram", 8, 0, (void *)&u, sizeof u) != 8)
		return 3;
	n = recv(d, text, sizeof text, 0);
	printf("%.*s\n", (int)n, text);
	return 0;
}
