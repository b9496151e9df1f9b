#include <iostream>
#include <numeric>
#include <vector>

int main()
{
	std::vector<char> block(300u << 20, 1);
	std::cout << std::accumulate(block.begin(), block.end(), 0L) << '\n';
	try {
		std::vector<char> more(1ul << 50);
	} catch (const std::bad_alloc &) {
		std::cout << "bad_alloc\n";
	}
}
