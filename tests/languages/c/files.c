#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
	char dir[] = "/tmp/x-XXXXXX";
	struct stat st;
	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	int fd = open("f", O_RDWR | O_CREAT | O_EXCL, 0640);
	if (ftruncate(fd, 1 << 20) || symlink("f", "l") || rename("f", "g"))
		return 2;
	char *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	strcpy(map + 500000, "mapped");
	char text[7] = "";
	if (pread(fd, text, 6, 500000) != 6 || stat("g", &st))
		return 3;
	printf("%s %o %ld %d\n", text, (unsigned)st.st_mode & 0777, (long)st.st_size, access("l", F_OK));
	int n = 0;
	DIR *d = opendir(".");
	while (readdir(d))
		n++;
	printf("%d\n", n);
	unlink("g"), unlink("l");
	return chdir("/") || rmdir(dir);
}
