// SPDX-License-Identifier: GPL-2.0-or-later
#include "arch.h"
#include "records.h"

#include <asm/barrier.h>
#include <asm/cpufeature.h>
#include <asm/cputype.h>
#include <asm/hypervisor.h>
#include <asm/sysreg.h>
#include <asm/uaccess.h>
#include <linux/arm-smccc.h>
#include <linux/of.h>
#include <linux/perf_event.h>

#define PAN_STATE sys_reg(3, 0, 4, 2, 3)
#define CYCLE_COUNTER BIT(31) /* of the enabled counters */
#define FILTER 0xff000000ull  /* of PMCCFILTR_EL0: the levels at which it counts */

const char arch_isa[] = "arm64";
const char arch_timer_name[] = "cntvct-calibrated";

/* QEMU's board without the services that KVM offers its guests. */
bool arch_emulated(void)
{
	return of_machine_is_compatible("linux,dummy-virt") &&
	       !kvm_arm_hyp_service_available(ARM_SMCCC_KVM_FUNC_FEATURES);
}

u64 arch_timer_open(const char **why)
{
	u64 hz = read_sysreg(cntfrq_el0);

	*why = hz ? NULL : "the firmware does not say how fast the generic timer ticks";
	return hz;
}

u64 arch_timer_read(void)
{
	u64 count;

	isb();
	count = read_sysreg(cntvct_el0);
	isb();
	return count;
}

u64 arch_pmu_read(const struct perf_event *event)
{
	u64 count;

	isb();
	count = read_sysreg(pmccntr_el0);
	isb();
	return count;
}

/*
 * The event may have another counter, and another event the cycle counter: that one counts the same
 * if it counts at the same exception levels.
 */
bool arch_pmu_readable(const struct perf_event *event)
{
	u64 apart = read_sysreg(pmccfiltr_el0) ^ event->hw.config_base;

	return event->hw.idx >= 0 && read_sysreg(pmcntenset_el0) & CYCLE_COUNTER &&
	       !(apart & FILTER);
}

/* Without PAN the kernel may remove user memory from the translation tables instead. */
void arch_access_begin(void)
{
	uaccess_ttbr0_enable();
}

void arch_access_end(void)
{
	uaccess_ttbr0_disable();
}

const char *arch_state_wrong(const struct variant *variant, const struct call *call)
{
	if (!system_uses_hw_pan() || read_sysreg_s(PAN_STATE))
		return NULL;
	asm volatile(SET_PSTATE_PAN(1));
	return "PAN is left clear: access to user memory stays open";
}

void arch_describe(void)
{
	record_bool("pan", system_uses_hw_pan() && read_sysreg_s(PAN_STATE));
	record_bool("ttbr0_pan", system_uses_ttbr0_pan());
	record_integer("midr", read_cpuid_id());
}
