// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The protocol of the harness (../meter.c) in integers, with interrupts off around each sample.
 * Between samples they are on again, so that each sample has two calibrations of its own.
 */
#include "meter.h"

#include "arch.h"
#include "chain_calls.h"
#include "records.h"
#include "self_test.h"
#include "series.h"

#include <linux/delay.h>
#include <linux/err.h>
#include <linux/gcd.h>
#include <linux/irqflags.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/nmi.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/time64.h>

#define ATTEMPTS 6
#define PERIOD_NS 32000	      /* bursts are whole periods of a spread-spectrum clock */
#define STEPS_A_BURST 5000    /* least: a step of the timer is at most 0.02 % of a burst */
#define LONGEST_BURST 1000000 /* ns; three of them run with interrupts off */
#define WARM_UP 1000000	      /* ns */
#define MILLION 1000000ull

static u64 now(const struct meter *meter)
{
	return meter->event ? arch_pmu_read(meter->event) : arch_timer_read();
}

/* A burst is short of 2^32 of any unit, and counters of a PMU are at least as wide. */
static u64 burst(const struct meter *meter, caller code, struct call *call, u64 times)
{
	u64 from = now(meter), took;

	code(call, times);
	took = (u32)(now(meter) - from);
	return took > meter->overhead ? took - meter->overhead : 1;
}

static u64 calibrate(const struct meter *meter, u64 chains)
{
	return meter->event ? chains * CHAIN_LENGTH : burst(meter, call_chain_add, NULL, chains);
}

/* Interrupts are off; nobody may have moved this thread, which CPU hotplug does, or the event. */
static bool undisturbed(const struct meter *meter)
{
	if (smp_processor_id() != meter->cpu)
		return false;
	return !meter->event ||
	       (meter->event->state == PERF_EVENT_STATE_ACTIVE && arch_pmu_readable(meter->event));
}

static u64 quickest(const struct meter *meter, caller code, struct call *call, u64 times)
{
	u64 best = U64_MAX;
	unsigned long flags;

	for (int i = 0; i < 3; i++) {
		local_irq_save(flags);
		arch_access_begin();
		best = min(best, burst(meter, code, call, times));
		arch_access_end();
		local_irq_restore(flags);
	}
	return best;
}

/* Repetitions that fill so many ticks; at least one. */
static u64 times_for(const struct meter *meter, caller code, struct call *call, u64 ticks)
{
	u64 times = 1, took;

	while ((took = quickest(meter, code, call, times)) < ticks / 8)
		times *= 2;
	return max(1ull, div64_u64(times * ticks + took / 2, took));
}

static void warm_up(const struct meter *meter, caller code, struct call *call, u64 times)
{
	for (u64 spent = 0; spent < WARM_UP; spent += meter->burst_ns)
		quickest(meter, code, call, times);
}

static bool sample(const struct meter *meter, const struct run *run, caller code, struct call *call,
		   bool (*whole)(const struct run *, const struct call *), u64 times, u64 chains,
		   struct series *s)
{
	for (unsigned int i = 0; i < run->selection.samples; i++) {
		unsigned long flags;

		local_irq_save(flags);
		s->disturbed[i] = !undisturbed(meter);
		s->before[i] = calibrate(meter, chains);
		arch_access_begin();
		s->target[i] = burst(meter, code, call, times);
		arch_access_end();
		s->behind[i] = calibrate(meter, chains);
		s->disturbed[i] |= !undisturbed(meter);
		local_irq_restore(flags);
		if (whole && !whole(run, call))
			s->disturbed[i] = true;
		touch_nmi_watchdog();
		cond_resched();
		if (READ_ONCE(run->stop))
			return false;
	}
	return true;
}

void meter_read(const struct meter *meter, const struct run *run, caller code, struct call *call,
		bool (*whole)(const struct run *run, const struct call *call),
		struct reading *reading)
{
	u64 times, once, bursts;
	struct series *s;

	memset(reading, 0, sizeof(*reading));
	if (*meter->refused) {
		strscpy(reading->refused, meter->refused, sizeof(reading->refused));
		return;
	}
	s = kvzalloc(sizeof(*s), GFP_KERNEL);
	if (!s) {
		strscpy(reading->refused, "no memory", sizeof(reading->refused));
		return;
	}
	times = times_for(meter, code, call, meter->burst);
	/* One repetition may be longer than a burst: calibrate as long. */
	once = quickest(meter, code, call, times);
	bursts = max(1ull, div64_u64(once + meter->burst / 2, meter->burst));
	if (bursts * meter->burst_ns > LONGEST_BURST)
		strscpy(reading->refused, "a call takes too long with interrupts off",
			sizeof(reading->refused));
	while (bursts * meter->burst_ns <= LONGEST_BURST && reading->attempts < ATTEMPTS) {
		reading->attempts++;
		warm_up(meter, code, call, times);
		if (!sample(meter, run, code, call, whole, times, bursts * meter->chains, s)) {
			strscpy(reading->refused, "interrupted", sizeof(reading->refused));
			break;
		}
		s->repetitions = times;
		s->known = bursts * meter->chains * CHAIN_LENGTH;
		s->count = run->selection.samples;
		if (series_judge(s, meter->hz, reading))
			break;
	}
	kvfree(s);
}

