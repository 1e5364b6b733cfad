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

/* clang-format off */
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
/* clang-format on */

#else

#include <linux/stringify.h>

/* clang-format off */
#define ALTERNATIVE(oldinstr, newinstr, feature) \
	"\t.if " __stringify(feature) "\n" \
	"771: " newinstr "\n" \
	"772:\n" \
	"\t.subsection 1\n" \
	"773: " oldinstr "\n" \
	"774:\n" \
	"\t.previous\n" \
	"\t.else\n" \
	"771: " oldinstr "\n" \
	"772:\n" \
	"\t.pushsection .discard.alternative, \"e\"\n" \
	"773: " newinstr "\n" \
	"774:\n" \
	"\t.popsection\n" \
	"\t.endif\n" \
	"\t.nops -(((774b - 773b) - (772b - 771b)) > 0) * ((774b - 773b) - (772b - 771b))\n"
/* clang-format on */

#define alternative(oldinstr, newinstr, feature)                                                   \
	asm volatile(ALTERNATIVE(oldinstr, newinstr, feature) : : : "memory")

#endif

#endif
