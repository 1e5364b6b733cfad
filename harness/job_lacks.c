// SPDX-License-Identifier: GPL-2.0-or-later
/* The parts that a job must have. */
#include "common/gauge.h"
#include "common/replay.h"
#include "effect.h"
#include "job.h"

#define MOST_BLOCK 2048	      /* bytes */
#define MOST_COPIES (1 << 16) /* bytes of them */
#define MOST_CHECKED 4096     /* bytes a call, or a record: what the checking memory has room for */

static const char *block_lacks(const struct job *job)
{
	if (!job->id || !job->code)
		return "a job needs an id and code";
	if (job->code_size > MOST_BLOCK)
		return "a block has 2048 bytes at most";
	if (job->entry >= job->code_size)
		return "the entry lies outside the code";
	if (job->offset >= 64)
		return "a block's offset is from 0 to 63";
	if (!job->times[0] || job->times[0] >= job->times[1])
		return "a block needs times, the second more than the first";
	if (job->counter < 0 && job->times[1] > MOST_COPIES / job->code_size)
		return "that are too many copies of the block";
	if (job->samples && (job->samples < SERIES_FEWEST || job->samples > GAUGE_SAMPLES))
		return "a block has 10 to 48 samples";
	return NULL;
}

static const char *result_lacks(const struct job *job, bool fails)
{
	switch (job->effect) {
	case EFFECT_STORE_FIELDS:
		return fails && !job->out[ROLE_STORED].bits ? "the contract names no result stored"
							    : NULL;
	case EFFECT_CHECKSUM:
		return job->out[ROLE_SUM].bits ? NULL : "the contract names no result sum";
	case EFFECT_COMPARE:
		if (fails && !job->out[ROLE_FAULTED].bits)
			return "the contract names no result faulted";
		return job->out[ROLE_ORDER].bits ? NULL : "the contract names no result order";
	case EFFECT_SCAN:
		if (fails && !job->out[ROLE_FAULTED].bits)
			return "the contract names no result faulted";
		return !job->out[ROLE_LENGTH].bits == !job->out[ROLE_FOUND].bits
			   ? "the contract names neither a result length nor found, or both"
			   : NULL;
	default:
		return fails && !job->out[ROLE_UNCOPIED].bits
			   ? "the contract names no result uncopied"
			   : NULL;
	}
}

const char *job_lacks(const struct job *job)
{
	const char *lacking;
	bool records = job->effect == EFFECT_STORE_FIELDS;
	bool reads = !records && job->effect != EFFECT_CLEAR && job->effect != EFFECT_SET;

	if ((int)job->kind < 0)
		return "a job is check, measure, block, clock, facts, self_test or judge";
	if (job->kind == KIND_JUDGE)
		return job->id && job->recorded && replay_whole(job->recorded)
			   ? NULL
			   : "a job to judge needs an id, a series and samples";
	if (job->kind >= KIND_CLOCK && job->id)
		return NULL;
	if (job->kind == KIND_BLOCK)
		return block_lacks(job);
	if (!job->id || !job->code)
		return "a job needs an id and code";
	if (job->entry >= job->code_size)
		return "the entry lies outside the code";
	if (effect_has_dst(job) && !job->in[ROLE_DST].bits)
		return "the contract names no input dst";
	if (reads && !job->in[ROLE_SRC].bits)
		return "the contract names no input src";
	if (!records && job->effect != EFFECT_SCAN && !job->in[ROLE_COUNT].bits)
		return "the contract names no input count";
	if (job->effect == EFFECT_SET && !job->in[ROLE_VALUE].bits)
		return "the contract names no input value";
	if (records && (!job->nfields || !job->record[SIDE_DST]))
		return "the contract names no fields, or no dst_record";
	lacking = result_lacks(job, job->faulting[SIDE_DST] || job->faulting[SIDE_SRC]);
	if (lacking)
		return lacking;
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
