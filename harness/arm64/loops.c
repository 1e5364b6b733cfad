// SPDX-License-Identifier: GPL-2.0-or-later
/* The latency of a multiplication and the rates of streams differ between cores. */
#include "../loops.h"

const struct known *loops_known(unsigned int *count)
{
	static const struct code add = {.run = chain_add}, eor = {.run = chain_xor},
				 load = {.run = stream_load}, taken = {.run = taken_branches},
				 multiply = {.run = chain_multiply}, latency = {.run = chain_load},
				 store = {.run = stream_store}, nop = {.run = stream_nop};
	static const struct known loops[] = {
	    {"add chain", &add, MILLION, LOOPS_CHAIN, true, false},
	    {"eor chain", &eor, MILLION, LOOPS_CHAIN, true, false},
	    {"load stream", &load, 0, LOOPS_STREAM, false, true},
	    {"taken branches", &taken, 0, LOOPS_STREAM, false, true},
	    {"nop stream", &nop, 0, LOOPS_STREAM, false, true},
	    {"mul chain", &multiply, 0, LOOPS_CHAIN, false, false},
	    {"load chain", &latency, 0, LOOPS_CHAIN, false, false},
	    {"store stream", &store, 0, LOOPS_STREAM, false, false},
	};

	*count = sizeof(loops) / sizeof(*loops);
	return loops;
}
