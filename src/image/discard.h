/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_DISCARD_H
#define NSBOX_IMAGE_DISCARD_H

#include <stdint.h>

/*
 * Removes all that is in the directory `top`, which a sandbox that is gone has left: of any depth, whatever the modes
 * of its directories are, and without following links. The caller must be its owner, or root. It takes two
 * descriptors for each of a few levels, and returns 0; 1 when `budget_us` microseconds were not enough (it can be
 * called again); -1 with errno.
 */
int discard_content(int top, uint64_t budget_us);

#endif
