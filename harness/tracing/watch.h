/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One call in an emulated core, with every instruction and every access checked against the
 * contract. loopwright/machine/watch.py mirrors these structures.
 */
#ifndef HARNESS_TRACING_WATCH_H
#define HARNESS_TRACING_WATCH_H

#include "../job.h"

#define WATCH_AREAS 5  /* of each side */
#define WATCH_GPRS 32  /* room */
#define WATCH_FIXED 96 /* room for registers that no call may change */
#define WATCH_WIDTH 16 /* bytes of the widest of them */
#define WATCH_MESSAGE 240
#define WATCH_WINDOWS 32      /* of virtual memory */
#define WATCH_WINDOW_BITS 30  /* of the size of each */
#define WATCH_FIRST_WINDOW 2  /* those before hold tables, and nothing */
#define WATCH_ADDRESSES (~0u) /* a pattern: the call's own addresses and count */
#define WATCH_WORD (~1u)      /* a pattern: the case's word, again and again */

/* Properties of the instruction at an offset of the code. */
struct watch_fact {
	uint32_t kind;	    /* of the bits below */
	uint32_t condition; /* of those that depend on flags: its number in the ISA's encoding */
	uint32_t size;	    /* bytes */
	uint32_t below;	    /* bytes below the stack pointer that it may store to: a push */
	uint32_t entry;	    /* its exception-table entry, counted from 1; 0 for none */
	uint32_t fixup;
};

enum {
	WATCH_BRANCH = 1,    /* a conditional branch */
	WATCH_CONDITION = 2, /* anything else that depends on flags */
	WATCH_STRING = 4,    /* a repeated string instruction */
	WATCH_RETURN = 8,
	WATCH_USER = 16,	 /* its entry is of the type that accesses to user memory need */
	WATCH_UNPRIVILEGED = 32, /* it accesses memory with a user's permissions */
	WATCH_CALL = 64,
	WATCH_RESUME = 128,	 /* it stands behind a call */
	WATCH_NONTEMPORAL = 256, /* it stores in no order with other stores */
	WATCH_FENCE = 512,	 /* stores before it are done before those behind it */
	WATCH_REACHED = 1024	 /* control can reach it */
};

struct watch_area {
	uint64_t address;
	uint8_t *host;
	uint64_t size;
};

struct watch_setup {
	void *core; /* uc_engine */
	uint64_t base, text, entry;
	struct watch_fact *facts; /* one a byte of the code */
	uint64_t returns_to;
	uint64_t stack, stack_size;
	uint8_t *stack_host;
	struct watch_area area[SIDES][WATCH_AREAS];
	uint8_t *patterns; /* pattern_size bytes each */
	uint64_t pattern_size;
	uint64_t user_end;		    /* the first address behind a user's */
	uint32_t gprs, stack_pointer, link; /* indices; link is gprs where there is none */
	int32_t gpr[WATCH_GPRS];	    /* Unicorn's numbers */
	const char *gpr_name[WATCH_GPRS];
	int32_t flags, counter;
	/* By number of a window of physical memory: the virtual address of its first byte. */
	uint64_t window[WATCH_WINDOWS];
	uint32_t windows; /* 0: virtual and physical addresses are the same */
	uint64_t arithmetic,
	    compared;		  /* flags that a call may be allowed to change, all compared */
	uint64_t free_flags;	  /* flags of which a call may find either state */
	uint64_t access_flag;	  /* the flag that stac sets; 0 where there is none */
	uint32_t access_at_entry; /* whether it is set at entry */
	uint32_t unprivileged;	  /* whether accesses to user memory have to be */
	uint32_t fixed;
	int32_t fixed_id[WATCH_FIXED];
	const char *fixed_name[WATCH_FIXED];
	/* the contract */
	uint32_t effect, exact, flags_may_change;
	uint32_t faulting[SIDES];
	uint64_t zeroed, may_change, overread;
	uint64_t record[SIDES];
	struct operand in[ROLES], out[ROLES];
	struct field *fields;
	uint64_t nfields;
	uint64_t most_steps;
};

/* One call. If inject is not 0, the instruction at inject - 1 faults at its nth execution. */
struct watch_case {
	uint64_t count;
	uint64_t at[SIDES];
	uint64_t limit[SIDES];
	uint64_t sum, word;
	uint64_t value, twist, differ; /* as an attempt has them */
	uint64_t overlapped, distance; /* the source lies so far behind dst, in its memory */
	uint32_t area[SIDES];
	uint32_t pattern, shift; /* what the source holds: a pattern, from this byte on */
	uint32_t alike;		 /* the destination begins with what it is to become */
	uint32_t stray;		 /* dst is no address of a user's */
	uint32_t inject, nth;
	uint32_t probe; /* an instruction's offset + 1, at which registers are written down */
	uint32_t news;	/* answer: an instruction, a direction, a condition or an entry was new */
};

struct watch; /* of watch.c */

struct watch *watch_open(const struct watch_setup *setup);
void watch_close(struct watch *watch);

/*
 * Run calls; returns the number of correct ones before the first wrong one, whose failure
 * watch_failure() returns.
 */
uint64_t watch_run(struct watch *watch, struct watch_case *cases, uint64_t count);
const char *watch_failure(const struct watch *watch);

/* By offset in the code: bit 0 executed, bits 1, 2 taken and not, bits 3, 4 true and false. */
const uint8_t *watch_seen(const struct watch *watch);
const uint32_t *watch_hits(const struct watch *watch); /* by entry, from 0 */
uint64_t watch_over_report(const struct watch *watch);

/* True if the last call reached its probe, with the registers and flags there. */
int watch_probed(const struct watch *watch, uint64_t *gprs, uint64_t *flags);

#endif
