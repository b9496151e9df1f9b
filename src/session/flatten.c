/* SPDX-License-Identifier: MIT */
/*
 * The layers that a session is over, kept few: each snapshot lays one more on them.
 *
 * Where there are many (image/flatten.h), a process of its own merges some of them into one, while the session goes on. That is
 * a layer like any other, of the same content as those together. It takes their place in the session when its sandbox
 * is made anew, at the next snapshot that is not copied; and in what is recorded, or forked, as soon as it is there. So nobody
 * waits for it, but for a moment where layers come faster than they are merged, and longer where there can be no more.
 *
 * Layers that are merged are not changed. Snapshots that name them keep them, and others are swept. Until it is done nobody
 * knows of the new one: if the process is killed, the disk is full, or snapshots take all that they may, the session stays over
 * what it is over, and tries again some snapshots later.
 */
#define _GNU_SOURCE
#include "image/flatten.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/duplicate.h"
#include "image/storage.h"
#include "packages/layers.h"
#include "report/report.h"
#include "sandbox/idmap.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	BLOCK = 4096,	 /* bytes of a name, where nobody has counted these */
	BEHIND = 8,	 /* layers more than enough: merging does not keep pace */
	FEW_LEFT = 100,
	WAIT_MS = 250,	 /* where it does not keep pace, */
	WAIT_LONG_MS = 2000, /* few more layers can be, */
	WAIT_LAST_MS = 10000, /* none more */
};

/* --- what is in the place of what --- */

static size_t count_strings(char *const *strings)
{
	size_t count = 0;

	while (strings && strings[count])
		count++;
	return count;
}

/* Where the session has the layers that were merged: their first, or -1. */
static ssize_t find_merged(const struct session *session)
{
	char **own = session->spec->root_layers, **trees = session->flattening.trees;
	size_t wanted = count_strings(trees), first = 0, same = 0;

	while (wanted > 0 && first + wanted <= session->past.layers_count) {
		for (same = 0; same < wanted && strcmp(own[first + same], trees[same]) == 0; same++)
			;
		if (same == wanted)
			return (ssize_t)first;
		first++;
	}
	return -1;
}

char **flatten_layers(const struct session *session, size_t *ret_count)
{
	const struct flattening *flattening = &session->flattening;
	char **own = session->spec->root_layers;
	ssize_t first = flattening->done ? find_merged(session) : -1;
	size_t merged = count_strings(flattening->trees), count = count_strings(own), n = 0;
	char **list = xcalloc(count + 1, sizeof *list);

	for (size_t i = 0; i < count; i++) {
		if (first < 0 || i < (size_t)first || i >= (size_t)first + merged)
			list[n++] = xstrdup(own[i]);
		else if (i == (size_t)first)
			list[n++] = xstrdup(flattening->tree);
	}
	*ret_count = session->past.layers_count - (count - n);
	return list;
}

size_t flatten_count(const struct session *session)
{
	const struct flattening *flattening = &session->flattening;
	size_t count = spec_lowers_count(session->spec);

	return flattening->done && find_merged(session) >= 0 ? count + 1 - count_strings(flattening->trees) : count;
}

/* --- the process --- */

struct merging {
	const struct session *session;
	const struct snapshots *snapshots;
	struct flatten_range range;
	int folder; /* of the new layer */
	uint64_t max_bytes;
	struct merge_layer layers[SPEC_LAYERS_MAX + 1]; /* and a directory */
	size_t count;
	uint64_t shared[SPEC_LAYERS_MAX];
};

static int add_layer(struct merging *merging, const char *tree, enum merge_role role, int flags, struct error *err)
{
	int fd = open(tree, flags | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno, "%s", tree);
	merging->layers[merging->count++] = (struct merge_layer){.fd = fd, .role = role};
	return 0;
}

/*
 * What is below the lowest layers does not change where it is an image, or nothing; what whiteouts hide there is known then, and
 * those that hide nothing any more need not be kept for ever.
 */
static bool is_known_below(const struct merging *merging)
{
	const struct session *session = merging->session;
	const struct spec *spec = session->spec;
	size_t lowest = session->past.layers_count;

	if (merging->range.first + merging->range.count < lowest || spec->root == ROOT_DIRECTORY)
		return false;
	for (char **layer = spec->root_layers + lowest; *layer; layer++)
		if (spec->root != ROOT_IMAGE || layer_is_tree(*layer))
			return false;
	return true;
}

/* All that is below is looked at: which directories are there. */
static int add_layers(struct merging *merging, struct error *err)
{
	const struct spec *spec = merging->session->spec;
	char **trees = spec->root_layers;
	size_t end = merging->range.first + merging->range.count;

	for (size_t i = merging->range.first; i < end; i++)
		if (add_layer(merging, trees[i], MERGE_WHOLE, O_RDONLY | O_NOFOLLOW, err) < 0)
			return -1;
	for (size_t i = end; trees[i]; i++)
		if (add_layer(merging, trees[i], MERGE_BELOW, O_PATH | O_NOFOLLOW, err) < 0)
			return -1;
	/* Its owner says where that is, and may do so by a link. */
	return spec->root == ROOT_DIRECTORY ? add_layer(merging, spec->root_path, MERGE_BELOW, O_PATH, err) : 0;
}

