// SPDX-License-Identifier: GPL-2.0-or-later
/* Read jobs from standard input, or from the files named, and print one line of JSON for each. */
#include "answer.h"
#include "block.h"
#include "check.h"
#include "facts.h"
#include "job.h"
#include "json.h"
#include "kit/kit.h"
#include "machine.h"
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void judge(struct series *series)
{
	struct reading reading;
	bool held = series_judge(series, &reading);

	json_integer("held", held);
	answer_reading(&reading);
	json_integer("doubtful", reading.doubtful);
	json_integer("unsteady", reading.unsteady);
	json_string("refused", reading.refused);
}

static struct meter *opened(void)
{
	static struct meter meter;
	static bool open;

	if (!open)
		meter_open(&meter);
	open = true;
	return &meter;
}

static void run_job(const struct job *job)
{
	struct meter *meter;

	if (job->kind == KIND_CHECK) {
		check_job(job);
		return;
	}
	if (job->kind == KIND_FACTS || job->kind == KIND_JUDGE) {
		json_open();
		json_string("id", job->id);
		if (job->kind == KIND_FACTS)
			facts_print(job);
		else
			judge(job->recorded);
		json_close();
		return;
	}
	meter = opened();
	if (job->kind == KIND_BLOCK) {
		block_job(job, meter);
		return;
	}
	if (job->kind == KIND_SELF_TEST)
		meter_test_rest(meter);
	json_open();
	json_string("id", job->id);
	if (job->kind == KIND_QUIET)
		json_integer("quiet", meter_await_quiet(meter));
	else
		answer_meter(meter);
	json_close();
}

/* Successive jobs to measure, whose points take turns. */
struct row {
	struct job jobs[MEASURE_POINTS];
	size_t count;
};

static void measure_row(struct row *row)
{
	struct task tasks[MEASURE_POINTS];
	size_t count = 0;

	for (size_t i = 0; i < row->count; i++)
		for (size_t p = 0; p < row->jobs[i].npoints; p++) {
			tasks[count++] = (struct task){&row->jobs[i], p};
			if (count == MEASURE_POINTS) {
				measure_points(tasks, count, opened());
				count = 0;
			}
		}
	if (count)
		measure_points(tasks, count, opened());
	for (size_t i = 0; i < row->count; i++)
		job_free(&row->jobs[i]);
	row->count = 0;
}

static void run(FILE *from)
{
	static struct row row;
	char why[160] = "";
	struct job job;
	int got;

	while ((got = job_read(from, &job, why, sizeof(why)))) {
		if (got > 0 && job.kind == KIND_MEASURE) {
			row.jobs[row.count++] = job;
			if (row.count == MEASURE_POINTS)
				measure_row(&row);
			continue;
		}
		measure_row(&row);
		if (got < 0) {
			json_open();
			json_string("id", job.id ? job.id : "");
			json_string("error", why);
			json_close();
		} else {
			run_job(&job);
		}
		job_free(&job);
	}
	measure_row(&row);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "kit"))
		return kit_main(argv[0], argc - 2, argv + 2);
	if (argc == 3 && !strcmp(argv[1], "kit-worker"))
		return kit_worker(argv[2]);
	if (argc == 1)
		run(stdin);
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "r");

		if (!file) {
			perror(argv[i]);
			return 2;
		}
		run(file);
		fclose(file);
	}
	return 0;
}
