/* SPDX-License-Identifier: MIT */
/*
 * What a session writes, in two versions that have every kind of change between them:
 *
 *	files write 1|2 DIR...      makes the version of it in each of the directories; 2 after 1
 *	files print DIR...          prints what there is
 *	files wait                  until it is killed
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { BIG_BYTES = 300 << 10 };

static void need(bool done, const char *what)
{
	if (done)
		return;
	perror(what);
	exit(1);
}

static void put(const char *name, const char *text, size_t times)
{
	FILE *file = fopen(name, "we");

	need(file != NULL, name);
	for (size_t i = 0; i < times; i++)
		fputs(text, file);
	need(fclose(file) == 0, name);
}

static void make_first(void)
{
	put("state", "1\n", 1);
	put("gone", "1\n", 1);
	put("big", "1 big\n", BIG_BYTES / 6);
	need(mkdir("dir", 0755) == 0, "dir");
	put("dir/one", "1\n", 1);
	need(link("dir/one", "dir/again") == 0, "again");
	need(symlink("state", "link") == 0, "link");
	need(mkfifo("fifo", 0640) == 0, "fifo");
	need(mkdir("closed", 0700) == 0, "closed");
	put("closed/in", "1\n", 1);
	need(chmod("closed", 0) == 0, "closed");
	setxattr("state", "user.test", "1", 1, 0); /* which not every file system has */
	/* Of the root below, where it has such. */
	unlink("lower");
	unlink("lower-directory/file");
}

static void make_second(void)
{
	put("state", "2\n", 1);
	need(unlink("gone") == 0, "gone");
	need(chmod("big", 0600) == 0, "big");
	need(unlink("dir/one") == 0 && unlink("dir/again") == 0 && rmdir("dir") == 0, "dir");
	need(mkdir("dir", 0700) == 0, "dir");
	put("dir/two", "2\n", 1);
	need(rename("link", "moved") == 0, "link");
	put("lower", "2\n", 1);
}

static unsigned long sum_of(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long sum = 5381;
	int c;

	need(file != NULL, path);
	while ((c = getc(file)) != EOF)
		sum = sum * 33 + (unsigned)c;
	fclose(file);
	return sum;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print(const char *path);

static void print_directory(const char *path)
{
	DIR *dir = opendir(path);
	char *names[64];
	size_t count = 0;
	struct dirent *entry;

	need(dir != NULL, path);
	while ((entry = readdir(dir)) && count < 64)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			names[count++] = strdup(entry->d_name);
	closedir(dir);
	qsort(names, count, sizeof *names, by_text);
	for (size_t i = 0; i < count; i++) {
		char *below;

		need(asprintf(&below, "%s/%s", path, names[i]) > 0, path);
		print(below);
	}
}

static void print(const char *path)
{
	char value[16] = "", target[64] = "";
	struct stat st;

	need(lstat(path, &st) == 0, path);
	lgetxattr(path, "user.test", value, sizeof value - 1);
	(void)!readlink(path, target, sizeof target - 1);
	printf("%s %o %u:%u %jd %s %s ", path, st.st_mode, st.st_uid, st.st_gid,
		(intmax_t)st.st_mtim.tv_sec, target, value);
	if (S_ISREG(st.st_mode))
		printf("%ju bytes, %ju names, %lx", (uintmax_t)st.st_size, (uintmax_t)st.st_nlink,
			sum_of(path));
	putchar('\n');
	if (!S_ISDIR(st.st_mode))
		return;
	chmod(path, (st.st_mode & 07777) | S_IRWXU);
	print_directory(path);
	chmod(path, st.st_mode & 07777);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int here = open(".", O_PATH | O_CLOEXEC);

	umask(022);
	if (strcmp(what, "wait") == 0)
		for (;;)
			pause();
	for (int i = 3; strcmp(what, "write") == 0 && i < argc; i++) {
		if (mkdir(argv[i], 0755) < 0)
			need(errno == EEXIST, argv[i]);
		need(fchdir(here) == 0 && chdir(argv[i]) == 0, argv[i]);
		if (*argv[2] == '1')
			make_first();
		else
			make_second();
	}
	for (int i = 2; strcmp(what, "print") == 0 && i < argc; i++)
		print(argv[i]);
	return 0;
}
