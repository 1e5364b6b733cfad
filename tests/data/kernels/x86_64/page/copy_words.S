#include <linux/linkage.h>

SYM_FUNC_START(test_copy_page)
	movl $512, %ecx
1:
	movq (%rsi), %rax
	movq %rax, (%rdi)
	addq $8, %rsi
	addq $8, %rdi
	decl %ecx
	jnz 1b
	RET
SYM_FUNC_END(test_copy_page)
