// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "kit.h"

#include "../clock.h"
#include "../facts.h"
#include "../json.h"
#include "../machine.h"
#include "banner.h"
#include "trials.h"
#include "turns.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SPARE 2 /* further processes for points that were refused in one */

static const char usage[] =
    "usage: ./run [-o FILE | --resume FILE] [--only KERNEL[/VARIANT] | --calibrate]\n"
    "  Checks every variant in this kit, measures those that hold their contract, and writes\n"
    "  lines of JSON to FILE. Ctrl-C leaves a valid file, which --resume goes on with.\n"
    "  --calibrate measures what a model of this core is learned from instead.\n";

struct options {
	const char *output;
	const char *resume;
	const char *only;
	bool calibrate;
};

static void stop(int number)
{
	turns_stop = number;
}

static int refuse(const char *what, const char *why)
{
	fprintf(stderr, "run: %s%s\n%s", what, why, usage);
	return 2;
}

static int read_options(int argc, char **argv, struct options *options)
{
	for (int i = 0; i < argc; i++) {
		const char **into = !strcmp(argv[i], "-o")	   ? &options->output
				    : !strcmp(argv[i], "--resume") ? &options->resume
				    : !strcmp(argv[i], "--only")   ? &options->only
								   : NULL;

		if (!strcmp(argv[i], "--calibrate")) {
			options->calibrate = true;
			continue;
		}
		if (!into)
			return refuse(argv[i], " is no option");
		if (++i == argc || !*argv[i])
			return refuse(argv[i - 1], " needs a value");
		*into = argv[i];
	}
	if (options->output && options->resume)
		return refuse("-o and --resume", " exclude each other");
	if (options->only && options->calibrate)
		return refuse("--only and --calibrate", " exclude each other");
	return 0;
}

static const char *default_name(void)
{
	static char name[80];
	char when[32];
	time_t now = time(NULL);

	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", gmtime(&now));
	snprintf(name, sizeof(name), "loopwright-%s-%s.jsonl", machine_isa, when);
	return name;
}

static void print_facts(const struct jobfile *jobs)
{
	for (size_t i = 0; i < jobs->count; i++) {
		if (jobs->jobs[i].kind != KIND_FACTS)
			continue;
		json_open();
		json_string("id", jobs->jobs[i].id);
		facts_print(&jobs->jobs[i]);
		json_close();
	}
}

static void print_plan(struct plan plan, int processes)
{
	json_open();
	json_string("id", "plan");
	json_integer("points", plan.points);
	json_integer("processes", processes);
	json_close();
}

static void print_end(const struct results *r, const char *refused)
{
	json_open();
	json_integer("end", 1);
	json_integer("readings", r->readings);
	json_string("nothing_measured", refused);
	json_close();
	fsync(r->file);
}

/* Name the variants that break their contract here; they are not measured. */
static void complain(const struct results *r, const char *only)
{
	const char *last = "";

	for (size_t i = 0; i < r->jobs->count; i++) {
		const struct job *job = &r->jobs->jobs[i];

		if (job->kind == KIND_CHECK && r->progress[i].passed == 0 &&
		    jobfile_wanted(job->id, only) && strcmp(job->id, last))
			fprintf(stderr, "not measured, since it breaks its contract here: %s\n",
				last = job->id);
	}
}

/* True if the kit has a kernel or variant of that name. */
static bool is_known(const struct jobfile *jobs, const char *only)
{
	for (size_t i = 0; i < jobs->count; i++)
		if (jobs->jobs[i].kind == KIND_MEASURE && jobfile_wanted(jobs->jobs[i].id, only))
			return true;
	return false;
}

/* List the kit's variants. */
static int no_such(const struct jobfile *jobs, const char *only)
{
	const char *last = "";

	fprintf(stderr, "run: --only %s: the kit has nothing of that name for %s; it has\n", only,
		machine_isa);
	for (size_t i = 0; i < jobs->count; i++)
		if (jobs->jobs[i].kind == KIND_MEASURE && strcmp(jobs->jobs[i].id, last))
			fprintf(stderr, "  %s\n", last = jobs->jobs[i].id);
	return 2;
}

