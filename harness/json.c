// SPDX-License-Identifier: GPL-2.0-or-later
#include "json.h"

#include <math.h>
#include <stdio.h>

static const char *separator = "";

static void next(void)
{
	fputs(separator, stdout);
	separator = ", ";
}

static void quote(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c == '\n' || c == '\t')
			fputs(c == '\n' ? "\\n" : "\\t", stdout);
		else if (c >= ' ' && c < 127)
			putchar(c);
		else
			printf("\\u%04x", c);
	}
	putchar('"');
}

static void put_key(const char *key)
{
	next();
	quote(key);
	fputs(": ", stdout);
}

void json_open(void)
{
	separator = "";
	putchar('{');
}

void json_close(void)
{
	puts("}");
	fflush(stdout);
}

void json_string(const char *key, const char *value)
{
	put_key(key);
	quote(value);
}

void json_integer(const char *key, int64_t value)
{
	put_key(key);
	printf("%lld", (long long)value);
}

void json_number(const char *key, double value)
{
	put_key(key);
	if (isfinite(value))
		printf("%.9g", value);
	else
		fputs("null", stdout);
}

static void put_millionths(uint64_t value)
{
	printf("%llu.%06llu", (unsigned long long)(value / 1000000),
	       (unsigned long long)(value % 1000000));
}

void json_millionths(const char *key, uint64_t value)
{
	put_key(key);
	put_millionths(value);
}

void json_null(const char *key)
{
	put_key(key);
	fputs("null", stdout);
}

void json_object_open(const char *key)
{
	put_key(key);
	putchar('{');
	separator = "";
}

void json_object_close(void)
{
	putchar('}');
	separator = ", ";
}

void json_array_open(const char *key)
{
	put_key(key);
	putchar('[');
	separator = "";
}

void json_array_close(void)
{
	putchar(']');
	separator = ", ";
}

void json_item_array_open(void)
{
	next();
	putchar('[');
	separator = "";
}

void json_item_open(void)
{
	next();
	putchar('{');
	separator = "";
}

void json_item_integer(int64_t value)
{
	next();
	printf("%lld", (long long)value);
}

void json_item_millionths(uint64_t value)
{
	next();
	put_millionths(value);
}
