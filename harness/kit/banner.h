/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef HARNESS_KIT_BANNER_H
#define HARNESS_KIT_BANNER_H

/* Say on standard error what machine this is and what bears on its figures. */
void banner_print(const char *clock, const char *passed_over);

#endif
