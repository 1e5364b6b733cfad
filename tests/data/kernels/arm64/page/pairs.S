#include <linux/linkage.h>

SYM_FUNC_START(test_clear_page)
1:	stnp	xzr, xzr, [x0]
	stnp	xzr, xzr, [x0, #16]
	stnp	xzr, xzr, [x0, #32]
	stnp	xzr, xzr, [x0, #48]
	add	x0, x0, #64
	tst	x0, #4095
	b.ne	1b
	ret
SYM_FUNC_END(test_clear_page)
