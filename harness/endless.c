// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "endless.h"

#include "buffers.h"
#include "common/checksum.h"
#include "next_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK (1ul << 20) /* bytes that there are */
#define LEAST_POWER 21
#define MOST_POWER 29
#define ROOM ((1ul << MOST_POWER) + BLOCK)

static const int around[] = {-1, 0, 1};

static void demand(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(2);
}

static uint8_t *open_room(const struct job *job, int fill)
{
	int memory = memfd_create("endless", MFD_CLOEXEC);
	uint8_t *at =
	    mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *bytes = malloc(BLOCK);

	demand(memory >= 0 && at != MAP_FAILED && bytes, "memory that repeats");
	for (size_t i = 0; i < BLOCK; i++)
		bytes[i] = buffers_byte(job, SIDE_SRC, fill, i);
	demand(write(memory, bytes, BLOCK) == (ssize_t)BLOCK, "memory that repeats");
	free(bytes);
	for (size_t i = 0; i < ROOM; i += BLOCK)
		demand(mmap(at + i, BLOCK, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_POPULATE, memory,
			    0) == at + i,
		       "memory that repeats");
	close(memory);
	return at;
}

/* The sum of so many bytes, in which all blocks are equal. */
static uint64_t sum_of(const uint8_t *block, size_t count)
{
	return count / BLOCK * checksum_add(block, BLOCK) + checksum_add(block, count % BLOCK);
}

static void one(uint8_t *at, size_t count)
{
	next_case_count(count);
	next_case_put(SIDE_SRC, at, 0);
	next_case.attempt.sum = 0x10001 * next_case.turn++;
	next_case.attempt.sum &= 0xffffffff;
	next_case.attempt.known = checksum_fold(sum_of(at, count) + next_case.attempt.sum);
	attempt_run(&next_case.attempt);
	next_case.attempt.known = 0;
}

void endless_run(const struct job *job, int fill)
{
	struct buffers buffers = buffers_open(4096, ARENA_GUARD);
	uint8_t *at = open_room(job, fill);

	attempt_use(&buffers);
	for (int power = LEAST_POWER; power <= MOST_POWER; power++)
		for (size_t i = 0; i < sizeof(around) / sizeof(*around); i++)
			if (power < 26 || i == 1)
				one(at + 2 * (i % 2) + power % 2 * 8, (1ul << power) + around[i]);
	munmap(at, ROOM);
	buffers_close(&buffers);
}
