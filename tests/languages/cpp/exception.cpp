#include <iostream>
#include <stdexcept>

int main()
{
	std::cout << "before" << std::endl;
	throw std::out_of_range("nobody caught me");
}
