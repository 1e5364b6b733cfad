/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tell a code that runs at two speeds from one that was interrupted, or measured with noise. */
#ifndef HARNESS_SPEEDS_H
#define HARNESS_SPEEDS_H

#include "series.h"

/*
 * Say in a reading whether its samples show two speeds, and whether that is in doubt. Interruptions
 * meet calibrations as often as targets, and cost them the same; what a neighbour on the core does
 * it does to the streams that were timed in the place of targets, if there are any, as well.
 */
void speeds_look(const struct series *series, struct reading *reading);

/* Say in a reading of which too few samples are of one speed why that is, and which speeds. */
void speeds_refuse(struct series *series, struct reading *reading);

#endif
