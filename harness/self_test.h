/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hold a meter to the loops that are known. */
#ifndef HARNESS_SELF_TEST_H
#define HARNESS_SELF_TEST_H

#include "meter.h"

/* Measure the required loops; a meter that they do not hold for refuses, and says why. */
void self_test_open(struct meter *meter);

/* Measure the other loops that are known, once. */
void self_test_rest(struct meter *meter);

/* Print what was measured, as an array of a JSON object. */
void self_test_print(const struct meter *meter);

#endif
