// SPDX-License-Identifier: GPL-2.0-or-later
#include "../block_machine.h"

#include "../machine.h"
#include "emit.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/syscall.h>

#define REGISTERS 16 /* xmm, of 16 bytes */
#define LANES 4
#define CONTROLS 256	 /* where the MXCSR is, behind the registers */
#define HARMLESS 0x9fc0u /* exceptions masked, subnormal results and operands taken as zero */
#define AVX 4u		 /* of the states that the system has switched on */
#define AVX512 0xe0u
#define AC 0x40000u

/* Loads of one bank, on AMD every eighth word of 8 bytes, wait for each other. */
const uint32_t block_steps[BLOCK_STEPS] = {0x100108, 0x100100};
const uint64_t block_flags_aligned = AC;
const uint32_t block_audit_arch = AUDIT_ARCH_X86_64;
const int block_system_calls[] = {SYS_arch_prctl, -1};

/* The initial values of vector registers: XRSTOR would affect the next 100 cycles. */
static struct {
	float lane[REGISTERS][LANES];
	uint32_t mxcsr;
} vectors __attribute__((aligned(64)));
static uint32_t states;

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
	uint32_t a, b, c, d, high;

	(void)why;
	(void)size;
	states = 0;
	if (__get_cpuid(1, &a, &b, &c, &d) && c & bit_OSXSAVE)
		__asm__("xgetbv" : "=a"(states), "=d"(high) : "c"(0));
	/* Mask registers of 64 bits come with AVX512BW. */
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX512BW))
		states &= ~AVX512;
	for (int reg = 0; reg < REGISTERS; reg++)
		for (int lane = 0; lane < LANES; lane++)
			vectors.lane[reg][lane] = 1 + reg / 64.0f;
	vectors.mxcsr = HARMLESS;
	block_frame.flags = 0x202;
	return 0;
}

/*
 * Upper halves stay in their initial state: else SSE code would pay for them. No operation has
 * 512 bits: on Ice Lake, loads and stores together are slower for a while behind one.
 */
static void set_vectors(struct emitter *e)
{
	static const uint8_t vzeroall[] = {0xc5, 0xfc, 0x77};

	if (states & AVX)
		bytes(e, vzeroall, sizeof(vzeroall));
	for (int reg = 0; reg < REGISTERS; reg++) {
		/* movaps 16 * reg(%rsi), %xmm */
		if (reg > 7)
			byte(e, 0x44);
		byte(e, 0x0f);
		byte(e, 0x28);
		byte(e, 0x86 | (reg & 7) << 3);
		word(e, 16 * reg);
	}
	/* ldmxcsr CONTROLS(%rsi) */
	byte(e, 0x0f);
	byte(e, 0xae);
	byte(e, 0x96);
	word(e, CONTROLS);
	if ((states & AVX512) != AVX512)
		return;
	for (int reg = 0; reg < 8; reg++) {
		/* kxnorq %k, %k, %k */
		byte(e, 0xc4);
		byte(e, 0xe1);
		byte(e, 0x84 | (~reg & 15) << 3);
		byte(e, 0x46);
		byte(e, 0xc0 | reg << 3 | reg);
	}
	for (int reg = 16; reg < 32; reg++) {
		/* vpxord %xmm, %xmm, %xmm: zero to the top, without an operation of 512 bits */
		byte(e, 0x62);
		byte(e, reg < 24 ? 0xa1 : 0x01);
		byte(e, 0x05 | (~reg & 15) << 3);
		byte(e, 0x00);
		byte(e, 0xef);
		byte(e, 0xc0 | (reg & 7) << 3 | (reg & 7));
	}
}

size_t block_emit(uint8_t *into, const struct job *job, size_t copies, uint32_t step)
{
	static const uint8_t popf = 0x9d, fninit[] = {0xdb, 0xe3};
	/* Fences: the code around the copies does not overlap with them. */
	static const uint8_t fence[] = {0x0f, 0xae, 0xe8}; /* lfence */
	static const uint8_t count[] = {
	    0x48, 0xff, 0x48, offsetof(struct block_frame, repetitions), /* decq (%rax) */
	    0x0f, 0x85,							 /* jnz */
	};
	static const uint8_t leave[] = {0xff, 0xe0}; /* jmp *%rax */
	struct emitter e = {into};
	uint8_t *first;

	load(&e, machine_stack_pointer, (uintptr_t)&block_frame.flags);
	byte(&e, popf);
	load(&e, 6, (uintptr_t)&vectors);
	set_vectors(&e);
	if (job->x87)
		bytes(&e, fninit, sizeof(fninit));
	for (int reg = 0; reg < machine_registers; reg++)
		load(&e, reg, block_value(job, reg, step));
	if (job->counter >= 0) {
		load(&e, job->counter, (uintptr_t)&block_frame.counter);
		load_from_itself(&e, job->counter);
	}
	bytes(&e, fence, sizeof(fence));
	first = into + block_first(e.at - into + 5, job);
	*e.at++ = 0xe9;
	word(&e, first + job->entry - (e.at + 4));
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
	return first + job->entry - into;
}

/* Instructions may begin at any byte: only the system can decide. */
bool block_calls_system(const uint8_t *code, size_t size)
{
	(void)code;
	(void)size;
	return false;
}
