#include <iomanip>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>

int main()
{
	std::istringstream csv("ann,3\nbob,4\nann,5\n");
	std::map<std::string, int> totals;
	for (std::string line; std::getline(csv, line);) {
		auto comma = line.find(',');
		totals[line.substr(0, comma)] += std::stoi(line.substr(comma + 1));
	}
	for (auto &[name, total] : totals)
		std::cout << std::quoted(name) << ' ' << total << '\n';
	std::string log = "2024-05-01 ERROR disk 2024-05-03 ERROR net";
	std::regex error(R"((\d{4}-\d\d-\d\d) ERROR (\w+))");
	for (std::sregex_iterator m(log.begin(), log.end(), error), end; m != end; ++m)
		std::cout << (*m)[1] << '=' << (*m)[2] << '\n';
	std::cout << std::hex << std::setw(8) << std::setfill('0') << 48879 << '\n';
}
