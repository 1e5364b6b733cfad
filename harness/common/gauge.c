// SPDX-License-Identifier: GPL-2.0-or-later
#include "gauge.h"

#ifdef __KERNEL__
#include <linux/kernel.h>
#include <linux/string.h>
#else
#include <stdio.h>
#include <string.h>
#endif

#define STEPS 5000	       /* of the clock in a burst, at least: one is 0.02 % of it */
#define LONGEST 1000000	       /* ns of a burst */
#define CYCLES 100000	       /* of a burst by a clock that counts them: about a period */
#define GROUP 8		       /* samples between pauses */
#define WARM_UP 1000000	       /* ns, before the first group */
#define BRIEF 5		       /* the same of a brief series, */
#define SHORTER 16	       /* whose first pauses are shorter by this factor, */
#define SHORT 4		       /* and others by this one */
#define WARM_BRIEF 300000      /* ns, before that of a brief series */
#define WARM_AGAIN 200000      /* ns, before another */
#define LEAST_PAUSE 1000       /* us; speeds that change more slowly than a group are to be seen */
#define PAUSES 3000	       /* us: how far pauses differ, so that nothing keeps step with them */
#define MIXED 2		       /* times its samples that a brief series grows to: many are slow, */
#define SPEEDS 4	       /* some by less than what disturbs costs, as of two speeds, */
#define NEAR 1060	       /* per mille, */
#define LOST 8		       /* one part in so many accepted, or fewer: another time is better */
#define COMPARED 4	       /* times its samples by which it is compared with streams then */
#define IN_VAIN 3	       /* or none has one speed */
#define ATTEMPTS 6	       /* of the self-test, */
#define UNSLICED 2	       /* of which as many are without slices */
#define TOO_FEW 3	       /* one part in so many accepted, or fewer: slices may do better */
#define NEIGHBOUR_PAUSE 250000 /* us: what shares the core may be gone by then */
#define LOOK_PART 4	       /* a look calibrates for one part in so many of a burst */
#define LOOK_WARM 20000	       /* ns, before a look */
#define LOOK_CLOCK 100	       /* one part in so many: most that its calibrations differ */
#define STALLED 4096	       /* repetitions: so many take time, if the clock moves */
#define LEAST_TICKS 16	       /* that they take */
#define STANDS_STILL "the clock stands still, or this CPU went away"

u64 gauge_times(const struct gauge *gauge, const struct code *code, u64 ticks, u64 most)
{
	const struct environment *e = gauge->environment;
	u64 times = 1, took;

	while ((took = e->quickest(e->data, code, times)) < ticks / 8 && times <= most / 2) {
		if (!took || (times >= STALLED && took / LEAST_TICKS < times / STALLED))
			return 0;
		times *= 2;
	}
	if (!took)
		return 0;
	times = integers_scale(times, ticks + took / (2 * times), took);
	return !times ? 1 : times < most ? times : most;
}

bool gauge_plan(struct plan *plan, u64 most, unsigned int longest, struct reading *r)
{
	const struct gauge *g = plan->gauge;
	const struct environment *e = g->environment;
	u64 bursts;

	plan->times = gauge_times(g, plan->target[0], g->burst, most);
	bursts = plan->times ? e->quickest(e->data, plan->target[0], plan->times) : 0;
	bursts = (bursts + g->burst / 2) / g->burst;
	plan->bursts = bursts ? bursts : 1;
	plan->calibrations = plan->bursts * g->calibrations;
	if (plan->times && (!longest || bursts <= longest))
		return true;
	memset(r, 0, sizeof(*r));
	snprintf(r->refused, sizeof(r->refused), "%s",
		 plan->times ? "a call takes too long with interrupts off" : STANDS_STILL);
	return false;
}

/* The pause before a group, in microseconds: no two successive ones are equal. */
static unsigned int pause_before(unsigned int group)
{
	return LEAST_PAUSE + (group * 2654435761u >> 8) % PAUSES;
}

bool gauge_is_quiet(const struct gauge *g)
{
	const struct environment *e = g->environment;
	const struct canary *c = &g->sentinel;
	struct plan plan = {.gauge = g, .target = {c->code}, .targets = 1, .slices = g->slices};
	struct sample s = {0};

	if (!c->cycles)
		return true;
	plan.times = c->times;
	plan.calibrations = (g->calibrations + LOOK_PART - 1) / LOOK_PART;
	e->warm_up(e->data, c->code, c->times, LOOK_WARM);
	return e->take(e->data, &plan, true, &s) && !s.disturbed &&
	       integers_apart(s.before, s.behind) * LOOK_CLOCK < s.before &&
	       !series_slowed(plan.calibrations * CHAIN_LENGTH, &s, s.target[0], c->cycles);
}

