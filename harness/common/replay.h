/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recorded series as text, for testing the acceptance rules on them. */
#ifndef HARNESS_REPLAY_H
#define HARNESS_REPLAY_H

#include "series.h"

/*
 * Read a line into a series, which is empty at first:
 *
 *   series TARGETS MOST REPETITIONS KNOWN HZ CANARY CANARY SLICED
 *   sample BEFORE BEHIND TARGET TARGET CANARY CANARY INSTRUCTIONS CONTROL DISTURBED TURN
 *
 * with numbers as struct series and struct sample have them. False where it is no such line, or
 * does not fit.
 */
bool replay_line(const char *line, struct series *series);

/* True if the series can be judged. */
bool replay_whole(const struct series *series);

#endif
