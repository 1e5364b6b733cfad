// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "block_memory.h"

#include "block_machine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define LOWEST 0x10000 /* below it, no user but root can map */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static int memory = -1;
static int pages;
static size_t page_bytes;

int block_memory_open(const struct job *job, char *why, size_t size)
{
	uint64_t *words;

	page_bytes = getpagesize();
	pages = 0;
	memory = memfd_create("block", MFD_CLOEXEC);
	if (memory < 0 || ftruncate(memory, BLOCK_DISTINCT * page_bytes)) {
		snprintf(why, size, "no memory for the block: %s", strerror(errno));
		return -1;
	}
	words =
	    mmap(NULL, BLOCK_DISTINCT * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (words == MAP_FAILED) {
		snprintf(why, size, "no memory for the block: %s", strerror(errno));
		return -1;
	}
	for (size_t i = 0; i < BLOCK_DISTINCT * page_bytes / sizeof(*words); i++)
		words[i] = job->memory ? job->memory[i % JOB_WORDS] : BLOCK_MEMORY;
	munmap(words, BLOCK_DISTINCT * page_bytes);
	return 0;
}

const char *block_memory_map(uintptr_t address)
{
	uint8_t *at = (uint8_t *)(address & -page_bytes), *got;

	if (address < LOWEST)
		return "touches memory that is not to be had";
	if (pages == BLOCK_PAGES)
		return "touches too many pages";
	got = mmap(at, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, memory,
		   pages % BLOCK_DISTINCT * page_bytes);
	if (got == at) {
		pages++;
		return NULL;
	}
	/* A kernel that does not know the flag takes the address as a hint. */
	if (got != MAP_FAILED)
		munmap(got, page_bytes);
	return "touches memory that is not to be had";
}

int block_memory_pages(void)
{
	return pages;
}

uint8_t *block_memory_code(const uint8_t *code, size_t bytes, char *why, size_t size)
{
	/*
	 * A range of 4 GiB, all that the code can address relatively, with the code in the middle.
	 */
	static const uint64_t widths[] = {0x3fff, 0x3f};
	uint64_t dice[2];

	for (int i = 0; i < 4; i++) {
		uint8_t *at, *got;

		if (getrandom(dice, sizeof(dice), 0) != sizeof(dice))
			break;
		at = (uint8_t *)(((dice[0] & widths[i / 2]) + 0x10) << 32 | 0x60000000ull |
				 (dice[1] % 0x40000000 & -page_bytes));
		got = mmap(at, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (got == MAP_FAILED)
			continue;
		if (got == at) {
			memcpy(at, code, bytes);
			mprotect(at, bytes, PROT_READ | PROT_EXEC);
			__builtin___clear_cache((char *)at, (char *)at + bytes);
			return at;
		}
		munmap(got, bytes);
	}
	snprintf(why, size, "no room for the block's code: %s", strerror(errno));
	return NULL;
}
