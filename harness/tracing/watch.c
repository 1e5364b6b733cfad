// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch.h"

#include "../attempt.h"
#include "../common/checksum.h"
#include "../effect.h"
#include "../mix.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unicorn/unicorn.h>

#define SHOWN __attribute__((visibility("default")))
#define PAGE 4096
#define MOST_FAULTS 8192
#define MOST_STORE 64
#define MOST_ENTRIES 4096
#define MOST_STACK 1024	  /* bytes of its own that a routine may take */
#define NEAR (1ull << 33) /* bytes from a side's start that are said to be of it */

enum { NOTHING, STORED, RETURN_ADDRESS }; /* what a byte of the stack holds */
enum { EXECUTED = 1, TAKEN = 2, NOT_TAKEN = 4, TRUE = 8, FALSE = 16 };

struct watch {
	struct watch_setup s;
	uc_engine *uc;
	struct job job;
	uint8_t *seen;
	uint32_t hits[MOST_ENTRIES];
	uint64_t over_report;
	char failure[WATCH_MESSAGE];
	uint8_t fixed_before[WATCH_FIXED][WATCH_WIDTH], fixed_now[WATCH_FIXED][WATCH_WIDTH];
	void *fixed_pointers[WATCH_FIXED];
	uint8_t *stored;       /* bytes of the destination that were stored to */
	uint8_t *stack_stored; /* bytes of the stack, by their place in it */
	/* the call under way */
	const struct watch_case *c;
	struct attempt attempt;
	struct image image;
	uint8_t *source; /* a copy of one that overlaps the destination */
	uint64_t bytes[SIDES];
	uint64_t entry_sp, lowest, steps, cases;
	uint64_t pc;		       /* offset of the instruction under way, or NOWHERE */
	bool begun;		       /* it accessed memory */
	uint64_t begun_at, begun_size; /* of its last access */
	bool unordered;		       /* stores that no fence has ordered yet */
	uint32_t depth;		       /* calls under way */
	bool armed;		       /* the instruction under way is to fail */
	uint64_t armed_gpr[WATCH_GPRS], armed_flags;
	bool broken, injected, faulted, news;
	uint32_t to_inject;
	uint8_t *cut; /* where a store that faults was cut off, and what was there */
	uint64_t cut_size;
	uint8_t cut_held[MOST_STORE], stored_before[MOST_STORE];
	bool probed;
	uint64_t probe_gpr[WATCH_GPRS], probe_flags;
};

#define NOWHERE (~0ull)

static const char *const names[] = {"dst", "src"};

static void fail(struct watch *w, const char *format, ...)
{
	const struct watch_case *c = w->c;
	va_list values;
	int used;

	if (w->broken)
		return;
	w->broken = true;
	va_start(values, format);
	used = vsnprintf(w->failure, sizeof(w->failure), format, values);
	va_end(values);
	used += snprintf(w->failure + used, sizeof(w->failure) - used, " (%s %llu",
			 w->job.effect == EFFECT_STORE_FIELDS ? "records" : "size",
			 (unsigned long long)c->count);
	for (int side = 0; side < SIDES && used < (int)sizeof(w->failure); side++) {
		if (!w->job.in[side == SIDE_DST ? ROLE_DST : ROLE_SRC].bits)
			continue;
		used += snprintf(w->failure + used, sizeof(w->failure) - used, ", %s +%llu",
				 names[side], (unsigned long long)c->at[side] % PAGE);
		if (used < (int)sizeof(w->failure) && c->limit[side] < w->bytes[side])
			used += snprintf(w->failure + used, sizeof(w->failure) - used,
					 ", %s faults at byte %llu", names[side],
					 (unsigned long long)c->limit[side]);
	}
	if (c->overlapped && used < (int)sizeof(w->failure))
		used += snprintf(w->failure + used, sizeof(w->failure) - used, ", src - dst = %lld",
				 (long long)c->distance);
	if (used < (int)sizeof(w->failure))
		snprintf(w->failure + used, sizeof(w->failure) - used, ", emulated)");
	uc_emu_stop(w->uc);
}

static void see(struct watch *w, uint64_t at, uint8_t what)
{
	if (w->seen[at] & what)
		return;
	w->seen[at] |= what;
	w->news = true;
}

static uint64_t flags_of(struct watch *w)
{
	uint64_t flags = 0;

	uc_reg_read(w->uc, w->s.flags, &flags);
	return flags;
}

static bool holds_x86(uint32_t condition, uint64_t f)
{
	bool c = f & 1, p = f >> 2 & 1, z = f >> 6 & 1, s = f >> 7 & 1, o = f >> 11 & 1, r;

	switch (condition / 2) {
	case 0:
		r = o;
		break;
	case 1:
		r = c;
		break;
	case 2:
		r = z;
		break;
	case 3:
		r = c || z;
		break;
	case 4:
		r = s;
		break;
	case 5:
		r = p;
		break;
	case 6:
		r = s != o;
		break;
	default:
		r = z || s != o;
	}
	return r != (condition & 1);
}

