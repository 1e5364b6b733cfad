// SPDX-License-Identifier: GPL-2.0-or-later
#include "../block_machine.h"

#include "../machine.h"
#include "emit.h"

#include <linux/audit.h>
#include <string.h>

#define VECTORS 32
#define FLUSH_TO_ZERO (1u << 24)

const uint32_t block_steps[BLOCK_STEPS] = {0x100110};
const uint64_t block_flags_aligned = 0;
const uint32_t block_audit_arch = AUDIT_ARCH_AARCH64;
const int block_system_calls[] = {-1};

static float block_vectors[VECTORS][4] __attribute__((aligned(64)));

int block_machine_init(char *why, size_t size)
{
	(void)why;
	(void)size;
	for (int v = 0; v < VECTORS; v++)
		for (int lane = 0; lane < 4; lane++)
			block_vectors[v][lane] = 1 + v / 64.0f;
	return 0;
}

size_t block_emit(uint8_t *into, const struct job *job, size_t copies, uint32_t step)
{
	struct emitter e = {into};
	uint8_t *first;

	load(&e, 0, (uintptr_t)block_vectors);
	for (int v = 0; v < VECTORS; v += 2) /* ldp qv, qv+1, [x0, #16 * v] */
		word(&e, 0xad400000 | v << 15 | (v + 1) << 10 | v);
	load(&e, 0, FLUSH_TO_ZERO);
	word(&e, 0xd51b4400); /* msr fpcr, x0 */
	word(&e, 0xd51b421f); /* msr nzcv, xzr */
	load(&e, 0, BLOCK_POINTER + machine_stack_pointer * step);
	word(&e, 0x9100001f); /* mov sp, x0 */
	for (int reg = 0; reg < machine_stack_pointer; reg++)
		load(&e, reg, block_value(job, reg, step));
	if (job->counter >= 0) {
		load(&e, job->counter, (uintptr_t)&block_frame.counter);
		word(&e, 0xf9400000 | job->counter << 5 | job->counter); /* ldr */
	}
	first = into + block_first(e.at - into + 4, job);
	word(&e, 0x14000000 | (first + job->entry - e.at) / 4); /* b to the entry */
	memset(e.at, machine_padding, first - e.at);
	e.at = first;
	for (size_t i = 0; i < copies; i++) {
		memcpy(e.at, job->code, job->code_size);
		e.at += job->code_size;
	}
	load(&e, 0, (uintptr_t)&block_frame.repetitions);
	word(&e, 0xf9400001);					    /* ldr x1, [x0] */
	word(&e, 0xf1000421);					    /* subs x1, x1, #1 */
	word(&e, 0xf9000001);					    /* str x1, [x0] */
	word(&e, 0x54000001 | ((into - e.at) >> 2 & 0x7ffff) << 5); /* b.ne into */
	load(&e, 0, (uintptr_t)block_leave);
	word(&e, 0xd61f0000); /* br x0 */
	return first + job->entry - into;
}

bool block_calls_system(const uint8_t *code, size_t size)
{
	uint32_t instruction;

	for (size_t at = 0; at + 4 <= size; at += 4) {
		memcpy(&instruction, code + at, sizeof(instruction));
		if ((instruction & 0xffe0001f) == 0xd4000001) /* svc */
			return true;
	}
	return false;
}
