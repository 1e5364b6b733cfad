// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "endless.h"

#include "common/checksum.h"
#include "ground.h"
#include "placing.h"

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
		bytes[i] = ground_byte(job, SIDE_SRC, fill, i);
	demand(write(memory, bytes, BLOCK) == (ssize_t)BLOCK, "memory that repeats");
	free(bytes);
	for (size_t i = 0; i < ROOM; i += BLOCK)
		demand(mmap(at + i, BLOCK, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_POPULATE, memory,
			    0) == at + i,
		       "memory that repeats");
	close(memory);
	return at;
}

/* The sum of so many bytes, of which each block has the same. */
static uint64_t sum_of(const uint8_t *block, size_t count)
{
	return count / BLOCK * checksum_add(block, BLOCK) + checksum_add(block, count % BLOCK);
}

static void one(uint8_t *at, size_t count)
{
	placing_count(count);
	placing_put(SIDE_SRC, at, 0);
	placing.attempt.sum = 0x10001 * placing.turn++;
	placing.attempt.sum &= 0xffffffff;
	placing.attempt.known = checksum_fold(sum_of(at, count) + placing.attempt.sum);
	attempt_run(&placing.attempt);
	placing.attempt.known = 0;
}

void endless_run(const struct job *job, int fill)
{
	struct ground ground = ground_open(4096, ARENA_GUARD);
	uint8_t *at = open_room(job, fill);

	attempt_use(&ground);
	for (int power = LEAST_POWER; power <= MOST_POWER; power++)
		for (size_t i = 0; i < sizeof(around) / sizeof(*around); i++)
			if (power < 26 || i == 1)
				one(at + 2 * (i % 2) + power % 2 * 8, (1ul << power) + around[i]);
	munmap(at, ROOM);
	ground_close(&ground);
}