static bool holds_arm64(uint32_t condition, uint64_t f)
{
	bool n = f >> 31 & 1, z = f >> 30 & 1, c = f >> 29 & 1, v = f >> 28 & 1, r;

	switch (condition / 2) {
	case 0:
		r = z;
		break;
	case 1:
		r = c;
		break;
	case 2:
		r = n;
		break;
	case 3:
		r = v;
		break;
	case 4:
		r = c && !z;
		break;
	case 5:
		r = n == v;
		break;
	case 6:
		r = n == v && !z;
		break;
	default:
		return true;
	}
	return r != (condition & 1);
}

static bool holds(struct watch *w, uint32_t condition)
{
	bool x86 = w->s.link == w->s.gprs;

	return (x86 ? holds_x86 : holds_arm64)(condition, flags_of(w));
}

static void read_gprs(struct watch *w, uint64_t *into)
{
	void *to[WATCH_GPRS];

	for (uint32_t i = 0; i < w->s.gprs; i++)
		to[i] = &into[i];
	uc_reg_read_batch(w->uc, w->s.gpr, to, w->s.gprs);
}

static unsigned long long where(const struct watch *w)
{
	return w->pc == NOWHERE ? 0 : w->pc;
}

static void on_code(uc_engine *uc, uint64_t address, uint32_t size, void *data)
{
	struct watch *w = data;
	uint64_t at = address - w->s.base;
	const struct watch_fact *f;

	(void)size;
	if (w->broken || address == w->s.returns_to)
		return;
	if (at >= w->s.text) {
		fail(w, "it runs at %#llx, outside its code", (unsigned long long)address);
		return;
	}
	f = &w->s.facts[at];
	if (!(f->kind & WATCH_REACHED)) {
		fail(w, "it runs at +%#llx, where no branch leads", (unsigned long long)at);
		return;
	}
	if (w->pc != NOWHERE && w->s.facts[w->pc].kind & WATCH_RETURN) {
		if (!w->depth || !(f->kind & WATCH_RESUME)) {
			fail(w, "+%#llx returns to +%#llx, which is behind no call", where(w),
			     (unsigned long long)at);
			return;
		}
		w->depth--;
	}
	if (at == w->pc && f->kind & WATCH_STRING && w->begun)
		return;
	if (w->pc != NOWHERE && w->s.facts[w->pc].kind & WATCH_BRANCH) {
		bool next = at == w->pc + w->s.facts[w->pc].size;

		see(w, w->pc, next ? NOT_TAKEN : TAKEN);
	}
	w->armed = w->c->inject && at == w->c->inject - 1 && w->to_inject && !--w->to_inject;
	if (w->armed) {
		read_gprs(w, w->armed_gpr);
		w->armed_flags = flags_of(w);
	}
	w->pc = at;
	w->begun = false;
	if (f->kind & WATCH_CALL)
		w->depth++;
	if (f->kind & WATCH_FENCE)
		w->unordered = false;
	see(w, at, EXECUTED);
	if (f->kind & WATCH_CONDITION)
		see(w, at, holds(w, f->condition) ? TRUE : FALSE);
	if (w->c->probe && at == w->c->probe - 1 && !w->probed) {
		w->probed = true;
		read_gprs(w, w->probe_gpr);
		w->probe_flags = flags_of(w);
	}
	if (++w->steps > w->s.most_steps)
		fail(w, "it does not return in %llu steps", (unsigned long long)w->s.most_steps);
}

static void on_stack(struct watch *w, const struct watch_fact *f, bool store, uint64_t address,
		     uint32_t size)
{
	uint64_t sp = 0, from = address - w->s.stack;

	uc_reg_read(w->uc, w->s.gpr[w->s.stack_pointer], &sp);
	if (address + size > w->entry_sp) {
		if (!store && f->kind & WATCH_RETURN && address == w->entry_sp)
			return;
		fail(w, "+%#llx %s its caller's frame, %lld bytes above its own", where(w),
		     store ? "stores to" : "reads", (long long)(address - w->entry_sp));
		return;
	}
	if (address < sp && !(store && address >= sp - f->below)) {
		fail(w, "+%#llx %s %lld bytes below the stack pointer, where interrupts write",
		     where(w), store ? "stores" : "reads", (long long)(sp - address));
		return;
	}
	if (w->entry_sp - sp > MOST_STACK && sp < w->entry_sp) {
		fail(w, "+%#llx takes %llu bytes of stack, more than %u", where(w),
		     (unsigned long long)(w->entry_sp - sp), MOST_STACK);
		return;
	}
	if (store) {
		memset(w->stack_stored + from, f->kind & WATCH_CALL ? RETURN_ADDRESS : STORED,
		       size);
		if (address < w->lowest)
			w->lowest = address;
		return;
	}
	for (uint32_t i = 0; i < size; i++) {
		uint8_t held = w->stack_stored[from + i];

		if (held == (f->kind & WATCH_RETURN ? RETURN_ADDRESS : STORED))
			continue;
		fail(w, "+%#llx reads stack that %s", where(w),
		     held == NOTHING  ? "it has not stored to"
		     : held == STORED ? "holds no return address"
				      : "holds a return address");
		return;
	}
}

