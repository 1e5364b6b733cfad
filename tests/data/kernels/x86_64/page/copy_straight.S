#include <linux/linkage.h>

SYM_FUNC_START(test_copy_line)
	movq (%rsi), %rax
	movq %rax, (%rdi)
	movq 8(%rsi), %rax
	movq %rax, 8(%rdi)
	movq 16(%rsi), %rax
	movq %rax, 16(%rdi)
	movq 24(%rsi), %rax
	movq %rax, 24(%rdi)
	RET
SYM_FUNC_END(test_copy_line)
