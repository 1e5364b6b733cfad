/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef HARNESS_PROTOCOL_H
#define HARNESS_PROTOCOL_H

/*
 * The version of the measurement protocol: a figure of one version is not continued with another's.
 * Increase it with every change of bursts, acceptance or placement that can change a result.
 */
#define PROTOCOL 9

#endif