/* True if an access to memory that may fault obeys the contract. */
static bool is_a_user_access(struct watch *w, const struct watch_fact *f, enum side side)
{
	if (!w->job.faulting[side]) {
		if (f->kind & WATCH_UNPRIVILEGED)
			fail(w,
			     "+%#llx accesses %s, the kernel's memory, with a user's permissions",
			     where(w), names[side]);
		return !w->broken;
	}
	if (!f->entry)
		fail(w, "+%#llx accesses %s and has no exception-table entry", where(w),
		     names[side]);
	else if (!(f->kind & WATCH_USER))
		fail(w, "+%#llx accesses %s, and its exception-table entry is of another type",
		     where(w), names[side]);
	else if (w->s.unprivileged && !(f->kind & WATCH_UNPRIVILEGED))
		fail(w, "+%#llx accesses %s with the kernel's permissions", where(w), names[side]);
	else if (w->s.access_flag && !(flags_of(w) & w->s.access_flag))
		fail(w, "+%#llx accesses %s, but not between stac and clac", where(w), names[side]);
	return !w->broken;
}

static void on_store(struct watch *w, const struct watch_fact *f, uint64_t from, uint32_t size,
		     uint64_t value)
{
	uint8_t *host = w->attempt.at[SIDE_DST];
	uint64_t limit = w->attempt.limit[SIDE_DST];

	if (from >= w->bytes[SIDE_DST] || from + size > w->bytes[SIDE_DST]) {
		fail(w, "+%#llx stores %u bytes at dst byte %lld of %llu: outside of it", where(w),
		     size, (long long)from, (unsigned long long)w->bytes[SIDE_DST]);
		return;
	}
	if (!is_a_user_access(w, f, SIDE_DST))
		return;
	if (f->kind & WATCH_NONTEMPORAL)
		w->unordered = true;
	if (from + size > limit) { /* it faults, and stores nothing */
		if (from < limit && limit - from <= MOST_STORE) {
			w->cut = host + from;
			w->cut_size = limit - from;
			memcpy(w->cut_held, w->cut, w->cut_size);
		}
		return;
	}
	for (uint32_t i = 0; i < size; i++) {
		uint64_t n = from + i;
		uint8_t byte = value >> 8 * (i % 8);

		if (n >= w->image.known) {
			fail(w, "+%#llx stores dst byte %llu, whose source cannot be read",
			     where(w), (unsigned long long)n);
			return;
		}
		if (w->image.covered && !w->image.covered[n]) {
			fail(w, "+%#llx stores dst byte %llu, which is in no field", where(w),
			     (unsigned long long)n);
			return;
		}
		if (byte != w->image.bytes[n]) {
			fail(w, "+%#llx stores %#x to dst byte %llu, not %#x", where(w), byte,
			     (unsigned long long)n, w->image.bytes[n]);
			return;
		}
	}
	memcpy(w->stored_before, w->stored + from, size);
	memset(w->stored + from, 1, size);
}

/* True if an access is in pages of the bytes that a search needs. */
static bool is_in_pages(const struct watch *w, uint64_t from, uint32_t size)
{
	uint64_t at = w->c->at[SIDE_SRC], needed = w->bytes[SIDE_SRC];
	uint64_t first = at & ~(PAGE - 1ull), last = (at + needed - 1) | (PAGE - 1);

	return needed && at + from >= first && at + from + size - 1 <= last;
}

static void on_load(struct watch *w, const struct watch_fact *f, enum side side, uint64_t from,
		    uint32_t size)
{
	uint64_t room = w->bytes[side] + (f->entry && side == SIDE_SRC ? w->s.overread : 0);
	uint64_t last = from + size - 1;

	if (w->job.effect == EFFECT_SCAN && is_in_pages(w, from, size)) {
		is_a_user_access(w, f, side);
		return;
	}

	/*
	 * The value of an overread after its fixup: from the aligned word that holds the last
	 * bytes.
	 */
	if (w->faulted && w->s.overread && size <= w->s.overread + 1 &&
	    !((w->c->at[SIDE_SRC] + from) % size) &&
	    (from < w->bytes[SIDE_SRC] || last < w->bytes[SIDE_SRC]))
		return;
	if (from >= room || from + size > room)
		fail(w, "+%#llx reads %u bytes at %s byte %lld of %llu: outside of it", where(w),
		     size, names[side], (long long)from, (unsigned long long)w->bytes[side]);
	else
		is_a_user_access(w, f, side);
}

