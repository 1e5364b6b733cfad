/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_ALTERNATIVE_H
#define LW_ASM_ALTERNATIVE_H

/*
 * The kernel assembles the old instruction, pads it to the length of the new one and patches the
 * new one over it at boot. Here the choice falls at assembly time; the site is as long and holds
 * the same bytes as after the patching.
 *
 * The instruction that is not chosen is assembled elsewhere, for its length alone: an old one
 * behind the function, where its jumps are relaxed like those in place, a new one in a section
 * of its own, where they are not, as in .altinstr_replacement. Neither is part of the function.
 */
#ifdef __ASSEMBLY__

.macro ALTERNATIVE oldinstr, newinstr, feature
	.if \feature
771:	\newinstr
772:
	.subsection 1
773:	\oldinstr
774:
	.previous
	.else
771:	\oldinstr
772:
	.pushsection .discard.alternative, "e"
773:	\newinstr
774:
	.popsection
	.endif
	.nops -(((774b - 773b) - (772b - 771b)) > 0) * ((774b - 773b) - (772b - 771b))
.endm

#else

#include <linux/stringify.h>

#define ALTERNATIVE(oldinstr, newinstr, feature)                                                   \
	"	.if " __stringify(feature) "\n"                                                    \
	"771:	" newinstr "\n"                                                                    \
	"772:\n"                                                                                   \
	"	.subsection 1\n"                                                                   \
	"773:	" oldinstr "\n"                                                                    \
	"774:\n"                                                                                   \
	"	.previous\n"                                                                       \
	"	.else\n"                                                                           \
	"771:	" oldinstr "\n"                                                                    \
	"772:\n"                                                                                   \
	"	.pushsection .discard.alternative, \"e\"\n"                                        \
	"773:	" newinstr "\n"                                                                    \
	"774:\n"                                                                                   \
	"	.popsection\n"                                                                     \
	"	.endif\n"                                                                          \
	"	.nops -(((774b - 773b) - (772b - 771b)) > 0) * ((774b - 773b) - (772b - 771b))\n"

#define alternative(oldinstr, newinstr, feature)                                                   \
	asm volatile(ALTERNATIVE(oldinstr, newinstr, feature) : : : "memory")

#endif

#endif
