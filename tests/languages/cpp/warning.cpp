#include <iostream>

int main()
{
	for (int i = 0; i < 3u; i++)
		std::cout << i;
	std::cout << " runs all the same\n";
}
