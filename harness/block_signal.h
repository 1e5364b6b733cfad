/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signals of a block: faults that mapping memory resolves, and its end. */
#ifndef HARNESS_BLOCK_SIGNAL_H
#define HARNESS_BLOCK_SIGNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where it goes why a block ended before its time, and the byte from its entry at which it stood.
 */
struct block_end {
	char *why;
	size_t size;
	int64_t *stopped;
};

/*
 * Catch every signal that the code at start can raise, on a stack of its own. One that ends the
 * block, which is entered at entry, ends the process.
 */
void block_signal_open(const uint8_t *start, size_t bytes, const uint8_t *entry,
		       const struct block_end *end);

/* End the process after so much CPU time from now, in seconds. */
void block_signal_within(double seconds);

/*
 * What happens to a block that touches more than the distinct pages (lenient: it goes to
 * block_leave), and to one that makes a misaligned access while its flags forbid it.
 */
void block_signal_lenient(bool lenient);
bool block_signal_overflowed(void);
bool block_signal_misaligned(void);

#endif
