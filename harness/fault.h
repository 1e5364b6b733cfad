/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Handling of signals that code under test raises, as by the kernel's fault handler. */
#ifndef HARNESS_FAULT_H
#define HARNESS_FAULT_H

#include "verdict.h"

struct arena;

/*
 * Catch signals on a separate stack. After a fault of an instruction in the exception table of the
 * job (its code at base), at a byte that the current attempt may not access, execution continues at
 * the fixup; any other fault fails the attempt. So does a second of CPU time.
 */
void fault_init(const struct job *job, const uint8_t *base, struct verdict *verdict);

/*
 * Expect only faults of this attempt, in the memory of its two sides; NULL: none. Access to user
 * memory starts closed.
 */
void fault_expect(const struct attempt *attempt, const struct arena *sides);

/* True if the attempt opened the access to user memory (stac) and did not close it. */
bool fault_left_open(void);

#endif
