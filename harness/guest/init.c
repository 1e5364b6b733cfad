// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The only program of a booted kernel: drive its user-copy routines through system calls whose
 * buffers end at an inaccessible page after every number of bytes, and print what came back.
 *
 * Each line for the host begins with "loopwright:". lw_exact on the kernel's command line lists
 * the sweeps whose counts must be exact; the others may say less, but must make progress, except
 * those of lw_coarse, which may say nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PAGE 4096
#define FULL 160      /* sizes whose fault positions are all tried */
#define LARGE 2200    /* further sizes, in steps */
#define LARGE_STEP 61 /* odd, so that alignments change */
#define FAULT_STEP 7
#define EVENTS 8

static uint8_t *user, *end; /* two pages that end at an inaccessible one */
static uint8_t pattern[2 * PAGE], got[2 * PAGE];
static int file;

static struct {
	const char *name;
	bool exact, coarse;
	unsigned long cases, failed;
	char first[120];
} sweep;

static void begin(const char *name)
{
	const char *exact = getenv("lw_exact"), *coarse = getenv("lw_coarse");

	memset(&sweep, 0, sizeof(sweep));
	sweep.name = name;
	sweep.exact = exact && strstr(exact, name);
	sweep.coarse = coarse && strstr(coarse, name);
}

static void finish(void)
{
	printf("loopwright: %s cases %lu failed %lu %s\n", sweep.name, sweep.cases, sweep.failed,
	       sweep.first);
}

static void fail(size_t size, size_t limit, long done, const char *what)
{
	if (!sweep.failed++)
		snprintf(sweep.first, sizeof(sweep.first),
			 "size %zu, fault at %zu, returned %ld: %s", size, limit, done, what);
}

/* True if a count is correct when limit of size bytes are accessible. */
static bool count_holds(size_t size, size_t limit, long done, int error)
{
	sweep.cases++;
	if (!limit) {
		if (done == -1 && error == EFAULT)
			return true;
		fail(size, limit, done, "not EFAULT");
	} else if (done == -1 && error == EFAULT && sweep.coarse && limit < size) {
		return true;
	} else if (done <= 0) {
		fail(size, limit, done, "no progress");
	} else if ((size_t)done > limit) {
		fail(size, limit, done, "more than can be accessed");
	} else if ((size_t)done < limit && (sweep.exact || limit == size)) {
		fail(size, limit, done, "less than can be accessed");
	} else {
		return true;
	}
	return false;
}

static void try_write(size_t size, size_t limit, size_t align)
{
	long done;

	memcpy(end - limit, pattern, limit);
	errno = 0;
	done = pwrite(file, end - limit, size, align);
	if (!count_holds(size, limit, done, errno) || done < 0)
		return;
	if (pread(file, got, done, align) != done || memcmp(got, pattern, done))
		fail(size, limit, done, "wrong bytes in the file");
}

static void try_read(size_t size, size_t limit, size_t align)
{
	long done;

	memset(end - limit - 1, 0xee, limit + 1);
	errno = 0;
	done = pread(file, end - limit, size, align);
	if (end[-(long)limit - 1] != 0xee)
		fail(size, limit, done, "the byte before is written");
	if (!count_holds(size, limit, done, errno) || done < 0)
		return;
	if (memcmp(end - limit, pattern + align, done))
		fail(size, limit, done, "wrong bytes");
}

static void try_zero(size_t size, size_t limit, size_t align)
{
	static int zero = -1;
	long done;

	(void)align;
	if (zero < 0)
		zero = open("/zero", O_RDONLY);
	memset(end - limit - 1, 0xee, limit + 1);
	errno = 0;
	done = read(zero, end - limit, size);
	if (end[-(long)limit - 1] != 0xee)
		fail(size, limit, done, "the byte before is written");
	if (!count_holds(size, limit, done, errno) || done < 0)
		return;
	for (long i = 0; i < done; i++)
		if (end[i - (long)limit])
			return fail(size, limit, done, "not zero");
}

static void sizes(const char *name, void (*attempt)(size_t, size_t, size_t))
{
	begin(name);
	for (size_t size = 1; size <= FULL; size++)
		for (size_t limit = 0; limit <= size; limit++)
			attempt(size, limit, (size + 5 * limit) % 16);
	for (size_t size = FULL; size <= LARGE; size += LARGE_STEP)
		for (size_t limit = size; limit < size + 1;
		     limit -= limit < FAULT_STEP ? limit + 1 : FAULT_STEP)
			attempt(size, limit, (size + limit) % 16);
	finish();
}

static void events(void)
{
	const size_t size = sizeof(struct epoll_event);
	int poll = epoll_create1(0);

	begin("epoll");
	for (int i = 0; i < EVENTS; i++) {
		struct epoll_event event = {.events = EPOLLIN};
		int fd = eventfd(1, 0);

		event.data.u64 = 0x0102030405060700ull + i;
		if (fd < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event))
			fail(0, 0, errno, "no event to wait for");
	}
	for (size_t limit = 0; limit <= EVENTS * size; limit++) {
		struct epoll_event *at = (void *)(end - limit);
		unsigned int seen = 0;
		long count;

		memset(end - limit - 1, 0xee, limit + 1);
		errno = 0;
		count = epoll_wait(poll, at, EVENTS, 0);
		sweep.cases++;
		if (count != (limit < size ? -1 : (long)(limit / size))) {
			fail(EVENTS * size, limit, count, "wrong count");
			continue;
		}
		if (count < 0 && errno != EFAULT)
			fail(EVENTS * size, limit, count, "not EFAULT");
		for (long i = 0; i < count; i++) {
			struct epoll_event event;

			memcpy(&event, at + i, sizeof(event));
			if (event.events != EPOLLIN || event.data.u64 >> 8 != 0x01020304050607ull)
				fail(EVENTS * size, limit, count, "wrong event");
			seen |= 1u << (event.data.u64 & 31);
		}
		if (__builtin_popcount(seen) != (count < 0 ? 0 : (int)count))
			fail(EVENTS * size, limit, count, "an event twice");
		if (end[-(long)limit - 1] != 0xee)
			fail(EVENTS * size, limit, count, "the byte before is written");
	}
	finish();
}

/* Print the first CPU's entry in /proc/cpuinfo. */
static void features(void)
{
	char line[4096];
	FILE *info;

	mkdir("/proc", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	info = fopen("/proc/cpuinfo", "r");
	while (info && fgets(line, sizeof(line), info))
		if (!strncmp(line, "flags", 5) || !strncmp(line, "Features", 8)) {
			printf("loopwright: %s", line);
			break;
		}
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	features();
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = 1 + (i * 2654435761u >> 24) % 254;
	user = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	end = user + 2 * PAGE;
	munmap(end, PAGE);
	memset(user, 0xee, 2 * PAGE);
	mknod("/zero", S_IFCHR | 0600, makedev(1, 5));
	file = open("/file", O_RDWR | O_CREAT, 0600);
	if (file < 0 || user == MAP_FAILED)
		printf("loopwright: setup failed: %s\n", strerror(errno));
	sizes("write", try_write);
	if (pwrite(file, pattern, sizeof(pattern), 0) != sizeof(pattern))
		printf("loopwright: setup failed: the file is short\n");
	sizes("read", try_read);
	sizes("zero", try_zero);
	events();
	printf("loopwright: done\n");
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	return 0;
}
