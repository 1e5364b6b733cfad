/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef HARNESS_PIN_H
#define HARNESS_PIN_H

/*
 * Stay on the allowed CPU that has seen the fewest device interrupts, at the highest priority that
 * is not real-time, where the user may have it; returns the CPU, or -1.
 */
int pin(void);

/* The CPU that pin would choose, or -1. */
int pin_choice(void);

#endif