static bool is_near(const struct watch *w, enum side side, uint64_t address)
{
	uint64_t start = w->c->at[side];

	uint64_t size = w->bytes[side] < NEAR ? w->bytes[side] : NEAR;

	return w->job.in[side == SIDE_DST ? ROLE_DST : ROLE_SRC].bits &&
	       address - (start - PAGE) < size + 2 * PAGE;
}

/* Let the current access fault, if it may: all of it is undone when the core stops. */
static void inject(struct watch *w, bool store, uint64_t address, uint32_t size)
{
	enum side side = store ? SIDE_DST : SIDE_SRC;

	w->armed = false;
	if (w->broken || w->c->stray || !w->job.faulting[side] || !is_near(w, side, address))
		return;
	w->injected = true;
	if (store && !w->cut) {
		w->cut = w->attempt.at[side] + (address - w->c->at[side]);
		w->cut_size = size;
		memcpy(w->cut_held, w->cut, size);
		memcpy(w->stored + (address - w->c->at[side]), w->stored_before, size);
	}
	uc_emu_stop(w->uc);
}

static uint64_t virtual_address(const struct watch *w, uint64_t physical)
{
	uint64_t n = physical >> WATCH_WINDOW_BITS;

	if (!w->s.windows)
		return physical;
	if (n < WATCH_FIRST_WINDOW || n >= w->s.windows) /* no side's bytes are there */
		return NOWHERE;
	return w->s.window[n] | (physical & ((1ull << WATCH_WINDOW_BITS) - 1));
}

static const char *shown(uint64_t address)
{
	static char text[32];

	snprintf(text, sizeof(text), address == NOWHERE ? "memory" : "%#llx",
		 (unsigned long long)address);
	return text;
}

static void on_access(uc_engine *uc, uc_mem_type type, uint64_t address, int size, int64_t value,
		      void *data)
{
	struct watch *w = data;
	bool store = type == UC_MEM_WRITE || type == UC_MEM_WRITE_UNMAPPED;
	const struct watch_fact *f = &w->s.facts[where(w)];

	(void)uc;
	w->begun = true;
	w->begun_at = address;
	w->begun_size = size;
	if (w->broken)
		return;
	address = virtual_address(w, address);
	if (address - w->s.stack < w->s.stack_size) {
		on_stack(w, f, store, address, size);
	} else if (w->c->stray && !is_near(w, SIDE_SRC, address)) {
		/* The page after a user's memory is unmapped: an access there faults. */
		if (address - w->s.user_end >= PAGE)
			fail(w, "+%#llx accesses %s, which is no user's", where(w), shown(address));
		else
			is_a_user_access(w, f, SIDE_DST);
	} else if (w->c->overlapped && !store && is_near(w, SIDE_SRC, address)) {
		on_load(w, f, SIDE_SRC, address - w->c->at[SIDE_SRC], size);
	} else if (is_near(w, SIDE_DST, address)) {
		if (store && w->job.effect == EFFECT_COMPARE)
			fail(w, "+%#llx stores to dst, byte %lld", where(w),
			     (long long)(address - w->c->at[SIDE_DST]));
		else if (w->job.effect == EFFECT_COMPARE)
			on_load(w, f, SIDE_DST, address - w->c->at[SIDE_DST], size);
		else if (store)
			on_store(w, f, address - w->c->at[SIDE_DST], size, value);
		else
			fail(w, "+%#llx reads the destination, byte %lld", where(w),
			     (long long)(address - w->c->at[SIDE_DST]));
	} else if (is_near(w, SIDE_SRC, address)) {
		if (store)
			fail(w, "+%#llx stores to the source, byte %lld", where(w),
			     (long long)(address - w->c->at[SIDE_SRC]));
		else
			on_load(w, f, SIDE_SRC, address - w->c->at[SIDE_SRC], size);
	} else {
		fail(w, "+%#llx accesses %s, in neither buffer", where(w), shown(address));
	}
	if (w->armed)
		inject(w, store, address, size);
}

/* An access without any accessible byte is checked by the same rules before it faults. */
static bool on_nothing(uc_engine *uc, uc_mem_type type, uint64_t address, int size, int64_t value,
		       void *data)
{
	const struct watch *w = data;

	/* The second page of an access that was checked at its first page. */
	if (!w->begun || address - w->begun_at >= w->begun_size)
		on_access(uc, type, address, size, value, data);
	return false;
}

