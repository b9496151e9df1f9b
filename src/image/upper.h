/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_UPPER_H
#define NSBOX_IMAGE_UPPER_H

/*
 * The upper directory of a sandbox's overlay as a layer: what was made and changed in its root, and what of the layers
 * below is gone (Documentation/filesystems/overlayfs.rst, «whiteouts and opaque directories»; image-spec, layer.md).
 *
 * It is read when every process of the sandbox is dead, so that nothing changes in it, and by descriptors, of which none
 * follows a link: what was left there, however named or linked, leads nowhere else. Directories whose mode keeps their
 * owner out are opened up while they are read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct error;

enum upper_kind {
	UPPER_DIRECTORY,
	UPPER_FILE,
	UPPER_SYMLINK,
	UPPER_FIFO,
	UPPER_WHITEOUT, /* what the layers below have by this name is gone */
	UPPER_OTHER,	/* a socket, which no layer can have */
};

struct upper_entry {
	enum upper_kind kind;
	const char *path; /* from the root, without a slash before it */
	int dir;	  /* the directory that it is in, */
	const char *name; /* and its name there */
	int fd;		  /* of a directory: open for reading; of all else -1 */
	bool opaque;	  /* of a directory: what the layers below have in it is gone */
	size_t layer;	  /* that it is of, where there are several (merge.h) */
	struct stat st;	  /* with owners as the host has them, and the mode as the sandbox left it */
};

enum {
	UPPER_DEPTH_MAX = 256, /* directories in each other */
	UPPER_PATH_MAX = 4096, /* with the NUL */
};

/* By the type of a file alone. */
enum upper_kind upper_kind_of(const struct stat *st);

/* Who is shown what is there. Each returns 0, or -1 with *err, which ends the walk. */
struct upper_visitor {
	void *data;
	/* A directory comes before what is in it. 1: what is in it is passed over, and it is not left. */
	int (*entry)(void *data, const struct upper_entry *entry, struct error *err);
	/* After what is in a directory; or NULL. */
	int (*leave)(void *data, const struct upper_entry *directory, struct error *err);
	bool goes_on; /* after an error, of which the first counts, with what comes next */
	bool shared; /* others have it, too: a directory that keeps its owner out is not opened up, which fails with EACCES */
};

/* Shows all that is below `upper`, names of a directory in the order of strcmp. */
int upper_walk(int upper, const struct upper_visitor *visitor, struct error *err);

/*
 * Makes a layer of it where it is: afterwards the directory can be a lower one of another overlay, as the layers of the
 * store are. What belonged to an id of root's sandbox belongs to that id itself; the bookkeeping of the kernel goes, and
 * what no layer has: sockets, file capabilities and lists of access rights, which name ids of that one sandbox. So goes
 * what `left_out` says, patterns of paths (fnmatch(3) with FNM_PATHNAME) and a NULL at their end: those names, and all
 * below them, are in the layer as if nobody had touched them. The caller has to be the one for whom the sandbox was made.
 */
int upper_become_layer(int upper, const char *const *left_out, struct error *err);

/* Where that has failed, goes on with it, and leaves out only what cannot be done again. -1 with the first such *err. */
int upper_become_layer_still(int upper, const char *const *left_out, struct error *err);

/* What is in it, and whether it can become a layer: else -1 with *err. */
struct upper_size {
	uint64_t bytes, entries, directories; /* `directories` of the entries, and itself */
	struct timespec newest; /* time of the last change of anything */
};
int upper_measure(int upper, struct upper_size *ret, struct error *err);

#endif
