#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <unistd.h>
namespace fs = std::filesystem;

int main()
{
	fs::path dir = fs::temp_directory_path() / ("x-" + std::to_string(getpid()));
	fs::create_directories(dir / "a" / "b");
	std::ofstream(dir / "a" / "b" / "ä.txt") << "grüße\n";
	fs::create_symlink("b", dir / "a" / "link");
	fs::permissions(dir / "a" / "b" / "ä.txt", fs::perms(0640));
	std::string text;
	std::ifstream(dir / "a" / "link" / "ä.txt") >> text;
	std::set<std::string> names;
	for (auto &entry : fs::recursive_directory_iterator(dir))
		names.insert(fs::relative(entry.path(), dir / "x").lexically_normal().string());
	std::cout << text << ' ' << names.size() << ' ' << std::oct << (int)fs::status(dir / "a" / "b" / "ä.txt").permissions() << '\n';
	std::cout << (fs::remove_all(dir) > 3) << fs::exists(dir) << '\n';
	try {
		fs::create_directory("/usr/not-allowed/x");
	} catch (const fs::filesystem_error &error) {
		std::cout << "refused\n";
	}
}
