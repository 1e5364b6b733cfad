// SPDX-License-Identifier: GPL-2.0-or-later
#include "facts.h"

#include "common/protocol.h"
#include "json.h"
#include "machine.h"
#include "pin.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST 8192 /* characters of a file: the CPU flags of /proc/cpuinfo are the longest */
#define MACHINE_ID "/etc/machine-id"

/* FNV-1a, 64 bits: distinguishes machines without revealing its inputs. */
static uint64_t hash(uint64_t so_far, const char *text)
{
	for (; *text; text++)
		so_far = (so_far ^ (unsigned char)*text) * 0x100000001b3;
	return so_far;
}

struct identity {
	uint64_t hash;
	bool print;
};

static void add(void *data, const char *key, const char *value)
{
	struct identity *identity = data;

	identity->hash = hash(hash(identity->hash, key), value);
	if (identity->print)
		json_string(key, value);
}

static uint64_t identify(bool print)
{
	struct identity identity = {0xcbf29ce484222325, print};
	char id[64] = "";

	facts_file(MACHINE_ID, id, sizeof(id));
	identity.hash = hash(identity.hash, id);
	machine_identify(add, &identity);
	return identity.hash;
}

uint64_t facts_identity(void)
{
	return identify(false);
}

void facts_fingerprint(char text[FACTS_FINGERPRINT])
{
	snprintf(text, FACTS_FINGERPRINT, "%016llx", (unsigned long long)facts_identity());
}

int facts_file(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "r");
	size_t got;
	char *end;

	*text = 0;
	if (!file)
		return -1;
	got = fread(text, 1, size - 1, file);
	text[got] = 0;
	fclose(file);
	end = strstr(text, "\n\n");
	if (end)
		*end = 0;
	got = strlen(text);
	while (got && text[got - 1] == '\n')
		text[--got] = 0;
	return 0;
}

/* Put the number of a CPU in the place of "cpuN". */
static void of_cpu(const char *path, int cpu, char *into, size_t size)
{
	const char *at = strstr(path, "cpuN");

	if (!at)
		snprintf(into, size, "%s", path);
	else
		snprintf(into, size, "%.*scpu%d%s", (int)(at - path), path, cpu, at + 4);
}

void facts_print(const struct job *job)
{
	int cpu = pin_choice();
	char text[MOST], path[256];

	json_string("isa", machine_isa);
	json_integer("protocol", PROTOCOL);
	json_integer("time", time(NULL));
	json_integer("cpu", cpu);
	json_object_open("identity");
	identify(true);
	json_object_close();
	facts_fingerprint(text);
	json_string("fingerprint", text);
	json_object_open("files");
	for (size_t i = 0; i < job->nfiles; i++) {
		of_cpu(job->files[i], cpu, path, sizeof(path));
		if (!facts_file(path, text, sizeof(text)))
			json_string(path, text);
	}
	json_object_close();
}
