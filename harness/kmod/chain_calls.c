// SPDX-License-Identifier: GPL-2.0-or-later
#include "chain_calls.h"

#define CHAIN 1000   /* parts in a million that a latency may be off */
#define STREAM 10000 /* the same for what units of one kind limit */

void chain_add(u64 iterations);
void chain_xor(u64 iterations);
void chain_multiply(u64 iterations);
void stream_load(u64 iterations);
void stream_nop(u64 iterations);
void taken_branches(u64 iterations);

/* Functions of C, which a kernel that guards indirect calls lets pointers lead to. */
#define CALLER(name)                                                                               \
	void call_##name(struct call *call, unsigned long times)                                   \
	{                                                                                          \
		name(times);                                                                       \
	}

CALLER(chain_add)
static CALLER(stream_load) static CALLER(stream_nop) static CALLER(taken_branches)

    const struct code chain_calls_calibrator = {.run = call_chain_add};
static const struct code loads = {.run = call_stream_load};
static const struct code branches = {.run = call_taken_branches};
static const struct code nops = {.run = call_stream_nop};

/* A chain of another instruction than the calibrator's, of the same latency on every core. */
#ifdef CONFIG_X86_64
static CALLER(chain_multiply) static const struct code other = {.run = call_chain_multiply};
#define OTHER "imul chain"
#define OTHER_CYCLES (3 * MILLION)
#else
static CALLER(chain_xor) static const struct code other = {.run = call_chain_xor};
#define OTHER "eor chain"
#define OTHER_CYCLES MILLION
#endif

const struct known chain_calls_known[] = {
    {"add chain", &chain_calls_calibrator, MILLION, CHAIN, true, false},
    {OTHER, &other, OTHER_CYCLES, CHAIN, true, false},
    {"load stream", &loads, 0, STREAM, false, true},
    {"taken branches", &branches, 0, STREAM, false, true},
    {"nop stream", &nops, 0, STREAM, false, true},
    {},
};
