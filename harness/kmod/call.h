/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Offsets of struct call, for callers in assembly; call.c holds them to the struct. */
#ifndef LOOPWRIGHT_CALL_H
#define LOOPWRIGHT_CALL_H

#define CALL_DST 0
#define CALL_SRC 8
#define CALL_COUNT 16
#define CALL_SUM 24
#define CALL_RESULT 32
#define CALL_FLAGS 40

#endif
