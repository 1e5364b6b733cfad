// SPDX-License-Identifier: GPL-2.0-or-later
#include "job_words.h"

#include "machine.h"

#include <stdlib.h>
#include <string.h>

bool job_number(const char *text, size_t *value)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	*value = strtoull(text, &end, 0);
	return !*end;
}

static bool read_register(const char *name, int *index)
{
	struct operand reg;

	if (!name || machine_register(name, &reg) || reg.bits != 64)
		return false;
	*index = reg.index;
	return true;
}

/* A register, and its initial value unless that is the number of iterations itself. */
static bool read_counter(struct job *job, char **word)
{
	if (!read_register(word[1], &job->counter))
		return false;
	return !word[2] ||
	       (job_number(word[2], &job->counter_base) && job_number(word[3], &job->counter_step));
}

static bool read_set(struct job *job, char **word)
{
	int index;

	if (!read_register(word[1], &index) || !job_number(word[2], &job->value[index]))
		return false;
	job->set |= 1ull << index;
	return true;
}

static bool read_memory(struct job *job, const char *value)
{
	free(job->memory);
	job->memory = calloc(JOB_WORDS, sizeof(*job->memory));
	if (!job_number(value, &job->memory[0]))
		return false;
	for (int i = 1; i < JOB_WORDS; i++)
		job->memory[i] = job->memory[0];
	return true;
}

/* A word of memory with a value of its own; the default has to be set before it. */
static bool read_word(struct job *job, char **word)
{
	size_t index;

	return job->memory && job_number(word[1], &index) && index < JOB_WORDS &&
	       job_number(word[2], &job->memory[index]);
}

bool job_block_line(struct job *job, char **word)
{
	const char *key = word[0];

	if (!strcmp(key, "times"))
		return job_number(word[1], &job->times[0]) && job_number(word[2], &job->times[1]);
	if (!strcmp(key, "samples"))
		return job_number(word[1], &job->samples) && job->samples;
	if (!strcmp(key, "counter"))
		return read_counter(job, word);
	if (!strcmp(key, "set"))
		return read_set(job, word);
	if (!strcmp(key, "memory"))
		return read_memory(job, word[1]);
	if (!strcmp(key, "word"))
		return read_word(job, word);
	return false;
}