static int interrupted(const struct results *r, const struct options *options)
{
	fprintf(stderr, "\ninterrupted: %ld readings are in %s; go on with ./run%s --resume %s\n",
		r->readings, r->path, options->calibrate ? " --calibrate" : "", r->path);
	return 130;
}

static int worker_failed(const struct results *r)
{
	fprintf(stderr, "\nrun: the measuring process failed; what was measured is in %s\n",
		r->path);
	return 2;
}

static int calibrate(struct results *r, const struct options *options, const char *self,
		     const char *jobs)
{
	struct plan plan = trials_plan(r);
	int failed;

	if (r->ended && !plan.missing) {
		fprintf(stderr, "nothing is left to do: %s is complete\n", r->path);
		return 0;
	}
	print_plan(plan, 1);
	fflush(stdout);
	failed = trials_measure(r, self, jobs);
	if (turns_stop)
		return interrupted(r, options);
	if (failed)
		return worker_failed(r);
	plan = trials_plan(r);
	print_end(r, plan.missing == plan.points ? r->reason : "");
	fprintf(stderr, "done: %ld of %ld trials are answered in %s", plan.points - plan.missing,
		plan.points, r->path);
	if (plan.missing)
		fprintf(stderr, "; the others were disturbed (%s): try --resume when it is quieter",
			r->reason);
	fprintf(stderr, "\nbring it home: loopwright import %s\n", r->path);
	return plan.missing == plan.points ? 1 : 0;
}

static int measure(struct results *r, const struct options *options, const char *self,
		   const char *jobs)
{
	struct plan plan = turns_plan(r, options->only);

	if (r->ended && !plan.missing) {
		fprintf(stderr, "nothing is left to do: %s is complete\n", r->path);
		return 0;
	}
	print_plan(plan, PROCESSES);
	for (int turn = 0; turn < PROCESSES + SPARE && plan.missing; turn++) {
		if (turn >= PROCESSES && r->refused == r->readings)
			break;
		if (turns_measure(r, options->only, self, jobs) && !turns_stop)
			return worker_failed(r);
		fsync(r->file);
		if (turns_stop)
			return interrupted(r, options);
		plan = turns_plan(r, options->only);
	}
	print_end(r, r->readings && r->refused == r->readings ? r->reason : "");
	fprintf(stderr, "done: %ld readings in %s", r->readings, r->path);
	if (r->refused)
		fprintf(stderr, ", %ld of them refused (%s)", r->refused, r->reason);
	if (plan.missing)
		fprintf(stderr, "; %ld are still wanted: try --resume when the machine is quieter",
			plan.missing);
	fprintf(stderr, "\nbring it home: loopwright import %s\n", r->path);
	return r->refused == r->readings ? 1 : 0;
}

int kit_main(const char *self, int argc, char **argv)
{
	struct options options = {0};
	struct sigaction action = {.sa_handler = stop};
	const struct clock *clock;
	struct jobfile jobs;
	struct results r;
	char why[320];

	if (argc < 3)
		return refuse("kit", " needs a file of jobs, its hash and its version");
	if (argc > 3 && (!strcmp(argv[3], "--help") || !strcmp(argv[3], "-h"))) {
		fputs(usage, stdout);
		return 0;
	}
	if (read_options(argc - 3, argv + 3, &options))
		return 2;
	jobs = jobfile_read(argv[0]);
	if (options.only && !is_known(&jobs, options.only))
		return no_such(&jobs, options.only);
	clock = clock_find(why, sizeof(why));
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	fprintf(stderr, "loopwright kit %s (%.12s)\n", argv[2], argv[1]);
	banner_print(clock ? clock->name : "", why);
	if (options.resume) {
		r = results_resume(options.resume, &jobs, argv[1], options.calibrate);
	} else {
		r = results_create(options.output ? options.output : default_name(), &jobs);
		results_head(argv[1], argv[2], options.calibrate);
		print_facts(&jobs);
	}
	fprintf(stderr, "  %-10s %s\n", "results", r.path);
	turns_check(&r, options.only);
	if (turns_stop)
		return interrupted(&r, &options);
	complain(&r, options.only);
	if (!clock) {
		print_end(&r, why);
		fprintf(stderr, "checked, and nothing measured: %s\n", why);
		return 1;
	}
	return (options.calibrate ? calibrate : measure)(&r, &options, self, argv[0]);
}
