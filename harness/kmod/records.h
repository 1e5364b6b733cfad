/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The records of a run: lines of JSON in memory, as many as fit. */
#ifndef LOOPWRIGHT_RECORDS_H
#define LOOPWRIGHT_RECORDS_H

#include <linux/seq_file.h>
#include <linux/types.h>

int records_init(void);
void records_free(void);

/* Forget all records. */
void records_clear(void);

void record_open(void);
void record_string(const char *key, const char *value);
void record_integer(const char *key, s64 value);
void record_null(const char *key);
void record_bool(const char *key, bool value);
void record_millionths(const char *key, u64 value);
void record_array(const char *key, const u64 *millionths, unsigned int count);
/* A member that is an array of objects, whose members are put in between. */
void record_array_open(const char *key);
void record_item_open(void);
void record_item_close(void);
void record_array_close(void);

/* End a record; -ENOSPC where it does not fit: then it is left out whole. */
int record_close(void);

void records_show(struct seq_file *file);

#endif
