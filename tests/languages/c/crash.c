#include <stdio.h>

int main(void)
{
	volatile int *p = NULL;
	puts("before");
	fflush(stdout);
	return *p;
}
