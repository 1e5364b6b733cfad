#include <linux/linkage.h>

SYM_FUNC_START(test_copy_page)
	movl $512, %ecx
	rep movsq
	RET
SYM_FUNC_END(test_copy_page)
