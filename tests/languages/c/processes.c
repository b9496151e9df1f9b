#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	int fd[2], status;
	char line[64];

	FILE *p = popen("printf 'b\\na\\n' | sort", "r");
	while (fgets(line, sizeof line, p))
		fputs(line, stdout);
	printf("%d\n", WEXITSTATUS(pclose(p)));
	fflush(stdout);
	if (pipe(fd))
		return 1;
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fd[1], 1);
		close(fd[0]), close(fd[1]);
		execlp("echo", "echo", "from the child", (char *)NULL);
		_exit(127);
	}
	close(fd[1]);
	line[read(fd[0], line, sizeof line - 1)] = '\0';
	fputs(line, stdout);
	waitpid(pid, &status, 0);
	pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	kill(pid, SIGINT);
	waitpid(pid, &status, 0);
	printf("%d %d\n", WIFSIGNALED(status), WTERMSIG(status));
	return 0;
}
