// SPDX-License-Identifier: GPL-2.0-or-later
#include "kit.h"

#include "../answer.h"
#include "../block.h"
#include "../json.h"
#include "../measure.h"
#include "jobfile.h"

#include <stdlib.h>

#define LINE (1 << 17)

int kit_worker(const char *path)
{
	static struct meter meter;
	struct jobfile all = jobfile_read(path);
	struct task tasks[MEASURE_POINTS];
	unsigned int job, point;
	size_t count = 0;

	/* A line is written at once: an interrupt leaves it whole or not at all. */
	setvbuf(stdout, NULL, _IOFBF, LINE);
	meter_open(&meter);
	json_open();
	json_string("id", "clock");
	answer_meter(&meter);
	json_close();
	while (scanf("%u %u", &job, &point) == 2) {
		if (job < all.count && all.jobs[job].kind == KIND_BLOCK) {
			/* The line about the clock has the reason why nothing is measured. */
			if (*meter.gauge.refused)
				break;
			block_job(&all.jobs[job], &meter);
			continue;
		}
		if (job >= all.count || point >= all.jobs[job].npoints)
			return 2;
		tasks[count++] = (struct task){&all.jobs[job], point};
		if (count == MEASURE_POINTS) {
			measure_points(tasks, count, &meter);
			count = 0;
		}
	}
	if (count)
		measure_points(tasks, count, &meter);
	return ferror(stdout) ? 1 : 0;
}
