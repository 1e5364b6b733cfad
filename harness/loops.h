/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The loops whose cost is known: one list an ISA. */
#ifndef HARNESS_LOOPS_H
#define HARNESS_LOOPS_H

#include "chains.h"
#include "common/known.h"
#include "meter.h"

/* What this ISA's loops cost on the core that this is, the required ones first; and how many. */
const struct known *loops_known(unsigned int *count);

#define LOOPS_CHAIN 1000   /* parts in a million that a latency may be off */
#define LOOPS_STREAM 10000 /* the same for what units of one kind limit */

#endif
