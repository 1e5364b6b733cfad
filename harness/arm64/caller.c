// SPDX-License-Identifier: GPL-2.0-or-later
#include "../caller.h"

#include "../machine.h"
#include "emit.h"

#include <string.h>

#define LINK 30

/* Load the addresses of the next call from the tables, once the last call has ended. */
static void take_buffers(struct emitter *e, const struct job *job, int counter)
{
	word(e, 0xd5033d9f); /* dsb ld */
	word(e, 0xd5033fdf); /* isb */
	for (int role = ROLE_DST; role <= ROLE_SRC; role++) {
		int reg = job->in[role].index;

		/* ldr reg, [reg, counter, lsl #3] */
		if (job->in[role].bits)
			word(e, 0xf8607800 | counter << 16 | reg << 5 | reg);
	}
}

static int counter_register(const struct job *job)
{
	for (int reg = 28; reg >= 0; reg--)
		if (reg != 18 && !(job->may_change >> reg & 1) && !(job->zeroed >> reg & 1))
			return reg;
	return -1;
}

/* Store or load x19 to x30 in pairs; base is the encoding with x31 as base. */
static void pairs(struct emitter *e, uint32_t encoding)
{
	for (int reg = 19; reg < LINK; reg += 2)
		word(e, encoding | (reg - 19) << 15 | (reg + 1) << 10 | 31 << 5 | reg);
}

size_t caller_emit(uint8_t *into, uintptr_t at, const struct job *job,
		   const struct placement *placement, uintptr_t target)
{
	struct emitter e = {into};
	int counter = counter_register(job);
	uint8_t *loop;

	if (counter < 0)
		return 0;
	word(&e, 0xd10183ff);		/* sub sp, sp, #96 */
	pairs(&e, 0xa9000000);		/* stp */
	word(&e, 0xaa0003e0 | counter); /* mov counter, x0 */
	while ((at + (e.at - into)) % 64)
		word(&e, 0xd503201f); /* nop */
	loop = e.at;
	for (int reg = 0; reg <= LINK; reg++)
		if (job->zeroed >> reg & 1)
			load(&e, reg, 0);
	for (int role = 0; role < ROLES; role++)
		if (job->in[role].bits)
			load(&e, job->in[role].index, placement->values[role]);
	if (placement->most)
		take_buffers(&e, job, counter);
	word(&e, 0x94000000 | ((int64_t)(target - (at + (e.at - into))) >> 2 & 0x3ffffff));
	word(&e, 0xf1000400 | counter << 5 | counter);		    /* subs counter, counter, #1 */
	word(&e, 0x54000001 | ((loop - e.at) >> 2 & 0x7ffff) << 5); /* b.ne loop */
	pairs(&e, 0xa9400000);					    /* ldp */
	word(&e, 0x910183ff);					    /* add sp, sp, #96 */
	word(&e, 0xd65f03c0);					    /* ret */
	return e.at - into;
}
