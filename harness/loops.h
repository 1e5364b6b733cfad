/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The loops of known cycles, one list per ISA. */
#ifndef HARNESS_LOOPS_H
#define HARNESS_LOOPS_H

#include "chains.h"
#include "common/known.h"
#include "meter.h"

/* The known cycles of this ISA's loops on this core, the required ones first; and their number. */
const struct known *loops_known(unsigned int *count);

#define LOOPS_CHAIN 1000   /* parts in a million that a latency may be off */
#define LOOPS_STREAM 10000 /* the same for what units of one kind limit */

#endif
