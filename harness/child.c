// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "child.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void *child_share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	return memory;
}

void child_unshare(void *memory, size_t size)
{
	munmap(memory, size);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int child_run(void (*run)(void *), void *data, int seconds, char *why, size_t size)
{
	double end = now() + seconds, left;
	int status, killed = 0;
	sigset_t ended;
	pid_t child;

	/* While it is blocked, the signal of a child's end stays pending until sigtimedwait(). */
	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ended, NULL);
	fflush(NULL);
	child = fork();
	if (child < 0) {
		snprintf(why, size, "cannot fork: %s", strerror(errno));
		return -1;
	}
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(data);
		_exit(0);
	}
	while (!waitpid(child, &status, WNOHANG)) {
		left = end - now();
		if (left <= 0 && !killed) {
			kill(child, SIGKILL);
			killed = 1;
		}
		left = left > 0 ? left : 1;
		sigtimedwait(&ended, NULL, &(struct timespec){(time_t)left, fmod(left, 1) * 1e9});
	}
	if (killed)
		snprintf(why, size, "did not end within %d s", seconds);
	else if (WIFSIGNALED(status))
		snprintf(why, size, "crashed the checking process: %s",
			 strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		snprintf(why, size, "ended the process with exit code %d", WEXITSTATUS(status));
	else
		return 0;
	return -1;
}
