/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_FILTER_H
#define NSBOX_SANDBOX_FILTER_H

/*
 * Classic BPF as the kernel runs it for seccomp, and what the launcher does with filters: it looks what one
 * would answer, and makes one of several.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/filter.h>

struct error;
struct seccomp_data;

struct filter {
	const struct sock_filter *instructions;
	size_t length;
};

/* Whether filter_run can run it: instructions that our filters are made of, and jumps that stay inside. */
bool filter_is_valid(struct filter filter);

/* The verdict (SECCOMP_RET_* with its data) of a valid filter. */
uint32_t filter_run(struct filter filter, const struct seccomp_data *data);

/* What the kernel makes of the verdicts of several filters: the strictest; of equally strict ones the last loaded. */
uint32_t filter_run_all(
	const struct filter *filters, size_t count, const struct seccomp_data *data);

/*
 * One filter that answers as `filters` together do, but for what they refuse with an error: that is
 * SECCOMP_RET_USER_NOTIF. None of the later ones may be stricter than an error where the first is not. (A filter of
 * ours kills foreign architectures alone, and each does.) Fails where the kernel would not take it for its length.
 * *ret->instructions is malloc'd.
 */
int filter_join(const struct filter *filters, size_t count, struct filter *ret, struct error *err);

#endif
