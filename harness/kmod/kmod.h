/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Declarations shared by the parts of the module. */
#ifndef LOOPWRIGHT_KMOD_H
#define LOOPWRIGHT_KMOD_H

#include <asm/page.h>
#include <linux/align.h>
#include <linux/compiler.h>
#include <linux/cpumask.h>
#include <linux/types.h>

#define AREA_BYTES 65536 /* most that a call moves on either side */

enum effect { EFFECT_COPY, EFFECT_CLEAR, EFFECT_CHECKSUM, EFFECT_STORE_FIELDS };
enum side { SIDE_DST, SIDE_SRC, SIDES, SIDE_NONE = SIDES };

/* The code that opens the access to user memory, if the CPU guards it. */
enum gate { GATE_NONE, GATE_CALLER, GATE_ROUTINE };

/* The arguments of calls, and their results; callers know the offsets (see call.h). */
struct call {
	unsigned long dst;
	unsigned long src;
	unsigned long count;
	unsigned long sum;
	unsigned long result;
	unsigned long flags; /* of the CPU when the routine returned; not on arm64 */
};

typedef void (*caller)(struct call *call, unsigned long times);

struct field {
	u16 dst;
	u16 size;
	s16 src; /* below zero: zeros are stored */
};

/* A built-in routine, one for each code offset. All text is from kernel.toml. */
struct variant {
	const char *id;	    /* KERNEL/VARIANT */
	const char *object; /* "kernel:" and the hash of its code as it is for user space */
	const char *needs;  /* what the CPU must have, or lack, or NULL */
	bool (*runs)(void); /* whether it does */
	caller once;	    /* one call, with the flags it returned with */
	caller loop;	    /* so many calls */
	const void *entry;
	unsigned int offset; /* of the code behind a 64-byte boundary */
	enum effect effect;
	enum gate gate;
	u8 faulting;  /* bit a side: accesses may fault */
	bool counted; /* else each call is one record */
	bool guards;  /* it checks or masks the destination's address itself */
	bool exact;   /* the result of a faulting call is exact, else it may claim too little */
	u16 record[SIDES];
	const struct field *fields;
	unsigned int nfields;
	enum { UNTRIED, HOLDS, BROKEN } state; /* of its check since the module was loaded */
};

extern struct variant *const variants[];
extern const unsigned int variants_count;

/* A routine that is not built in, and the reason. */
struct left_out {
	const char *id;
	const char *why;
};
extern const struct left_out left_out[];
extern const unsigned int left_out_count;

/* A hash of all sources, by which a module and the script that runs it find each other. */
extern const char sources[];

/* The settings of a run, from the file `select`, all in range. */
struct selection {
	struct variant *variant;
	unsigned int count; /* bytes, or records */
	unsigned int dst_align;
	unsigned int src_align;
	enum side user; /* the side that lies in user memory */
	unsigned int samples;
};

/* Memory of a run: user pages between inaccessible ones, kernel pages. */
struct areas {
	unsigned long user; /* USER_BYTES that can be accessed */
	void *kernel[SIDES];
};
#define USER_BYTES ALIGN(AREA_BYTES + 4 * 4096, PAGE_SIZE) /* whole pages, of up to 64 KiB */
#define KERNEL_BYTES USER_BYTES

/* One run, in a thread bound to its CPU. */
struct run {
	unsigned int cpu;
	struct selection selection;
	struct areas areas;
	bool stop; /* asked to end early */
};

/* True if a run has to end early: a signal came, or its CPU went offline. */
static inline bool run_ends(const struct run *run)
{
	return READ_ONCE(run->stop) || !cpu_online(run->cpu);
}

#endif