static int check_size(const struct merging *merging, uint64_t bytes, struct error *err)
{
	uint64_t there = snapshots_bytes(merging->snapshots);
	char limit[64], used[64], more[64];

	if (!merging->max_bytes || there + bytes <= merging->max_bytes)
		return 0;
	format_bytes(merging->max_bytes, limit, sizeof limit);
	format_bytes(there, used, sizeof used);
	format_bytes(bytes, more, sizeof more);
	return error_set(err, ENOSPC, "snapshots take %s of the %s that they may, and what is merged would take %s more", used,
		limit, more);
}

/* What the layers that were merged have in the new one: no more than they are said to have. */
static json_t *describe_shared(const struct merging *merging)
{
	json_t *shared = json_object();

	for (size_t i = 0; i < merging->range.count; i++) {
		const char *tree = merging->session->spec->root_layers[merging->range.first + i];
		struct layer_note note;
		uint64_t bytes;
		char id[SNAPSHOT_ID_SIZE];

		snprintf(id, sizeof id, "%s", snapshot_layer_id(tree));
		snapshot_layer_read_note(merging->snapshots, id, &note);
		bytes = layer_note_bytes(&note);
		json_decref(note.shared);
		if (merging->shared[i] < bytes)
			bytes = merging->shared[i];
		if (bytes > 0)
			json_object_set_new(shared, id, json_integer((json_int_t)bytes));
	}
	return shared;
}

static int merge(struct merging *merging, struct error *err)
{
	bool known = is_known_below(merging);
	struct tree_merged merged = {.shared = merging->shared};
	struct layer_note note;
	cleanup_close int tree = -1;
	int r;

	if (mkdirat(merging->folder, "fs", 0700) < 0)
		return error_set(err, errno, "making a layer");
	tree = openat(merging->folder, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (tree < 0)
		return error_set(err, errno, "making a layer");
	if (storage_files_low(tree))
		return error_set(err, ENOSPC, "the disk of %s can have few files more", merging->snapshots->path);
	if (add_layers(merging, err) < 0 ||
		tree_merge(merging->layers, merging->count, !known, tree, storage_floor_bytes(tree), &merged, err) < 0 ||
		check_size(merging, merged.bytes, err) < 0)
		return -1;
	note = (struct layer_note){.bytes = merged.bytes, .entries = merged.entries, .shared = describe_shared(merging)};
	r = snapshot_layer_note(merging->folder, &note, err);
	json_decref(note.shared);
	return r;
}

/* Dies with the supervisor, whose layer then belongs to nobody and is swept. */
_Noreturn static void merging_main(struct merging *merging, int answer, pid_t parent)
{
	struct error said = {0};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, "nsbox-merge");
	session_close_inherited((int[]){merging->snapshots->fd, merging->folder, answer}, 3);
	take_descriptors(); /* each layer has one in each directory on the way */
	if (idmap_take_power(&said) == 0)
		merge(merging, &said);
	(void)!write_whole(answer, &said, sizeof said);
	_exit(0);
}

/* --- beginning and end --- */

static bool is_idle(const struct session *session)
{
	return !session->flattening.trees;
}

/* It can be begun anew from here on. */
static void forget(struct flattening *flattening)
{
	if (flattening->pid > 0) {
		kill(flattening->pid, SIGKILL);
		waitpid(flattening->pid, NULL, 0);
	}
	flattening->pid = 0;
	flattening->done = false;
	close_fd(&flattening->answer);
	close_fd(&flattening->folder);
	strings_free(flattening->trees);
	flattening->trees = NULL;
	free(flattening->tree);
	flattening->tree = NULL;
}

static void note_failure(struct session *session, const struct snapshots *snapshots, const struct error *why)
{
	struct flattening *flattening = &session->flattening;

	forget(flattening);
	flattening->error = *why;
	flattening->again = session->past.layers_count + BEHIND;
	space_sweep_snapshots(snapshots);
}

static bool choose(const struct session *session, const struct snapshots *snapshots, struct flatten_range *ret)
{
	size_t count = session->past.layers_count;
	uint64_t entries[SPEC_LAYERS_MAX];

	for (size_t i = 0; i < count; i++) {
		struct layer_note note;

		snapshot_layer_read_note(snapshots, snapshot_layer_id(session->spec->root_layers[i]), &note);
		entries[i] = note.entries ? note.entries : layer_note_bytes(&note) / BLOCK;
		json_decref(note.shared);
	}
	return flatten_choose(entries, count, ret);
}

