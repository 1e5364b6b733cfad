// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A recorder of an emulated core: hooks that Unicorn calls for every instruction and every access.
 * loopwright/machine/emulator.py builds and loads them.
 */
#include <stdbool.h>
#include <stdint.h>

#define HOOK __attribute__((visibility("default")))
#define WRITE 17 /* of Unicorn's uc_mem_type: any other here is a read */

/* An executed instruction: the first address, and the total bytes, of its accesses. */
struct step {
	uint64_t address, load, store;
	uint32_t load_bytes, store_bytes;
	uint32_t loads, stores;
	uint64_t size; /* of the instruction */
};

struct recording {
	struct step *steps;
	uint64_t room, count;
	int (*stop)(void *core);
	uint64_t full;
};

/* A repeated string instruction is recorded once for each element, and once for its end. */
static bool goes_on(const struct step *last, uint64_t address)
{
	return last->address == address && (last->loads || last->stores);
}

HOOK void recorder_on_code(void *core, uint64_t address, uint32_t size, void *data)
{
	struct recording *r = data;

	if (r->count && goes_on(&r->steps[r->count - 1], address))
		return;
	if (r->count == r->room) {
		r->full = 1;
		r->stop(core);
		return;
	}
	r->steps[r->count++] = (struct step){.address = address, .size = size};
}

HOOK void recorder_on_access(void *core, int type, uint64_t address, int size, int64_t value,
			     void *data)
{
	struct recording *r = data;
	struct step *s = &r->steps[r->count - 1];

	(void)core;
	(void)value;
	if (type == WRITE) {
		s->store = s->stores++ ? s->store : address;
		s->store_bytes += size;
	} else {
		s->load = s->loads++ ? s->load : address;
		s->load_bytes += size;
	}
}
