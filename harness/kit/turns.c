// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "turns.h"

#include "../check.h"
#include "../clock.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t turns_stop;

static void nap(void)
{
	struct timespec time = {0, 200000000};

	nanosleep(&time, NULL);
}

/* Show the progress of a stage: continuously on a terminal, else at every tenth. */
static void say(const char *what, long done, long all, double began, double first)
{
	static long last = -1;
	double left = done > first ? (clock_seconds() - began) / (done - first) * (all - done) : 0;
	bool terminal = isatty(STDERR_FILENO);
	long step = terminal ? done : all ? 10 * done / all : 0;

	if (step == last)
		return;
	last = step;
	fprintf(stderr, "%s%s %ld of %ld", terminal ? "\r\033[K" : "", what, done, all);
	if (left > 0)
		fprintf(stderr, ", about %.0f s left", left);
	fputs(terminal && done < all ? "" : "\n", stderr);
}

static pid_t begin(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child)
		return child;
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	return 0;
}

static void end_all(const pid_t *children, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (children[i] > 0) {
			kill(children[i], SIGTERM);
			waitpid(children[i], NULL, 0);
		}
}

static bool unchecked(const struct results *r, size_t job, const char *only)
{
	const struct job *of = &r->jobs->jobs[job];

	return of->kind == KIND_CHECK && r->progress[job].passed < 0 &&
	       jobfile_wanted(of->id, only);
}

void turns_check(struct results *r, const char *only)
{
	long todo = 0, running = 0, done = 0;
	double began = clock_seconds();
	pid_t *children = calloc(r->jobs->count, sizeof(*children)), ended;
	cpu_set_t cpus;
	long most;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	most = CPU_COUNT(&cpus);
	for (size_t i = 0; i < r->jobs->count; i++)
		todo += unchecked(r, i, only);
	for (size_t next = 0; !turns_stop && done < todo;) {
		if (running < most && next < r->jobs->count) {
			if (unchecked(r, next, only)) {
				children[next] = begin();
				if (!children[next]) {
					check_job(&r->jobs->jobs[next]);
					_exit(0);
				}
				running++;
			}
			next++;
			continue;
		}
		ended = waitpid(-1, NULL, WNOHANG);
		for (size_t i = 0; ended > 0 && i < r->jobs->count; i++)
			if (children[i] == ended) {
				children[i] = 0;
				running--;
				done++;
			}
		if (ended <= 0)
			nap();
		say("contracts checked:", done, todo, began, 0);
	}
	end_all(children, r->jobs->count);
	free(children);
	results_follow(r);
}

bool turns_sound(const struct results *r, const struct job *job)
{
	bool any = false;

	for (size_t i = 0; i < r->jobs->count; i++) {
		const struct job *other = &r->jobs->jobs[i];

		if (other->kind != KIND_CHECK || strcmp(other->id, job->id))
			continue;
		if (r->progress[i].passed != 1)
			return false;
		any = true;
	}
	return any;
}

static bool measurable(const struct results *r, size_t job, const char *only)
{
	const struct job *of = &r->jobs->jobs[job];

	return of->kind == KIND_MEASURE && jobfile_wanted(of->id, only) && turns_sound(r, of);
}

struct plan turns_plan(const struct results *r, const char *only)
{
	struct plan plan = {0};

	for (size_t i = 0; i < r->jobs->count; i++) {
		if (!measurable(r, i, only))
			continue;
		for (size_t p = 0; p < r->jobs->jobs[i].npoints; p++) {
			int accepted = r->progress[i].accepted[p];

			plan.points++;
			plan.missing += accepted < PROCESSES ? PROCESSES - accepted : 0;
		}
	}
	return plan;
}

/* List the points that lack readings as alternating job and point numbers, in random order. */
static size_t order(const struct results *r, const char *only, uint32_t (**list)[2])
{
	size_t count = 0;
	uint32_t random;

	*list = NULL;
	for (size_t i = 0; i < r->jobs->count; i++) {
		if (!measurable(r, i, only))
			continue;
		*list = realloc(*list, (count + r->jobs->jobs[i].npoints) * sizeof(**list));
		for (size_t p = 0; p < r->jobs->jobs[i].npoints; p++)
			if (r->progress[i].accepted[p] < PROCESSES) {
				(*list)[count][0] = i;
				(*list)[count++][1] = p;
			}
	}
	for (size_t i = count; i > 1; i--) {
		uint32_t last[2];
		size_t other;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			exit(2);
		other = random % i;
		memcpy(last, (*list)[i - 1], sizeof(last));
		memcpy((*list)[i - 1], (*list)[other], sizeof(last));
		memcpy((*list)[other], last, sizeof(last));
	}
	return count;
}

/* Open a nameless file where results can be written: /tmp may not exist. */
static FILE *unnamed(const char *beside)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s.order", beside);
	file = fopen(path, "w+");
	if (!file) {
		perror(path);
		exit(2);
	}
	unlink(path);
	return file;
}

int turns_work(struct results *r, const uint32_t (*list)[2], size_t count, const char *self,
	       const char *jobs, void (*told)(const struct results *r))
{
	FILE *given = unnamed(r->path);
	pid_t child;
	int status = 0;

	for (size_t i = 0; i < count; i++)
		fprintf(given, "%u %u\n", list[i][0], list[i][1]);
	fflush(given);
	rewind(given);
	child = begin();
	if (!child) {
		dup2(fileno(given), STDIN_FILENO);
		execl(self, self, "kit-worker", jobs, (char *)NULL);
		perror(self);
		_exit(127);
	}
	fclose(given);
	while (!turns_stop && !waitpid(child, &status, WNOHANG)) {
		nap();
		results_follow(r);
		told(r);
	}
	if (turns_stop)
		end_all(&child, 1);
	results_follow(r);
	return status ? -1 : 0;
}

/* The progress of measuring: its state at the start, and the variants. */
static struct {
	long all;
	long first;
	double began;
	const char *only;
} far;

static void say_far(const struct results *r)
{
	long missing = turns_plan(r, far.only).missing;

	say("readings taken:", far.all - missing, far.all, far.began, far.first);
}

int turns_measure(struct results *r, const char *only, const char *self, const char *jobs)
{
	struct plan plan = turns_plan(r, only);
	uint32_t(*list)[2];
	size_t count = order(r, only, &list);
	int failed;

	far.all = plan.points * PROCESSES;
	far.first = far.all - plan.missing;
	far.began = clock_seconds();
	far.only = only;
	failed = turns_work(r, list, count, self, jobs, say_far);
	free(list);
	return failed;
}
