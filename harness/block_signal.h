/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signals of a block: faults that mapping memory resolves, and its end. */
#ifndef HARNESS_BLOCK_SIGNAL_H
#define HARNESS_BLOCK_SIGNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The buffer for the reason of a block's early end, and the byte from its entry where it stopped.
 */
struct block_end {
	char *why;
	size_t size;
	int64_t *stopped;
};

/*
 * Catch every signal that the code at start can raise, on a separate stack. A signal that ends the
 * block, which is entered at entry, ends the process.
 */
void block_signal_open(const uint8_t *start, size_t bytes, const uint8_t *entry,
		       const struct block_end *end);

/* End the process after so much CPU time from now, in seconds. */
void block_signal_within(double seconds);

/*
 * The handling of a block that touches more than the distinct pages (lenient: it jumps to
 * block_leave), and of one that makes a misaligned access while its flags forbid it.
 */
void block_signal_lenient(bool lenient);
bool block_signal_overflowed(void);
bool block_signal_misaligned(void);

#endif
