/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SANDBOX_SPEC_H
#define NSBOX_SANDBOX_SPEC_H

/*
 * What a sandbox is, and what is executed in it.
 *
 * A spec is built once (from the command line, a language's file or an MCP call) and decides
 * everything; nothing below reads options, configuration or the environment. A spec owns every
 * string and array in it; spec_free releases them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/filter.h>

struct error;

enum {
	SPEC_MEMORY_DEFAULT = 512 << 20, /* bytes */
	SPEC_DISK_DEFAULT = 256 << 20,   /* bytes */
	SPEC_PIDS_DEFAULT = 256,
	SPEC_TIMEOUT_DEFAULT_MS = 30 * 1000,
	SPEC_OUTPUT_DEFAULT = 1 << 20, /* bytes kept of each stream */
	SPEC_OPEN_FILES_DEFAULT = 1024,
	SPEC_MEMORY_MIN = 4 << 20,   /* bytes */
	SPEC_DISK_MIN = 64 << 10,    /* bytes */
	SPEC_PIDS_MAX = 4194304,     /* the kernel's own limit of process ids */
	SPEC_OPEN_FILES_MIN = 8,
	SPEC_OPEN_FILES_MAX = 1048576,
	SPEC_OUTPUT_MIN = 1 << 10,   /* bytes */
	SPEC_OUTPUT_MAX = 256 << 20, /* bytes: it is kept in memory */
	SPEC_ID_MAX = 65535, /* the greatest uid or gid inside */
	SPEC_SIGNAL_MAX = 64,
};

enum root_kind {
	ROOT_HOST,      /* the host's /usr and a short list of /etc, read-only; the rest is empty, or an overlay of layers */
	ROOT_DIRECTORY, /* any directory, under an overlay on a tmpfs */
	ROOT_IMAGE,	/* the layers of an image, likewise */
};

enum network_kind {
	NETWORK_NONE, /* a network namespace of its own with lo up */
	NETWORK_HOST, /* the caller's network namespace */
	NETWORK_PASTA, /* its own, and pasta(1) makes a whole network in it: pasta.h */
	NETWORK_ALLOW, /* its own, and a gate to the hosts that are named: gate/gate.h */
};

enum storage_kind {
	STORAGE_DEFAULT, /* in memory; of a session on disk, where that can be */
	STORAGE_MEMORY,
	STORAGE_DISK, /* of a session only */
};

enum mount_kind {
	MOUNT_BIND,  /* source on the host → target inside */
	MOUNT_TMPFS, /* an empty tmpfs at target; size_bytes 0: the disk limit */
};

/* A TCP port of the sandbox's loopback interface that can be reached at one of the host's: gate/publish.h. */
struct publish_spec {
	uint32_t host_port; /* 0: any that is free */
	uint32_t port;
};

struct mount_spec {
	enum mount_kind kind;
	char *source; /* absolute; NULL for MOUNT_TMPFS */
	char *target; /* absolute */
	bool read_only;
	bool exact; /* the source has no symbolic link on its way: one that is there is foreign code's, and is not followed */
	uint64_t size_bytes;
};

/* A file that is written below /workspace, or at an absolute path, before the first command. */
struct file_spec {
	char *path;    /* absolute path inside */
	void *content; /* `length` bytes */
	size_t length;
	unsigned mode; /* permission bits; 0 means 0644 */
};

/* The value 0 means «no limit» for every limit but memory_bytes, pids and disk_bytes, which are always set. */
struct limits {
	uint64_t memory_bytes;    /* of the whole sandbox, files on tmpfs included */
	uint64_t disk_bytes;      /* writable space: all the tmpfs of the sandbox together, or its folder on disk */
	uint64_t disk_floor_bytes; /* on disk: what has to stay free there for others; 0: in memory */
	uint64_t disk_inodes;     /* 0: limits_disk_inodes derives it */
	uint32_t pids;            /* processes and threads at one time */
	uint32_t cpu_millis;      /* thousandths of a CPU */
	uint32_t open_files;      /* RLIMIT_NOFILE */
	uint64_t file_size_bytes; /* RLIMIT_FSIZE */
	uint64_t output_bytes;    /* kept of each captured stream: head and tail */
};

