// SPDX-License-Identifier: GPL-2.0-or-later
/* MIDR_EL1, which identifies the core. */
#include "../machine.h"

#include <sys/auxv.h>

#ifndef HWCAP_CPUID
#define HWCAP_CPUID (1 << 11)
#endif

void machine_identify(void (*say)(void *, const char *, const char *), void *data)
{
	char value[32];
	uint64_t midr;

	/* The kernel emulates reads of this register for user space, where it announces that. */
	if (!(getauxval(AT_HWCAP) & HWCAP_CPUID))
		return;
	__asm__ volatile("mrs %0, midr_el1" : "=r"(midr));
	snprintf(value, sizeof(value), "%08llx", (unsigned long long)midr);
	say(data, "midr_el1", value);
}
