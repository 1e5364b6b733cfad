// SPDX-License-Identifier: GPL-2.0-or-later
#include "../caller.h"

#include "../machine.h"
#include "emit.h"

#include <string.h>

/* Load the addresses of the next call from the tables, once the last call has ended. */
static void take_buffers(struct emitter *e, const struct job *job, int counter)
{
	static const uint8_t lfence[] = {0x0f, 0xae, 0xe8};

	bytes(e, lfence, sizeof(lfence));
	for (int role = ROLE_DST; role <= ROLE_SRC; role++) {
		int reg = job->in[role].index;

		if (!job->in[role].bits)
			continue;
		/* mov 0(%reg,%counter,8), %reg */
		byte(e, 0x48 | reg >> 3 << 2 | counter >> 3 << 1 | reg >> 3);
		byte(e, 0x8b);
		byte(e, 0x44 | (reg & 7) << 3);
		byte(e, 3 << 6 | (counter & 7) << 3 | (reg & 7));
		byte(e, 0);
	}
}

static int counter_register(const struct job *job)
{
	for (int reg = 15; reg >= 0; reg--)
		if (reg != machine_stack_pointer && !(job->may_change >> reg & 1) &&
		    !(job->zeroed >> reg & 1))
			return reg;
	return -1;
}

/* Push or pop the registers that the C ABI preserves, in one order or the other. */
static void preserved(struct emitter *e, bool pop)
{
	static const uint8_t registers[] = {3, 5, 12, 13, 14, 15};
	int count = sizeof(registers);

	for (int i = 0; i < count; i++) {
		int reg = registers[pop ? count - 1 - i : i];

		if (reg > 7)
			byte(e, 0x41);
		byte(e, (pop ? 0x58 : 0x50) | (reg & 7));
	}
}

size_t caller_emit(uint8_t *into, uintptr_t at, const struct job *job,
		   const struct placement *placement, uintptr_t target)
{
	struct emitter e = {into};
	int counter = counter_register(job);
	uint8_t *loop;

	if (counter < 0)
		return 0;
	preserved(&e, false);
	/* mov %rdi, %counter */
	byte(&e, 0x48 | counter >> 3);
	byte(&e, 0x89);
	byte(&e, 0xc0 | 7 << 3 | (counter & 7));
	while ((at + (e.at - into)) % 64)
		byte(&e, 0x90);
	loop = e.at;
	for (int reg = 0; reg < machine_registers; reg++)
		if (job->zeroed >> reg & 1)
			load(&e, reg, 0);
	for (int role = 0; role < ROLES; role++)
		if (job->in[role].bits)
			load(&e, job->in[role].index, placement->values[role]);
	if (placement->most)
		take_buffers(&e, job, counter);
	/* call target */
	byte(&e, 0xe8);
	word(&e, target - (at + (e.at - into) + 4));
	/* dec %counter; jnz loop */
	byte(&e, 0x48 | counter >> 3);
	byte(&e, 0xff);
	byte(&e, 0xc8 | (counter & 7));
	byte(&e, 0x0f);
	byte(&e, 0x85);
	word(&e, loop - (e.at + 4));
	preserved(&e, true);
	byte(&e, 0xc3);
	return e.at - into;
}
