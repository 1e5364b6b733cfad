// SPDX-License-Identifier: GPL-2.0-or-later
#include "records.h"

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/slab.h>

#define CAPACITY (1 << 20)

static char *text;
static size_t used, started;
static bool full, first;

int records_init(void)
{
	text = kvmalloc(CAPACITY, GFP_KERNEL);
	return text ? 0 : -ENOMEM;
}

void records_free(void)
{
	kvfree(text);
}

void records_clear(void)
{
	used = 0;
}

static __printf(1, 2) void put(const char *format, ...)
{
	va_list args;
	size_t size;

	va_start(args, format);
	size = vsnprintf(text + used, CAPACITY - used, format, args);
	va_end(args);
	if (used + size >= CAPACITY)
		full = true;
	else
		used += size;
}

static void quote(const char *value)
{
	put("\"");
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			put("\\");
		if (*value >= ' ')
			put("%c", *value);
	}
	put("\"");
}

static void put_key(const char *key)
{
	if (!first)
		put(", ");
	first = false;
	quote(key);
	put(": ");
}

static void put_millionths(u64 value)
{
	u32 rest;
	u64 whole = div_u64_rem(value, 1000000, &rest);

	put("%llu.%06u", whole, rest);
}

void record_open(void)
{
	started = used;
	full = false;
	first = true;
	put("{");
}

void record_string(const char *key, const char *value)
{
	put_key(key);
	quote(value);
}

void record_integer(const char *key, s64 value)
{
	put_key(key);
	put("%lld", value);
}

void record_null(const char *key)
{
	put_key(key);
	put("null");
}

void record_bool(const char *key, bool value)
{
	put_key(key);
	put(value ? "true" : "false");
}

void record_millionths(const char *key, u64 value)
{
	put_key(key);
	put_millionths(value);
}

void record_array(const char *key, const u64 *millionths, unsigned int count)
{
	put_key(key);
	put("[");
	for (unsigned int i = 0; i < count; i++) {
		if (i)
			put(", ");
		put_millionths(millionths[i]);
	}
	put("]");
}

void record_array_open(const char *key)
{
	put_key(key);
	put("[");
	first = true;
}

void record_item_open(void)
{
	put(first ? "{" : ", {");
	first = true;
}

void record_item_close(void)
{
	put("}");
	first = false;
}

void record_array_close(void)
{
	put("]");
	first = false;
}

int record_close(void)
{
	put("}\n");
	if (!full)
		return 0;
	used = started;
	return -ENOSPC;
}

void records_show(struct seq_file *file)
{
	seq_write(file, text, used);
}
