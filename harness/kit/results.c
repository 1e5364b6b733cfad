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

/* Find what stands behind a key of a line, up to a quote or comma; false where it has none. */
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

static void look_at(struct results *r, const char *line)
{
	char id[128], object[80], text[sizeof(r->reason)];
	int job, point;

	if (value(line, "end", text, sizeof(text)))
		r->ended = true;
	if (!value(line, "id", id, sizeof(id)) || !value(line, "object", object, sizeof(object)))
		return;
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

struct results results_resume(const char *path, const struct jobfile *jobs, const char *kit)
{
	char *head, *facts, of_kit[80], of_machine[80], here[FACTS_FINGERPRINT];
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
	facts_fingerprint(here);
	if (!value(facts, "fingerprint", of_machine, sizeof(of_machine)) ||
	    strcmp(of_machine, here))
		fail(path, "another machine began it; begin anew here");
	free(head);
	free(facts);
	r = prepare(path, jobs, file);
	results_follow(&r);
	/* What a power cut left of a line is no line. */
	if (ftruncate(file, r.seen))
		fail(path, strerror(errno));
	return r;
}

void results_head(const char *kit, const char *version)
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
	json_string("kit", kit);
	json_string("version", version);
	json_integer("protocol", PROTOCOL);
	json_close();
}
