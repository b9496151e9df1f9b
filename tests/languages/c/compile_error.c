#include <stdio.h>

int main(void)
{
	printf("never\n")
	return undeclared;
}
