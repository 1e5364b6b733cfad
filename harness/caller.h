/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code that calls a routine again and again with the same arguments. */
#ifndef HARNESS_CALLER_H
#define HARNESS_CALLER_H

#include "placement.h"

#define CALLER_BYTES 1024

/*
 * Write a function void (uint64_t calls) that loads the inputs of the contract, by role, and calls
 * the routine at target, so many times; cold calls have a fence before each and separate buffers.
 * Its address will be `at`. The counter is in a register that the routine may not change. Returns
 * the bytes used, 0 if the routine may change all registers.
 */
size_t caller_emit(uint8_t *into, uintptr_t at, const struct job *job,
		   const struct placement *placement, uintptr_t target);

#endif
