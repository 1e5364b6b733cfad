/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loops as those of ../chains.h, of instructions that only x86-64 has. */
#ifndef HARNESS_X86_64_CHAINS_H
#define HARNESS_X86_64_CHAINS_H

#include <stdint.h>

void chain_adc(uint64_t iterations);
void chain_lea(uint64_t iterations);
void chain_add_constant(uint64_t iterations);
void stream_multiply(uint64_t iterations);

#endif
