/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Print JSON objects, one a line. */
#ifndef HARNESS_JSON_H
#define HARNESS_JSON_H

#include <stdint.h>

void json_open(void);
void json_close(void);
void json_string(const char *key, const char *value);
void json_integer(const char *key, int64_t value);
void json_number(const char *key, double value);
/* A number that is given in millionths. */
void json_millionths(const char *key, uint64_t value);
void json_null(const char *key);
/* An object that is a member of the open one, or an item of the open array. */
void json_object_open(const char *key);
void json_item_open(void);
void json_object_close(void);
void json_array_open(const char *key);
void json_item_array_open(void);
void json_array_close(void);
void json_item_integer(int64_t value);
void json_item_millionths(uint64_t value);

#endif
