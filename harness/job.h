/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A job: machine code, its exception table and its contract, read from text. */
#ifndef HARNESS_JOB_H
#define HARNESS_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum kind {
	KIND_CHECK,
	KIND_MEASURE,
	KIND_BLOCK,
	KIND_CLOCK,
	KIND_FACTS,
	KIND_SELF_TEST,
	KIND_QUIET,
	KIND_JUDGE
};
enum effect {
	EFFECT_COPY,
	EFFECT_CLEAR,
	EFFECT_CHECKSUM,
	EFFECT_STORE_FIELDS,
	EFFECT_SET,
	EFFECT_MOVE,
	EFFECT_COMPARE,
	EFFECT_SCAN
};
enum side { SIDE_DST, SIDE_SRC, SIDES };
enum role {
	ROLE_DST,
	ROLE_SRC,
	ROLE_COUNT,
	ROLE_SUM,
	ROLE_VALUE,
	ROLE_UNCOPIED,
	ROLE_STORED,
	ROLE_ORDER,
	ROLE_LENGTH,
	ROLE_FOUND,
	ROLE_FAULTED,
	ROLES
};

struct series;

#define JOB_WORDS 512 /* of memory that a job says */

/* A general-purpose register as a contract names it; bits is 0 where the role has none. */
struct operand {
	int index;
	int bits;
};

struct exception {
	size_t insn;
	size_t fixup;
};

/* One field of a record: byte offsets and size; zero says that zero is stored. */
struct field {
	size_t dst;
	size_t src;
	size_t size;
	bool zero;
};

/*
 * One measurement: a call with count (bytes, or records) at these alignments; skew is (dst - src)
 * mod 4096. cold: the buffers are not in any cache.
 */
struct point {
	size_t count;
	size_t dst_align;
	size_t src_align;
	size_t skew;
	bool cold;
};

struct job {
	enum kind kind;
	char *id;
	char *object; /* a hash of the code, repeated in answers, or NULL */
	uint8_t *code;
	size_t code_size;
	size_t entry;
	size_t offset; /* of the code from a 64-byte boundary */
	struct exception *table;
	size_t entries;
	enum effect effect;
	struct operand in[ROLES];
	struct operand out[ROLES];
	uint64_t zeroed;     /* registers that hold zero at entry, by index */
	uint64_t may_change; /* registers, by index; those of inputs and results included */
	bool flags_may_change;
	bool faulting[SIDES];
	bool guards;	 /* it checks or masks the destination's address itself */
	bool gated;	 /* stac and clac are emulated, and must bracket what can fault */
	size_t align;	 /* what addresses are a multiple of */
	size_t overread; /* bytes behind the source that may be read where a fixup makes good */
	bool exact;
	size_t record[SIDES];
	struct field *fields;
	size_t nfields;
	size_t max_size;
	size_t *values; /* that the code names: tried as sizes and as alignments */
	size_t nvalues;
	struct point *points;
	size_t npoints;
	int counter;		 /* the register that a block's loop counts in, by index, or -1 */
	uint64_t counter_base;	 /* it starts with this */
	uint64_t counter_step;	 /* and so much for each iteration */
	uint64_t set;		 /* registers that start with a value of their own, by index */
	uint64_t value[32];	 /* these values, by index */
	uint64_t *memory;	 /* what each 4096 bytes hold, in words of 64 bits, or NULL */
	size_t times[2];	 /* copies of a block, or iterations of its loop: a few, and more */
	size_t samples;		 /* of a block's series; 0 for as many as are usual */
	bool wide;		 /* a block accesses vectors: pointers are to be aligned */
	bool x87;		 /* a block uses the x87 or MMX registers */
	struct series *recorded; /* samples to judge */
	bool series;		 /* the answer has all samples as they were taken */
	char **files;		 /* that facts consist of */
	size_t nfiles;
};

/*
 * Read the next job. Returns 1 with a job, 0 at the end of the input, -1 with a message in why if a
 * job is wrong; reading can then continue with the next job.
 */
int job_read(FILE *from, struct job *job, char *why, size_t size);
void job_free(struct job *job);

/* Return the missing part of a completely read job, or NULL. */
const char *job_lacks(const struct job *job);

#endif