/* Find the smallest step of the clock and what reading it takes. */
static void probe(struct meter *meter)
{
	u64 step = 0, empty = U64_MAX, last;
	unsigned long flags;

	local_irq_save(flags);
	last = now(meter);
	for (int i = 0; i < 500; i++) {
		u64 from = now(meter), to = now(meter);

		empty = min(empty, (u64)(u32)(to - from));
		step = gcd(step, (u32)(from - last));
		last = from;
	}
	local_irq_restore(flags);
	meter->granularity = meter->event ? 1 : max(1ull, step);
	meter->overhead = empty;
}

static void size_bursts(struct meter *meter)
{
	u64 periods = 1;

	if (meter->event) {
		/* The PMU's unit is the cycle: what the chain takes says how long a burst is. */
		meter->burst = MILLION / 10;
		meter->burst_ns = PERIOD_NS;
	} else {
		u64 period = div64_u64(meter->hz * PERIOD_NS, NSEC_PER_SEC);

		periods = DIV64_U64_ROUND_UP(meter->granularity * STEPS_A_BURST, max(1ull, period));
		periods = max(1ull, periods);
		meter->burst_ns = periods * PERIOD_NS;
		meter->burst = div64_u64(meter->hz * meter->burst_ns, NSEC_PER_SEC);
	}
	if (meter->burst_ns > LONGEST_BURST)
		snprintf(meter->refused, sizeof(meter->refused),
			 "the steps of %s are too long: a burst would take %llu us", meter->clock,
			 div64_u64(meter->burst_ns, 1000));
	else
		meter->chains = times_for(meter, call_chain_add, NULL, meter->burst);
}

/* Open the PMU's cycle counter; NULL and why where it does not count here. */
static struct perf_event *open_event(unsigned int cpu, const char **why)
{
	struct perf_event_attr attr = {
	    .type = PERF_TYPE_HARDWARE,
	    .config = PERF_COUNT_HW_CPU_CYCLES,
	    .size = sizeof(attr),
	    .pinned = 1,
	};
	struct perf_event *event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
	unsigned long flags;
	u64 from = 0, to = 0;

	if (IS_ERR(event)) {
		*why = "perf-rdpmc: this CPU has no PMU, or none that is free";
		return NULL;
	}
	local_irq_save(flags);
	if (event->state == PERF_EVENT_STATE_ACTIVE && arch_pmu_readable(event)) {
		from = arch_pmu_read(event);
		call_chain_add(NULL, 100);
		to = arch_pmu_read(event);
	}
	local_irq_restore(flags);
	if (from != to)
		return event;
	*why = "perf-rdpmc: the cycle counter opens but does not count";
	perf_event_release_kernel(event);
	return NULL;
}

void meter_open(struct meter *meter, const struct run *run)
{
	const char *why = NULL;

	memset(meter, 0, sizeof(*meter));
	meter->cpu = run->cpu;
	meter->clock = "";
	meter->passed_over = "";
	if (arch_emulated()) {
		strscpy(meter->refused, "emulated: no timing", sizeof(meter->refused));
		return;
	}
	meter->event = open_event(run->cpu, &why);
	if (meter->event) {
		meter->clock = "perf-rdpmc";
	} else {
		meter->passed_over = why;
		meter->clock = arch_timer_name;
		meter->hz = arch_timer_open(&why);
		if (!meter->hz) {
			strscpy(meter->refused, why, sizeof(meter->refused));
			return;
		}
	}
	probe(meter);
	size_bursts(meter);
	if (!*meter->refused)
		self_test(meter, run);
}

void meter_close(struct meter *meter)
{
	if (meter->event)
		perf_event_release_kernel(meter->event);
}

void meter_describe(const struct meter *meter)
{
	record_string("clock", meter->clock);
	record_integer("ticks_a_second", meter->hz);
	record_integer("granularity_ticks", meter->granularity);
	record_integer("burst_us", div64_u64(meter->burst_ns, 1000));
	record_string("passed_over", meter->passed_over);
	record_string("refused", meter->refused);
	self_test_describe(meter);
}