/* Wait until nothing shares the core, as long as the series has looks left. */
static void await_quiet(const struct gauge *g, struct series *s)
{
	const struct environment *e = g->environment;

	while (s->looks < e->looks && !gauge_is_quiet(g) && e->pause(e->data, GAUGE_LOOK_PAUSE))
		s->looks++;
}

/* Add a group of samples to a series; false where no more can be taken. */
static bool take_group(const struct plan *plan, struct series *s)
{
	const struct environment *e = plan->gauge->environment;
	bool again = s->count && s->sample[s->count - 1].turn == s->turn;
	unsigned int group = s->brief ? BRIEF : GROUP, warm = s->brief ? WARM_BRIEF : WARM_UP;
	unsigned int pause = pause_before(s->count / group);
	unsigned int warm_again = s->brief ? WARM_AGAIN / SHORTER : WARM_AGAIN;

	/* A series that continues should meet both of two speeds. */
	if (s->brief)
		pause /= s->count < MIXED * s->brief ? SHORTER : SHORT;
	if (again && !e->pause(e->data, pause))
		return false;
	await_quiet(plan->gauge, s);
	for (unsigned int t = 0; t < plan->targets; t++)
		e->warm_up(e->data, plan->target[t], plan->times,
			   (again ? warm_again : warm) / plan->targets);
	for (unsigned int i = 0; i < group && s->count < SERIES_MOST; i++) {
		struct sample *one = &s->sample[s->count++];

		one->control = plan->control;
		one->turn = s->turn;
		if (!e->take(e->data, plan, !i, one))
			return false;
	}
	return true;
}

/* Add a group of streams in place of the targets, as long as they are. */
static bool take_controls(const struct plan *plan, struct series *s)
{
	const struct canary *c = &plan->gauge->canary[s->count / GROUP / 2 % SERIES_CANARIES];
	struct plan control = *plan;
	u64 parts = plan->bursts * GAUGE_CANARY_PART;

	control.target[0] = c->code;
	control.targets = 1;
	control.times = c->times * parts;
	control.control = c->cycles * parts;
	return take_group(&control, s);
}

/* True if slices of calibrations and targets are timed alternately. */
static bool sliced(const struct plan *plan)
{
	return plan->slices > 1;
}

void gauge_begin(const struct plan *plan, struct series *s)
{
	const struct gauge *g = plan->gauge;

	memset(s, 0, sizeof(*s));
	s->sliced = sliced(plan);
	s->targets = plan->targets;
	s->most = plan->most;
	s->repetitions = plan->times;
	s->known = plan->calibrations * CHAIN_LENGTH;
	s->hz = g->hz;
	for (int i = 0; i < SERIES_CANARIES; i++)
		s->canary[i] = g->canary[i].cycles;
}

void gauge_resume(struct plan *plan, struct series *s)
{
	s->turn++;
	s->sliced |= sliced(plan);
	plan->times = s->repetitions;
	plan->calibrations = s->known / CHAIN_LENGTH;
	plan->bursts = plan->calibrations / plan->gauge->calibrations;
}

bool gauge_take(const struct plan *plan, unsigned int samples, struct series *s)
{
	unsigned int enough = s->count + samples;

	while (s->count < enough && s->count < SERIES_MOST)
		if (!take_group(plan, s))
			return false;
	return true;
}

/* True if an accepted brief series shows the same with more samples, or has enough of them. */
static bool settled(const struct series *s, const struct reading *r)
{
	bool wide = 100 * (r->p90 - r->p10) > r->median, slow = 5 * r->slow > r->accepted;

	if (slow && r->slow_from < NEAR)
		return s->count >= SPEEDS * s->brief;
	return !(wide || slow) || s->count >= MIXED * s->brief;
}

/*
 * True if more samples of a brief series would be useless: nearly all are disturbed now, or the
 * targets themselves have no single speed.
 */
static bool in_vain(const struct series *s, const struct reading *r)
{
	if (r->unsteady)
		return s->count >= IN_VAIN * s->brief;
	return s->count >= MIXED * s->brief && r->accepted * LOST < s->count;
}

bool gauge_may_slice(const struct plan *plan, const struct reading *r)
{
	return *r->refused && !r->unsteady && !sliced(plan) && r->accepted * TOO_FEW < r->taken &&
	       plan->gauge->environment->slices > 1;
}

/*
 * A series that is not accepted grows. So does one that may show two speeds: by alternate samples
 * of the target and of streams that a neighbour slows. No sample is dropped for the time of its
 * targets.
 */
