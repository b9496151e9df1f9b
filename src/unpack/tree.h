/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_UNPACK_TREE_H
#define NSBOX_UNPACK_TREE_H

/*
 * A layer's directory while entries of an archive are put into it.
 *
 * The process is confined to that directory, so no name leads out of it; links are followed here as they will be in
 * the image, from the layer's root. Only what is in this layer is seen: what depends on the layers below becomes
 * a note (unpack/wire.h). Removals are written as overlayfs reads them (Documentation/filesystems/overlayfs.rst): a
 * character device 0/0 for a name, or on overlayfs itself an empty file with the attribute user.overlay.whiteout; the
 * attribute user.overlay.opaque for what a directory had in it.
 *
 * Paths are relative, without «.», «..» or empty components.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct error;
struct tree;

enum {
	TREE_DEPTH_MAX = 256,
	TREE_DIRECTORIES_BYTES_MAX = 256 << 20, /* of memory for the names of directories */
	TREE_NOTES_BYTES_MAX = 64 << 20,
};

struct attributes {
	mode_t mode; /* permission bits */
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

/*
 * `root` stays the caller's. `owners`: set owners, else all is the caller's own. `lowest`: no layer is below. `notes` takes the notes. Ends the
 * process when there is no memory. Free it with tree_free.
 */
struct tree *tree_new(int root, int notes, bool owners, bool lowest);

/* Everything that could only be done once nothing comes into the directories any more; number of notes in *ret_notes, *ret_opaque: nothing below the layer shows. */
int tree_finish(struct tree *tree, uint32_t *ret_notes, bool *ret_opaque, struct error *err);

void tree_free(struct tree *tree);

/* Each replaces what of another kind has the name, and makes the directories above where they are missing. */
int tree_directory(struct tree *tree, const char *path, const struct attributes *attributes,
	struct error *err);
int tree_symlink(struct tree *tree, const char *path, const char *target,
	const struct attributes *attributes, struct error *err);
int tree_fifo(struct tree *tree, const char *path, const struct attributes *attributes,
	struct error *err);
int tree_hard_link(struct tree *tree, const char *path, const char *target, struct error *err);

/* A new, empty file to be written; give it to tree_file_done, which closes it, or close it. */
int tree_file(struct tree *tree, const char *path, struct error *err);
int tree_file_done(struct tree *tree, int fd, const char *path, const struct attributes *attributes,
	struct error *err);

/* An extended attribute of what has just been made at `path`. Returns 1 where the file system refuses it. */
int tree_xattr(struct tree *tree, const char *path, const char *name, const void *value,
	size_t size, struct error *err);

/* Whatever the layers below have at `path` is not in the image. */
int tree_whiteout(struct tree *tree, const char *path, struct error *err);

/* Whatever the layers below have in the directory `path` is not in the image; an empty path is the root. */
int tree_opaque(struct tree *tree, const char *path, struct error *err);

#endif
