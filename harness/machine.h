/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts that differ between ISAs: registers, and calls into code under test. */
#ifndef HARNESS_MACHINE_H
#define HARNESS_MACHINE_H

#include "job.h"

#include <ucontext.h>

#define MACHINE_REGISTERS 32 /* room; each ISA says how many it has */

/* General-purpose registers by index (x86-64: in encoding order; arm64: x0 to x30, sp), flags. */
struct cpu_state {
	uint64_t gpr[MACHINE_REGISTERS];
	uint64_t flags;
};

extern const char machine_isa[];
extern const int machine_registers;
extern const int machine_stack_pointer;
extern const uint64_t machine_flags_all; /* the arithmetic flags */
extern const uint8_t machine_padding;	 /* a byte that as code raises a signal */

/* Find a register by name; -1 where there is none of that name. */
int machine_register(const char *name, struct operand *reg);
const char *machine_register_name(int index);

/* Report key and value of each register that identifies the CPU, equal on all of its cores. */
void machine_identify(void (*say)(void *data, const char *key, const char *value), void *data);

/*
 * Prepare vector registers with known values; -1 with the reason in why if the CPU cannot be
 * checked.
 */
int machine_init(char *why, size_t size);

/*
 * Load every register from in and the known values into the vector registers, call entry, and save
 * every register to out. If the ISA needs registers for the call itself, in gets their values at
 * entry.
 */
void machine_call(struct cpu_state *in, struct cpu_state *out, uintptr_t entry);

/* The name of a register, not a general-purpose one, that the last call changed, or NULL. */
const char *machine_vector_changed(void);

/* The error in the flags after a call, or NULL. */
const char *machine_flags_wrong(const struct cpu_state *in, const struct cpu_state *out,
				bool may_change);

/*
 * The effect of an instruction on the access to user memory: 1 opens it, -1 closes it, 0 neither.
 */
enum { MACHINE_GATE_BYTES = 3 };
int machine_gate(const uint8_t *code, size_t size);

/* Write memory back and evict it from all caches; that is complete once machine_flushed returns. */
void machine_flush(uintptr_t from, size_t size);
void machine_flushed(void);

uintptr_t machine_pc(const ucontext_t *context);
void machine_set_pc(ucontext_t *context, uintptr_t pc);

#endif
