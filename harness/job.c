// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "job.h"

#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 7
#define MOST_CODE (1 << 20)
#define MOST_BLOCK 1024	      /* bytes */
#define MOST_COPIES (1 << 16) /* bytes of them */
#define MOST_CHECKED 4096     /* bytes a call, or a record: what the checking memory has room for */

static const char *const kinds[] = {"check", "measure", "block", "clock", "facts", "self_test"};
static const char *const effects[] = {"copy", "clear", "checksum", "store_fields"};
static const char *const sides[] = {"dst", "src"};
static const char *const roles[] = {"dst", "src", "count", "sum", "uncopied", "stored"};

static int index_of(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

#define INDEX_OF(names, name) index_of(names, sizeof(names) / sizeof(*(names)), name)

static bool number(const char *text, size_t *value)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	*value = strtoull(text, &end, 0);
	return !*end;
}

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

	if (!name || machine_register(name, &reg))
		return false;
	*mask |= 1ull << reg.index;
	return true;
}

static bool read_counter(struct job *job, const char *name)
{
	struct operand reg;

	if (!name || machine_register(name, &reg) || reg.bits != 64)
		return false;
	job->counter = reg.index;
	return true;
}

static bool read_exception(struct job *job, char **word)
{
	struct exception entry;

	if (!number(word[1], &entry.insn) || !number(word[2], &entry.fixup))
		return false;
	job->table = realloc(job->table, (job->entries + 1) * sizeof(entry));
	job->table[job->entries++] = entry;
	return true;
}

static bool read_field(struct job *job, char **word)
{
	struct field field = {0};

	if (!number(word[1], &field.dst) || !number(word[2], &field.size) || !word[3])
		return false;
	field.zero = !strcmp(word[3], "-");
	if (!field.zero && !number(word[3], &field.src))
		return false;
	job->fields = realloc(job->fields, (job->nfields + 1) * sizeof(field));
	job->fields[job->nfields++] = field;
	return true;
}

static bool read_point(struct job *job, char **word)
{
	struct point point = {0};

	if (!number(word[1], &point.count) || !number(word[2], &point.dst_align) ||
	    !number(word[3], &point.src_align) || !number(word[4], &point.skew) || !word[5])
		return false;
	point.cold = !strcmp(word[5], "cold");
	/* The skew places the source: it must say the same of a line as its alignment. */
	if ((!point.cold && strcmp(word[5], "hot")) ||
	    (point.dst_align - point.src_align - point.skew) % 64)
		return false;
	job->points = realloc(job->points, (job->npoints + 1) * sizeof(point));
	job->points[job->npoints++] = point;
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
		return number(value, &job->entry);
	if (!strcmp(key, "offset"))
		return number(value, &job->offset);
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
	if (!strcmp(key, "gated"))
		return job->gated = true;
	if (!strcmp(key, "align"))
		return number(value, &job->align) && job->align;
	if (!strcmp(key, "overread"))
		return number(value, &job->overread);
	if (!strcmp(key, "uncopied"))
		return value &&
		       ((job->exact = !strcmp(value, "exact")) || !strcmp(value, "at_least"));
	if (!strcmp(key, "record"))
		return number(word[1], &job->record[SIDE_DST]) &&
		       number(word[2], &job->record[SIDE_SRC]);
	if (!strcmp(key, "field"))
		return read_field(job, word);
	if (!strcmp(key, "max_size"))
		return number(value, &job->max_size);
	if (!strcmp(key, "point"))
		return read_point(job, word);
	if (!strcmp(key, "times"))
		return number(word[1], &job->times[0]) && number(word[2], &job->times[1]);
	if (!strcmp(key, "counter"))
		return read_counter(job, value);
	if (!strcmp(key, "file"))
		return read_file(job, value);
	return false;
}

static const char *block_lacks(const struct job *job)
{
	if (!job->id || !job->code)
		return "a job needs an id and code";
	if (job->code_size > MOST_BLOCK)
		return "a block has 1024 bytes at most";
	if (job->offset >= 64)
		return "a block's offset is from 0 to 63";
	if (!job->times[0] || job->times[0] >= job->times[1])
		return "a block needs times, the second more than the first";
	if (job->counter < 0 && job->times[1] > MOST_COPIES / job->code_size)
		return "that are too many copies of the block";
	return NULL;
}

/* Say what a job that was read whole lacks, or NULL. */
static const char *lacks(const struct job *job)
{
	bool fails = job->faulting[SIDE_DST] || job->faulting[SIDE_SRC];
	bool writes = job->effect != EFFECT_CHECKSUM;
	bool reads = job->effect == EFFECT_COPY || job->effect == EFFECT_CHECKSUM;
	bool records = job->effect == EFFECT_STORE_FIELDS;
	enum role result = records ? ROLE_STORED : writes ? ROLE_UNCOPIED : ROLE_SUM;

	if ((int)job->kind < 0)
		return "a job is check, measure, block, clock, facts or self_test";
	if (job->kind >= KIND_CLOCK && job->id)
		return NULL;
	if (job->kind == KIND_BLOCK)
		return block_lacks(job);
	if (!job->id || !job->code)
		return "a job needs an id and code";
	if (job->entry >= job->code_size)
		return "the entry lies outside the code";
	if (writes && !job->in[ROLE_DST].bits)
		return "the contract names no input dst";
	if (reads && !job->in[ROLE_SRC].bits)
		return "the contract names no input src";
	if (!records && !job->in[ROLE_COUNT].bits)
		return "the contract names no input count";
	if (records && (!job->nfields || !job->record[SIDE_DST]))
		return "the contract names no fields, or no dst_record";
	if ((fails || !writes) && !job->out[result].bits)
		return records	? "the contract names no result stored"
		       : writes ? "the contract names no result uncopied"
				: "the contract names no result sum";
	if (job->max_size > MOST_CHECKED || job->record[SIDE_DST] > MOST_CHECKED ||
	    job->record[SIDE_SRC] > MOST_CHECKED)
		return "more than 4096 bytes a call, or a record, are not checked";
	for (size_t i = 0; i < job->nfields; i++) {
		const struct field *f = &job->fields[i];

		if (f->dst + f->size > job->record[SIDE_DST])
			return "a field lies outside dst_record";
		if (!f->zero && f->src + f->size > job->record[SIDE_SRC])
			return "a field lies outside src_record";
		if (!f->zero && !job->in[ROLE_SRC].bits)
			return "the contract names no input src";
	}
	for (size_t i = 0; i < job->entries; i++)
		if (job->table[i].insn >= job->code_size || job->table[i].fixup >= job->code_size)
			return "an exception-table entry lies outside the code";
	return NULL;
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
	while (getline(&line, &room, from) > 0) {
		char *word[WORDS] = {0}, *rest = line;

		for (int i = 0; i < WORDS && (word[i] = strtok_r(rest, " \n", &rest)); i++)
			;
		if (!word[0])
			continue;
		if (!strcmp(word[0], "job")) {
			inside = true;
			job->kind = word[1] ? INDEX_OF(kinds, word[1]) : -1;
		} else if (!strcmp(word[0], "end")) {
			const char *missing = lacks(job);

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
	free(job->object);
	for (size_t i = 0; i < job->nfiles; i++)
		free(job->files[i]);
	free(job->files);
}
