/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_FILEOPS_H
#define NSBOX_SANDBOX_FILEOPS_H

/*
 * Work on files, inside the sandbox: by a child of the agent, for one request, which ends with it.
 *
 * It sees what the code sees and has the code's rights, so whatever names and links the code has made, they lead to
 * nothing that the code could not reach itself. It opens regular files and directories only, so no FIFO or device
 * holds it up; a FUSE file can, or a full disk, and the code can kill it or lie to it. So whoever asks sets a
 * deadline, and takes what comes as the code's word.
 *
 * It is forked by the agent, whose heap is gone: it uses neither malloc nor stdio, only its stack, static buffers and
 * mmap(2), and changes the process that it is in (umask, signals that a full disk or a closed channel would send). So
 * that has to be a process with memory of its own, not one that shares the agent's.
 *
 * A request is one struct fileop with its strings behind it. Content for FILEOP_WRITE comes on the channel, to its end
 * by shutdown(2) SHUT_WR; who closes the channel instead has given up, and what was begun is taken back. The answer on
 * the channel is one struct fileop_answer, and after one of FILEOP_DONE
 *
 *     FILEOP_READ        `count` bytes of content; fewer only where a file of more than FILEOP_READ_WHOLE became
 *                        shorter while it was read: the channel ends then
 *     FILEOP_LIST        struct fileop_entry records, each followed by its name, NUL-terminated, relative to the path,
 *                        and for a link by its target, NUL-terminated; then one record of type 0
 *     FILEOP_SCAN        for each directory a struct fileop_directory, followed by as many struct fileop_node as it says,
 *                        each followed by its name
 *     the others         nothing
 *
 * An answer can come before all content was sent: sending fails with EPIPE or ECONNRESET then, and the answer is there
 * to be read. The channel is a stream socket of socketpair(2).
 *
 * How files change. WRITE and EDIT go through links, make a new file beside the old one, named .nsbox.HEX, and rename
 * it over the old one at the end. So a reader sees the old content or the new one, and what fails on the way, for want
 * of space too, leaves the old one. Only the code, or who kills the worker, can leave the file beside. The new file
 * keeps permission bits (but for set-user-ID and set-group-ID, as with write(2)) and group; extended attributes and
 * the times are new. An old file is written in place where a new one would not be the same to those who know it: where
 * it has several names (hard links), another owner, something mounted on it, or is in a directory that takes no new
 * file. EDIT has reserved the space before; WRITE cuts the old file off when content comes, and where it fails later
 * that much of the new content is left. APPEND writes in place and takes back what it appended when it fails. A file
 * that the worker may not write is never replaced. Nothing is synchronized to disk.
 *
 * MOVE is rename(2), so a file at the target goes; from one mount to another it copies regular files (with permission
 * bits and times) and removes them, and answers EXDEV for everything else. DELETE never follows links and leaves what
 * is mounted (EBUSY); with RECURSIVE it makes directories writable that are the worker's own, as `chmod -R u+rwx`
 * before it would.
 */

#include <stddef.h>
#include <stdint.h>

enum fileop_kind {
	FILEOP_READ = 1, /* path, offset, limit */
	FILEOP_WRITE,	 /* path, mode, flags: parents, exclusive, append */
	FILEOP_EDIT,	 /* path, from, to, flags: all */
	FILEOP_LIST,	 /* path, limit, flags: recursive */
	FILEOP_MOVE,	 /* path, to, flags: parents (of the target), exclusive (nothing may be there) */
	FILEOP_DELETE,	 /* path, flags: recursive */
	FILEOP_MKDIR,	 /* path, mode, flags: parents (then it may be there already) */
	FILEOP_STAT,	 /* path; of a link what it leads to */
	FILEOP_SCAN,	 /* path, which is no link; limit, offset: ms that looking may take; flags: settled */
};

enum fileop_flags {
	FILEOP_PARENTS = 1,
	FILEOP_EXCLUSIVE = 2, /* a new file, and no link that leads to one */
	FILEOP_APPEND = 4,
	FILEOP_RECURSIVE = 8,
	FILEOP_ALL = 16,
	/*
	 * SCAN: ends only when a file that is changed from now on gets another time than it has. Kernels before 6.13
	 * have a new time for files a hundred to a thousand times a second, as they are configured.
	 */
	FILEOP_SETTLED = 32,
};

enum {
	FILEOP_PATH_MAX = 4096,		/* bytes with the NUL */
	FILEOP_EDIT_MAX = 16 << 20,	/* bytes of a file that can be edited, before and after, and of each string */
	FILEOP_READ_WHOLE = 1 << 20,	/* bytes: so many are read before the answer */
	FILEOP_UNKNOWN_MAX = 16 << 20,	/* bytes read at once of a file whose size the kernel does not tell */
	FILEOP_DEPTH_MAX = 256,		/* directories in each other that LIST looks into */
	FILEOP_NAMES_MAX = 32 << 20,	/* bytes for names of one directory and of those around it in LIST */
	FILEOP_TYPE_UNKNOWN = 0170000,	/* of an entry: all of S_IFMT */
	FILEOP_SCAN_MAX = 20000,	/* nodes that SCAN tells of */
};

