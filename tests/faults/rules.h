/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_TESTS_RULES_H
#define NSBOX_TESTS_RULES_H

#include "trace.h"

enum { FAULTS_MAX = 9 };

/*
 * All that can become of a call: the errors that it can have, a write of half, and its process's death. `asked`: somebody
 * may ask the process to end. Returns how many there are.
 */
size_t list_faults(bool asked, const struct call *call, struct fault faults[static FAULTS_MAX]);

#endif