static void fixed_read(struct watch *w, uint8_t into[][WATCH_WIDTH])
{
	int ids[WATCH_FIXED];

	memset(into, 0, sizeof(w->fixed_now));
	for (uint32_t i = 0; i < w->s.fixed; i++) {
		ids[i] = w->s.fixed_id[i];
		w->fixed_pointers[i] = into[i];
	}
	uc_reg_read_batch(w->uc, ids, w->fixed_pointers, w->s.fixed);
}

SHOWN struct watch *watch_open(const struct watch_setup *setup)
{
	struct watch *w = calloc(1, sizeof(*w));
	struct job *job = &w->job;
	uc_hook hook;

	w->s = *setup;
	w->uc = setup->core;
	w->seen = calloc(setup->text, 1);
	w->stored = calloc(setup->pattern_size, 1);
	w->stack_stored = calloc(setup->stack_size, 1);
	w->source = calloc(setup->pattern_size, 1);
	job->effect = setup->effect;
	job->exact = setup->exact;
	job->fields = setup->fields;
	job->nfields = setup->nfields;
	memcpy(job->in, setup->in, sizeof(job->in));
	memcpy(job->out, setup->out, sizeof(job->out));
	for (int side = 0; side < SIDES; side++) {
		job->faulting[side] = setup->faulting[side];
		job->record[side] = setup->record[side];
	}
	w->lowest = setup->stack + setup->stack_size;
	uc_hook_add(w->uc, &hook, UC_HOOK_CODE, (void *)on_code, w, 1, 0);
	uc_hook_add(w->uc, &hook, UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, (void *)on_access, w, 1, 0);
	uc_hook_add(w->uc, &hook, UC_HOOK_MEM_READ_UNMAPPED | UC_HOOK_MEM_WRITE_UNMAPPED,
		    (void *)on_nothing, w, 1, 0);
	fixed_read(w, w->fixed_before);
	return w;
}

SHOWN void watch_close(struct watch *w)
{
	free(w->seen);
	free(w->stored);
	free(w->stack_stored);
	free(w->source);
	free(w);
}

static uint64_t anything(const struct watch *w, uint32_t i)
{
	switch (w->cases % 8) {
	case 3:
		return 0;
	case 6:
		return ~0ull;
	default:
		return mix(w->cases * WATCH_GPRS + i);
	}
}

static void give(struct watch *w, uint64_t *gpr, enum role role, uint64_t value)
{
	const struct operand *op = &w->job.in[role];

	if (op->bits == 64)
		gpr[op->index] = value;
	else if (op->bits == 32)
		gpr[op->index] = (gpr[op->index] & ~0xffffffffull) | (uint32_t)value;
}

static uint64_t take(const struct watch *w, const uint64_t *gpr, enum role role)
{
	const struct operand *op = &w->job.out[role];

	return op->bits == 64 ? gpr[op->index] : (uint32_t)gpr[op->index];
}

/* Fill a source with one word, or with the values of the call's registers. */
static void put_words(const struct watch *w, uint8_t *into, uint64_t size)
{
	const struct watch_case *c = w->c;

	for (uint64_t i = 0; i < size; i++) {
		uint64_t n = i + c->shift, at = n & ~7ull;
		const uint64_t words[] = {c->at[SIDE_DST] + at - c->shift,
					  c->at[SIDE_SRC] + at - c->shift,
					  c->at[SIDE_DST],
					  c->at[SIDE_SRC],
					  c->count,
					  c->at[SIDE_DST] + c->count,
					  c->at[SIDE_SRC] + c->count,
					  w->s.returns_to};

		into[i] = (c->pattern == WATCH_WORD ? c->word : words[n / 8 % 8]) >> 8 * (n % 8);
	}
}

/* Remove the value from the bytes of a search, up to its position, and put it there. */
static void place_search(struct watch *w, uint64_t size)
{
	const struct watch_case *c = w->c;
	const struct watch_area *area = &w->s.area[SIDE_SRC][c->area[SIDE_SRC]];
	uint64_t before = c->at[SIDE_SRC] - area->address;
	uint64_t behind = area->size - before - size;
	uint8_t *at = w->attempt.at[SIDE_SRC];

	for (uint64_t i = 0; i < size; i++)
		if (at[i] == w->attempt.value)
			at[i] ^= i % 3 ? 0x80 : 1;
	if (before >= area->size) /* an address at which nothing is */
		return effect_arrange(&w->job, &w->attempt, 0, 0);
	before = before < EFFECT_AROUND ? before : EFFECT_AROUND;
	behind = behind < EFFECT_AROUND ? behind : EFFECT_AROUND;
	memset(at - before, w->attempt.value ^ 1, before);
	memset(at + size, w->attempt.value ^ 0x80, behind);
	effect_arrange(&w->job, &w->attempt, before, behind);
}

