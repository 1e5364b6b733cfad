/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Samples in a row, and what of them is acceptable. */
#ifndef LOOPWRIGHT_KMOD_SERIES_H
#define LOOPWRIGHT_KMOD_SERIES_H

#include "meter.h"

struct series {
	unsigned int count;
	u64 repetitions; /* calls a sample */
	u64 known;	 /* cycles a calibration */
	u64 target[MOST_SAMPLES];
	u64 before[MOST_SAMPLES]; /* calibrations */
	u64 behind[MOST_SAMPLES];
	bool disturbed[MOST_SAMPLES];
	/* room to sort */
	u64 calibrations[2 * MOST_SAMPLES];
	u64 cycles[MOST_SAMPLES];
	u64 hz[MOST_SAMPLES];
};

/*
 * Turn a series into a reading; false, with the reason, where too little of it is acceptable. hz
 * are the ticks a second of the unit of samples and calibrations, or 0.
 */
bool series_judge(struct series *series, u64 hz, struct reading *reading);

#endif
