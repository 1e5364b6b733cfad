// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "results.h"

#include "../common/protocol.h"
#include "../facts.h"
#include "../json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT 1
#define LINE (1 << 17) /* more than the longest line: it is written at once */

static void fail(const char *path, const char *why)
{
	fprintf(stderr, "run: %s: %s\n", path, why);
	exit(2);
}

/* Find the value of a key in a line, up to a quote or comma; false if it has none. */
static bool value(const char *line, const char *key, char *into, size_t size)
{
	char quoted[64];
	const char *at;
	size_t length;

	snprintf(quoted, sizeof(quoted), "\"%s\": ", key);
	at = strstr(line, quoted);
	if (!at)
		return false;
	at += strlen(quoted);
	length = *at == '"' ? strcspn(++at, "\"") : strcspn(at, ",}");
	snprintf(into, size, "%.*s", (int)length, at);
	return true;
}

static int job_of(const struct results *r, enum kind kind, const char *id, const char *object)
{
	for (size_t i = 0; i < r->jobs->count; i++) {
		const struct job *job = &r->jobs->jobs[i];

		if (job->kind == kind && !strcmp(job->id, id) && job->object &&
		    !strcmp(job->object, object))
			return i;
	}
	return -1;
}

static const struct jobfile *sorted; /* whose jobs by_id compares */

static int by_id(const void *one, const void *other)
{
	const struct job *jobs = sorted->jobs;

	return strcmp(jobs[*(const size_t *)one].id, jobs[*(const size_t *)other].id);
}

static void list_trials(struct results *r)
{
	r->trials = calloc(r->jobs->count + 1, sizeof(*r->trials));
	for (size_t i = 0; i < r->jobs->count; i++)
		if (r->jobs->jobs[i].kind == KIND_BLOCK)
			r->trials[r->ntrials++] = i;
	sorted = r->jobs;
	qsort(r->trials, r->ntrials, sizeof(*r->trials), by_id);
}