/* Write both sides' accessible bytes to memory. */
static void place(struct watch *w)
{
	const struct watch_case *c = w->c;
	uint64_t there[SIDES];

	w->attempt.count = c->count;
	w->attempt.sum = c->sum;
	w->attempt.value = c->value;
	w->attempt.twist = c->twist;
	effect_size(&w->job, &w->attempt);
	w->attempt.differ = c->differ == NOWHERE
				? effect_differ(mix(c->twist), w->attempt.bytes[SIDE_DST])
				: c->differ;
	for (int side = 0; side < SIDES; side++) {
		const struct watch_area *area = &w->s.area[side][c->area[side]];
		bool used = w->job.in[side == SIDE_DST ? ROLE_DST : ROLE_SRC].bits;

		if (c->overlapped)
			area = &w->s.area[SIDE_DST][c->area[SIDE_DST]];
		w->bytes[side] = w->attempt.bytes[side];
		w->attempt.limit[side] = used ? c->limit[side] : 0;
		w->attempt.at[side] = used ? area->host + (c->at[side] - area->address) : NULL;
		there[side] = w->bytes[side] < c->limit[side] ? w->bytes[side] : c->limit[side];
	}
	w->attempt.source = w->attempt.at[SIDE_SRC];
	if (w->attempt.at[SIDE_SRC]) {
		uint64_t more = there[SIDE_SRC] + w->s.overread, at = c->at[SIDE_SRC];
		const struct watch_area *area = &w->s.area[SIDE_SRC][c->area[SIDE_SRC]];

		if (c->overlapped)
			area = &w->s.area[SIDE_DST][c->area[SIDE_DST]];
		if (at + more > area->address + area->size)
			more = there[SIDE_SRC];
		if (c->pattern >= WATCH_WORD)
			put_words(w, w->attempt.at[SIDE_SRC], more);
		else
			memcpy(w->attempt.at[SIDE_SRC],
			       w->s.patterns + c->pattern * w->s.pattern_size + c->shift, more);
	}
	if (w->job.effect == EFFECT_SCAN)
		place_search(w, there[SIDE_SRC]);
	if (w->job.effect == EFFECT_COMPARE) {
		effect_arrange(&w->job, &w->attempt, 0, 0);
		return;
	}
	if (c->overlapped) {
		memcpy(w->source, w->attempt.at[SIDE_SRC], there[SIDE_SRC]);
		w->attempt.source = w->source;
	}
	if (c->stray)
		w->attempt.limit[SIDE_DST] = 0;
	w->image = effect_image(&w->job, &w->attempt);
	if (w->attempt.at[SIDE_DST] && !c->stray) {
		memset(w->stored, 0, there[SIDE_DST]);
		for (uint64_t i = 0; i < there[SIDE_DST] && !c->overlapped; i++)
			w->attempt.at[SIDE_DST][i] =
			    i < w->image.known ? w->image.bytes[i] ^ (c->alike ? 0 : 0xff) : 0x5a;
	}
}

static void prepare(struct watch *w, uint64_t *gpr, uint64_t *flags)
{
	const void *from[WATCH_GPRS];

	w->entry_sp = w->s.stack + w->s.stack_size - PAGE / 8 - w->cases % 32 * 16;
	if (w->lowest < w->entry_sp)
		memset(w->stack_stored + (w->lowest - w->s.stack), 0,
		       w->s.stack + w->s.stack_size - w->lowest);
	w->lowest = w->entry_sp;
	for (uint32_t i = 0; i < w->s.gprs; i++) {
		gpr[i] = w->s.zeroed >> i & 1 ? 0 : anything(w, i);
		from[i] = &gpr[i];
	}
	gpr[w->s.stack_pointer] = w->entry_sp;
	give(w, gpr, ROLE_DST, w->c->at[SIDE_DST]);
	give(w, gpr, ROLE_SRC, w->c->at[SIDE_SRC]);
	give(w, gpr, ROLE_COUNT, w->attempt.count);
	give(w, gpr, ROLE_VALUE, w->attempt.value | anything(w, ROLE_VALUE) << 8);
	give(w, gpr, ROLE_SUM, w->c->sum);
	if (w->s.link < w->s.gprs)
		gpr[w->s.link] = w->s.returns_to;
	else
		memcpy(w->s.stack_host + (w->entry_sp - w->s.stack), &w->s.returns_to, 8);
	*flags = (w->cases & 1 ? w->s.arithmetic : 0) | (w->cases & 2 ? w->s.free_flags : 0) |
		 (w->s.access_at_entry ? w->s.access_flag : 0);
	uc_reg_write_batch(w->uc, w->s.gpr, (void *const *)from, w->s.gprs);
	uc_reg_write(w->uc, w->s.flags, flags);
	*flags = flags_of(w);
}

/* Undo an instruction's changes of registers: it counts as faulting. */
static void give_back(struct watch *w)
{
	const void *from[WATCH_GPRS];

	for (uint32_t i = 0; i < w->s.gprs; i++)
		from[i] = &w->armed_gpr[i];
	uc_reg_write_batch(w->uc, w->s.gpr, (void *const *)from, w->s.gprs);
	uc_reg_write(w->uc, w->s.flags, &w->armed_flags);
}

