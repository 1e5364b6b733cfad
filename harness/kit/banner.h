/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef HARNESS_KIT_BANNER_H
#define HARNESS_KIT_BANNER_H

/* Describe on standard error the machine, and its settings that affect figures. */
void banner_print(const char *clock, const char *passed_over);

#endif
