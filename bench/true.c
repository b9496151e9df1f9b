/* SPDX-License-Identifier: MIT */
/*
 * The command that every sandbox of the benchmark runs: a static program that ends at once. Given a
 * file, it prints that first: bench/run -v looks at the mounts of a sandbox with it.
 */
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char buffer[4096];
	ssize_t n;
	int fd;

	if (argc < 2)
		return 0;
	fd = open(argv[1], O_RDONLY);
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		if (write(STDOUT_FILENO, buffer, (size_t)n) != n)
			return 1;
	return n < 0;
}
