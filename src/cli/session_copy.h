/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_SESSION_COPY_H
#define NSBOX_CLI_SESSION_COPY_H

/* nsbox session cp: one file, out of a session or into one. */

struct error;

/*
 * One of the two is «ID:PATH», the other a file of the host, or «-». What fails leaves what there was, on both sides.
 */
int session_copy(const char *from, const char *to, struct error *err);

#endif
