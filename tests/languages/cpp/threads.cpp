#include <atomic>
#include <condition_variable>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

int main()
{
	std::atomic<int> fast{0};
	int slow = 0;
	std::mutex lock;
	{
		std::vector<std::jthread> threads;
		for (int i = 0; i < 16; i++)
			threads.emplace_back([&] {
				for (int j = 0; j < 1000; j++) {
					fast++;
					std::scoped_lock guard(lock);
					slow++;
				}
			});
	}
	std::cout << fast << ' ' << slow << '\n';
	std::vector<std::future<int>> futures;
	for (int i = 0; i < 5; i++)
		futures.push_back(std::async(std::launch::async, [i] { return i * i; }));
	int sum = 0;
	for (auto &future : futures)
		sum += future.get();
	std::cout << sum << '\n';
	auto failing = std::async(std::launch::async, []() -> int { throw std::runtime_error("from a thread"); });
	try {
		failing.get();
	} catch (const std::exception &error) {
		std::cout << error.what() << '\n';
	}
}
