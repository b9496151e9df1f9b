/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_GATE_CONFINE_H
#define NSBOX_GATE_CONFINE_H

/*
 * Shuts a process in that carries bytes between a sandbox and others: the gate, and what publishes a sandbox's ports. From
 * then on
 *
 *   it may     use the descriptors that it has, make sockets of TCP and UDP over the Internet and pipes, wait, and end
 *   it cannot  open a file, execute, make, see or signal a process, make any other socket, bind a port, gain a right
 *
 * and is killed when it tries what is not foreseen. Its walls: no capability, of root no id,
 * no_new_privs, not dumpable, Landlock without any file and with the TCP ports that it connects to, a filter of system calls
 * (gate-filter.json), bounded memory. It dies with its parent,
 * which helper_become (sandbox/helper.h) has asked for and changing ids would undo.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

/* Closes all descriptors but `kept` (each above 2; in any order); 0 to 2 become /dev/null. */
int confine_descriptors(const int *kept, size_t count, struct error *err);

/* For root, in the user namespace of the caller's: it needs none of root's rights, and shares no id with anybody. */
int confine_leave_root(struct error *err);

/* `ports`: that it may connect to, where the kernel can tell (Landlock from ABI 4 on); NULL: to any. */
int confine(pid_t parent, const uint16_t *ports, size_t ports_count, struct error *err);

#endif