/*
 * Files and directories that the writable space can hold: disk_inodes, or else one for each 4 KiB, at
 * least 1024 and at most 256 Ki. (An unbounded tmpfs takes kernel memory for millions of empty files.)
 */
uint64_t limits_disk_inodes(const struct limits *limits);

enum stdin_kind {
	STDIN_INHERIT, /* the caller's descriptor 0, classed first (see stdio.h) */
	STDIN_NULL,    /* /dev/null */
	STDIN_DATA,    /* a pipe that carries stdin_data and is then closed */
};

/* One command. Output is captured or goes to the caller's descriptors for all execs of a run alike. */
struct exec_spec {
	char **argv; /* NULL-terminated; argv[0] is looked up in the PATH of `env` */
	char **env;  /* NULL-terminated NAME=VALUE; nothing else is in the environment */
	char *cwd;   /* absolute path inside; NULL: /workspace for the host root, / otherwise */
	uint64_t timeout_ms; /* wall time; 0: none */
	enum stdin_kind stdin_kind;
	void *stdin_data;
	size_t stdin_length;
	const char *phase; /* "compile" or "run": a literal, for messages and results */
};

enum { SPEC_EXECS_MAX = 4, SPEC_TMPFS_MAX = 15, SPEC_LAYERS_MAX = 400, SPEC_PUBLISH_MAX = 16 };

struct spec {
	enum root_kind root;
	char *root_path; /* ROOT_DIRECTORY: absolute; ROOT_IMAGE: the image's name, for messages */
	bool root_exact; /* ROOT_DIRECTORY: as mount_spec.exact */
	char **root_layers; /* absolute paths of their trees, the topmost first, NULL-terminated. ROOT_IMAGE: all that there
			     * are; ROOT_DIRECTORY: those above the directory, or NULL; ROOT_HOST: what a sandbox before
			     * has left, or NULL */
	bool resumed; /* the topmost layers are what a sandbox of the same root has left: what is ours in it stays as it is
		       * there, and only what is missing is made */
	bool keeps_resolver; /* with resumed: of the name servers as well, as the network is the same */
	char *root_digest;  /* ROOT_IMAGE: of its manifest, «sha256:…»; for results and for names of caches; or NULL */
	char **root_env;    /* ROOT_IMAGE: NAME=VALUE that a language's commands begin with; NULL-terminated, or NULL */
	bool root_read_only;
	enum network_kind network;
	char *allow; /* NETWORK_ALLOW: the rules of gate/policy.h, with commas between; else NULL */
	struct publish_spec publish[SPEC_PUBLISH_MAX]; /* not with NETWORK_HOST */
	size_t publish_count;
	char *hostname;
	uint32_t uid, gid; /* inside */
	char *home;	   /* absolute path inside; NULL: /root for uid 0, else /home/user */
	char **directories; /* absolute paths inside that are made where they are missing; NULL-terminated, or NULL */
	struct mount_spec *mounts;
	size_t mounts_count;
	struct file_spec *files;
	size_t files_count;
	struct limits limits;
	enum storage_kind storage; /* where the writable space is to be */
	char *storage_folder; /* the folder on disk that it is in, absolute, empty and the caller's; NULL: it is in memory */
	char *cgroup; /* absolute path of a cgroup v2 directory below which to work, or NULL */
	bool require_cgroup;
	char *seccomp_name;         /* "default", "strict", "debug", "unconfined" or the path of a profile */
	struct sock_filter *filter; /* compiled; NULL only for "unconfined" */
	size_t filter_length;       /* instructions */
	struct sock_filter
		*filter_tier2; /* the same with memfd_create and shmget answering ENOSYS */
	size_t filter_tier2_length;
	const struct sock_filter *essential_filter; /* goes with a user's own; a constant, or NULL */
	size_t essential_filter_length;
	bool root_emulation; /* what package managers do as root is answered with success and not done */
	const struct sock_filter *emulation_filter; /* with root_emulation; a constant, or NULL */
	size_t emulation_filter_length;
	uint32_t stop_signal; /* what a SIGTERM that is forwarded becomes; 0: that itself */
	bool explain; /* the refused system calls are noted: see exec_result.refused */
	bool capture; /* standard output and error are kept for the result, else the caller's own */
	bool collect_images; /* see run_result.images */
	bool collect_files;  /* see run_result.kept_files */
	bool keep_output;    /* with capture: see run_result.kept_fds */
	/*
	 * With packages: «FOLDER», which is made for those of a language, or «FOLDER/PART:TARGET», a part that is shown
	 * at that absolute path, too; NULL-terminated, or NULL.
	 */
	char **package_places;
	bool packages; /* of a session: what is installed later shows at /opt/nsbox/packages (packages/session.h) */
	bool session; /* no command of its own: they come later (create.h), any number at a time */
	bool background; /* its commands get about a tenth of the processor time of others that want it, too */
	bool tty;     /* the commands get a terminal of their own, relayed to the caller's */
	struct exec_spec
		execs[SPEC_EXECS_MAX]; /* run one after the other; stops at the first that fails */
	size_t execs_count;
};

