/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef HARNESS_PIN_H
#define HARNESS_PIN_H

/* Stay on the allowed CPU that has seen the fewest device interrupts; returns it, or -1. */
int pin(void);

/* The CPU that pin would stay on, or -1. */
int pin_choice(void);

#endif
