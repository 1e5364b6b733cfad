// SPDX-License-Identifier: GPL-2.0-or-later
#include "banner.h"

#include "../facts.h"
#include "../pin.h"

#include <stdio.h>
#include <string.h>

#define CPUS "/sys/devices/system/cpu/"
#define UNSEEN "not visible here"

static void line(const char *label, const char *text)
{
	fprintf(stderr, "  %-10s %s\n", label, *text ? text : UNSEEN);
}

/* Show a file; a hint says in words what "1" and "0" are. */
static void file(const char *label, const char *path, const char *one, const char *zero)
{
	char text[256];

	facts_file(path, text, sizeof(text));
	line(label, one && !strcmp(text, "1") ? one : zero && !strcmp(text, "0") ? zero : text);
}

/* The first CPU's value of a key in /proc/cpuinfo. */
static void cpuinfo(const char *info, const char *key, const char *label, char *into, size_t size)
{
	size_t length = strlen(key), used = strlen(into);
	const char *at = info;

	while (at && (strncmp(at, key, length) || (at[length] != '\t' && at[length] != ' ')))
		at = (at = strchr(at, '\n')) ? at + 1 : NULL;
	at = at ? strchr(at, ':') : NULL;
	if (at && used < size)
		snprintf(into + used, size - used, "%s%s%.*s", used ? ", " : "", label,
			 (int)strcspn(at + 1, "\n"), at + 1);
}

static void cpu(void)
{
	static const char *const keys[][2] = {
	    {"model name", ""},		  {"cpu family", "family"},
	    {"model", "model"},		  {"stepping", "stepping"},
	    {"microcode", "microcode"},	  {"CPU implementer", "implementer"},
	    {"CPU part", "part"},	  {"CPU variant", "variant"},
	    {"CPU revision", "revision"},
	};
	char info[8192], text[320] = "";

	facts_file("/proc/cpuinfo", info, sizeof(info));
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		cpuinfo(info, keys[i][0], keys[i][1], text, sizeof(text));
	line("CPU", *text == ' ' ? text + 1 : text);
	line("guest", strstr(info, " hypervisor") ? "yes: its host decides on what is shown here"
						  : "not that it says so");
}

void banner_print(const char *clock, const char *passed_over)
{
	char path[128], text[640];

	cpu();
	file("kernel", "/proc/sys/kernel/osrelease", NULL, NULL);
	file("SMT", CPUS "smt/active", "active: a neighbour may disturb", "not active");
	snprintf(path, sizeof(path), CPUS "cpu%d/cpufreq/scaling_governor", pin_choice());
	file("governor", path, NULL, NULL);
	facts_file(CPUS "intel_pstate/no_turbo", text, sizeof(text));
	if (*text)
		line("boost", *text == '1' ? "off" : "on");
	else
		file("boost", CPUS "cpufreq/boost", "on", "off");
	file("watchdog", "/proc/sys/kernel/nmi_watchdog", "on: it takes a counter", "off");
	facts_file(CPUS "isolated", text, sizeof(text));
	line("isolated", *text ? text : "no CPU");
	snprintf(text, sizeof(text), "%s%s%s%s", *clock ? clock : "none", *passed_over ? " (" : "",
		 passed_over, *passed_over ? ")" : "");
	line("clock", text);
}
