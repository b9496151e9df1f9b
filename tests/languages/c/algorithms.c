#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

int main(void)
{
	enum { N = 1000000 };
	uint32_t *v = malloc(N * sizeof *v), x = 2463534242u;
	unsigned __int128 big = 1;

	for (int i = 0; i < N; i++) {
		x ^= x << 13, x ^= x >> 17, x ^= x << 5;
		v[i] = x;
	}
	qsort(v, N, sizeof *v, compare);
	for (int i = 1; i < N; i++)
		if (v[i - 1] > v[i])
			return 1;
	for (int i = 0; i < 30; i++)
		big *= 17;
	printf("%u %u %llu\n", v[0], v[N - 1], (unsigned long long)(big >> 64));
	free(v);
	return 0;
}
