/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_TESTS_ALLOC_H
#define NSBOX_TESTS_ALLOC_H

#include <stdint.h>

/* The file that this variable names is shared by sweep.c and all processes of the nsbox of alloc.c. */
#define ALLOC_PLAN_VARIABLE "NSBOX_TEST_ALLOCATIONS"

struct alloc_plan {
	uint64_t made; /* allocations so far, in all processes */
	uint64_t fail; /* the one that fails, from 1; 0: none */
};

#endif
