/* SPDX-License-Identifier: MIT */
/*
 * Snapshots of a session: what is in its space becomes a layer, or is copied to be one.
 *
 * Where nothing runs, the space is frozen: the sandbox ends, what it has written becomes a layer where it is
 * (image/upper.h), and another sandbox is made over that and all layers before, with an empty space. No byte is copied, and
 * nothing but the time of that can be seen from inside: the same commands find the same files. Nothing is there to be lost:
 * what is in memory (/dev/shm, other tmpfs) counts as running. Where nothing was written since the last snapshot, this one
 * has the same layers, and the sandbox stays. All that can fail for want of place or of rights is done while the sandbox is
 * there still; what fails later is tried again, and then the session ends, with a snapshot of what it had.
 *
 * Where something runs it must go on: it is paused (pause.c) while a process of its own copies the space (image/duplicate.h),
 * and the copy becomes the layer.
 *
 * The first space of a session on the host root is the root itself, and no overlay; it becomes the lowest layer as it is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "image/duplicate.h"
#include "image/snapshots.h"
#include "image/store.h"
#include "image/upper.h"
#include "report/report.h"
#include "sandbox/features.h"
#include "sandbox/idmap.h"
#include "sandbox/mounts.h"
#include "session/fork.h"
#include "session/supervise.h"
#include "session/trial.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

enum { CLOCK_SLACK_US = 1000 * 1000, SWEEP_MS = 1000, RENEW_BYTES = 4 << 20, COPIER_END_MS = 500 };

/* --- the layers of the root --- */

static void release_held(struct past *past)
{
	for (size_t i = 0; i < past->held_count; i++)
		close_fd(&past->held[i]);
	free(past->held);
	past->held = NULL;
	past->held_count = 0;
}

static void add_held(struct past *past, int fd)
{
	past->held = xrealloc(past->held, past->held_count + 1, sizeof *past->held);
	past->held[past->held_count++] = fd;
}

/* Of the store's snapshots, or of an image's. */
static int hold_layer(const struct spec *spec, const char *tree, struct error *err)
{
	int fd;

	if (snapshot_layer_id(tree))
		return snapshot_layer_hold(tree, err);
	fd = store_hold_layer(tree, err);
	if (fd < 0) {
		error_context(err, "the root %s", spec->root_path ?: "");
		error_hint(err, "pull or import the image again");
	}
	return fd;
}

/* All of the spec; *past gets them, and what it had before stays where one of them is gone. */
static int hold(struct past *past, const struct spec *spec, struct error *err)
{
	struct past new = {.held = NULL};

	for (char *const *tree = spec->root_layers; tree && *tree; tree++) {
		int fd = hold_layer(spec, *tree, err);

		if (fd < 0) {
			release_held(&new);
			return -1;
		}
		add_held(&new, fd);
		new.layers_count += snapshot_layer_id(*tree) != NULL;
	}
	release_held(past);
	past->held = new.held;
	past->held_count = new.held_count;
	past->layers_count = new.layers_count;
	return 0;
}

int past_hold(struct session *session, struct error *err)
{
	strcpy(session->past.parent, session->options.parent);
	return hold(&session->past, session->spec, err);
}

int past_hold_again(struct session *session, struct error *err)
{
	return hold(&session->past, session->spec, err);
}

void past_end(struct session *session)
{
	struct error unimportant;
	struct snapshots snapshots;
	bool had = session->past.layers_count > 0 || session->past.packages_held >= 0;

	flatten_end(session);
	release_held(&session->past);
	close_fd(&session->past.packages_held);
	if (!had || snapshots_open(false, &snapshots, &unimportant) != 0)
		return;
	/* What nobody else is over, and no record names. */
	snapshots_sweep(&snapshots, SWEEP_MS);
	snapshots_close(&snapshots);
}

void past_leave_out(const struct session *session, struct spec *root)
{
	size_t count = session->past.layers_count, kept = 0;

	for (size_t i = 0; i < count; i++)
		free(root->root_layers[i]);
	while (count > 0 && root->root_layers[count + kept]) {
		root->root_layers[kept] = root->root_layers[count + kept];
		kept++;
	}
	if (count > 0)
		root->root_layers[kept] = NULL;
}

/* --- whether there is anything new --- */

void past_begin(struct session *session)
{
	struct past *past = &session->past;
	struct statfs status;

	past->touched_us = 0;
	/* Ports that were chosen for it stay its own. */
	for (size_t i = 0; i < session->own.publish_count; i++)
		session->own.publish[i].host_port = session->walls.published[i].host_port;
	for (size_t i = 0; i < session->tmpfs_count; i++) {
		if (fstatfs(session->tmpfs_fds[i], &status) < 0)
			status = (struct statfs){.f_bfree = 0};
		past->tmpfs_blocks[i] = status.f_bfree;
		past->tmpfs_files[i] = status.f_ffree;
	}
}