/* Run from the entry to the return, through fixups. */
static void follow(struct watch *w)
{
	uint64_t at = w->s.entry;

	w->pc = NOWHERE;
	for (uint32_t faults = 0; !w->broken; faults++) {
		uc_err error = uc_emu_start(w->uc, w->s.base + at, w->s.returns_to, 0, 0);
		const struct watch_fact *f = &w->s.facts[where(w)];
		uint64_t counter = 0;

		if (w->broken)
			return;
		uc_reg_read(w->uc, w->s.counter, &counter);
		if (!error && !w->injected) {
			if (counter != w->s.returns_to)
				fail(w, "it ends at %#llx", (unsigned long long)counter);
			else if (w->pc == NOWHERE || !(w->s.facts[w->pc].kind & WATCH_RETURN))
				fail(w, "it leaves by +%#llx, which is no return", where(w));
			else if (w->depth)
				fail(w, "it returns from a call of its own that has not returned");
			else if (w->unordered)
				fail(w, "it returns with stores that no sfence has ordered");
			return;
		}
		if (error && error != UC_ERR_READ_UNMAPPED && error != UC_ERR_WRITE_UNMAPPED) {
			fail(w, "+%#llx: %s", where(w), uc_strerror(error));
			return;
		}
		if (!f->entry) {
			fail(w, "fault at +%#llx, which has no exception-table entry", where(w));
			return;
		}
		if (faults > MOST_FAULTS) {
			fail(w, "faults without end, last at +%#llx", where(w));
			return;
		}
		if (w->cut)
			memcpy(w->cut, w->cut_held, w->cut_size);
		w->cut = NULL;
		if (w->injected)
			give_back(w);
		w->injected = false;
		w->faulted = true;
		if (!w->hits[f->entry - 1]++)
			w->news = true;
		at = f->fixup;
		w->pc = NOWHERE;
	}
}

static void check_registers(struct watch *w, const uint64_t *in, const uint64_t *out,
			    uint64_t flags)
{
	uint64_t changed = (flags ^ flags_of(w)) & w->s.compared;

	for (uint32_t i = 0; i < w->s.gprs; i++) {
		if (in[i] == out[i])
			continue;
		/* A call takes its return address off the stack. */
		if (i == w->s.stack_pointer) {
			uint64_t want = in[i] + (w->s.link == w->s.gprs ? 8 : 0);

			if (out[i] != want)
				fail(w, "the stack pointer is off by %lld",
				     (long long)(out[i] - want));
		} else if (!(w->s.may_change >> i & 1)) {
			fail(w, "register %s changed", w->s.gpr_name[i]);
		}
	}
	if (w->s.flags_may_change)
		changed &= ~w->s.arithmetic;
	if (changed)
		fail(w, "flags %#llx changed", (unsigned long long)changed);
	fixed_read(w, w->fixed_now);
	for (uint32_t i = 0; i < w->s.fixed; i++)
		if (memcmp(w->fixed_now[i], w->fixed_before[i], WATCH_WIDTH))
			fail(w, "register %s changed", w->s.fixed_name[i]);
}

/* Check a count of bytes done, or not done; returns the bytes that must have been stored. */
static uint64_t check_count(struct watch *w, const uint64_t *out)
{
	bool records = w->job.effect == EFFECT_STORE_FIELDS;
	enum role role = records ? ROLE_STORED : ROLE_UNCOPIED;
	uint64_t possible = w->c->stray ? 0 : effect_possible(&w->job, &w->attempt), done, given;
	uint64_t size = records ? w->job.record[SIDE_DST] : 1;

	if (!w->job.out[role].bits)
		return w->bytes[SIDE_DST];
	given = take(w, out, role);
	done = records ? given : w->c->count - given;
	if (given > w->c->count || done > possible)
		fail(w, "%lld %s, %llu of %llu can be done", (long long)given,
		     records ? "said to be stored" : "said to be left",
		     (unsigned long long)possible, (unsigned long long)w->c->count);
	else if (w->c->inject) /* how much is possible is not known then */
		return done * size;
	else if (w->job.exact && done != possible)
		fail(w, "%lld %s, though %llu of %llu can be done", (long long)given,
		     records ? "said to be stored" : "said to be left",
		     (unsigned long long)possible, (unsigned long long)w->c->count);
	else if (!records && possible && !done)
		fail(w, "no progress, though %llu bytes can be accessed",
		     (unsigned long long)possible);
	if ((possible - done) * size > w->over_report && !w->broken)
		w->over_report = (possible - done) * size;
	return done * size;
}

