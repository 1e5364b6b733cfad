/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory under every address that a block touches: a few pages again and again, so that L1 holds
 * it. */
#ifndef HARNESS_BLOCK_MEMORY_H
#define HARNESS_BLOCK_MEMORY_H

#include "job.h"

#include <stddef.h>
#include <stdint.h>

/* Pages that a block may touch: no more than the first-level TLB of any core holds. */
#define BLOCK_PAGES 32

/*
 * Pages that there are; with more in use, some are the same. AMD's first-level caches find the way
 * by the linear address: a line that is used under two of them misses each time. All of them fit
 * the smallest L1.
 */
#define BLOCK_DISTINCT 6

/* Make the pages, which hold what a job says; -1 and why where the system refuses. */
int block_memory_open(const struct job *job, char *why, size_t size);

/* Map one of them at the page that an address lies in; NULL, or why not. For signal handlers. */
const char *block_memory_map(uintptr_t address);

/* How many pages are mapped. */
int block_memory_pages(void);

/* Map code executable at a random address, far from all else; NULL with the reason in why. */
uint8_t *block_memory_code(const uint8_t *code, size_t bytes, char *why, size_t size);

#endif
