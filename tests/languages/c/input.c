#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	long n, sum = 0;
	for (int i = 1; i < argc; i++)
		printf("[%s]", argv[i]);
	printf(" %s\n", getenv("GREETING"));
	while (scanf("%ld", &n) == 1)
		sum += n;
	printf("%ld\n", sum);
	return 9;
}
