/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_PASTA_H
#define NSBOX_SANDBOX_PASTA_H

/*
 * A whole network in user space for a sandbox: pasta(1), of the package passt. It makes an interface in the sandbox's
 * network namespace, and for what the code does there it opens sockets of its own in the caller's.
 *
 * pasta is a child of the supervisor, in the foreground, and dies with it. It runs in the sandbox's user namespace, as
 * the sandbox's user on the host and so with none of the caller's rights if that is root; there it has the
 * capabilities that it needs over the sandbox's network, and gives up most of them itself. In all else it is in the
 * caller's namespaces, so that the code sees nothing of it.
 *
 * The order of things, as the first command must find a network that is finished:
 *
 *   supervisor  clones the child; forks what becomes pasta, which waits; sends the child three pipe ends
 *   child       has its ids: says so to pasta (pasta_begin), and goes on with its mounts
 *   pasta       joins the user namespace, sets up the network, writes its process id to the pipe `ready`
 *   child       reads that (pasta_wait), or the end of the pipe: then what pasta said is why there will be no command
 *
 * Nothing of the host's is reachable but what is reachable from it: neither its loopback interface (--no-map-gw) nor
 * ports (-T none, -U none), and none of the sandbox's is reachable from outside (-t none, -u none).
 *
 * Known to work: 2023_03_09 (Debian 12) and 2025_05_03 (Debian 13). The namespace is given as a descriptor at 0, since
 * the older may not open it by its name in /proc when it is in the user namespace already, and the newer closes all
 * descriptors but the first three.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct helper;
struct idmap;

/* The ends of pipes that the child has. */
enum { PASTA_READY, PASTA_WORDS, PASTA_BEGIN, PASTA_ENDS };

#define PASTA_PROGRAM_MAX ((size_t)PATH_MAX)

/* Where pasta is, by PATH; -1 with the advice to install it where it is nowhere. */
int pasta_find(char ret_path[static PASTA_PROGRAM_MAX], struct error *err);

/*
 * Supervisor: forks it for the sandbox whose first process is `pid`. The child's ends in ret_ends are the caller's to
 * close; *ret to be ended by helper_end also after a failure.
 */
int pasta_start(pid_t pid, const struct idmap *idmap, struct helper *ret, int ret_ends[static PASTA_ENDS],
	struct error *err);

/* Child: its ids are what they are to be. Closes that end. */
void pasta_begin(int ends[static PASTA_ENDS]);

/*
 * Child: waits until the network is there, and closes its ends. `gid`, the sandbox's group, may send echo requests then, where
 * the caller may. -1: there will be no network, and why.
 */
int pasta_wait(int ends[static PASTA_ENDS], unsigned gid, struct error *err);

/*
 * The resolv.conf of a sandbox with it, from the host's `text`. A name server on the host's loopback interface cannot be
 * reached from inside: the first of IPv4 is PASTA_RESOLVER there, an address that pasta forwards, others are left out.
 * False where that leaves none.
 */
#define PASTA_RESOLVER "169.254.1.1"

bool pasta_resolver(const char *text, char *ret, size_t size);

#endif
