/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two codes that measure a block: few and more copies, or a loop with few and more iterations.
 */
#ifndef HARNESS_BLOCK_SUBJECT_H
#define HARNESS_BLOCK_SUBJECT_H

#include "block_signal.h"
#include "job.h"

enum { SHORT, LONG, BOTH };

bool block_is_loop(const struct job *job);

/*
 * Make both codes, of so many copies; a loop is one, with two iteration counts. Registers point a
 * step apart. Returns false with the reason.
 */
bool block_place(const struct job *job, const uint64_t times[BOTH], uint32_t step,
		 const struct block_end *end);

/* Run one of them so many times. */
void block_run_short(uint64_t repetitions);
void block_run_long(uint64_t repetitions);

/* Find iteration counts, up to a limit, that fill a repetition and whose memory fits the pages. */
void block_choose_iterations(const uint64_t most[BOTH]);
uint64_t block_iterations(int which);

/* True if a repetition of the long code takes longer than it should. */
bool block_is_long(void);

#endif
