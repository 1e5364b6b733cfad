#include <linux/linkage.h>

SYM_FUNC_START(test_clear_page)
	xorl %eax, %eax
1:
	movq %rax, (%rdi)
	movq %rax, 8(%rdi)
	movq %rax, 16(%rdi)
	movq %rax, 24(%rdi)
	movq %rax, 32(%rdi)
	movq %rax, 40(%rdi)
	movq %rax, 48(%rdi)
	movq %rax, 56(%rdi)
	addq $64, %rdi
	testl $4095, %edi
	jnz 1b
	RET
SYM_FUNC_END(test_clear_page)
