#include <linux/linkage.h>

SYM_FUNC_START(test_copy_page)
	movl $64, %ecx
.Llines:
	movq (%rsi), %rax
	movq 8(%rsi), %rdx
	movq 16(%rsi), %r8
	movq 24(%rsi), %r9
	movq %rax, (%rdi)
	movq %rdx, 8(%rdi)
	movq %r8, 16(%rdi)
	movq %r9, 24(%rdi)
	movq 32(%rsi), %rax
	movq 40(%rsi), %rdx
	movq 48(%rsi), %r8
	movq 56(%rsi), %r9
	movq %rax, 32(%rdi)
	movq %rdx, 40(%rdi)
	movq %r8, 48(%rdi)
	movq %r9, 56(%rdi)
	addq $64, %rsi
	addq $64, %rdi
	decl %ecx
	jnz .Llines
	RET
SYM_FUNC_END(test_copy_page)
