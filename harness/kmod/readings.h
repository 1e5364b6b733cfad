/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a meter is and what it read, as members of a record, as harness/answer.h has them. */
#ifndef LOOPWRIGHT_READINGS_H
#define LOOPWRIGHT_READINGS_H

#include "meter.h"

void readings_meter(const struct meter *meter);
void readings_one(const struct reading *reading);

#endif