static void note_trees(const struct session *session, const struct merging *merging, struct flattening *ret)
{
	ret->trees = xcalloc(merging->range.count + 1, sizeof *ret->trees);
	for (size_t i = 0; i < merging->range.count; i++)
		ret->trees[i] = xstrdup(session->spec->root_layers[merging->range.first + i]);
}

static int start(struct session *session, struct merging *merging, struct error *err)
{
	struct flattening *flattening = &session->flattening;
	char id[SNAPSHOT_ID_SIZE];
	pid_t parent = getpid();
	int ends[2];

	if (snapshot_layer_make(merging->snapshots, id, &flattening->folder, err) < 0)
		return -1;
	merging->folder = flattening->folder;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, errno, "making a pipe");
	flattening->pid = fork();
	if (flattening->pid == 0)
		merging_main(merging, ends[1], parent);
	close(ends[1]);
	flattening->answer = ends[0];
	if (flattening->pid < 0)
		return error_set(err, errno, "starting the process that merges layers");
	flattening->tree = snapshot_layer_tree(merging->snapshots, id);
	note_trees(session, merging, flattening);
	return 0;
}

static void begin(struct session *session, const struct snapshots *snapshots, uint64_t max_bytes)
{
	cleanup_free struct merging *merging = xcalloc(1, sizeof *merging);
	struct error why = {0};

	*merging = (struct merging){.session = session, .snapshots = snapshots, .max_bytes = max_bytes};
	if (choose(session, snapshots, &merging->range) && start(session, merging, &why) < 0)
		note_failure(session, snapshots, &why);
}

/* Waits for what the process says. */
static void take_answer(struct session *session, const struct snapshots *snapshots, int wait_ms)
{
	struct flattening *flattening = &session->flattening;
	struct pollfd fd = {.fd = flattening->answer, .events = POLLIN};
	struct error said = {0};

	if (poll(&fd, 1, wait_ms) <= 0)
		return;
	if (read_full(flattening->answer, &said, sizeof said) != sizeof said)
		error_set(&said, 0, "the process that merges them was killed");
	waitpid(flattening->pid, NULL, 0);
	flattening->pid = 0;
	close_fd(&flattening->answer);
	flattening->done = !said.text[0];
	flattening->error = said;
	if (said.text[0])
		note_failure(session, snapshots, &said);
}

/* --- for who makes snapshots --- */

void flatten_review(struct session *session)
{
	if (!is_idle(session) && find_merged(session) < 0)
		forget(&session->flattening);
}

/* Layers that no attempt is made with, after one that failed; where no more can be, there is nothing to be lost. */
static bool is_enough(const struct session *session, size_t from)
{
	size_t count = session->past.layers_count;

	return count >= from && (count >= session->flattening.again || spec_lowers_count(session->spec) >= SPEC_LAYERS_MAX);
}

static int wait_of(const struct session *session)
{
	size_t count = flatten_count(session);

	if (count >= SPEC_LAYERS_MAX)
		return WAIT_LAST_MS;
	if (count >= SPEC_LAYERS_MAX - FEW_LEFT)
		return WAIT_LONG_MS;
	return session->past.layers_count >= FLATTEN_FROM + BEHIND ? WAIT_MS : 0;
}

void flatten_before(struct session *session, const struct snapshots *snapshots, uint64_t max_bytes)
{
	flatten_review(session);
	if (is_idle(session) && is_enough(session, FLATTEN_FROM + BEHIND))
		begin(session, snapshots, max_bytes);
	if (session->flattening.pid > 0)
		take_answer(session, snapshots, wait_of(session));
}

void flatten_after(struct session *session, const struct snapshots *snapshots, uint64_t max_bytes)
{
	if (is_idle(session) && is_enough(session, FLATTEN_FROM))
		begin(session, snapshots, max_bytes);
}

void flatten_apply(struct session *session, const struct snapshots *snapshots)
{
	char **before = session->own.root_layers;
	struct error unimportant;
	size_t count;

	if (!session->flattening.done)
		return;
	session->own.root_layers = flatten_layers(session, &count);
	if (past_hold_again(session, &unimportant) == 0) {
		strings_free(before);
		session->flattening.again = 0;
	} else {
		strings_free(session->own.root_layers);
		session->own.root_layers = before;
	}
	forget(&session->flattening);
	space_sweep_snapshots(snapshots);
}

void flatten_end(struct session *session)
{
	forget(&session->flattening);
}

int flatten_check(const struct session *session, struct error *err)
{
	const struct flattening *flattening = &session->flattening;

	if (flatten_count(session) < SPEC_LAYERS_MAX)
		return 0;
	if (flattening->pid > 0) {
		error_set(err, 0, "the session is over %d layers, as many as there can be, and they are still being merged",
			SPEC_LAYERS_MAX);
		return error_hint(err, "try again in a while");
	}
	error_set(err, 0, "the session is over %d layers, as many as there can be, which could not be merged: %s", SPEC_LAYERS_MAX,
		flattening->error.text);
	return error_hint(err, "make an image of it (nsbox session commit), and a session in that");
}
