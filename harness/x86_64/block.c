// SPDX-License-Identifier: GPL-2.0-or-later
#include "../block_machine.h"

#include "../machine.h"
#include "emit.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <linux/audit.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define VECTOR_AREA 8192
#define XMM 160 /* in the XSAVE area; 64 bytes from 512 on describe it */
#define HEADER 512
#define MASKS 5 /* the component of the registers k0 to k7 */
#define AC 0x40000u

/* Loads of one bank, on AMD every eighth word of 8 bytes, wait for each other. */
const uint32_t block_steps[BLOCK_STEPS] = {0x100108, 0x100100};
const uint64_t block_flags_aligned = AC;
const uint32_t block_audit_arch = AUDIT_ARCH_X86_64;
const int block_system_calls[] = {SYS_arch_prctl, -1};

/* Used by block_call, in assembly. */
uint32_t block_components;
uint8_t block_vectors[VECTOR_AREA] __attribute__((aligned(64)));

/* mov (%reg), %reg, for a register other than rsp. */
static void load_from_itself(struct emitter *e, int reg)
{
	*e->at++ = 0x48 | (reg >> 3) * 5;
	*e->at++ = 0x8b;
	*e->at++ = ((reg & 7) == 5 ? 0x40 : 0) | (reg & 7) << 3 | (reg & 7);
	if ((reg & 7) == 4)
		*e->at++ = 0x24;
	if ((reg & 7) == 5)
		*e->at++ = 0;
}

int block_machine_init(char *why, size_t size)
{
	uint32_t a, b, c, d, enabled, high, components = 3;
	float lane;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) {
		snprintf(why, size, "this CPU or kernel has no XSAVE, which blocks need");
		return -1;
	}
	__asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
	block_components = enabled & 0xe7;
	memset(block_vectors, 0, sizeof(block_vectors));
	block_vectors[0] = 0x7f;
	block_vectors[1] = 0x03;
	/* Exceptions masked, subnormal results and operands taken as zero. */
	block_vectors[24] = 0xc0;
	block_vectors[25] = 0x9f;
	/* Upper halves stay in their initial state: else SSE code would pay for them. */
	for (int i = 0; i < 64; i++) {
		lane = 1 + (i / 4) / 64.0f;
		memcpy(block_vectors + XMM + 4 * i, &lane, sizeof(lane));
	}
	if (block_components & 1u << MASKS) {
		__cpuid_count(0xd, MASKS, a, b, c, d);
		if (a + b > VECTOR_AREA) {
			snprintf(why, size, "the XSAVE area of this CPU is too large");
			return -1;
		}
		memset(block_vectors + b, 0xff, a);
		components |= 1u << MASKS;
	}
	memcpy(block_vectors + HEADER, &components, sizeof(components));
	block_frame.flags = 0x202;
	return 0;
}

size_t block_emit(uint8_t *into, const struct job *job, size_t copies, uint32_t step)
{
	static const uint8_t restore[] = {
	    0x9d,		    /* popf */
	    0x31, 0xd2,		    /* xor %edx, %edx */
	    0x48, 0x0f, 0xae, 0x2e, /* xrstor64 (%rsi) */
	};
	/* What is around the copies does not overlap with them. */
	static const uint8_t fence[] = {0x0f, 0xae, 0xe8}; /* lfence */
	static const uint8_t count[] = {
	    0x48, 0xff, 0x48, offsetof(struct block_frame, repetitions), /* decq (%rax) */
	    0x0f, 0x85,							 /* jnz */
	};
	static const uint8_t leave[] = {0xff, 0xe0}; /* jmp *%rax */
	struct emitter e = {into};
	uint8_t *first;

	load(&e, machine_stack_pointer, (uintptr_t)&block_frame.flags);
	load(&e, 6, (uintptr_t)block_vectors);
	load(&e, 0, block_components);
	bytes(&e, restore, sizeof(restore));
	for (int reg = 0; reg < machine_registers; reg++)
		load(&e, reg, BLOCK_POINTER + reg * step);
	if (job->counter >= 0) {
		load(&e, job->counter, (uintptr_t)&block_frame.trips);
		load_from_itself(&e, job->counter);
	}
	bytes(&e, fence, sizeof(fence));
	first = into + (e.at - into + 5 + 63) / 64 * 64 + job->offset;
	*e.at++ = 0xe9;
	word(&e, first - (e.at + 4));
	memset(e.at, machine_padding, first - e.at);
	e.at = first;
	for (size_t i = 0; i < copies; i++)
		bytes(&e, job->code, job->code_size);
	bytes(&e, fence, sizeof(fence));
	load(&e, 0, (uintptr_t)&block_frame);
	bytes(&e, count, sizeof(count));
	word(&e, into - (e.at + 4));
	load(&e, 0, (uintptr_t)block_leave);
	bytes(&e, leave, sizeof(leave));
	return e.at - into;
}

/* Instructions stand at any byte: only the system can tell. */
bool block_calls_system(const uint8_t *code, size_t size)
{
	(void)code;
	(void)size;
	return false;
}
