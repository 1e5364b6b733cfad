/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef HARNESS_PROTOCOL_H
#define HARNESS_PROTOCOL_H

/*
 * How cycles are measured: a figure of one protocol is not continued with another's. Count it up
 * with every change of bursts, acceptance or placement that can move a result.
 */
#define PROTOCOL 8

#endif