/* Flags that are not named for its kind, or strings where it has none, make a bad request. */
struct fileop {
	uint32_t kind, flags;
	/*
	 * Permission bits, whatever the umask; 0: 0644 for a new file, 0755 for a directory, an old file keeps its
	 * own.
	 */
	uint32_t mode;
	uint32_t path_length, from_length, to_length; /* bytes, without NULs; a path is not empty; MOVE has no `from` */
	uint64_t offset, limit;			      /* bytes; `limit` of LIST and SCAN: entries */
	/* char strings[]: path, from, to, one after the other, without NULs */
};

enum fileop_stage { /* what failed, for a sentence */
	FILEOP_DONE,
	FILEOP_OPENING,
	FILEOP_NOT_REGULAR, /* `type` says what it is: no content can be read from or written to it */
	FILEOP_READING,
	FILEOP_WRITING,
	FILEOP_MAKING_PARENTS,
	FILEOP_RENAMING,
	FILEOP_REMOVING,
	FILEOP_LISTING,
	FILEOP_TOO_LARGE,     /* EDIT: `size` says how large it is, or would become */
	FILEOP_NOT_FOUND_IN,  /* EDIT: `from` is not in it */
	FILEOP_FOUND_TWICE,   /* EDIT without ALL: `count` says how often */
	FILEOP_BAD_REQUEST,
	FILEOP_MAKING,	      /* MKDIR: the directory itself */
};

struct fileop_answer {
	uint32_t stage;	 /* FILEOP_DONE, or what failed */
	uint32_t errnum; /* of what failed; 0 for TOO_LARGE, NOT_FOUND_IN, FOUND_TWICE */
	uint32_t type;	 /* S_IFMT of what it is, where that is known */
	uint32_t mode;	 /* permission bits */
	/*
	 * Bytes of the file; after a WRITE or EDIT the new size. READ of a file whose size the kernel does not tell:
	 * where its end was found, or UINT64_MAX where there is more.
	 */
	uint64_t size;
	uint64_t mtime_ns;
	/*
	 * READ: bytes that follow; EDIT: replacements; DELETE: names removed, also when it failed; SCAN: 1 where the
	 * directory is on the mount that is the root, which nobody has but the sandbox, else 0.
	 */
	uint64_t count;
};

/*
 * Entries of one directory come sorted by name (strcmp), and behind a directory what is in it: an order that is the
 * same as long as the tree is. Directories that something else is mounted on are listed, and not what is in them. The
 * listing ends where `limit` entries were sent; in the last record `count` is 1 where entries were left out for that,
 * for FILEOP_NAMES_MAX or an error, whose errnum it has.
 */
struct fileop_entry {
	uint32_t type; /* S_IFMT; 0 in the last record */
	uint32_t mode; /* permission bits */
	/*
	 * Why nothing is known but the name and type, or why a directory was not looked into: EXDEV where something is
	 * mounted on it, ENAMETOOLONG where it lies too deep, or what opening it said.
	 */
	uint32_t errnum;
	uint32_t name_length, target_length; /* bytes, without NULs; no target follows unless it is a link */
	uint32_t count;
	uint64_t size, mtime_ns, ctime_ns, inode;
};

/*
 * What there is in a tree, for comparison with what there is later. The directory that was asked for comes first, and
 * then each that was named, in the order in which they were: the levels of the tree one after the other. So what is
 * too much for the limit, or the time, is far down. A directory is told of whole or not at all.
 */
struct fileop_directory {
	uint32_t count; /* of the nodes that follow */
	/*
	 * 0, or why it was not looked into: E2BIG where it has more than may still be told of, ETIME where the time was
	 * up, EXDEV where something is mounted on it, ENAMETOOLONG where it lies too deep, ESTALE where another one has
	 * just taken its place, or what opening and reading it said.
	 */
	uint32_t errnum;
};

struct fileop_node {
	uint64_t inode, size, ctime_ns;
	uint32_t mode;	      /* as in st_mode */
	uint32_t name_length; /* bytes, without a NUL, which does not follow; that of a directory has a slash at its end */
	/* char name[]: those of one directory come sorted by it (memcmp) */
};

/*
 * Does what `request` (`length` bytes, unchecked) asks, answering on `channel`, a descriptor that is the caller's.
 * Returns 0, or -1 where the answer could not be written, or the content did not come whole. Relative paths begin at
 * `directory`.
 *
 * Links in /proc/self/fd lead to whatever is open in the process: the caller closes everything else before.
 */
int fileop_serve(const void *request, size_t length, int channel, const char *directory);

#endif
