/* SPDX-License-Identifier: MIT */
/* The command that every sandbox of the benchmark runs: a static program that ends at once. */
int main(void)
{
	return 0;
}
