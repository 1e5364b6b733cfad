// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "job.h"

#include "common/replay.h"
#include "job_words.h"
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 7
#define MOST_CODE (1 << 20)

static const char *const kinds[] = {"check", "measure",	  "block", "clock",
				    "facts", "self_test", "quiet", "judge"};
static const char *const effects[] = {"copy", "clear", "checksum", "store_fields",
				      "set",  "move",  "compare",  "scan"};
static const char *const sides[] = {"dst", "src"};
static const char *const roles[] = {"dst",    "src",   "count",	 "sum",	  "value",  "uncopied",
				    "stored", "order", "length", "found", "faulted"};

static const char *const flag_names[] = {"gated", "guards", "wide", "x87", "series"};

static int index_of(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

#define INDEX_OF(names, name) index_of(names, sizeof(names) / sizeof(*(names)), name)

static int nibble(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_code(struct job *job, const char *hex)
{
	size_t digits = strlen(hex);

	if (!digits || digits % 2 || digits / 2 > MOST_CODE)
		return false;
	free(job->code);
	job->code = malloc(digits / 2);
	job->code_size = digits / 2;
	for (size_t i = 0; i < job->code_size; i++) {
		int high = nibble(hex[2 * i]), low = nibble(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		job->code[i] = high << 4 | low;
	}
	return true;
}

static bool read_operand(struct operand *of_roles, struct job *job, char **word)
{
	int role = word[1] ? INDEX_OF(roles, word[1]) : -1;

	if (role < 0 || !word[2] || machine_register(word[2], &of_roles[role]))
		return false;
	job->may_change |= 1ull << of_roles[role].index;
	return true;
}

static bool read_mask(uint64_t *mask, const char *name)
{
	struct operand reg;

	return name && !machine_register(name, &reg) && (*mask |= 1ull << reg.index);
}

static bool read_exception(struct job *job, char **word)
{
	struct exception entry;

	if (!job_number(word[1], &entry.insn) || !job_number(word[2], &entry.fixup))
		return false;
	job->table = realloc(job->table, (job->entries + 1) * sizeof(entry));
	job->table[job->entries++] = entry;
	return true;
}

static bool read_field(struct job *job, char **word)
{
	struct field field = {0};

	if (!job_number(word[1], &field.dst) || !job_number(word[2], &field.size) || !word[3])
		return false;
	field.zero = !strcmp(word[3], "-");
	if (!field.zero && !job_number(word[3], &field.src))
		return false;
	job->fields = realloc(job->fields, (job->nfields + 1) * sizeof(field));
	job->fields[job->nfields++] = field;
	return true;
}

static bool read_point(struct job *job, char **word)
{
	struct point point = {0};

	if (!job_number(word[1], &point.count) || !job_number(word[2], &point.dst_align) ||
	    !job_number(word[3], &point.src_align) || !job_number(word[4], &point.skew) || !word[5])
		return false;
	point.cold = !strcmp(word[5], "cold");
	/*
	 * The skew determines the source's address: it must agree with its alignment modulo a line.
	 */
	if ((!point.cold && strcmp(word[5], "hot")) ||
	    (point.dst_align - point.src_align - point.skew) % 64)
		return false;
	job->points = realloc(job->points, (job->npoints + 1) * sizeof(point));
	job->points[job->npoints++] = point;
	return true;
}

static bool read_value(struct job *job, const char *text)
{
	size_t value;

	if (!job_number(text, &value))
		return false;
	job->values = realloc(job->values, (job->nvalues + 1) * sizeof(value));
	job->values[job->nvalues++] = value;
	return true;
}

static bool read_file(struct job *job, const char *name)
{
	if (!name)
		return false;
	job->files = realloc(job->files, (job->nfiles + 1) * sizeof(*job->files));
	return (job->files[job->nfiles++] = strdup(name));
}

static bool read_side(bool *of_sides, const char *name)
{
	int side = name ? INDEX_OF(sides, name) : -1;

	if (side >= 0)
		of_sides[side] = true;
	return side >= 0;
}

static bool read_effect(struct job *job, const char *name)
{
	int effect = name ? INDEX_OF(effects, name) : -1;

	job->effect = effect;
	return effect >= 0;
}

static bool read_flag(struct job *job, const char *key)
{
	bool *const flags[] = {&job->gated, &job->guards, &job->wide, &job->x87, &job->series};
	int flag = INDEX_OF(flag_names, key);

	return flag >= 0 && (*flags[flag] = true);
}

static bool read_line(struct job *job, char **word)
{
	const char *key = word[0], *value = word[1];

	if (!strcmp(key, "id"))
		return value && (job->id = strdup(value));
	if (!strcmp(key, "object"))
		return value && (job->object = strdup(value));
	if (!strcmp(key, "isa"))
		return value && !strcmp(value, machine_isa);
	if (!strcmp(key, "code"))
		return value && read_code(job, value);
	if (!strcmp(key, "entry"))
		return job_number(value, &job->entry);
	if (!strcmp(key, "offset"))
		return job_number(value, &job->offset);
	if (!strcmp(key, "exception"))
		return read_exception(job, word);
	if (!strcmp(key, "effect"))
		return read_effect(job, value);
	if (!strcmp(key, "in"))
		return read_operand(job->in, job, word);
	if (!strcmp(key, "out"))
		return read_operand(job->out, job, word);
	if (!strcmp(key, "zeroed"))
		return read_mask(&job->zeroed, value);
	if (!strcmp(key, "may_change") && value && !strcmp(value, "flags"))
		return job->flags_may_change = true;
	if (!strcmp(key, "may_change"))
		return read_mask(&job->may_change, value);
	if (!strcmp(key, "faulting"))
		return read_side(job->faulting, value);
	if (!strcmp(key, "align"))
		return job_number(value, &job->align) && job->align;
	if (!strcmp(key, "overread"))
		return job_number(value, &job->overread);
	if (!strcmp(key, "uncopied"))
		return value &&
		       ((job->exact = !strcmp(value, "exact")) || !strcmp(value, "at_least"));
	if (!strcmp(key, "record"))
		return job_number(word[1], &job->record[SIDE_DST]) &&
		       job_number(word[2], &job->record[SIDE_SRC]);
	if (!strcmp(key, "field"))
		return read_field(job, word);
	if (!strcmp(key, "max_size"))
		return job_number(value, &job->max_size);
	if (!strcmp(key, "value"))
		return read_value(job, value);
	if (!strcmp(key, "point"))
		return read_point(job, word);
	if (!strcmp(key, "file"))
		return read_file(job, value);
	return read_flag(job, key) || job_block_line(job, word);
}

static bool take_recorded(struct job *job, const char *line)
{
	if (!job->recorded)
		job->recorded = calloc(1, sizeof(*job->recorded));
	return replay_line(line, job->recorded);
}

int job_read(FILE *from, struct job *job, char *why, size_t size)
{
	char *line = NULL;
	size_t room = 0;
	bool inside = false;
	int result = 0;

	memset(job, 0, sizeof(*job));
	job->max_size = 512;
	job->align = 1;
	job->counter = -1;
	job->counter_step = 1;
	while (getline(&line, &room, from) > 0) {
		char *word[WORDS] = {0}, *rest = line;

		/* A series, or one of its samples. */
		if (inside && job->kind == KIND_JUDGE && *line == 's') {
			if (!result && !take_recorded(job, line)) {
				line[strcspn(line, "\n")] = 0;
				snprintf(why, size, "not understood: %.60s", line);
				result = -1;
			}
			continue;
		}
		for (int i = 0; i < WORDS && (word[i] = strtok_r(rest, " \n", &rest)); i++)
			;
		if (!word[0])
			continue;
		if (!strcmp(word[0], "job")) {
			inside = true;
			job->kind = word[1] ? INDEX_OF(kinds, word[1]) : -1;
		} else if (!strcmp(word[0], "end")) {
			const char *missing = job_lacks(job);

			if (missing && !result)
				snprintf(why, size, "%s", missing);
			result = missing || result ? -1 : 1;
			inside = false;
			break;
		} else if (!result && !read_line(job, word)) {
			snprintf(
			    why, size,
			    "not understood: %.40s %.40s %.40s (harness/README.md says what is)",
			    word[0], word[1] ? word[1] : "", word[2] ? word[2] : "");
			result = -1;
		}
	}
	if (inside) {
		snprintf(why, size, "the input ends inside a job");
		result = -1;
	}
	free(line);
	return result;
}

void job_free(struct job *job)
{
	free(job->id);
	free(job->code);
	free(job->table);
	free(job->fields);
	free(job->points);
	free(job->values);
	free(job->object);
	free(job->recorded);
	free(job->memory);
	for (size_t i = 0; i < job->nfiles; i++)
		free(job->files[i]);
	free(job->files);
}
