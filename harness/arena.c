// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "arena.h"

#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096
#define LINE 64
#define FIRST_ROUND 32 /* times 4 GiB: above where programs lie */

static void demand(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(2);
}

static struct arena open_at(uint8_t *end, size_t size, size_t behind)
{
	struct arena arena = {.size = (size + PAGE - 1) & ~(size_t)(PAGE - 1), .behind = behind};
	uint8_t *hint = end ? end - arena.size - ARENA_GUARD : NULL;
	uint8_t *map = mmap(hint, ARENA_GUARD + arena.size + behind, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	demand(map != MAP_FAILED, "mmap");
	arena.start = map + ARENA_GUARD;
	demand(!mprotect(arena.start, arena.size, PROT_READ | PROT_WRITE), "mprotect");
	return arena;
}

struct arena arena_open(size_t size)
{
	return open_at(NULL, size, ARENA_GUARD);
}

struct arena arena_open_round(size_t size, size_t behind)
{
	static uintptr_t rounds = FIRST_ROUND;
	uint8_t *end = (uint8_t *)(rounds << 32);

	rounds += 1 + (behind >> 32);
	return open_at(end, size, behind);
}

void arena_close(struct arena *arena)
{
	munmap(arena->start - ARENA_GUARD, ARENA_GUARD + arena->size + arena->behind);
}

bool arena_holds(const struct arena *arena, uintptr_t address)
{
	uintptr_t low = (uintptr_t)arena->start - ARENA_GUARD;

	return address >= low && address < low + ARENA_GUARD + arena->size + arena->behind;
}

uint8_t *arena_code(struct arena *arena, const uint8_t *code, size_t size, size_t offset)
{
	uint8_t *place;

	*arena = arena_open(size + offset + 2 * LINE);
	memset(arena->start, machine_padding, arena->size);
	place = arena->start + LINE + offset;
	memcpy(place, code, size);
	demand(!mprotect(arena->start, arena->size, PROT_READ | PROT_EXEC), "mprotect");
	__builtin___clear_cache((char *)arena->start, (char *)arena->start + arena->size);
	return place;
}
