// SPDX-License-Identifier: GPL-2.0-or-later
#include "chain_calls.h"

void chain_add(u64 iterations);
void chain_xor(u64 iterations);
void chain_multiply(u64 iterations);
void stream_load(u64 iterations);
void taken_branches(u64 iterations);

/* Functions of C, which a kernel that guards indirect calls lets pointers lead to. */
#define CALLER(name)                                                                               \
	void call_##name(struct call *call, unsigned long times)                                   \
	{                                                                                          \
		name(times);                                                                       \
	}

CALLER(chain_add)
CALLER(chain_xor)
CALLER(chain_multiply)
CALLER(stream_load)
CALLER(taken_branches)