void past_touch(struct session *session)
{
	struct past *past = &session->past;

	if (past->touched_us)
		return;
	past->touched_us = session_now_us();
	clock_gettime(CLOCK_REALTIME_COARSE, &past->touched); /* what files get as their times is not later */
}

/* Times of files say nothing where the clock was set meanwhile. */
static bool clock_was_set(const struct past *past)
{
	struct timespec now;
	int64_t real_us, monotonic_us = (int64_t)(session_now_us() - past->touched_us);

	clock_gettime(CLOCK_REALTIME, &now);
	real_us = (now.tv_sec - past->touched.tv_sec) * 1000000LL + (now.tv_nsec - past->touched.tv_nsec) / 1000;
	return real_us < monotonic_us - CLOCK_SLACK_US || real_us > monotonic_us + CLOCK_SLACK_US;
}

static bool is_changed(const struct past *past, const struct upper_size *size)
{
	if (!past->touched_us)
		return false;
	if (clock_was_set(past))
		return true;
	return size->newest.tv_sec > past->touched.tv_sec ||
	       (size->newest.tv_sec == past->touched.tv_sec && size->newest.tv_nsec >= past->touched.tv_nsec);
}

static bool memory_has_files(const struct session *session)
{
	const struct past *past = &session->past;
	struct statfs status;

	for (size_t i = 0; i < session->tmpfs_count; i++)
		if (fstatfs(session->tmpfs_fds[i], &status) < 0 || status.f_bfree < past->tmpfs_blocks[i] ||
			status.f_ffree < past->tmpfs_files[i])
			return true;
	return false;
}

static bool is_active(const struct job *job)
{
	return job->state != JOB_FREE && job->state != JOB_DONE && job->state != JOB_SNAPSHOT;
}

static bool is_busy(const struct session *session)
{
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (is_active(&session->jobs[i]))
			return true;
	return pause_active(session) || memory_has_files(session);
}

/* --- what is to be a layer --- */

/* The space itself is the root, without an overlay. */
static bool is_whole(const struct session *session)
{
	return spec_lowers_count(session->spec) == 0;
}

