/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A meter and its reading, as members of a record, like those of harness/answer.h. */
#ifndef LOOPWRIGHT_READINGS_H
#define LOOPWRIGHT_READINGS_H

#include "meter.h"

void readings_meter(const struct meter *meter);
void readings_one(const struct reading *reading);

#endif
