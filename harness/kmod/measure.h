/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Measure the calls that a selection describes. */
#ifndef LOOPWRIGHT_KMOD_MEASURE_H
#define LOOPWRIGHT_KMOD_MEASURE_H

#include "meter.h"

/* Record a reading, or the reason for none. */
int measure(const struct run *run, struct meter *meter, struct workspace *room);

#endif
