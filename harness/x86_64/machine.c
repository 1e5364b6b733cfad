// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "../machine.h"

#include <cpuid.h>
#include <string.h>

#define VECTOR_AREA 8192
#define HEADER 512 /* of the XSAVE area, 64 bytes that describe it */
#define EXTENDED 576
#define DF 0x400u
#define AC 0x40000u
#define NT 0x4000u
#define ID 0x200000u
#define ARITHMETIC 0x8d5u /* CF PF AF ZF SF OF */

const char machine_isa[] = "x86_64";
const int machine_registers = 16;
const int machine_stack_pointer = 4;
const uint64_t machine_flags_all = ARITHMETIC;
const uint8_t machine_padding = 0xcc;

static const char *const names64[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
				      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static const char *const names32[] = {"eax", "ecx", "edx",  "ebx",  "esp",  "ebp",  "esi",  "edi",
				      "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"};

/* x87, SSE, AVX, and the three parts of AVX-512: state that a routine could use unnoticed. */
static const struct {
	int component;
	const char *name;
} components[] = {{2, "ymm"}, {5, "k"}, {6, "zmm"}, {7, "zmm16-31"}};

struct cpu_state trampoline_in, trampoline_out;
uintptr_t trampoline_target;
uint32_t trampoline_components;
uint8_t trampoline_vectors_in[VECTOR_AREA] __attribute__((aligned(64)));
uint8_t trampoline_vectors_out[VECTOR_AREA] __attribute__((aligned(64)));
static uint8_t reference[VECTOR_AREA];
static uint32_t area_size;

void trampoline(void);

int machine_register(const char *name, struct operand *reg)
{
	for (int i = 0; i < machine_registers; i++) {
		if (strcmp(name, names64[i]) && strcmp(name, names32[i]))
			continue;
		reg->index = i;
		reg->bits = strcmp(name, names64[i]) ? 32 : 64;
		return i == machine_stack_pointer ? -1 : 0;
	}
	return -1;
}

const char *machine_register_name(int index)
{
	return names64[index];
}

static void returns(void)
{
	__asm__ volatile("");
}

int machine_init(char *why, size_t size)
{
	uint32_t a, b, c, d, enabled, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) {
		snprintf(why, size, "this CPU or kernel has no XSAVE, which the check needs");
		return -1;
	}
	__asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
	trampoline_components = enabled & 0xe7;
	area_size = EXTENDED;
	for (size_t i = 0; i < sizeof(components) / sizeof(*components); i++) {
		if (!(trampoline_components & 1u << components[i].component))
			continue;
		__cpuid_count(0xd, components[i].component, a, b, c, d);
		if (a + b > area_size)
			area_size = a + b;
	}
	if (area_size > VECTOR_AREA) {
		snprintf(why, size, "the XSAVE area of this CPU is too large: %u bytes", area_size);
		return -1;
	}
	for (uint32_t i = 0; i < area_size; i++)
		trampoline_vectors_in[i] = (uint8_t)(i * 167 + (i >> 8) * 59 + 13);
	/* x87 with an empty stack, the default control words and no reserved bit set. */
	memset(trampoline_vectors_in, 0, 32);
	trampoline_vectors_in[0] = 0x7f;
	trampoline_vectors_in[1] = 0x03;
	trampoline_vectors_in[24] = 0x80;
	trampoline_vectors_in[25] = 0x1f;
	memset(trampoline_vectors_in + HEADER, 0, EXTENDED - HEADER);
	memcpy(trampoline_vectors_in + HEADER, &trampoline_components, 4);
	trampoline_in.flags = 0x202;
	/*
	 * A call of an empty routine, on a part of our own stack, gives the values to compare with.
	 */
	trampoline_in.gpr[machine_stack_pointer] =
	    ((uintptr_t)__builtin_frame_address(0) - 8192) & ~15ul;
	trampoline_target = (uintptr_t)returns;
	trampoline();
	memcpy(reference, trampoline_vectors_out, area_size);
	return 0;
}

void machine_call(struct cpu_state *in, struct cpu_state *out, uintptr_t entry)
{
	in->flags = (in->flags & ARITHMETIC) | 0x202;
	trampoline_in = *in;
	trampoline_target = entry;
	trampoline();
	*out = trampoline_out;
}

const char *machine_vector_changed(void)
{
	static char name[16];
	const uint8_t *now = trampoline_vectors_out;
	uint32_t at = 0, a, b, c, d;

	if (!memcmp(now, reference, HEADER) &&
	    !memcmp(now + EXTENDED, reference + EXTENDED, area_size - EXTENDED))
		return NULL;
	while (now[at] == reference[at] || (at >= HEADER && at < EXTENDED))
		at++;
	if (at >= 24 && at < 32)
		return "mxcsr";
	if (at < 160)
		return "x87 or mmx state";
	if (at < 416) {
		snprintf(name, sizeof(name), "xmm%u", (at - 160) / 16);
		return name;
	}
	for (size_t i = 0; i < sizeof(components) / sizeof(*components); i++) {
		__cpuid_count(0xd, components[i].component, a, b, c, d);
		if (at >= b && at < b + a)
			return components[i].name;
	}
	return "a vector register";
}

const char *machine_flags_wrong(const struct cpu_state *in, const struct cpu_state *out,
				bool may_change)
{
	if (out->flags & DF)
		return "the direction flag is left set";
	if (out->flags & AC)
		return "the AC flag is left set";
	if ((in->flags ^ out->flags) & (NT | ID))
		return "the NT or ID flag changed";
	if (!may_change && (in->flags ^ out->flags) & ARITHMETIC)
		return "the flags changed";
	return NULL;
}

int machine_gate(const uint8_t *code, size_t size)
{
	if (size < MACHINE_GATE_BYTES || code[0] != 0x0f || code[1] != 0x01)
		return 0;
	return code[2] == 0xcb ? 1 : code[2] == 0xca ? -1 : 0; /* stac, clac */
}

void machine_flush(uintptr_t from, size_t size)
{
	for (uintptr_t line = from & ~63ull; line < from + size; line += 64)
		__builtin_ia32_clflush((void *)line);
}

void machine_flushed(void)
{
	__builtin_ia32_mfence();
}

uintptr_t machine_pc(const ucontext_t *context)
{
	return context->uc_mcontext.gregs[REG_RIP];
}

void machine_set_pc(ucontext_t *context, uintptr_t pc)
{
	context->uc_mcontext.gregs[REG_RIP] = pc;
}