static int open_top(const struct session *session, struct error *err)
{
	int fd = openat(session->space.storage.space, is_whole(session) ? "." : "upper",
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? error_set(err, errno, "opening what the session has written") : fd;
}

/* Into the layer. Its mode may be one with which it cannot get another parent. */
static int move_top(const struct session *session, int top, int layer, struct error *err)
{
	const struct storage *storage = &session->space.storage;
	bool whole = is_whole(session);
	struct stat st;
	int r;

	if (fstat(top, &st) < 0 || fchmod(top, st.st_mode | S_IRWXU) < 0)
		return error_set(err, errno, "looking at what the session has written");
	r = renameat(whole ? storage->folder : storage->space, whole ? "space" : "upper", layer, "fs");
	if (r < 0)
		error_set(err, errno, "making a layer of what the session has written");
	fchmod(top, st.st_mode & 07777);
	return r;
}

/* --- what is wanted --- */

/* What the request says. */
struct wanted {
	const char *name;
	bool record; /* and not only for a fork that follows */
	uint64_t max_bytes; /* of all snapshots; 0: no limit */
};

static int read_wanted(const json_t *request, struct wanted *ret, struct error *err)
{
	json_int_t max_bytes = json_integer_value(json_object_get(request, "max_bytes"));
	char buffer[QUOTED_MAX];

	*ret = (struct wanted){.name = json_string_value(json_object_get(request, "name")) ?: "",
		.record = !json_is_true(json_object_get(request, "fork")),
		.max_bytes = max_bytes > 0 ? (uint64_t)max_bytes : 0};
	if (!*ret->name || snapshot_name_valid(ret->name))
		return 0;
	return error_set(err, 0,
		"%s is no name for a snapshot: it has 1 to %d letters, digits, and . _ -, and begins with a letter",
		quoted(ret->name, buffer), SNAPSHOT_NAME_MAX);
}

static int check_size(const struct snapshots *snapshots, const struct wanted *wanted, uint64_t bytes, struct error *err)
{
	uint64_t there = snapshots_bytes(snapshots);
	char limit[64], used[64], more[64];

	/* What has no bytes takes place all the same, and every layer lets the session write as many files again. */
	if (storage_files_low(snapshots->fd)) {
		error_set(err, ENOSPC, "the disk of %s can have few files more, which have to stay free for others",
			snapshots->path);
		return error_hint(err, "free some there, or remove snapshots: nsbox session snapshots rm SNAPSHOT");
	}
	if (!wanted->max_bytes || there + bytes <= wanted->max_bytes)
		return 0;
	format_bytes(wanted->max_bytes, limit, sizeof limit);
	format_bytes(there, used, sizeof used);
	format_bytes(bytes, more, sizeof more);
	error_set(err, ENOSPC, "snapshots take %s of the %s that they may, and this one would take %s more", used, limit, more);
	return error_hint(err, "remove some: nsbox session snapshots rm SNAPSHOT; or raise snapshots.max_size in nsbox.conf(5)");
}

/* --- packages --- */

/* What is installed for the session's code is beside its space, and installs go on writing to it: it is copied. */

static bool same_size(const struct upper_size *a, const struct upper_size *b)
{
	return a->bytes == b->bytes && a->entries == b->entries && a->newest.tv_sec == b->newest.tv_sec &&
	       a->newest.tv_nsec == b->newest.tv_nsec;
}

static int note_layer(int folder, const struct upper_size *size, struct error *err)
{
	const struct layer_note note = {.bytes = size->bytes, .entries = size->entries};

	return snapshot_layer_note(folder, &note, err);
}

static int make_tree(int layer, struct error *err)
{
	int fd = mkdirat(layer, "fs", 0700) < 0 ? -1
						: openat(layer, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? error_set(err, errno, "making a layer of a snapshot") : fd;
}

static int copy_packages(struct session *session, const struct snapshots *snapshots, const struct upper_size *size,
	struct error *err)
{
	struct past *past = &session->past;
	cleanup_close int folder = -1, tree = -1;
	char id[SNAPSHOT_ID_SIZE];
	uint64_t bytes;

	if (snapshot_layer_make(snapshots, id, &folder, err) < 0)
		return -1;
	tree = make_tree(folder, err);
	if (tree < 0 || tree_duplicate(session->space.packages.space, tree, storage_floor_bytes(tree), &bytes, err) < 0 ||
		note_layer(folder, size, err) < 0)
		return error_context(err, "copying the packages of the session");
	close_fd(&past->packages_held);
	past->packages_held = move_fd(&folder);
	past->packages_size = *size;
	strcpy(past->packages, id);
	return 0;
}

/* Nobody installs while this is open; -1 with *err. */
static int lock_packages(const struct session *session, struct error *err)
{
	cleanup_close int fd = openat(
		session->space.packages.folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return error_set(err, errno, "the packages of the session");
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return move_fd(&fd);
	error_set(err, 0, "packages are being installed in the session");
	return error_hint(err, "try again when that has ended");
}

static int keep_packages(struct session *session, const struct snapshots *snapshots, const struct wanted *wanted,
	struct error *err)
{
	const struct space *space = &session->space;
	cleanup_close int lock = -1;
	struct upper_size size;

	if (space->packages.folder < 0)
		return 0;
	lock = lock_packages(session, err);
	if (lock < 0 || upper_measure(space->packages.space, &size, err) < 0)
		return -1;
	if (same_size(&size, &session->past.packages_size) || size.entries == size.directories /* nothing is installed */)
		return 0;
	if (check_size(snapshots, wanted, size.bytes, err) < 0)
		return -1;
	return copy_packages(session, snapshots, &size, err);
}

int past_take_packages(struct session *session, struct error *err)
{
	const char *id = session->options.packages;
	struct space *space = &session->space;
	struct past *past = &session->past;
	cleanup_free char *path = NULL;
	cleanup_close int tree = -1;
	struct snapshots snapshots;
	uint64_t bytes;

	if (!*id || space->packages.folder < 0)
		return 0;
	if (snapshots_open(true, &snapshots, err) < 0)
		return -1;
	path = snapshot_layer_tree(&snapshots, id);
	snapshots_close(&snapshots);
	past->packages_held = snapshot_layer_hold(path, err);
	if (past->packages_held < 0)
		return -1;
	tree = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (tree < 0)
		return error_set(err, errno, "%s", path);
	if (tree_duplicate(tree, space->packages.space, storage_floor_bytes(tree), &bytes, err) < 0 ||
		upper_measure(space->packages.space, &past->packages_size, err) < 0)
		return error_context(err, "copying the packages of the snapshot");
	strcpy(past->packages, id);
	return 0;
}

/* --- the description --- */

/* The root below the layers, and nothing that is made for this session alone. */
static json_t *describe_spec(const struct session *session)
{
	struct spec spec = *session->spec;
	cleanup_free struct mount_spec *mounts = xcalloc(spec.mounts_count + 1, sizeof *mounts);
	const char *packages = session->space.packages.folder >= 0 ? session->space.packages.path : NULL;

	if (spec.root_layers)
		spec.root_layers += session->past.layers_count;
	spec.storage_folder = NULL;
	spec.mounts_count = 0;
	spec.resumed = spec.keeps_resolver = false;
	for (size_t i = 0; i < session->spec->mounts_count; i++) {
		const struct mount_spec *mount = &session->spec->mounts[i];

		if (!packages || !mount->source || !spec_path_below(mount->source, packages))
			mounts[spec.mounts_count++] = *mount;
	}
	spec.mounts = mounts;
	spec.packages |= packages != NULL;
	return spec_to_json(&spec);
}

static json_t *describe_options(const struct session *session)
{
	const struct session_options *options = &session->options;

	return json_pack("{s:I, s:I, s:I, s:s}", "idle_ms", (json_int_t)options->idle_ms, "life_ms",
		(json_int_t)options->life_ms, "timeout_ms", (json_int_t)options->timeout_ms, "language",
		options->language);
}

/* What the session is over now. */
static void describe(const struct session *session, const char *name, struct snapshot *ret)
{
	char **layers;
	size_t count;

	*ret = (struct snapshot){.created_s = time(NULL), .shared = session->options.shared};
	snprintf(ret->name, sizeof ret->name, "%s", name);
	strcpy(ret->session, session->id);
	strcpy(ret->parent, session->past.parent);
	layers = flatten_layers(session, &count);
	ret->layers = xcalloc(count + 1, sizeof *ret->layers);
	for (size_t i = 0; i < count; i++)
		ret->layers[i] = xasprintf("%.*s", SNAPSHOT_ID_LENGTH, snapshot_layer_id(layers[i]));
	strings_free(layers);
	ret->packages = session->past.packages[0] ? xstrdup(session->past.packages) : NULL;
	ret->spec = describe_spec(session);
	ret->options = describe_options(session);
}

/* --- freezing --- */

/* What is over layers has shown it. */
static int try_overlay(struct session *session, struct error *err)
{
	const struct storage *storage = &session->space.storage;
	struct past *past = &session->past;
	cleanup_free char *path = xasprintf("%.*s", (int)(strrchr(storage->path, '/') - storage->path), storage->path);

	if (past->tried || !is_whole(session))
		return 0;
	if (trial_overlay(storage->folder, path, session->sandbox.pid, geteuid() == 0, err) < 0) {
		error_context(err, "the file system of %s takes no layers, which snapshots are", path);
		return error_hint(err, "choose a folder on another disk with NSBOX_STORE, and make the session anew");
	}
	past->tried = true;
	return 0;
}

static int check_root(struct session *session, struct error *err)
{
	int major, minor;

	if (session->space.storage.folder < 0) {
		error_set(err, 0, "the files of this session are in memory, of which there can be no snapshot%s%s",
			session->space.in_memory[0] ? ": " : "", session->space.in_memory);
		return error_hint(err, "make one whose files are on a disk (--storage disk, with NSBOX_STORE on one)");
	}
	if (geteuid() != 0)
		return try_overlay(session, err);
	kernel_version(&major, &minor);
	if (major < 5 || (major == 5 && minor < 19))
		return error_set(err, 0, "snapshots of root's sessions need Linux 5.19 (idmapped layers of an overlay)");
	if (!session->sandbox.idmap.range)
		return error_set(err, 0, "the session has a single id, as its root cannot be idmapped: there can be no snapshot of it");
	return try_overlay(session, err);
}

static int renew_once(struct session *session, struct error *err)
{
	return space_renew(session, err) == 0 ? session_create_sandbox(session, err) : -1;
}

/*
 * Another sandbox, over what root_layers are now, with an empty space. Whoever fails here has none, and so no session: it is
 * tried once more, since what is short of memory, processes or descriptors may be so for a moment.
 */
static int renew(struct session *session, struct error *err)
{
	struct error passing = {0};

	session->own.resumed = session->own.keeps_resolver = session->past.layers_count > 0;
	changes_note_activity(session);
	pause_begin_anew(session);
	if (renew_once(session, &passing) == 0)
		return 0;
	session_take_down(session);
	if (renew_once(session, err) == 0)
		return 0;
	session->ending = true;
	return error_context(err, "making the sandbox anew, without which the session ends");
}

/* Of a snapshot that could not be kept. */
static void advise_space(const struct snapshots *snapshots, struct error *err)
{
	if (err->errnum == ENOSPC && !err->hint[0])
		error_hint(err, "the disk of %s is full: free some there, or remove snapshots: nsbox session snapshots rm SNAPSHOT",
			snapshots->path);
}

/* What a sandbox writes before its code does: without that there would be none. */
static int check_free(const struct session *session, struct error *err)
{
	if (storage_free_bytes(session->space.storage.folder) >= RENEW_BYTES)
		return 0;
	error_set(err, ENOSPC, "the disk of %s is full", session->space.storage.path);
	return error_hint(err, "free some there, or remove snapshots: nsbox session snapshots rm SNAPSHOT");
}

/* Of packages, what is shown elsewhere is shown over a directory; an install may have left something else. */
static int check_source(const struct session *session, const struct mount_spec *mount, struct error *err)
{
	const struct storage *packages = &session->space.packages;
	cleanup_close int fd = -1;

	if (packages->folder < 0 || !spec_path_below(mount->source, packages->path))
		return tree_check_source(mount, err);
	fd = open_exact(mount->source, mount->exact, O_PATH | O_DIRECTORY);
	return fd < 0 ? error_set(err, errno, "binding %s", mount->source) : 0;
}

/* What the host has had removed since, a sandbox that is there has still, and another one could not get. */
static int check_sources(const struct session *session, struct error *err)
{
	const struct spec *spec = session->spec;

	if (spec->root == ROOT_DIRECTORY) {
		cleanup_close int root = open_lower(spec, spec_lowers_count(spec) - 1, err);

		if (root < 0)
			return -1;
	}
	for (size_t i = 0; i < spec->mounts_count; i++)
		if (spec->mounts[i].kind == MOUNT_BIND && check_source(session, &spec->mounts[i], err) < 0)
			return -1;
	return 0;
}

/* All that can fail for want of place, or of rights, while the sandbox is there still. *ret is the caller's to close. */
static int prepare_layer(const struct session *session, const struct snapshots *snapshots, int top,
	const struct upper_size *size, char ret_id[SNAPSHOT_ID_SIZE], int *ret, struct error *err)
{
	cleanup_close int folder = -1;
	struct stat from, to;

	if (check_free(session, err) < 0 || snapshot_layer_make(snapshots, ret_id, &folder, err) < 0 ||
		note_layer(folder, size, err) < 0)
		return -1;
	if (fstat(top, &from) < 0 || fstat(folder, &to) < 0)
		return error_set(err, errno, "looking at %s", snapshots->path);
	if (from.st_dev != to.st_dev) {
		error_set(err, EXDEV, "%s is on another file system than %s", snapshots->path, session->space.storage.path);
		return error_hint(err, "nothing of a store can be mounted, or a subvolume, by itself");
	}
	*ret = move_fd(&folder);
	return 0;
}

/* The sandbox is gone. Takes over the folder. -1 where something of it is not as it was. */
static int make_layer(struct session *session, const struct snapshots *snapshots, int top, const char *id, int *folder,
	struct error *err)
{
	static const char *const nothing[] = {NULL};
	cleanup_free char *tree = snapshot_layer_tree(snapshots, id);
	struct error passing = {0};

	spec_add_layer(&session->own, tree);
	add_held(&session->past, move_fd(folder));
	session->past.layers_count++;
	return upper_become_layer(top, nothing, &passing) < 0 ? upper_become_layer_still(top, nothing, err) : 0;
}

/* Returns 1 where what was written is in a layer, and *ret describes that, but there is no sandbox any more. */
static int freeze(struct session *session, const struct snapshots *snapshots, const struct wanted *wanted,
	struct snapshot *ret, struct error *err)
{
	cleanup_close int top = open_top(session, err), folder = -1;
	struct upper_size size = {.bytes = 0};
	char id[SNAPSHOT_ID_SIZE];
	int r;

	if (top < 0)
		return -1;
	if (session->past.touched_us && upper_measure(top, &size, err) < 0)
		return error_context(err, "this cannot be kept in a layer");
	if (!is_changed(&session->past, &size)) {
		describe(session, wanted->name, ret);
		return 0;
	}
	if (flatten_check(session, err) < 0 || check_size(snapshots, wanted, size.bytes, err) < 0 ||
		prepare_layer(session, snapshots, top, &size, id, &folder, err) < 0 || move_top(session, top, folder, err) < 0)
		return -1;
	session_take_down(session);
	flatten_apply(session, snapshots);
	r = make_layer(session, snapshots, top, id, &folder, err);
	describe(session, wanted->name, ret);
	ret->bytes = size.bytes;
	if (r == 0)
		return renew(session, err) < 0 ? 1 : 0;
	session->ending = true;
	error_context(err, "the session ends, as not all that it has written could be made a layer");
	return 1;
}

/* The session ends without a sandbox: what it had written is in the snapshot, also where nobody else would have kept that. */
static void keep_at_least(const struct snapshots *snapshots, struct snapshot *snapshot, struct error *err)
{
	struct error why = {0};
	int r = snapshots_add(snapshots, snapshot, &why);

	if (r < 0 && why.errnum == EEXIST) {
		snapshot->name[0] = '\0';
		r = snapshots_add(snapshots, snapshot, &why);
	}
	if (r == 0)
		error_hint(err, "what it had written is kept in the snapshot %s", snapshot->id);
	else
		error_hint(err, "nor could what it had written be kept: %s", why.text);
}

static json_t *snapshot_answer(const struct snapshot *snapshot, uint64_t copied_bytes)
{
	return json_pack("{s:o, s:s, s:I}", "snapshot", snapshot_to_json(snapshot), "how",
		snapshot->copied ? "copied" : "frozen", "copied_bytes", (json_int_t)copied_bytes);
}

static int make_snapshot(struct session *session, const struct wanted *wanted, json_t **ret, struct error *err)
{
	struct snapshot snapshot = {.layers = NULL};
	cleanup_close int lock = -1;
	struct snapshots snapshots;
	int r;

	if (check_root(session, err) < 0 || snapshots_open(true, &snapshots, err) < 0)
		return -1;
	lock = snapshots_lock(&snapshots, err);
	r = lock < 0 ? -1 : keep_packages(session, &snapshots, wanted, err);
	if (r == 0)
		flatten_before(session, &snapshots, wanted->max_bytes);
	if (r == 0)
		r = freeze(session, &snapshots, wanted, &snapshot, err);
	if (r > 0)
		keep_at_least(&snapshots, &snapshot, err);
	if (r == 0 && wanted->record)
		r = snapshots_add(&snapshots, &snapshot, err);
	if (r == 0 && wanted->record)
		strcpy(session->past.parent, snapshot.id);
	if (r == 0) {
		*ret = snapshot_answer(&snapshot, 0);
		flatten_after(session, &snapshots, wanted->max_bytes);
	} else {
		advise_space(&snapshots, err);
	}
	snapshot_free(&snapshot);
	snapshots_close(&snapshots);
	return r == 0 ? 0 : -1;
}

/* --- copying --- */

/* What the process that copies says. An empty text is success. */
struct copied {
	struct error error;
	uint64_t copied_bytes, bytes;
};

static int copy_top(const struct session *session, const struct wanted *wanted, int top, struct copied *ret, struct error *err)
{
	static const char *const nothing[] = {NULL};
	const struct copying *copying = &session->copying;
	struct upper_size size;
	cleanup_close int tree = -1;

	if (upper_measure(top, &size, err) < 0)
		return error_context(err, "this cannot be kept in a layer");
	if (check_size(&copying->snapshots, wanted, size.bytes, err) < 0)
		return -1;
	tree = make_tree(copying->folder, err);
	if (tree < 0)
		return -1;
	if (tree_duplicate(top, tree, storage_floor_bytes(tree), &ret->copied_bytes, err) < 0 ||
		upper_become_layer(tree, nothing, err) < 0)
		return error_context(err, "copying what the session has written");
	ret->bytes = size.bytes;
	return note_layer(copying->folder, &size, err);
}

/* Dies with the supervisor, whose layer then belongs to nobody and is swept. */
_Noreturn static void copying_main(const struct session *session, const struct wanted *wanted, int top, int answer, pid_t parent)
{
	const struct copying *copying = &session->copying;
	struct copied copied = {.bytes = 0};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, "nsbox-snapshot");
	session_close_inherited((int[]){copying->snapshots.fd, copying->lock, copying->folder, top, answer}, 5);
	/* So that no mode has to be changed for a while, which would stay if this process were killed. */
	if (idmap_take_power(&copied.error) == 0)
		copy_top(session, wanted, top, &copied, &copied.error);
	advise_space(&copying->snapshots, &copied.error);
	(void)!write_whole(answer, &copied, sizeof copied);
	_exit(0);
}

static bool copies(const struct session *session)
{
	return session->copying.lock >= 0;
}

/* What came of it, to whoever waits for that. `object` is taken over; NULL: *err. */
static void tell(struct session *session, struct connection *connection, struct job *job, json_t *object,
	const struct error *err)
{
	if (connection && object)
		answer(connection, object);
	else if (connection)
		answer_failure(connection, err);
	else if (job)
		job_note_snapshot(session, job,
			object ? object : json_pack("{s:s, s:s}", "failed", err->text, "hint", err->hint));
	else
		json_decref(object);
}

/* It puts back what it has changed first (image/duplicate.h), if it does not take too long for that. */
static void end_copier(pid_t pid)
{
	kill(pid, SIGTERM);
	for (int i = 0; i < COPIER_END_MS; i++) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return;
		usleep(1000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Whatever there is of it is taken back. */
static void stop_copying(struct session *session)
{
	struct copying *copying = &session->copying;

	if (copying->pid > 0)
		end_copier(copying->pid);
	copying->pid = 0;
	copying->connection = NULL;
	copying->job = NULL;
	close_fd(&copying->answer);
	close_fd(&copying->folder);
	close_fd(&copying->lock);
	json_decref(copying->request);
	copying->request = NULL;
}

/* And the code goes on. `object`: the answer, which is taken over; NULL: *err. */
static void end_copying(struct session *session, json_t *object, const struct error *err)
{
	struct copying *copying = &session->copying;
	struct connection *connection = copying->connection;
	struct job *job = copying->job;

	stop_copying(session);
	if (!object)
		space_sweep_snapshots(&copying->snapshots);
	snapshots_close(&copying->snapshots);
	tell(session, connection, job, object, err);
	pause_release(session, PAUSE_SNAPSHOT);
}

void snapshot_end(struct session *session, const struct error *err)
{
	if (copies(session))
		end_copying(session, NULL, err);
}

void snapshot_cancel(struct session *session, const struct job *job)
{
	struct error unimportant = {0};

	if (job && session->copying.job != job)
		return;
	session->copying.connection = NULL;
	session->copying.job = NULL;
	end_copying(session, NULL, &unimportant);
}

static size_t count_layers(const struct snapshot *snapshot)
{
	size_t count = 0;

	while (snapshot->layers[count])
		count++;
	return count;
}

/* Over the layer that was copied, the session's own. */
static void describe_copied(const struct session *session, const char *name, const struct copied *copied, struct snapshot *ret)
{
	size_t count;

	describe(session, name, ret);
	count = count_layers(ret);
	ret->layers = xrealloc(ret->layers, count + 2, sizeof *ret->layers);
	memmove(ret->layers + 1, ret->layers, (count + 1) * sizeof *ret->layers);
	ret->layers[0] = xstrdup(session->copying.layer);
	ret->copied = true;
	ret->bytes = copied->bytes;
}

static int record_copied(struct session *session, const struct copied *copied, json_t **ret, struct error *err)
{
	struct snapshot snapshot;
	struct wanted wanted;
	int r = read_wanted(session->copying.request, &wanted, err);

	if (r < 0)
		return -1;
	describe_copied(session, wanted.name, copied, &snapshot);
	if (wanted.record)
		r = snapshots_add(&session->copying.snapshots, &snapshot, err);
	if (r == 0 && wanted.record)
		strcpy(session->past.parent, snapshot.id);
	if (r == 0)
		*ret = snapshot_answer(&snapshot, copied->copied_bytes);
	snapshot_free(&snapshot);
	return r;
}

void snapshot_copied(struct session *session)
{
	struct copied copied = {.bytes = 0};
	json_t *object = NULL;

	if (read_full(session->copying.answer, &copied, sizeof copied) != sizeof copied)
		error_set(&copied.error, 0, "the process that copied what the session has written was killed");
	if (!copied.error.text[0])
		record_copied(session, &copied, &object, &copied.error);
	end_copying(session, object, &copied.error);
}

static int start_copying(struct session *session, struct error *err)
{
	struct copying *copying = &session->copying;
	cleanup_close int top = open_top(session, err);
	pid_t parent = getpid();
	struct wanted wanted;
	int ends[2];

	if (top < 0 || read_wanted(copying->request, &wanted, err) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe");
	copying->pid = fork();
	if (copying->pid == 0)
		copying_main(session, &wanted, top, ends[1], parent);
	close(ends[1]);
	copying->answer = ends[0];
	if (copying->pid > 0)
		return 0;
	copying->pid = 0;
	return error_set(err, errno, "starting the process that copies what the session has written");
}

static void stands_still(struct session *session, void *data, const struct error *err)
{
	struct error why = {0};

	(void)data;
	if (err || start_copying(session, &why) < 0)
		end_copying(session, NULL, err ? err : &why);
}

static int prepare_copying(struct session *session, const struct wanted *wanted, struct error *err)
{
	struct copying *copying = &session->copying;

	if (check_root(session, err) < 0 || snapshots_open(true, &copying->snapshots, err) < 0)
		return -1;
	copying->lock = snapshots_lock(&copying->snapshots, err);
	if (copying->lock >= 0)
		flatten_before(session, &copying->snapshots, wanted->max_bytes);
	if (copying->lock >= 0 && flatten_check(session, err) == 0 && keep_packages(session, &copying->snapshots, wanted, err) == 0 &&
		snapshot_layer_make(&copying->snapshots, copying->layer, &copying->folder, err) == 0)
		return 0;
	advise_space(&copying->snapshots, err);
	close_fd(&copying->lock);
	snapshots_close(&copying->snapshots);
	return -1;
}

static int begin_copying(struct session *session, const json_t *request, const struct wanted *wanted,
	struct connection *connection, struct job *job, struct error *err)
{
	if (prepare_copying(session, wanted, err) < 0)
		return -1;
	session->copying.connection = connection;
	session->copying.job = job;
	session->copying.request = json_deep_copy(request);
	pause_take(session, PAUSE_SNAPSHOT, stands_still, NULL);
	return 0;
}

/* --- requests --- */

/* At once, or later, to either of the two that waits. */
static void begin(struct session *session, const json_t *request, struct connection *connection, struct job *job)
{
	struct error err = {0}, unimportant;
	struct wanted wanted;
	json_t *object = NULL;
	int r = read_wanted(request, &wanted, &err);

	if (r == 0 && (is_busy(session) || check_sources(session, &unimportant) < 0)) {
		r = begin_copying(session, request, &wanted, connection, job, &err);
		if (r == 0)
			return;
	} else if (r == 0) {
		r = make_snapshot(session, &wanted, &object, &err);
	}
	tell(session, connection, job, object, &err);
}

void snapshot_request(struct session *session, struct connection *connection, const json_t *request)
{
	begin(session, request, connection, NULL);
}

void snapshots_of_jobs(struct session *session)
{
	for (size_t i = 0; i < JOBS_MAX && !copies(session) && !session->ending; i++)
		if (session->jobs[i].state == JOB_SNAPSHOT && !session->jobs[i].snapshot_told)
			begin(session, session->jobs[i].snapshot, NULL, &session->jobs[i]);
	for (size_t i = 0; i < JOBS_MAX; i++)
		if (session->jobs[i].state == JOB_SNAPSHOT && session->jobs[i].snapshot_told)
			job_finish(session, &session->jobs[i]);
}

/* --- restore --- */

static bool same_strings(char *const *a, char *const *b)
{
	size_t i = 0;

	for (; a && a[i] && b && b[i]; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return !(a && a[i]) && !(b && b[i]);
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ?: "", b ?: "") == 0;
}

/* `other` is over `others` layers of snapshots. */
static int check_same_root(const struct session *session, const struct spec *other, size_t others, struct error *err)
{
	const struct spec *own = session->spec;
	char *const *layers = own->root_layers ? own->root_layers + session->past.layers_count : NULL;

	if (own->root == other->root && same_text(own->root_path, other->root_path) &&
		same_text(own->root_digest, other->root_digest) &&
		same_strings(layers, other->root_layers ? other->root_layers + others : NULL))
		return 0;
	error_set(err, 0, "the snapshot is of a session with another root: %s",
		other->root == ROOT_HOST ? "the host's" : other->root_path);
	return error_hint(err, "make a session of it instead: nsbox session fork SNAPSHOT");
}

/* Commands that run, and not what they are to contexts. */
static size_t count_commands(const struct session *session)
{
	size_t count = 0;

	for (size_t i = 0; i < JOBS_MAX; i++)
		count += is_active(&session->jobs[i]) && !session->jobs[i].context && !session->jobs[i].cell;
	return count;
}

static size_t count_contexts(const struct session *session)
{
	size_t count = 0;

	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		count += session->contexts[i].job != NULL;
	return count;
}

/* A context that was to be restarted begins anew once more. */
static void end_all(struct session *session, const struct snapshot *snapshot)
{
	const char *name = snapshot->name[0] ? snapshot->name : snapshot->id;
	struct error why = {0};

	error_set(&why, 0, "the session was restored to the snapshot %s", name);
	contexts_begin_restore(session);
	jobs_fail_all(session, &why);
	if (count_contexts(session) > 0) {
		contexts_begin_restore(session);
		jobs_fail_all(session, &why);
	}
	contexts_end_restore(session, name);
}

/* From here on there is no way back. `spec` gives up its layers, which are held. */
static int go_back(struct session *session, const struct snapshot *snapshot, struct spec *spec, struct error *err)
{
	end_all(session, snapshot);
	session_take_down(session);
	strings_free(session->own.root_layers);
	session->own.root_layers = spec->root_layers;
	spec->root_layers = NULL;
	strcpy(session->past.parent, snapshot->id);
	flatten_review(session);
	if (renew(session, err) == 0)
		return 0;
	return error_hint(err, "what it was to have is in the snapshot still: nsbox session fork %s", snapshot->id);
}

static int restore(struct session *session, const struct snapshots *snapshots, const json_t *request, json_t **ret,
	struct error *err)
{
	const char *text = json_string_value(json_object_get(request, "snapshot")) ?: "";
	bool shared_only = strcmp(json_string_value(json_object_get(request, "from")) ?: "", "mcp") == 0;
	size_t commands = count_commands(session), contexts = count_contexts(session);
	struct snapshot snapshot;
	struct spec spec;
	int r;

	if (snapshots_find(snapshots, text, shared_only, &snapshot, err) < 0)
		return -1;
	r = fork_read_spec(snapshots, &snapshot, &spec, err);
	if (r == 0) {
		r = check_same_root(session, &spec, count_layers(&snapshot), err);
		if (r == 0)
			r = hold(&session->past, &spec, err);
		if (r == 0)
			r = go_back(session, &snapshot, &spec, err);
		spec_free(&spec);
	}
	if (r == 0)
		*ret = json_pack("{s:s, s:s?, s:I, s:I}", "snapshot_id", snapshot.id, "name",
			snapshot.name[0] ? snapshot.name : NULL, "ended_commands", (json_int_t)commands, "ended_contexts",
			(json_int_t)contexts);
	snapshot_free(&snapshot);
	return r;
}

void restore_request(struct session *session, struct connection *connection, const json_t *request)
{
	cleanup_close int lock = -1;
	struct snapshots snapshots;
	struct error err = {0};
	json_t *object = NULL;
	int r = check_root(session, &err);

	if (r == 0)
		r = check_sources(session, &err);
	if (r == 0)
		r = check_free(session, &err);
	if (r == 0)
		r = snapshots_open(true, &snapshots, &err);
	if (r == 0) {
		lock = snapshots_lock(&snapshots, &err);
		r = lock < 0 ? -1 : restore(session, &snapshots, request, &object, &err);
		snapshots_close(&snapshots);
	}
	if (r < 0)
		answer_failure(connection, &err);
	else
		answer(connection, object);
}
