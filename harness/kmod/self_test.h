/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hold a meter to loops that are known. */
#ifndef LOOPWRIGHT_KMOD_SELF_TEST_H
#define LOOPWRIGHT_KMOD_SELF_TEST_H

#include "meter.h"

/* Measure the known loops; a meter that they do not hold for refuses, and says why. */
void self_test(struct meter *meter, const struct run *run);

/* What was measured, as a member of a record. */
void self_test_describe(const struct meter *meter);

#endif
