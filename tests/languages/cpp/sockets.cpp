#include <arpa/inet.h>
#include <iostream>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

int main()
{
	sockaddr_in address{};
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	socklen_t length = sizeof address;
	int server = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(server, (sockaddr *)&address, sizeof address) || listen(server, 1) || getsockname(server, (sockaddr *)&address, &length))
		return 1;
	std::jthread thread([server] {
		int peer = accept(server, nullptr, nullptr);
		char buffer[256];
		ssize_t n = read(peer, buffer, sizeof buffer);
		std::string answer = "HTTP/1.0 200 OK\r\n\r\n" + std::string(buffer, n > 3 ? 3 : 0);
		if (write(peer, answer.data(), answer.size()) < 0)
			return;
		close(peer);
	});
	int client = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(client, (sockaddr *)&address, sizeof address) || write(client, "GET / HTTP/1.0\r\n\r\n", 18) != 18)
		return 2;
	std::string all;
	char buffer[256];
	for (ssize_t n; (n = read(client, buffer, sizeof buffer)) > 0;)
		all.append(buffer, n);
	std::cout << all.substr(all.size() - 3) << '\n';
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || write(pair[0], "unix", 4) != 4)
		return 3;
	std::cout << std::string(buffer, read(pair[1], buffer, sizeof buffer)) << '\n';
}
