/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Series of samples, and the reading of a series. */
#ifndef HARNESS_SERIES_H
#define HARNESS_SERIES_H

#include "integers.h"

#define SERIES_MOST 288	  /* samples */
#define SERIES_LEAST 16	  /* that are accepted, for a reading */
#define SERIES_FEWEST 10  /* of a brief series: of so many, or a few more, a fifth may be lost */
#define SERIES_TURNS 4	  /* most, apart from each other, that a series is taken in */
#define SERIES_TARGETS 2  /* most that a sample times: one code, or a short and a long one */
#define SERIES_CANARIES 2 /* of a sample: streams that a thread on the same core slows */
#define SERIES_REASON 224 /* characters */

/* Per mille: most that a sample may be above the quick ones. */
#define SERIES_HOT 1030
#define SERIES_COLD 1100 /* samples wait for memory, which varies by itself */

/* Times are in ticks of the clock, or in cycles if it counts those. */
struct sample {
	u64 before; /* calibrations around the sample */
	u64 behind;
	u64 target[SERIES_TARGETS];
	u64 canary[SERIES_CANARIES]; /* right before and right behind the targets; 0: not taken */
	u64 instructions;	     /* of the targets; 0 where the clock does not know */
	u64 control;		     /* what a stream that stands for the targets takes alone, in
				      * millionths of a cycle; 0: the targets are timed themselves */
	unsigned int turn;	     /* of the series; the core may have another speed in each */
	bool disturbed;		     /* by what the clock can see */
};

/* Intermediate results of judging a series: too large for a kernel's stack. */
struct series_notes {
	unsigned int taken;    /* samples of the targets */
	unsigned int accepted; /* of them */
	unsigned int controls; /* accepted samples of streams for comparison */
	unsigned int slow_controls;
	unsigned int shared;		 /* samples with a canary that is slow */
	u64 quick[SERIES_TURNS];	 /* the tenth percentile of a turn's calibrations, ticks */
	u64 least;			 /* instructions of a sample */
	u64 fast[SERIES_TARGETS];	 /* the tenth percentile of accepted samples, millionths */
	unsigned int which[SERIES_MOST]; /* sample each accepted one is */
	u64 cycles[SERIES_TARGETS][SERIES_MOST];
	u64 ratio[SERIES_MOST];	     /* to the quick ones, per mille */
	u64 slow[SERIES_MOST];	     /* those of slow samples, sorted */
	u64 sorted[2 * SERIES_MOST]; /* the samples of the reading, at last */
};

struct series {
	unsigned int count;
	unsigned int turn;	     /* that goes on, from 0 */
	unsigned int targets;	     /* of each sample */
	unsigned int most;	     /* SERIES_HOT or SERIES_COLD */
	u64 repetitions;	     /* of each target in a sample */
	u64 known;		     /* cycles of a calibration */
	u64 hz;			     /* ticks a second; 0 where the clock counts cycles */
	unsigned int looks;	     /* for a quiet core, so far */
	unsigned int brief;	     /* samples of a series that is to be quick; 0 of any other */
	bool sliced;		     /* calibrations and targets of a sample were timed by turns */
	u64 canary[SERIES_CANARIES]; /* what they take alone, in millionths; 0: not known yet */
	struct sample sample[SERIES_MOST];
	struct series_notes notes;
};

/*
 * Cycles for one repetition, in millionths; of two targets, those of the second beyond the first.
 * refused is the reason for no number, or empty.
 */
struct reading {
	u64 median;
	u64 p10;
	u64 p90;
	u64 sample[SERIES_MOST]; /* those that the figures are of, as they were taken */
	unsigned int samples;
	unsigned int taken;
	unsigned int accepted;	/* of those taken: calibrations agree, nothing shares the core */
	unsigned int slow;	/* of those accepted: left out, far above the quick ones */
	unsigned int expected;	/* slow ones that is no wonder, in hundredths */
	unsigned int slow_from; /* slow ones to quick ones, per mille: tenth percentile and */
	unsigned int slow_to;	/* ninetieth */
	u64 repetitions;	/* in a burst */
	u64 core_hz;		/* the core's clock; 0 where the clock counts cycles */
	bool unsteady;		/* refused, and neither noise nor interruptions explain that */
	u64 speed[2];		/* of what is unsteady: two speeds, as the median, or 0 */
	bool doubtful; /* more samples, and streams for comparison, would tell two speeds from noise
			*/
	char two_speeds[SERIES_REASON]; /* what noise and interruptions do not explain, or empty */
	char refused[SERIES_REASON];
};

/*
 * True if ticks between the calibrations of a sample, each of known cycles, are more than code
 * takes alone, in millionths of a cycle: something shares the core.
 */
bool series_slowed(u64 known, const struct sample *sample, u64 ticks, u64 alone);

/* Turn a series into a reading; false, with the reason, if too little of it is acceptable. */
bool series_judge(struct series *series, struct reading *reading);

#endif