void gauge_read(const struct plan *plan, unsigned int samples, struct series *s, struct reading *r)
{
	unsigned int most = (s->brief ? SPEEDS : GAUGE_GROWTH) * samples, enough = samples;
	bool goes_on = true, compares = false, held;

	while (goes_on && s->count < most && s->count + 2 * GROUP <= SERIES_MOST) {
		goes_on = take_group(plan, s) && (!compares || take_controls(plan, s));
		if (!goes_on || s->count < enough)
			continue;
		held = series_judge(s, r);
		if (s->brief && (held ? settled(s, r) : in_vain(s, r))) {
			if (!r->unsteady || compares || !plan->gauge->canary[1].cycles)
				return;
			compares = true;
			most = enough = s->count + COMPARED * samples;
		}
		if (s->brief)
			continue;
		if (held && (!r->doubtful || compares))
			return;
		if (r->doubtful && plan->gauge->canary[1].cycles) {
			compares = true;
			enough = s->count + 2 * samples;
		}
	}
	if (goes_on)
		return;
	memset(r, 0, sizeof(*r));
	snprintf(r->refused, sizeof(r->refused), "interrupted, or the CPU went away");
}

/* Measure a known loop as any other code. */
static struct known_test test(const struct gauge *gauge, const struct known *known,
			      struct workspace *room)
{
	struct plan plan = {.gauge = gauge, .target = {known->code}, .targets = 1};

	plan.most = SERIES_HOT;
	plan.slices = gauge->slices;
	if (gauge_plan(&plan, ~0ull, 0, &room->reading)) {
		gauge_begin(&plan, &room->series);
		gauge_read(&plan, GAUGE_SAMPLES, &room->series, &room->reading);
	}
	return known_test(known, &room->reading);
}

static void size_bursts(struct gauge *g)
{
	u64 period = integers_scale(g->hz, GAUGE_PERIOD, 1000 * MILLION), periods = 1;

	if (g->hz)
		periods = (g->granularity * STEPS + period - 1) / (period ? period : 1);
	g->burst_ns = (periods ? periods : 1) * GAUGE_PERIOD;
	if (periods > LONGEST / GAUGE_PERIOD) {
		snprintf(g->refused, sizeof(g->refused),
			 "the steps of the clock are too long: a burst would take %llu us",
			 (unsigned long long)(periods * (GAUGE_PERIOD / 1000)));
		return;
	}
	g->burst = g->hz ? integers_scale(g->hz, g->burst_ns, 1000 * MILLION) : CYCLES;
	g->calibrations = gauge_times(g, g->calibrator, g->burst, ~0ull);
	if (!g->calibrations)
		snprintf(g->refused, sizeof(g->refused), "%s", STANDS_STILL);
}

static struct canary canary_of(const struct gauge *g, const struct code *code, u64 cycles)
{
	struct canary c = {.code = code};

	c.times = gauge_times(g, code, g->burst / GAUGE_CANARY_PART, ~0ull);
	c.cycles = c.times * CHAIN_LENGTH * cycles;
	return c;
}

/* Let the self-test wait for a quiet core, where a stream's cycles are documented and required. */
static void set_sentinel(struct gauge *g, const struct known *loops)
{
	for (; loops->required || loops->canary; loops++)
		if (loops->required && loops->canary) {
			g->sentinel = canary_of(g, loops->code, loops->cycles);
			return;
		}
}

/* From now on samples include the times of streams that a neighbour would slow. */
static void set_canaries(struct gauge *g)
{
	unsigned int next = 0;

	for (unsigned int i = 0; i < g->tested && next < SERIES_CANARIES; i++) {
		const struct known_test *t = &g->tests[i];

		if (t->known.canary && t->held)
			g->canary[next++] = canary_of(g, t->known.code, t->cycles);
	}
	g->sentinel = g->canary[0];
}

/* True if the required loops held, and as many streams as a sample has canaries. */
static bool sound(const struct gauge *g)
{
	unsigned int canaries = 0;

	for (unsigned int i = 0; i < g->tested; i++) {
		const struct known_test *t = &g->tests[i];

		if (t->known.required && !t->held)
			return false;
		canaries += t->known.canary && t->held;
	}
	return canaries >= SERIES_CANARIES;
}

void gauge_open(struct gauge *g, const struct known *loops, struct workspace *room)
{
	const struct environment *e = g->environment;

	size_bursts(g);
	if (*g->refused)
		return;
	set_sentinel(g, loops);
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (attempt && !e->pause(e->data, NEIGHBOUR_PAUSE))
			return;
		g->slices = attempt < UNSLICED ? 1 : e->slices;
		for (g->tested = 0; loops[g->tested].required || loops[g->tested].canary;
		     g->tested++)
			g->tests[g->tested] = test(g, &loops[g->tested], room);
		if (sound(g)) {
			*g->refused = 0;
			set_canaries(g);
			return;
		}
		known_complain(g->tests, g->tested, g->refused, sizeof(g->refused));
	}
}

void gauge_test_rest(struct gauge *g, const struct known *loops, unsigned int count,
		     struct workspace *room)
{
	for (; !*g->refused && g->tested < count; g->tested++)
		g->tests[g->tested] = test(g, &loops[g->tested], room);
}
