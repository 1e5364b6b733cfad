/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory between inaccessible pages. */
#ifndef HARNESS_ARENA_H
#define HARNESS_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena {
	uint8_t *start; /* page aligned; from here size bytes are accessible */
	size_t size;
	size_t behind; /* inaccessible bytes behind it; ARENA_GUARD before it */
};

#define ARENA_GUARD 65536

/*
 * Map size bytes (whole pages of 64 KiB at most), followed by `behind` or ARENA_GUARD inaccessible
 * ones; exits with a message if memory is short. A round arena ends at a multiple of 4 GiB, if
 * there is room: the lower 32 bits of the address after it are zero.
 */
struct arena arena_open(size_t size);
struct arena arena_open_round(size_t size, size_t behind);
void arena_close(struct arena *arena);

/* True if an address is in the arena or its guards. */
bool arena_holds(const struct arena *arena, uintptr_t address);

/*
 * Map code executable, offset bytes after a 64-byte boundary, among bytes that trap. Returns its
 * address; the caller closes the arena.
 */
uint8_t *arena_code(struct arena *arena, const uint8_t *code, size_t size, size_t offset);

#endif
