/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The harness's loops of known cost, as callers: an iteration is a call. */
#ifndef LOOPWRIGHT_CHAIN_CALLS_H
#define LOOPWRIGHT_CHAIN_CALLS_H

#include "meter.h"

void call_chain_add(struct call *call, unsigned long times);

extern const struct code chain_calls_calibrator;

/* All of them are required; one without a name ends them. */
extern const struct known chain_calls_known[];

#endif
