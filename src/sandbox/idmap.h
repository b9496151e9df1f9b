/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_IDMAP_H
#define NSBOX_SANDBOX_IDMAP_H

/*
 * Who the sandbox is on the host.
 *
 * An ordinary caller: one id is mapped, the spec's uid ↔ the caller's; the child writes its own map.
 *
 * Root: never host uid 0. A *slot* of 65536 host ids that no other sandbox has, ids 0 to 65535 inside
 * ↔ slot; the parent writes the maps. Slots are byte-range locks (fcntl(2), open file description
 * locks) on one file, /run/nsbox/ids: byte N is slot N. The agent inherits the description, so a slot
 * stays taken until the last of supervisor and agent is gone, and nothing is left to clean up.
 *
 * Root where a tree cannot be idmapped, or in a container whose own map has no room for a slot: one
 * unprivileged id is mapped.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct spec;

enum {
	IDMAP_SLOT_FIRST =
		0x70000000, /* above what distributions, systemd and subuid files give out */
	IDMAP_SLOT_SIZE = 65536,
	IDMAP_SLOTS = 4096,
};

struct idmap {
	bool by_parent;              /* the parent writes the maps: the caller is root */
	bool range;                  /* 65536 ids, else one */
	uint32_t uid, gid;           /* inside */
	uint32_t host_uid, host_gid; /* what they are on the host */
	uint32_t first;              /* range: host id of id 0 inside */
	int slot_fd;                 /* holds the lock; -1 for an ordinary caller */
};

/*
 * Chooses the scheme and takes a slot for root. `single` asks for one id also as root. *ret_note is set
 * to a sentence when root gets one id because there is no room for a slot, else left alone.
 */
int idmap_choose(const struct spec *spec, bool single, struct idmap *ret, char *ret_note,
	size_t note_size, struct error *err);

/* The child's side of an ordinary caller's map: setgroups, uid_map, gid_map of /proc/self. */
int idmap_write_own(const struct idmap *idmap, struct error *err);

/*
 * Takes this process into a user namespace in which it is who it was, and where modes of the caller's own files keep it
 * out of none of them. Nothing for root, who has that power. Files of other owners, or groups, cannot be told from each
 * other there.
 */
int idmap_take_power(struct error *err);

/* The parent's side for root: the maps of process `pid`. */
int idmap_write_for(const struct idmap *idmap, pid_t pid, struct error *err);

/* The child's side for root after the maps are written: no groups of root's, then gid and uid inside. */
int idmap_become(const struct idmap *idmap, struct error *err);

/*
 * A user namespace for mounts on which the caller's own id (root) appears as the sandbox's uid and gid
 * inside, for binds when these are not 0. With `callers_only` all other ids are nobody's there: who has power
 * over the modes of files then has it over the caller's alone. Returns its descriptor.
 */
int idmap_open_bind_namespace(const struct idmap *idmap, bool callers_only, struct error *err);

void idmap_release(struct idmap *idmap);

#endif
