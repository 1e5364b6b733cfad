/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loops whose cost in cycles is known. */
#ifndef HARNESS_CHAINS_H
#define HARNESS_CHAINS_H

#include <stdint.h>

#define CHAIN_LENGTH 64 /* instructions an iteration */

/*
 * Dependent register additions, 1 cycle each on every core: the calibrator. An addition of a
 * constant would be folded at rename on some.
 */
void chain_add(uint64_t iterations);

/* Another chain, chain_cross_cycles each: the two must agree. */
void chain_cross(uint64_t iterations);
extern const double chain_cross_cycles;

/* Independent loads of one line: slow where another thread shares the core. */
void stream_load(uint64_t iterations);

#endif
