/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_INSTALL_H
#define NSBOX_SESSION_INSTALL_H

/* Installs packages for a server, in a process that nothing else waits for. */

#include <jansson.h>

#include "sandbox/sandbox.h"

/*
 * What a server asks for: {"packages": [names], "language": its name, or null for packages of the system, "spec": the root,
 * as spec_to_json has it, "config": string or null, "no_config": boolean (session/pull.h)}. With "session": its id in place of
 * "spec" they are installed into that session, where no "language" is the session's own.
 *
 * Returns {"output": what the manager wrote}, where the store had what a session gets with "from_store": true, and where it
 * failed with "failed": {"text", "hint", "unknown": whether there is no such session} (new reference).
 * control->cancel_fd ends it; control->progress is told what the manager writes.
 */
json_t *install_for_server(const json_t *request, const struct run_control *control);

#endif