static void check_order(struct watch *w, const uint64_t *out)
{
	int64_t given = w->job.out[ROLE_ORDER].bits == 64 ? (int64_t)take(w, out, ROLE_ORDER)
							  : (int32_t)take(w, out, ROLE_ORDER);
	int want = effect_order(&w->attempt);

	if ((given > 0) - (given < 0) != want)
		fail(w, "%lld is returned, and the sign of the first difference, byte %zu, is %d",
		     (long long)given, w->attempt.differ, want);
}

static void check_found(struct watch *w, const uint64_t *out)
{
	bool found = w->attempt.match != ATTEMPT_NOWHERE;
	uint64_t length = found ? w->attempt.match : w->attempt.count;
	uint64_t place = found ? w->c->at[SIDE_SRC] + length : 0;

	if (w->job.out[ROLE_LENGTH].bits && take(w, out, ROLE_LENGTH) != length)
		fail(w, "length %lld is returned, not %llu", (long long)take(w, out, ROLE_LENGTH),
		     (unsigned long long)length);
	if (w->job.out[ROLE_FOUND].bits && take(w, out, ROLE_FOUND) != place)
		fail(w, "%#llx is returned, and the value is %s %llu",
		     (unsigned long long)take(w, out, ROLE_FOUND), found ? "at byte" : "nowhere in",
		     (unsigned long long)length);
}

/* True if other results count; with an injected fault, a reported fault is correct. */
static bool check_faulted(struct watch *w, const uint64_t *out)
{
	bool want = effect_faults(&w->job, &w->attempt), given;

	if (!w->job.out[ROLE_FAULTED].bits)
		return true;
	given = take(w, out, ROLE_FAULTED);
	if (!given == want && !(given && w->c->inject))
		fail(w, "%s fault is reported, and %s", given ? "a" : "no",
		     given ? "all that is needed can be accessed"
			   : "a byte that is needed cannot be accessed");
	return !given;
}

static void check_result(struct watch *w, const uint64_t *out)
{
	uint64_t done, first;

	if (w->job.out[ROLE_DST].bits && take(w, out, ROLE_DST) != w->c->at[SIDE_DST])
		fail(w, "%#llx is returned, not dst", (unsigned long long)take(w, out, ROLE_DST));
	if (w->job.effect == EFFECT_COMPARE && check_faulted(w, out))
		check_order(w, out);
	if (w->job.effect == EFFECT_SCAN && check_faulted(w, out))
		check_found(w, out);
	if (w->job.effect == EFFECT_COMPARE || w->job.effect == EFFECT_SCAN)
		return;
	/* Bytes that are moved onto themselves need not be stored. */
	if (w->c->overlapped && !w->c->distance)
		return;
	if (w->job.effect == EFFECT_CHECKSUM) {
		uint32_t want = effect_sum(w->attempt.at[SIDE_SRC], w->c->count, w->c->sum);
		uint32_t given = checksum_fold(take(w, out, ROLE_SUM));

		if (given != want)
			fail(w, "the sum folds to %#x, not %#x", given, want);
		return;
	}
	done = check_count(w, out);
	first = effect_is_backward(&w->job, &w->attempt) ? w->bytes[SIDE_DST] - done : 0;
	for (uint64_t i = first; i < first + done && !w->broken; i++)
		if (!w->stored[i] && !(w->image.covered && !w->image.covered[i]))
			fail(w, "dst byte %llu is said to be done and was not stored to",
			     (unsigned long long)i);
}

static bool one(struct watch *w, struct watch_case *c)
{
	uint64_t in[WATCH_GPRS], out[WATCH_GPRS], flags;

	w->c = c;
	w->broken = w->armed = w->injected = w->faulted = w->news = w->probed = false;
	w->to_inject = c->nth;
	w->unordered = false;
	w->steps = 0;
	w->depth = 0;
	w->cut = NULL;
	place(w);
	prepare(w, in, &flags);
	follow(w);
	c->news = w->news;
	w->cases++;
	if (!w->broken) {
		read_gprs(w, out);
		check_registers(w, in, out, flags);
	}
	if (!w->broken)
		check_result(w, out);
	return !w->broken;
}

SHOWN uint64_t watch_run(struct watch *w, struct watch_case *cases, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (!one(w, &cases[i]))
			return i;
	return count;
}

SHOWN const char *watch_failure(const struct watch *w)
{
	return w->failure;
}

SHOWN const uint8_t *watch_seen(const struct watch *w)
{
	return w->seen;
}

SHOWN const uint32_t *watch_hits(const struct watch *w)
{
	return w->hits;
}

SHOWN uint64_t watch_over_report(const struct watch *w)
{
	return w->over_report;
}

SHOWN int watch_probed(const struct watch *w, uint64_t *gprs, uint64_t *flags)
{
	memcpy(gprs, w->probe_gpr, sizeof(w->probe_gpr));
	*flags = w->probe_flags;
	return w->probed;
}
