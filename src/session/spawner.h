/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_SPAWNER_H
#define NSBOX_SESSION_SPAWNER_H

/* The other side of runner.h: the spawner, its supervisors, and how messages are framed. */

#include <sys/types.h>

#include "session/frame.h"

/* The spawner: serves `control` until the server is gone, then waits for its supervisors. */
_Noreturn void spawner_main(int control, pid_t server);

#endif
