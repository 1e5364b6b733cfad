// SPDX-License-Identifier: GPL-2.0-or-later
#include "arch.h"
#include "records.h"

#include <asm/cpufeature.h>
#include <asm/cpuid.h>
#include <asm/msr.h>
#include <asm/processor-flags.h>
#include <asm/special_insns.h>
#include <asm/tsc.h>
#include <linux/perf_event.h>
#include <linux/smp.h>
#include <linux/string.h>

const char arch_isa[] = "x86_64";
const char arch_timer_name[] = "tsc-calibrated";

bool arch_emulated(void)
{
	u32 highest, name[3];

	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR))
		return false;
	cpuid(0x40000000, &highest, &name[0], &name[1], &name[2]);
	return !memcmp(name, "TCGTCGTCGTCG", sizeof(name));
}

u64 arch_timer_open(const char **why)
{
	*why = NULL;
	if (!boot_cpu_has(X86_FEATURE_CONSTANT_TSC) || !boot_cpu_has(X86_FEATURE_NONSTOP_TSC))
		*why = "this CPU does not promise a TSC of constant rate";
	else if (check_tsc_unstable())
		*why = "the kernel found the TSC unstable";
	else if (!tsc_khz)
		*why = "the kernel could not find out how fast the TSC ticks";
	return *why ? 0 : (u64)tsc_khz * 1000;
}

u64 arch_timer_read(void)
{
	u32 low, high;

	asm volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
	return (u64)high << 32 | low;
}

u64 arch_pmu_read(const struct perf_event *event)
{
	u32 low, high;

	asm volatile("lfence\n\trdpmc\n\tlfence"
		     : "=a"(low), "=d"(high)
		     : "c"(event->hw.event_base_rdpmc)
		     : "memory");
	return (u64)high << 32 | low;
}

bool arch_pmu_readable(const struct perf_event *event)
{
	return event->hw.idx >= 0;
}

/* The callers in assembly, and the routines, have stac and clac. */
void arch_access_begin(void)
{
}

void arch_access_end(void)
{
}

const char *arch_state_wrong(const struct variant *variant, const struct call *call)
{
	bool open = call->flags & X86_EFLAGS_AC;

	if (call->flags & X86_EFLAGS_DF)
		return "the direction flag is left set";
	if (variant->gate != GATE_CALLER && open)
		return "the AC flag is left set: access to user memory stays open";
	if (variant->gate == GATE_CALLER && !open && boot_cpu_has(X86_FEATURE_SMAP))
		return "the AC flag is cleared: access to user memory is the caller's to close";
	return NULL;
}

void arch_describe(void)
{
	record_bool("smap", boot_cpu_has(X86_FEATURE_SMAP) && __read_cr4() & X86_CR4_SMAP);
	record_bool("erms", boot_cpu_has(X86_FEATURE_ERMS));
	record_bool("fsrm", boot_cpu_has(X86_FEATURE_FSRM));
	record_bool("page_table_isolation", boot_cpu_has(X86_FEATURE_PTI));
	record_bool("return_thunk", boot_cpu_has(X86_FEATURE_RETHUNK));
}
