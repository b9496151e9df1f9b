/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_TRIAL_H
#define NSBOX_SESSION_TRIAL_H

#include <stdbool.h>
#include <sys/types.h>

struct error;

/*
 * Whether what a sandbox has written in a folder can be a layer of another sandbox, and that write there: an overlay is
 * made on the file system of `folder`, which is at `path`, and in which «try» is made and removed again, by a process of its own, which leaves no
 * mount. `inside`: a process of the sandbox, whose ids the layer is mapped to with `idmapped`. Returns 0, or -1 with what
 * was refused.
 */
int trial_overlay(int folder, const char *path, pid_t inside, bool idmapped, struct error *err);

#endif
