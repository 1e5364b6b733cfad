/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory at every address that a block touches: the same few pages, so that they fit in L1. */
#ifndef HARNESS_BLOCK_MEMORY_H
#define HARNESS_BLOCK_MEMORY_H

#include "job.h"

#include <stddef.h>
#include <stdint.h>

/* Pages that a block may touch: no more than the first-level TLB of any core holds. */
#define BLOCK_PAGES 32

/*
 * The number of distinct pages; with more in use, some are the same. AMD's first-level caches
 * predict the way from the linear address: a line used at two linear addresses misses each time.
 * All pages fit the smallest L1.
 */
#define BLOCK_DISTINCT 6

/* Make the pages with the content of a job; -1 with the reason in why if the system refuses. */
int block_memory_open(const struct job *job, char *why, size_t size);

/* Map one of them at the page of an address; returns NULL or the reason. For signal handlers. */
const char *block_memory_map(uintptr_t address);

/* The number of mapped pages. */
int block_memory_pages(void);

/* Map code executable at a random address, far from all else; NULL with the reason in why. */
uint8_t *block_memory_code(const uint8_t *code, size_t bytes, char *why, size_t size);

#endif
