/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_MODEFILTER_H
#define NSBOX_SANDBOX_MODEFILTER_H

/*
 * A second filter, for sandboxes that can write to a directory of the host (--bind): no file gets the
 * set-user-ID or set-group-ID bit. Files made there belong to the caller outside, so such a file would give
 * the caller's rights, root's where root called, to whoever on the host executes it.
 *
 * chmod and its kin, and whatever makes a file with a mode, answer EPERM when the mode has one of these bits;
 * openat2(2), whose mode is behind a pointer, answers ENOSYS, and programs then use openat(2).
 */

#include "sandbox/filter.h"

/* It goes before the profile's own filter. Its instructions are the same at each call, and nobody's to free. */
struct filter modefilter(void);

#endif
