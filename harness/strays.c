// SPDX-License-Identifier: GPL-2.0-or-later
#include "strays.h"

#include "buffers.h"
#include "effect.h"
#include "next_case.h"

static const uint64_t strays[] = {
    STRAY_BORDER - 0x1000,			     /* a page that nobody has */
    STRAY_BORDER - 8,				     /* from there across the border */
    STRAY_BORDER,	   STRAY_BORDER + 0x1234567, /* no address with 48 bits */
    0x0100000000000000,				     /* nor with 57 */
    0x4141414141414141,	   0x7fffffffffffffff,
    0x8000000000000000,	   0xff00000000000000, /* the kernel's half, 57 bits */
    0xffff7ffffffffff8,			       /* the last before it, 48 bits */
    0xffff800000000000,			       /* the kernel's half */
    0xffff888000001000,			       /* memory as x86-64 kernels map it */
    0xffffffff81000000,			       /* their text */
    0xffffffffa0000123,			       /* modules */
    0xfffffffffffff000,
};

static const size_t counts[] = {1, 2, 3, 64};

void strays_run(const struct job *job)
{
	struct buffers buffers = buffers_open(8192, ARENA_GUARD);

	buffers_fill(&buffers, job, 0);
	attempt_use(&buffers);
	for (size_t i = 0; i < sizeof(strays) / sizeof(*strays); i++)
		for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
			if (!effect_is_counted(job) && counts[c] > 1)
				continue;
			next_case_count(counts[c]);
			for (int side = 0; side < SIDES; side++)
				next_case_put(side, buffers.side[side].start,
					      next_case.attempt.bytes[side]);
			/* A valid address outside of our memory: only its value is used. */
			next_case_put(SIDE_DST, (uint8_t *)strays[i], 0);
			next_case.attempt.stray = true;
			next_case_run();
			next_case.attempt.stray = false;
		}
	buffers_check_all(&buffers);
	buffers_close(&buffers);
}
