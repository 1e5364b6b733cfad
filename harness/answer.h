/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A meter and its reading, as members of a JSON object. */
#ifndef HARNESS_ANSWER_H
#define HARNESS_ANSWER_H

#include "meter.h"

void answer_meter(const struct meter *meter);

/* Cycles, and the samples that they are of; no figures where the reading has none. */
void answer_reading(const struct reading *reading);

/*
 * The numbers of samples taken and left out, how slow those are, and whether there are two speeds.
 */
void answer_left_out(const struct reading *reading);

/* A series as it was taken, in the words of a job to judge it. */
void answer_series(const struct series *series);

#endif
