/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stores to user space, for C. */
#ifndef LW_ASM_UACCESS_H
#define LW_ASM_UACCESS_H

#include <asm/asm.h>
#include <asm/barrier.h>
#include <asm/smap.h>
#include <linux/types.h>

/*
 * The highest user address of a kernel with four-level paging. The kernel writes it into the
 * instruction at boot; a compiler that knew its value could shorten what follows. Volatile keeps
 * it next to the access: loops of the kernel have no register left to keep it in.
 */
static __always_inline unsigned long user_ptr_max(void)
{
	unsigned long max;

	asm volatile("mov %1,%0" : "=r"(max) : "i"(0x7ffffffff000ul));
	return max;
}

/* All stores here are of less than a page, behind which lies a page that nobody can map. */
static __always_inline bool access_ok(const void __user *ptr, size_t size)
{
	(void)size;
	return (__force unsigned long)ptr <= user_ptr_max();
}

static __always_inline bool user_access_begin(const void __user *ptr, size_t size)
{
	if (unlikely(!access_ok(ptr, size)))
		return false;
	stac();
	barrier_nospec();
	return true;
}

#define user_access_end() clac()

/*
 * Copy with a fault on either side; returns how many bytes are left. The file that calls it
 * provides rep_movs_alternative.
 */
static __always_inline unsigned long copy_user_generic(void *to, const void *from,
						       unsigned long len)
{
	stac();
	/* clang-format off */
	asm volatile("1:\n"
		     ALTERNATIVE("rep movsb", "call rep_movs_alternative", ALT_NOT(X86_FEATURE_FSRM))
		     "2:\n"
		     _ASM_EXTABLE_UA(1b, 2b)
		     : "+c"(len), "+D"(to), "+S"(from), ASM_CALL_CONSTRAINT
		     :
		     : "memory", "rax");
	/* clang-format on */
	clac();
	return len;
}

static inline void __user *mask_user_address(const void __user *ptr)
{
	void __user *masked;

	asm("cmp %1,%0\n\t"
	    "cmova %1,%0"
	    : "=r"(masked)
	    : "r"(user_ptr_max()), "0"(ptr));
	return masked;
}

#define masked_user_access_begin(ptr)                                                              \
	({                                                                                         \
		__auto_type masked_ptr = (ptr);                                                    \
		masked_ptr = mask_user_address(masked_ptr);                                        \
		stac();                                                                            \
		masked_ptr;                                                                        \
	})

/* A memory operand larger than any store, so that the compiler assumes nothing of the extent. */
struct put_extent {
	unsigned char bytes[4096];
};
#define PUT_EXTENT(ptr) (*(struct put_extent __user *)(ptr))

/* clang-format off */
#define __put_user_goto(x, ptr, suffix, constraint, label)                                         \
	asm goto("\n"                                                                              \
		 "1:	mov" suffix " %0,%1\n"                                                     \
		 _ASM_EXTABLE_UA(1b, %l2)                                                          \
		 : : constraint(x), "m"(PUT_EXTENT(ptr)) : : label)
/* clang-format on */

extern void __put_user_bad(void);

#define unsafe_put_user(x, ptr, label)                                                             \
	do {                                                                                       \
		__typeof__(*(ptr)) value_pu = (__typeof__(*(ptr)))(x);                             \
		__typeof__(ptr) ptr_pu = (ptr);                                                    \
                                                                                                   \
		switch (sizeof(*(ptr))) {                                                          \
		case 4:                                                                            \
			__put_user_goto(value_pu, ptr_pu, "l", "ir", label);                       \
			break;                                                                     \
		case 8:                                                                            \
			__put_user_goto(value_pu, ptr_pu, "q", "er", label);                       \
			break;                                                                     \
		default:                                                                           \
			__put_user_bad();                                                          \
		}                                                                                  \
	} while (0)

/* The value goes in rax, the pointer in rcx, in which the error comes back; rbx may change. */
#define __put_user(x, ptr)                                                                         \
	({                                                                                         \
		int error_pu;                                                                      \
		register __typeof__(*(ptr)) value_pu asm("rax") = (x);                             \
                                                                                                   \
		asm volatile("call __put_user_nocheck_%c[size]"                                    \
			     : "=c"(error_pu), ASM_CALL_CONSTRAINT                                 \
			     : "0"(ptr), "r"(value_pu), [size] "i"(sizeof(*(ptr)))                 \
			     : "ebx");                                                             \
		__builtin_expect(error_pu, 0);                                                     \
	})

#endif
