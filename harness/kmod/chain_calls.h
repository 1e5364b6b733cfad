/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The harness's loops of known cost, as callers: an iteration is a call. */
#ifndef LOOPWRIGHT_CHAIN_CALLS_H
#define LOOPWRIGHT_CHAIN_CALLS_H

#include "kmod.h"

#define CHAIN_LENGTH 64 /* instructions an iteration */

void call_chain_add(struct call *call, unsigned long times);
void call_chain_xor(struct call *call, unsigned long times);
void call_chain_multiply(struct call *call, unsigned long times);
void call_stream_load(struct call *call, unsigned long times);
void call_taken_branches(struct call *call, unsigned long times);

#endif
