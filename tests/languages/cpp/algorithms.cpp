#include <algorithm>
#include <iostream>
#include <map>
#include <numeric>
#include <queue>
#include <ranges>
#include <string>
#include <vector>

template <typename T> concept Number = std::is_arithmetic_v<T>;
template <Number T> T sum(const std::vector<T> &v) { return std::accumulate(v.begin(), v.end(), T{}); }

int main()
{
	std::vector<int> v{5, 3, 9, 1};
	std::ranges::sort(v);
	for (int i : v | std::views::transform([](int n) { return n * n; }) | std::views::reverse)
		std::cout << i << ' ';
	std::cout << sum(v) << '\n';
	std::map<std::string, std::map<std::string, int>> graph{{"a", {{"b", 7}, {"c", 3}}}, {"c", {{"b", 1}, {"d", 8}}}, {"b", {{"d", 2}}}};
	std::map<std::string, int> distance{{"a", 0}};
	std::priority_queue<std::pair<int, std::string>> queue;
	queue.push({0, "a"});
	while (!queue.empty()) {
		auto [cost, node] = queue.top();
		queue.pop();
		for (auto &[next, weight] : graph[node])
			if (!distance.count(next) || weight - cost < distance[next]) {
				distance[next] = weight - cost;
				queue.push({-distance[next], next});
			}
	}
	for (auto &[node, cost] : distance)
		std::cout << node << cost << ' ';
	std::cout << '\n';
}