static int trial_of(const struct results *r, const char *id)
{
	size_t low = 0, high = r->ntrials;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = strcmp(r->jobs->jobs[r->trials[middle]].id, id);

		if (!order)
			return r->trials[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

/*
 * Record a trial's answer. Final are a figure, a refusal because of the code, and no single speed
 * in several undisturbed tries.
 */
static void look_at_trial(struct results *r, const char *line, const char *id)
{
	char text[sizeof(r->reason)], disturbed[8], unsteady[8];
	int trial = trial_of(r, id);

	if (trial < 0 || !value(line, "refused", text, sizeof(text)) ||
	    !value(line, "disturbed", disturbed, sizeof(disturbed)))
		return;
	r->readings++;
	if (*text) {
		r->refused++;
		memcpy(r->reason, text, sizeof(text));
	}
	if (value(line, "unsteady", unsteady, sizeof(unsteady)))
		r->progress[trial].readings[0] += atoi(unsteady) != 0;
	if ((!*text || !atoi(disturbed) || r->progress[trial].readings[0] == RESULTS_UNSTEADY) &&
	    !r->progress[trial].accepted[0]++)
		r->answered++;
	snprintf(r->learning, sizeof(r->learning), "%.*s", (int)strcspn(id, "/"), id);
}

static void look_at(struct results *r, const char *line)
{
	char id[128], object[80], text[sizeof(r->reason)];
	int job, point;

	if (value(line, "end", text, sizeof(text)))
		r->ended = true;
	if (!value(line, "id", id, sizeof(id)))
		return;
	if (!strcmp(id, "clock") && value(line, "refused", text, sizeof(text)) && *text)
		memcpy(r->reason, text, sizeof(text));
	if (!value(line, "object", object, sizeof(object))) {
		look_at_trial(r, line, id);
		return;
	}
	if (value(line, "passed", text, sizeof(text))) {
		job = job_of(r, KIND_CHECK, id, object);
		if (job >= 0)
			r->progress[job].passed = atoi(text);
		return;
	}
	if (!value(line, "point", text, sizeof(text)))
		return;
	point = atoi(text);
	job = job_of(r, KIND_MEASURE, id, object);
	if (job < 0 || point < 0 || (size_t)point >= r->jobs->jobs[job].npoints ||
	    !value(line, "refused", text, sizeof(text)))
		return;
	r->readings++;
	r->progress[job].readings[point]++;
	if (*text) {
		r->refused++;
		memcpy(r->reason, text, sizeof(text));
	} else {
		r->progress[job].accepted[point]++;
	}
}

void results_follow(struct results *r)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t got;
	FILE *file = fopen(r->path, "r");

	if (!file || fseeko(file, r->seen, SEEK_SET))
		fail(r->path, strerror(errno));
	while ((got = getline(&line, &room, file)) > 0 && line[got - 1] == '\n') {
		r->seen += got;
		look_at(r, line);
	}
	free(line);
	fclose(file);
}

static struct results prepare(const char *path, const struct jobfile *jobs, int file)
{
	struct results r = {.path = path, .file = file, .jobs = jobs};

	r.progress = calloc(jobs->count, sizeof(*r.progress));
	for (size_t i = 0; i < jobs->count; i++) {
		size_t points = jobs->jobs[i].npoints;

		r.progress[i].passed = -1;
		r.progress[i].readings = calloc(points + 1, sizeof(int));
		r.progress[i].accepted = calloc(points + 1, sizeof(int));
	}
	list_trials(&r);
	if (dup2(file, STDOUT_FILENO) < 0 || setvbuf(stdout, NULL, _IOFBF, LINE))
		fail(path, strerror(errno));
	return r;
}

struct results results_create(const char *path, const struct jobfile *jobs)
{
	int file = open(path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (file < 0 && errno == EEXIST)
		fail(path, "it is there already; go on with it by --resume, or name another by -o");
	if (file < 0)
		fail(path, strerror(errno));
	return prepare(path, jobs, file);
}

/* Read one whole line of the file, or nothing. */
static void first_lines(const char *path, char **head, char **facts)
{
	FILE *file = fopen(path, "r");
	size_t room = 0;

	*head = *facts = NULL;
	if (!file)
		fail(path, strerror(errno));
	if (getline(head, &room, file) < 0)
		*head = strdup("");
	room = 0;
	if (getline(facts, &room, file) < 0)
		*facts = strdup("");
	fclose(file);
}

struct results results_resume(const char *path, const struct jobfile *jobs, const char *kit,
			      bool calibration)
{
	char *head, *facts, of_kit[80], of_machine[80], text[8], here[FACTS_FINGERPRINT];
	int file = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
	struct results r;

	if (file < 0)
		fail(path, strerror(errno));
	first_lines(path, &head, &facts);
	if (!value(head, "loopwright_results", of_kit, sizeof(of_kit)) ||
	    !value(head, "kit", of_kit, sizeof(of_kit)))
		fail(path, "it is no file of results");
	if (strcmp(of_kit, kit))
		fail(path, "another version of the kit began it; run that one, or begin anew");
	if (value(head, "calibration", text, sizeof(text)) != calibration)
		fail(path, calibration
			       ? "it holds no calibration; go on with it without --calibrate"
			       : "it holds a calibration; go on with it by --calibrate");
	facts_fingerprint(here);
	if (!value(facts, "fingerprint", of_machine, sizeof(of_machine)) ||
	    strcmp(of_machine, here))
		fail(path, "another machine began it; begin anew here");
	free(head);
	free(facts);
	r = prepare(path, jobs, file);
	results_follow(&r);
	/* A line cut off by a power failure does not count. */
	if (ftruncate(file, r.seen))
		fail(path, strerror(errno));
	return r;
}

void results_head(const char *kit, const char *version, bool calibration)
{
	uint64_t random[2] = {0};
	char uid[40];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		fail("getrandom", strerror(errno));
	snprintf(uid, sizeof(uid), "%016llx%016llx", (unsigned long long)random[0],
		 (unsigned long long)random[1]);
	json_open();
	json_integer("loopwright_results", FORMAT);
	json_string("uid", uid);
	if (calibration)
		json_integer("calibration", 1);
	json_string("kit", kit);
	json_string("version", version);
	json_integer("protocol", PROTOCOL);
	json_close();
}
