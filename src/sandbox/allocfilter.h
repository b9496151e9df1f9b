/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_ALLOCFILTER_H
#define NSBOX_SANDBOX_ALLOCFILTER_H

/*
 * A filter for sandboxes whose writable space is on the host's disk, where it is watched how much of it they take
 * (session/space.h): with fallocate(2) one call takes the whole of a disk, before anybody looks. It answers EOPNOTSUPP,
 * as file systems do that cannot reserve, and posix_fallocate(3) then writes; what gives space back is let through.
 */

#include "sandbox/filter.h"

/* It lets everything else through, to be decided by the filters beside it. The program is static. */
struct filter allocfilter(void);

#endif
