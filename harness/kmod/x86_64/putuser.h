/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In the kernel, what __put_user() calls is the kernel's own: exported by arch/x86/lib/putuser.S.
 */
