/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loops of CHAIN_LENGTH instructions an iteration; loops.h has their cycles. */
#ifndef HARNESS_CHAINS_H
#define HARNESS_CHAINS_H

#include <stdint.h>

/*
 * Dependent register additions, 1 cycle each on every core: the calibrator. An addition of a
 * small constant would be folded at rename on some.
 */
void chain_add(uint64_t iterations);
void chain_xor(uint64_t iterations);
void chain_multiply(uint64_t iterations);

/* A load of an address from that address: the latency of L1. */
void chain_load(uint64_t iterations);

/*
 * Independent instructions limited by one kind of unit. Loads are of the words of one line in turn,
 * because some cores load a single word at a lower rate; stores are of one word.
 */
void stream_load(uint64_t iterations);
void stream_store(uint64_t iterations);

/* Nops: as many a cycle as front end and dispatch allow. */
void stream_nop(uint64_t iterations);

/* A loop of two instructions, entered CHAIN_LENGTH times an iteration: a taken branch each. */
void taken_branches(uint64_t iterations);

#endif
