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

static inline void word(struct emitter *e, uint32_t value)
{
	memcpy(e->at, &value, sizeof(value));
	e->at += sizeof(value);
}

/* movz, then a movk for each further quarter that is not zero. */
static inline void load(struct emitter *e, int reg, uint64_t value)
{
	word(e, 0xd2800000 | (value & 0xffff) << 5 | reg);
	for (int part = 1; part < 4; part++) {
		uint32_t quarter = value >> 16 * part & 0xffff;

		if (quarter)
			word(e, 0xf2800000 | part << 21 | quarter << 5 | reg);
	}
}

#endif
