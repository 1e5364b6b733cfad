/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two codes that a block is measured by: a few copies and more, or a loop of a few iterations.
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

/* Find iteration counts, at most so many, that fill a repetition, but whose memory fits the pages.
 */
void block_choose_iterations(const uint64_t most[BOTH]);
uint64_t block_iterations(int which);

/* Whether a repetition of the long one takes longer than it should. */
bool block_is_long(void);

#endif
