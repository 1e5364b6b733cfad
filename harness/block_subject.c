// SPDX-License-Identifier: GPL-2.0-or-later
#include "block_subject.h"

#include "block_machine.h"
#include "block_memory.h"
#include "block_signal.h"
#include "clock.h"

#include <math.h>
#include <stdlib.h>

#define PAGE 65536	      /* at least */
#define ENOUGH_ITERATIONS 512 /* fewer, and a predictor may know when a loop ends */
#define LEAST_ITERATIONS 256  /* fewer, and the loop's exit weighs too much */
#define REPEATS 8	      /* of which the time of one is taken */

/*
 * s of a repetition. Beyond 2 us a Golden Cove needs 20 to 40 cycles more to go on, and what the
 * code around the block uses is found pushed out of caches by others.
 */
#define LONGEST 1.6e-6

struct block_frame block_frame;

/* The code that is run, and the iterations of a loop. */
static struct {
	uintptr_t entry;
	uint64_t iterations;
} subject[BOTH];

static const struct job *job;

static void run_subject(int which, uint64_t repetitions)
{
	block_frame.entry = subject[which].entry;
	block_frame.counter = job->counter_base + job->counter_step * subject[which].iterations;
	block_call(repetitions);
}

void block_run_short(uint64_t repetitions)
{
	run_subject(SHORT, repetitions);
}

void block_run_long(uint64_t repetitions)
{
	run_subject(LONG, repetitions);
}

bool block_is_loop(const struct job *of)
{
	return of->counter >= 0;
}

uint64_t block_iterations(int which)
{
	return subject[which].iterations;
}

bool block_place(const struct job *of, const uint64_t times[BOTH], uint32_t step,
		 const struct block_end *end)
{
	size_t bytes[BOTH], all = 0, first = 0;
	uint8_t *buffer, *code;

	job = of;
	for (int i = 0; i < BOTH; i++) {
		bytes[i] = BLOCK_GLUE + (block_is_loop(job) ? 1 : times[i]) * job->code_size;
		bytes[i] = (bytes[i] + PAGE - 1) / PAGE * PAGE;
		all += bytes[i];
		subject[i].iterations = 1;
	}
	buffer = calloc(1, all);
	for (int i = BOTH; i--;)
		first = block_emit(buffer + i * bytes[SHORT], job,
				   block_is_loop(job) ? 1 : times[i], step);
	code = block_memory_code(buffer, all, end->why, end->size);
	if (!code)
		return false;
	block_signal_open(code, all, code + first, end);
	for (int i = 0; i < BOTH; i++)
		subject[i].entry = (uintptr_t)code + (block_is_loop(job) ? 0 : i * bytes[SHORT]);
	free(buffer);
	return true;
}

static double seconds_for(uint64_t repetitions)
{
	double began = clock_seconds();

	block_run_long(repetitions);
	return clock_seconds() - began;
}

/* The shortest time of some repetitions of the long code, without the overhead of a call. */
static double seconds_of_one(void)
{
	double once = INFINITY, more = INFINITY;

	for (int i = 0; i < 3; i++) {
		once = fmin(once, seconds_for(1));
		more = fmin(more, seconds_for(1 + REPEATS));
	}
	return (more - once) / REPEATS;
}

void block_choose_iterations(const uint64_t most[BOTH])
{
	uint64_t *iterations = &subject[LONG].iterations;
	int shift = 0;

	block_signal_lenient(true);
	while (most[LONG] >> shift > 2)
		shift++;
	do
		*iterations = most[LONG] >> shift;
	while (shift-- && (seconds_of_one() < LONGEST / 2 || *iterations < ENOUGH_ITERATIONS) &&
	       !block_signal_overflowed());
	if (block_signal_overflowed())
		*iterations =
		    *iterations / 2 > LEAST_ITERATIONS ? *iterations / 2 : LEAST_ITERATIONS;
	block_signal_lenient(false);
	subject[SHORT].iterations = fmax(1, *iterations * most[SHORT] / most[LONG]);
}

bool block_is_long(void)
{
	return seconds_of_one() > LONGEST;
}
