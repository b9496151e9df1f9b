# A priority queue, memoization, and exact integers.
import heapq, functools

def dijkstra(graph, start):
    distance, queue = {start: 0}, [(0, start)]
    while queue:
        cost, node = heapq.heappop(queue)
        if cost > distance[node]:
            continue
        for neighbour, weight in graph[node].items():
            if cost + weight < distance.get(neighbour, float("inf")):
                distance[neighbour] = cost + weight
                heapq.heappush(queue, (cost + weight, neighbour))
    return distance

@functools.lru_cache(maxsize=None)
def partitions(n, largest):
    if n == 0:
        return 1
    return sum(partitions(n - k, k) for k in range(1, min(n, largest) + 1))

print(sorted(dijkstra({"a": {"b": 7, "c": 3}, "b": {"d": 2}, "c": {"b": 1, "d": 8}, "d": {}}, "a").items()))
print(partitions(60, 60), 2 ** 200 % 1000007)
