// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "../machine.h"

#include <stdlib.h>
#include <string.h>

#define VECTORS 32
#define NZCV 0xf0000000u
#define LINK 30

const char machine_isa[] = "arm64";
const int machine_registers = 32;
const int machine_stack_pointer = 31;
const uint64_t machine_flags_all = NZCV;
const uint8_t machine_padding = 0; /* udf #0 */

struct cpu_state trampoline_in, trampoline_out;
uintptr_t trampoline_target;
uint8_t trampoline_vectors_in[VECTORS][16] __attribute__((aligned(64)));
uint8_t trampoline_vectors_out[VECTORS][16] __attribute__((aligned(64)));

void trampoline(void);

int machine_register(const char *name, struct operand *reg)
{
	char *end;
	long index = strtol(name + 1, &end, 10);

	if ((*name != 'x' && *name != 'w') || end == name + 1 || *end || index < 0 || index > LINK)
		return -1;
	reg->index = index;
	reg->bits = *name == 'x' ? 64 : 32;
	return 0;
}

const char *machine_register_name(int index)
{
	static const char *const names[] = {"x0",  "x1",  "x2",	 "x3",	"x4",  "x5",  "x6",  "x7",
					    "x8",  "x9",  "x10", "x11", "x12", "x13", "x14", "x15",
					    "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23",
					    "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp"};

	return names[index];
}

int machine_init(char *why, size_t size)
{
	(void)why;
	(void)size;
	for (int v = 0; v < VECTORS; v++)
		for (int i = 0; i < 16; i++)
			trampoline_vectors_in[v][i] = v * 37 + i * 11 + 5;
	return 0;
}

void machine_call(struct cpu_state *in, struct cpu_state *out, uintptr_t entry)
{
	in->flags &= NZCV;
	trampoline_in = *in;
	trampoline_target = entry;
	trampoline();
	*in = trampoline_in;
	*out = trampoline_out;
	/*
	 * After its return a routine has the return address there; the ABI preserves nothing else.
	 */
	out->gpr[LINK] = in->gpr[LINK];
}

const char *machine_vector_changed(void)
{
	static char name[8];

	for (int v = 0; v < VECTORS; v++) {
		if (!memcmp(trampoline_vectors_in[v], trampoline_vectors_out[v], 16))
			continue;
		snprintf(name, sizeof(name), "v%d", v);
		return name;
	}
	return NULL;
}

const char *machine_flags_wrong(const struct cpu_state *in, const struct cpu_state *out,
				bool may_change)
{
	return !may_change && (in->flags ^ out->flags) & NZCV ? "the flags changed" : NULL;
}

/* There is no such instruction: with PAN, ldtr and sttr access user memory. */
int machine_gate(const uint8_t *code, size_t size)
{
	(void)code;
	(void)size;
	return 0;
}

void machine_flush(uintptr_t from, size_t size)
{
	uint64_t type, step;

	__asm__("mrs %0, ctr_el0" : "=r"(type));
	step = 4 << (type >> 16 & 15); /* the smallest line of any data cache */
	for (uintptr_t line = from & -step; line < from + size; line += step)
		__asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
}

void machine_flushed(void)
{
	__asm__ volatile("dsb sy\n\tisb" ::: "memory");
}

uintptr_t machine_pc(const ucontext_t *context)
{
	return context->uc_mcontext.pc;
}

void machine_set_pc(ucontext_t *context, uintptr_t pc)
{
	context->uc_mcontext.pc = pc;
}
