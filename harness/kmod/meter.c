// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's part of the protocol in common/: samples with interrupts off, each with its own
 * calibrations, because other tasks may run between samples.
 */
#include "meter.h"

#include "arch.h"
#include "chain_calls.h"
#include "records.h"

#include <linux/delay.h>
#include <linux/err.h>
#include <linux/gcd.h>
#include <linux/irqflags.h>
#include <linux/minmax.h>
#include <linux/nmi.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/string.h>

#define TRIES 3		      /* of which the quickest counts */
#define LONGEST_BURST 1000000 /* ns; three of them run with interrupts off */
#define LONGEST_OFF 20000000  /* ns: a burst that takes as long has a counter that lags behind */
#define LONG_PAUSE 20000      /* us: longer ones are for a timer of the scheduler */
#define SLACK 500	      /* us */

static u64 now(const struct meter *meter)
{
	return meter->event ? arch_pmu_read(meter->event) : arch_timer_read();
}

/* A burst is short of 2^32 of any unit, and counters of a PMU are at least as wide. */
static u64 burst(const struct meter *meter, const struct code *code, u64 times)
{
	u64 from = now(meter), took;

	code->run(code->call, times);
	took = (u32)(now(meter) - from);
	return took > meter->overhead ? took - meter->overhead : 1;
}

/*
 * Interrupts are off. Nobody may have moved this thread, which CPU hotplug does, or the event: the
 * counter of another CPU may not even be there to read.
 */
static bool undisturbed(const struct meter *meter)
{
	if (smp_processor_id() != meter->run->cpu)
		return false;
	return !meter->event ||
	       (meter->event->state == PERF_EVENT_STATE_ACTIVE && arch_pmu_readable(meter->event));
}

static bool asked_to_stop(const struct meter *meter)
{
	return meter->stalled || run_ends(meter->run);
}

/*
 * The repetitions of a burst are found by doubling them until the counter shows enough. It may
 * count much less than the time that passes: the scheduler's clock is read as well.
 */
static u64 quickest(void *data, const struct code *code, u64 times)
{
	struct meter *meter = data;
	u64 best = U64_MAX, shortest = U64_MAX, began;
	unsigned long flags;

	for (int i = 0; i < TRIES && !asked_to_stop(meter); i++) {
		local_irq_save(flags);
		if (undisturbed(meter)) {
			began = local_clock();
			arch_access_begin();
			best = min(best, burst(meter, code, times));
			arch_access_end();
			shortest = min(shortest, local_clock() - began);
		}
		local_irq_restore(flags);
		touch_nmi_watchdog();
	}
	/* One may be long for a guest that had to wait; all of them are where the counter lags. */
	meter->stalled |= shortest != U64_MAX && shortest > LONGEST_OFF;
	return best == U64_MAX || meter->stalled ? 0 : best;
}

static void warm_up(void *data, const struct code *code, u64 times, unsigned int ns)
{
	const struct meter *meter = data;

	for (u64 spent = 0; spent < ns; spent += TRIES * meter->gauge.burst_ns)
		quickest(data, code, times);
}

static bool pause_for(void *data, unsigned int us)
{
	if (us > LONG_PAUSE)
		msleep_interruptible(us / 1000);
	else
		usleep_range(us, us + SLACK);
	return !asked_to_stop(data);
}

static u64 calibrate(const struct meter *meter, u64 iterations)
{
	return meter->event ? iterations * CHAIN_LENGTH
			    : burst(meter, meter->gauge.calibrator, iterations);
}

static u64 sing(const struct meter *meter, const struct canary *canary)
{
	return canary->cycles ? burst(meter, canary->code, canary->times) : 0;
}

static bool take(void *data, const struct plan *plan, bool first, struct sample *s)
{
	const struct meter *meter = data;
	const struct code *code = plan->target[0];
	unsigned long flags;

	local_irq_save(flags);
	s->disturbed = !undisturbed(meter);
	if (!s->disturbed) {
		s->before = calibrate(meter, plan->calibrations);
		s->canary[0] = sing(meter, &meter->gauge.canary[0]);
		arch_access_begin();
		s->target[0] = burst(meter, code, plan->times);
		arch_access_end();
		s->canary[1] = sing(meter, &meter->gauge.canary[1]);
		s->behind = calibrate(meter, plan->calibrations);
		s->disturbed = !undisturbed(meter);
	}
	local_irq_restore(flags);
	if (code->whole && !code->whole(meter->run, code->call))
		s->disturbed = true;
	touch_nmi_watchdog();
	cond_resched();
	return !asked_to_stop(meter);
}

void meter_read(struct meter *meter, const struct code *code, struct workspace *room)
{
	struct gauge *g = &meter->gauge;
	struct plan plan = {.gauge = g, .target = {code}, .targets = 1, .most = SERIES_HOT};
	unsigned int longest = LONGEST_BURST / max(1u, g->burst_ns);

	memset(&room->reading, 0, sizeof(room->reading));
	if (*g->refused)
		strscpy(room->reading.refused, g->refused, sizeof(room->reading.refused));
	else if (gauge_plan(&plan, U64_MAX, longest, &room->reading)) {
		gauge_begin(&plan, &room->series);
		gauge_read(&plan, meter->run->selection.samples, &room->series, &room->reading);
	}
}

/* Find the smallest step of the clock and the cost of reading it. */
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
	meter->gauge.granularity = meter->event ? 1 : max(1ull, step);
	meter->overhead = empty;
}

/* Open the PMU's cycle counter; NULL with the reason in why if it does not count here. */
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
	if (event->state == PERF_EVENT_STATE_ACTIVE && smp_processor_id() == cpu &&
	    arch_pmu_readable(event)) {
		from = arch_pmu_read(event);
		call_chain_add(NULL, 100);
		to = arch_pmu_read(event);
	}
	local_irq_restore(flags);
	if (from != to)
		return event;
	*why = "perf-rdpmc: the cycle counter opens but does not count in the kernel";
	perf_event_release_kernel(event);
	return NULL;
}

/* Find a clock; without one, the gauge has the reason. */
static bool find_clock(struct meter *meter)
{
	struct gauge *g = &meter->gauge;
	const char *why = NULL;

	if (arch_emulated()) {
		strscpy(g->refused, "emulated: no timing", sizeof(g->refused));
		return false;
	}
	meter->event = open_event(meter->run->cpu, &why);
	if (meter->event) {
		meter->clock = "perf-rdpmc";
		return true;
	}
	meter->passed_over = why;
	meter->clock = arch_timer_name;
	g->hz = arch_timer_open(&why);
	if (!g->hz)
		strscpy(g->refused, why, sizeof(g->refused));
	return g->hz;
}

void meter_open(struct meter *meter, const struct run *run, struct workspace *room)
{
	memset(meter, 0, sizeof(*meter));
	meter->run = run;
	meter->clock = "";
	meter->passed_over = "";
	meter->environment = (struct environment){quickest, take, warm_up, pause_for, 1, meter};
	meter->gauge.environment = &meter->environment;
	meter->gauge.calibrator = &chain_calls_calibrator;
	if (!find_clock(meter))
		return;
	probe(meter);
	gauge_open(&meter->gauge, chain_calls_known, room);
}

void meter_close(struct meter *meter)
{
	if (meter->event)
		perf_event_release_kernel(meter->event);
}
