// SPDX-License-Identifier: GPL-2.0-or-later
#include "select.h"

#include "effect.h"
#include "meter.h"

#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>

#define MOST_ALIGN 4095
#define DEFAULT_SAMPLES 64

static const char *const user_names[] = {"dst", "src", "none"};

enum key { KEY_VARIANT, KEY_COUNT, KEY_DST, KEY_SRC, KEY_OFFSET, KEY_USER, KEY_SAMPLES, KEYS };

static const char *const key_names[KEYS] = {
    [KEY_VARIANT] = "variant", [KEY_COUNT] = "count",	[KEY_DST] = "dst_align",
    [KEY_SRC] = "src_align",   [KEY_OFFSET] = "offset", [KEY_USER] = "user",
    [KEY_SAMPLES] = "samples",
};

static struct variant *find(const char *id, unsigned int offset)
{
	for (unsigned int i = 0; i < variants_count; i++)
		if (!strcmp(variants[i]->id, id) && variants[i]->offset == offset)
			return variants[i];
	return NULL;
}

/* Take apart words of key=value; each key once, the values as they are. */
static int take_apart(char *text, const char *values[KEYS])
{
	char *word;

	while ((word = strsep(&text, " "))) {
		char *value = strchr(word, '=');
		int key;

		if (!value || !value[1])
			return -EINVAL;
		*value++ = 0;
		key = match_string(key_names, KEYS, word);
		if (key < 0 || values[key])
			return -EINVAL;
		values[key] = value;
	}
	return 0;
}

/* Only digits: kstrtouint() would accept a sign and a newline. */
static int number(const char *value, unsigned int otherwise, unsigned int *into)
{
	*into = otherwise;
	if (!value)
		return 0;
	return strspn(value, "0123456789") == strlen(value) ? kstrtouint(value, 10, into) : -EINVAL;
}

static int side(const char *value, const struct variant *variant, enum side *into)
{
	int found;

	if (value) {
		found = match_string(user_names, ARRAY_SIZE(user_names), value);
		if (found < 0)
			return -EINVAL;
		*into = found;
	} else {
		*into = SIDE_NONE;
		for (int i = SIDES - 1; i >= 0; i--)
			if (variant->faulting & BIT(i))
				*into = i;
	}
	if (*into == SIDE_NONE)
		return variant->faulting ? -EINVAL : 0;
	return variant->faulting & BIT(*into) ? 0 : -EINVAL;
}

int select_read(char *text, struct selection *selection)
{
	const char *values[KEYS] = {};
	struct selection s = {};
	struct attempt size = {};
	unsigned int offset;

	if (take_apart(text, values) || !values[KEY_VARIANT] || !values[KEY_COUNT])
		return -EINVAL;
	if (number(values[KEY_COUNT], 0, &s.count) || number(values[KEY_DST], 0, &s.dst_align) ||
	    number(values[KEY_SRC], 0, &s.src_align) || number(values[KEY_OFFSET], 0, &offset) ||
	    number(values[KEY_SAMPLES], DEFAULT_SAMPLES, &s.samples))
		return -EINVAL;
	s.variant = find(values[KEY_VARIANT], offset);
	if (!s.variant || (!s.variant->counted && s.count != 1) ||
	    side(values[KEY_USER], s.variant, &s.user))
		return -EINVAL;
	if (s.dst_align > MOST_ALIGN || s.src_align > MOST_ALIGN || s.count > AREA_BYTES ||
	    s.samples < LEAST_SAMPLES || s.samples > MOST_SAMPLES)
		return -EINVAL;
	size.variant = s.variant;
	size.count = s.count;
	effect_size(&size);
	if (size.bytes[SIDE_DST] > AREA_BYTES || size.bytes[SIDE_SRC] > AREA_BYTES)
		return -EINVAL;
	if (!s.variant->runs())
		return -EOPNOTSUPP;
	*selection = s;
	return 0;
}

int select_print(const struct selection *s, char *text, size_t size)
{
	if (!s->variant)
		return scnprintf(text, size, "\n");
	return scnprintf(text, size,
			 "variant=%s count=%u dst_align=%u src_align=%u offset=%u user=%s "
			 "samples=%u\n",
			 s->variant->id, s->count, s->dst_align, s->src_align, s->variant->offset,
			 user_names[s->user], s->samples);
}
