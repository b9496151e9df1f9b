#include <cstdlib>
#include <iostream>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		std::cout << '[' << argv[i] << ']';
	std::cout << ' ' << std::getenv("GREETING") << '\n';
	long sum = 0;
	for (long n; std::cin >> n;)
		sum += n;
	std::cout << sum << '\n';
	return 4;
}
