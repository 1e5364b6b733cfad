// SPDX-License-Identifier: GPL-2.0-or-later
/* Reading a counter that is not granted traps, and is survived; so is the handler before. */
#include "clock.h"
#include "trial.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>

static uint64_t harmless(uint32_t index)
{
	return index;
}

static uint64_t illegal(uint32_t index)
{
	(void)index;
	raise(SIGILL);
	return 0;
}

static volatile int seen;

static void count(int number)
{
	(void)number;
	seen++;
}

int main(void)
{
	char why[160];

	signal(SIGILL, count);
	assert(trial_read(harmless, 1));
	assert(!trial_read(illegal, 1));
	assert(!trial_read(illegal, 1));
	assert(!seen);
	raise(SIGILL);
	assert(seen == 1);
	/* Where perf_event gave no counter, the instruction that reads one is not allowed. */
	if (clock_perf.open(why, sizeof(why)))
		printf("%s; %s\n", trial_read(clock_read_counter, 32) ? "read" : "trapped", why);
	else
		puts("counted");
	return 0;
}
