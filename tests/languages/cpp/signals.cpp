#include <csignal>
#include <iostream>
#include <unistd.h>

static volatile std::sig_atomic_t seen;

int main()
{
	std::signal(SIGUSR1, [](int number) { seen = number; });
	std::raise(SIGUSR1);
	std::cout << (seen == SIGUSR1) << std::endl;
	std::signal(SIGALRM, [](int) { seen = 0; });
	ualarm(10000, 0);
	while (seen)
		usleep(1000);
	kill(getpid(), SIGTERM);
	pause();
}
