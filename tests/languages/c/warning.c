#include <stdio.h>

int main(void)
{
	int unused;
	printf("%s\n", "runs all the same");
	return 0;
}
