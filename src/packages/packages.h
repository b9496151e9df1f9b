/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_PACKAGES_PACKAGES_H
#define NSBOX_PACKAGES_PACKAGES_H

/*
 * Packages of languages, for code that has no network.
 *
 * They are installed in a sandbox of their own, which may reach the hosts of the language's recipe (language/recipe.h)
 * and sees nothing of the code's: it has the same root, and a new folder of the store, which it can write, at
 * /opt/nsbox/packages/FOLDER. When the manager has succeeded the folder becomes a *layer*: it is renamed to a name made
 * of all that decides about its content, and from then on nobody can write it. A sandbox of code has it read-only at
 * the same path. So the second call with the same packages installs nothing.
 *
 *     STORE/packages/KEY/          a layer; whoever uses it has it locked, shared (flock(2))
 *     STORE/packages/KEY/fs/       what is at /opt/nsbox/packages/FOLDER
 *     STORE/packages/KEY/about     a JSON object for people; the time of its last change is that of the last use
 *     STORE/packages/KEY.new/      one that is being made, or removed, by whoever has it locked, exclusively; otherwise
 *                                  what a killed process has left, which the next install removes
 *
 * KEY is the SHA-256 of the root, the toolchain and the manager (by their files or the image's digest), the recipe, the
 * host's settings for the manager, and the names of the packages, sorted.
 *
 * What is in a layer was made by strangers: nothing on the host follows its links or executes it.
 *
 * The order of things, in one process or in two:
 *
 *     packages_resolve     reads only: what is wanted, and where it would be
 *     packages_installed   reads only
 *     packages_install     where it is not: blocks until it is, or has failed
 *     packages_use         into a spec, before language_prepare_source, which sees by the mount that there are packages
 *     packages_hold        by the process that runs the spec, or has it run, until that is over
 *
 * Sessions have a copy of a layer, and then packages of their own: packages/session.h.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "language/language.h"
#include "packages/settings.h"
#include "sandbox/sandbox.h"
#include "util/sha256.h"

struct config;
struct error;
struct language;
struct spec;

/* A set of packages of one language, for one root. */
struct packages_set {
	const struct language *language; /* borrowed */
	struct language_packages how;
	struct host_settings settings; /* of the host, for the manager */
	char **names; /* sorted, each once; owned */
	char key[SHA256_HEX_SIZE];
	char tree[PATH_MAX]; /* STORE/packages/KEY/fs, there or not */
};

/*
 * Checks `names` (NULL-terminated) and finds out where the set is, or is to be, for the root of `spec`. Fails where a
 * name is none, the language has no packages or its manager is not there, or no place is set for the store. *ret is
 * freed with packages_set_free, and the language must live as long.
 */
int packages_resolve(const struct language *language, const struct spec *spec, char *const *names,
	struct packages_set *ret, struct error *err);
void packages_set_free(struct packages_set *set);

bool packages_installed(const struct packages_set *set);

/* The limits of one install, and of all layers together. */
struct packages_options {
	uint64_t memory_bytes;
	uint64_t disk_bytes; /* of the folder and of what the manager has for itself meanwhile */
	uint64_t store_bytes; /* of all layers: those that were used the longest time ago are removed for a new one */
	uint64_t timeout_ms; /* 0: the recipe's */
	uint32_t pids;
	const char *allow; /* what an install may reach besides: rules of gate/policy.h; the configuration's, or NULL */
};

/* The defaults, and over them what the configuration (NULL: none) says. */
void packages_options_init(struct packages_options *ret, const struct config *config);

/* What an install was like. */
struct packages_report {
	char **warnings; /* of what the host's settings say and an install cannot have; NULL-terminated, or NULL */
	/*
	 * Of the manager, with what it wrote, whole to RESULT_KEPT_BYTES_MAX; NULL: it did not run, as another process has
	 * installed the set meanwhile, or nothing could be begun.
	 */
	struct run_result *result;
};

/*
 * Installs the set where it is not there yet, in the root of `spec`, of which the walls and the cgroup count too, and
 * no mounts, files and limits. `control` ends it by cancel_fd, also while it waits for another process that installs
 * the same set, and is told of the progress.
 *
 * Returns 0 when the set is there; -1 with *err: one line that says which packages could not be installed and why, as
 * far as that is a matter of ours; what the manager says of it is in *ret. Then nothing is left. *ret is always set,
 * and freed with packages_report_free. The calling process must have one thread.
 */
int packages_install(const struct packages_set *set, const struct spec *spec, const struct packages_options *options,
	const struct run_control *control, struct packages_report *ret, struct error *err);
void packages_report_free(struct packages_report *report);

/* Adds the mounts of the set, which is installed, to *spec. Fails where what an install has made cannot be shown. */
int packages_use(const struct packages_set *set, struct spec *spec, struct error *err);

/*
 * Locks the layers that the mounts of *spec show against removal, as long as the process lives, and notes that they are
 * in use. Fails where one is not there any more.
 */
int packages_hold(const struct spec *spec, struct error *err);

struct packages_pruned {
	unsigned layers, in_use; /* removed; left, since sandboxes have them */
	uint64_t bytes;          /* of those removed */
};

/* Removes all layers that no sandbox has, and what killed processes have left. */
int packages_prune(struct packages_pruned *ret, struct error *err);

/* Calls `each` with the object `about` of every layer, its key, and the seconds since its last use. */
int packages_list(void (*each)(void *data, const char *key, const char *about, uint64_t unused_s), void *data,
	struct error *err);

#endif
