#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	size_t size = 300u << 20;
	char *p = malloc(size);
	if (!p)
		return 1;
	memset(p, 7, size);
	printf("%d %zu\n", p[size - 1], size >> 20);
	return 0;
}
