/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_TESTS_UNIT_BPF_H
#define NSBOX_TESTS_UNIT_BPF_H

/* Classic BPF as the kernel runs it for seccomp: a check and an interpreter, for tests. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

/*
 * Whether the kernel would take the program: known instructions only, aligned loads inside struct
 * seccomp_data, jumps inside the program, a return at the end.
 */
bool bpf_is_valid(const struct sock_filter *code, size_t length);

/* The verdict (SECCOMP_RET_*, with its data) of a program for which bpf_is_valid. */
uint32_t bpf_run(const struct sock_filter *code, size_t length, const struct seccomp_data *data);

#endif
