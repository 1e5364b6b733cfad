/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Write machine code, instruction by instruction. */
#ifndef HARNESS_EMIT_H
#define HARNESS_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct emitter {
	uint8_t *at;
};

static inline void bytes(struct emitter *e, const void *from, size_t count)
{
	memcpy(e->at, from, count);
	e->at += count;
}

static inline void byte(struct emitter *e, uint8_t value)
{
	*e->at++ = value;
}

static inline void word(struct emitter *e, int32_t value)
{
	bytes(e, &value, sizeof(value));
}

/* mov $value, %reg; a value of 32 bits goes by the short form, which clears the upper half. */
static inline void load(struct emitter *e, int reg, uint64_t value)
{
	bool wide = value >> 32;

	if (wide || reg > 7)
		byte(e, 0x40 | wide << 3 | reg >> 3);
	byte(e, 0xb8 | (reg & 7));
	bytes(e, &value, wide ? 8 : 4);
}

#endif
