// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The only program of a booted kernel: load the module, and do what /steps says, one a line:
 *
 *   load, unload        the module /loopwright.ko
 *   write FILE TEXT     write TEXT to a file of the module, at once
 *   read FILE           print it
 *   signal FILE TEXT    write, with a signal every moment until that returns
 *   unplug FILE TEXT    write, with the second CPU taken away a moment later
 *   plug                bring it back
 *   shell TEXT          have /busybox do it, with what it prints read
 *
 * Each line for the host begins with "loopwright:" and repeats the step; then comes what it
 * returned, 0 or an error's name, or behind "|" a line that was read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER "/debug/loopwright/"

static const char *path(const char *file)
{
	static char full[128];

	snprintf(full, sizeof(full), FOLDER "%s", file);
	return full;
}

static int load(void)
{
	int file = open("/loopwright.ko", O_RDONLY);
	int error = file < 0 || syscall(SYS_finit_module, file, "", 0) ? errno : 0;

	close(file);
	return error;
}

static int write_to(const char *name, const char *text)
{
	int file = open(path(name), O_WRONLY);
	int error = file < 0 || write(file, text, strlen(text)) < 0 ? errno : 0;

	close(file);
	return error;
}

static int read_from(const char *step, const char *name)
{
	static char line[65536];
	FILE *file = fopen(path(name), "r");

	if (!file)
		return errno;
	while (fgets(line, sizeof(line), file))
		printf("loopwright: %s|%s", step, line);
	fclose(file);
	return 0;
}

static int shell(const char *step, const char *text)
{
	static char line[65536];
	char command[600];
	FILE *said;
	int status;

	/* popen() would want /bin/sh. */
	mkdir("/bin", 0755);
	symlink("/busybox", "/bin/sh");
	snprintf(command, sizeof(command), "%s 2>&1", text);
	said = popen(command, "r");
	while (said && fgets(line, sizeof(line), said))
		printf("loopwright: %s|%s%s", step, line, strchr(line, '\n') ? "" : "\n");
	status = said ? pclose(said) : -1;
	return status ? EIO : 0;
}

static void on_signal(int number)
{
	(void)number;
}

static int write_signalled(const char *name, const char *text)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct timeval time = {.tv_usec = 300000};
	struct itimerval soon = {.it_value = time, .it_interval = time}, never = {0};
	int error;

	sigaction(SIGALRM, &action, NULL);
	/* A slow machine may not have begun by the first. */
	setitimer(ITIMER_REAL, &soon, NULL);
	error = write_to(name, text);
	setitimer(ITIMER_REAL, &never, NULL);
	return error;
}

/* Take the second CPU away, or bring it back. */
static int second_cpu(const char *online)
{
	int file = open("/sys/devices/system/cpu/cpu1/online", O_WRONLY);
	int error = file < 0 || write(file, online, 1) < 0 ? errno : 0;

	close(file);
	return error;
}

static int write_unplugged(const char *name, const char *text)
{
	pid_t child = fork();
	int error, status;

	if (!child) {
		usleep(300000);
		_exit(second_cpu("0"));
	}
	error = write_to(name, text);
	waitpid(child, &status, 0);
	return error ? error : WEXITSTATUS(status);
}

static int do_step(const char *step)
{
	char text[512], *word, *file, *rest = text;

	snprintf(text, sizeof(text), "%s", step);
	word = strsep(&rest, " ");
	if (!strcmp(word, "load"))
		return load();
	if (!strcmp(word, "unload"))
		return syscall(SYS_delete_module, "loopwright", O_NONBLOCK) ? errno : 0;
	if (!strcmp(word, "shell"))
		return shell(step, rest);
	file = strsep(&rest, " ");
	if (!strcmp(word, "read"))
		return read_from(step, file);
	if (!strcmp(word, "plug"))
		return second_cpu("1");
	if (!strcmp(word, "unplug"))
		return write_unplugged(file, rest ? rest : "");
	if (!strcmp(word, "signal"))
		return write_signalled(file, rest ? rest : "");
	return write_to(file, rest ? rest : "");
}

int main(void)
{
	char step[512];
	FILE *steps = fopen("/steps", "r");

	setvbuf(stdout, NULL, _IOLBF, 0);
	mkdir("/debug", 0755);
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/tmp", 0755);
	mount("debugfs", "/debug", "debugfs", 0, NULL);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	while (steps && fgets(step, sizeof(step), steps)) {
		int error;

		step[strcspn(step, "\n")] = 0;
		error = do_step(step);
		printf("loopwright: %s -> %s\n", step, error ? strerrorname_np(error) : "0");
	}
	printf("loopwright: done\n");
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	return 0;
}