/* A spec with the documented defaults: host root, no network, uid 0, default limits, capture off. */
void spec_init(struct spec *spec);

void spec_free(struct spec *spec);

/*
 * A spec with the root of another, its profile and its cgroup, for other commands: with the defaults for all else, no
 * mounts and no files.
 */
void spec_copy_root(const struct spec *from, struct spec *ret);

/* Appends. Every argument is copied. */
void spec_add_bind(struct spec *spec, const char *source, const char *target, bool read_only);

/* The same with mount_spec.exact, as realpath(3) has made the source: of what others may change until it is bound. */
void spec_add_exact_bind(struct spec *spec, const char *source, const char *target, bool read_only);
void spec_add_tmpfs(struct spec *spec, const char *target, uint64_t size_bytes);
void spec_add_file(
	struct spec *spec, const char *path, const void *content, size_t length, unsigned mode);

void spec_add_directory(struct spec *spec, const char *path);

/* The first mount at `target`, written as there; NULL: there is none. */
const struct mount_spec *spec_find_mount(const struct spec *spec, const char *target);

/* Sets one NAME=VALUE in exec->env, in place of an earlier value of NAME. */
void exec_set_env(struct exec_spec *exec, const char *name, const char *value);

/* The value of NAME there, borrowed until the next change, or NULL. */
const char *exec_get_env(const struct exec_spec *exec, const char *name);

/* Sets it unless NAME has a value already. */
void exec_default_env(struct exec_spec *exec, const char *name, const char *value);

/* Sets each NAME=VALUE of `entries`, which is NULL-terminated or NULL. */
void exec_add_env(struct exec_spec *exec, char *const *entries);

/* Appends one argument to exec->argv. */
void exec_add_arg(struct exec_spec *exec, const char *argument);

/* The directories of the host that lie below the overlay: their number, and the path of one, 0 the topmost. */
size_t spec_lowers_count(const struct spec *spec);
const char *spec_lower(const struct spec *spec, size_t index);

/* All of them, NULL-terminated: the array is the caller's, the paths are not. */
char **spec_lowers(const struct spec *spec);

/* Puts the layer with the tree at `tree` (absolute) on top of them. */
void spec_add_layer(struct spec *spec, const char *tree);

/*
 * The rest of `path` below `directory` (both absolute, and compared name by name), without slashes before it, empty where
 * both are the same; NULL where it is neither.
 */
const char *spec_path_below(const char *path, const char *directory);

/* Whether the sandbox has a network namespace of its own. */
static inline bool spec_has_own_network(const struct spec *spec)
{
	return spec->network != NETWORK_HOST;
}

/* Whether there are processes beside it that join that. */
static inline bool spec_has_helpers(const struct spec *spec)
{
	return spec->network == NETWORK_PASTA || spec->publish_count > 0;
}

/*
 * Sets the network as options and configuration write it: «none», «allow=RULES», «pasta», «host». `what` names it in errors.
 * Returns 0, or -1 with *err, and *spec as it was.
 */
int spec_set_network(struct spec *spec, const char *what, const char *text, struct error *err);

/* The reverse, malloc'd. */
char *spec_network_text(const struct spec *spec);

/* What spec_set_network takes, for messages. */
#define SPEC_NETWORKS "none, allow=HOST[:PORT],..., pasta or host"

/* The home directory inside. */
const char *spec_home(const struct spec *spec);

/* Refuses what no sandbox can be made of (relative paths, a limit of 0, ids out of range, no command …). */
int spec_validate(const struct spec *spec, struct error *err);

#endif
