/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The placement of the buffers of measured calls, and their eviction from caches. */
#ifndef HARNESS_PLACEMENT_H
#define HARNESS_PLACEMENT_H

#include "job.h"

struct placement {
	uint64_t values[ROLES];	 /* what inputs are loaded with */
	uint64_t *tables[SIDES]; /* cold: each call's buffer, by the calls that are left */
	size_t bytes[SIDES];	 /* of a buffer */
	uint64_t most;		 /* cold: calls in a burst that have buffers of their own */
};

/*
 * Hot: one pair of buffers, the destination its alignment after a page start. Cold: a pair for each
 * call of a burst, all with the same alignments, in random order.
 */
struct placement placement_open(const struct job *job, const struct point *point);

/* Flush the buffers of the calls of a burst from all caches. */
void placement_flush(const void *placement, uint64_t calls);

#endif
