/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UTIL_COMPAT_H
#define NSBOX_UTIL_COMPAT_H

/*
 * Functions of glibc's for C libraries that lack them, such as musl. Where configure finds one missing, it
 * defines LACKS_NAME and has this header included before everything else; with glibc 2.34 and later it is not used.
 */

#include <limits.h> /* PATH_MAX, which glibc's other headers bring along */

#ifdef LACKS_strerrorname_np
const char *strerrorname_np(int errnum);
#endif
#ifdef LACKS_strerrordesc_np
const char *strerrordesc_np(int errnum);
#endif
#ifdef LACKS_sigabbrev_np
const char *sigabbrev_np(int signal);
#endif
#ifdef LACKS_sigdescr_np
const char *sigdescr_np(int signal);
#endif
#ifdef LACKS_close_range
int close_range(unsigned first, unsigned last, int flags);
#endif
#ifdef LACKS_mallopt
enum { M_MMAP_MAX = -4 };

int mallopt(int parameter, int value);
#endif

#endif
