#include <stdio.h>

static __attribute__((noinline)) long depth(long n, volatile char *above)
{
	volatile char here[64];
	here[0] = (char)n;
	return n == 0 ? above[0] : 1 + depth(n - 1, here);
}

int main(void)
{
	char top = 0;
	printf("%ld\n", depth(50000, &top));
	return 0;
}
