#include <linux/linkage.h>

SYM_FUNC_START(test_clear_page)
	mrs	x1, dczid_el0
	and	w1, w1, #0xf
	mov	x2, #4
	lsl	x1, x2, x1
1:	dc	zva, x0
	add	x0, x0, x1
	tst	x0, #4095
	b.ne	1b
	ret
SYM_FUNC_END(test_clear_page)
