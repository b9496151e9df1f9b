/* SPDX-License-Identifier: MIT */
/* What there was in a tree, and what is different later: see listing.h. */
#define _GNU_SOURCE
#include "session/listing.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report/report.h"
#include "sandbox/fileops.h"
#include "util/alloc.h"
#include "util/error.h"

enum { ERRNO_END = 4096 };

struct node {
	uint64_t inode, size, ctime_ns;
	uint32_t mode;
	uint32_t name, name_length; /* in `names` */
	uint32_t directory;         /* its number, where it is one */
	bool left_out;
};

struct directory {
	uint32_t first, count; /* its nodes */
	uint32_t errnum;       /* why nothing is known of them */
	uint16_t depth, path_length;
};

struct listing {
	unsigned holders;
	struct node *nodes;
	struct directory *directories; /* the tree itself is the first */
	char *names;
	uint32_t nodes_count, directories_count, names_length;
};

/* --- parsing --- */

struct reader {
	const uint8_t *next;
	size_t left;
};

static bool take(struct reader *reader, void *to, size_t length)
{
	if (length > reader->left)
		return false;
	memcpy(to, reader->next, length);
	reader->next += length;
	reader->left -= length;
	return true;
}

static bool is_mode(uint32_t mode)
{
	return !(mode & ~(uint32_t)(S_IFMT | 07777)) &&
	       (S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISFIFO(mode) || S_ISSOCK(mode) || S_ISCHR(mode) ||
		       S_ISBLK(mode));
}

/* One component of a path, behind which a slash is, for a directory. */
static bool is_name(const char *name, size_t length, bool directory)
{
	if (directory && (length == 0 || name[--length] != '/'))
		return false;
	if (length == 0 || memchr(name, '/', length) || memchr(name, '\0', length))
		return false;
	return !(name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.')));
}

static int compare_names(const struct listing *one, const struct node *node, const struct listing *other,
	const struct node *other_node)
{
	uint32_t length = node->name_length, other_length = other_node->name_length;
	int r = memcmp(one->names + node->name, other->names + other_node->name,
		length < other_length ? length : other_length);

	return r ? r : (length > other_length) - (length < other_length);
}

/* The next node of a directory. False: it makes no sense. */
static bool take_node(struct listing *listing, struct reader *reader, const struct directory *directory)
{
	struct fileop_node told;
	struct node *node = &listing->nodes[listing->nodes_count];
	bool first = listing->nodes_count == directory->first;

	if (!take(reader, &told, sizeof told) || !is_mode(told.mode) || told.size > INT64_MAX ||
		told.name_length >= (uint32_t)FILEOP_PATH_MAX - directory->path_length)
		return false;
	*node = (struct node){.inode = told.inode,
		.size = told.size,
		.ctime_ns = told.ctime_ns,
		.mode = told.mode,
		.name = listing->names_length,
		.name_length = told.name_length};
	if (!take(reader, listing->names + node->name, told.name_length) ||
		!is_name(listing->names + node->name, told.name_length, S_ISDIR(told.mode)))
		return false;
	if (!first && compare_names(listing, node - 1, listing, node) >= 0)
		return false;
	listing->names_length += told.name_length;
	listing->nodes_count++;
	if (!S_ISDIR(told.mode))
		return true;
	node->directory = listing->directories_count;
	listing->directories[listing->directories_count++] =
		(struct directory){.depth = (uint16_t)(directory->depth + 1),
			.path_length = (uint16_t)(directory->path_length + told.name_length)};
	return true;
}

static bool take_directory(struct listing *listing, struct reader *reader, struct directory *directory, size_t room)
{
	struct fileop_directory told;

	if (!take(reader, &told, sizeof told) || (told.errnum && told.count) || told.errnum >= ERRNO_END ||
		told.count > room - listing->nodes_count || (directory->depth >= FILEOP_DEPTH_MAX && told.count))
		return false;
	directory->first = listing->nodes_count;
	directory->count = told.count;
	directory->errnum = told.errnum;
	for (uint32_t i = 0; i < told.count; i++)
		if (!take_node(listing, reader, directory))
			return false;
	return true;
}

static struct listing *make(size_t nodes_max, size_t names_max)
{
	struct listing *listing = xcalloc(1, sizeof *listing);

	listing->holders = 1;
	listing->nodes = xmalloc((nodes_max + 1) * sizeof *listing->nodes);
	listing->directories = xmalloc((nodes_max + 1) * sizeof *listing->directories);
	listing->names = xmalloc(names_max + 1);
	listing->directories[0] = (struct directory){.count = 0};
	listing->directories_count = 1;
	return listing;
}

static void shrink(struct listing *listing)
{
	listing->nodes = xrealloc(listing->nodes, listing->nodes_count + 1, sizeof *listing->nodes);
	listing->directories =
		xrealloc(listing->directories, listing->directories_count, sizeof *listing->directories);
	listing->names = xrealloc(listing->names, listing->names_length + 1, 1);
}

struct listing *listing_parse(const void *data, size_t length)
{
	struct reader reader = {data, length};
	size_t room = length / sizeof(struct fileop_node);
	struct listing *listing;
	bool right = true;

	if (room > FILEOP_SCAN_MAX)
		room = FILEOP_SCAN_MAX;
	listing = make(room, length);
	for (uint32_t i = 0; i < listing->directories_count && right; i++)
		right = take_directory(listing, &reader, &listing->directories[i], room);
	if (!right || reader.left > 0) {
		listing_release(&listing);
		return NULL;
	}
	shrink(listing);
	return listing;
}

void listing_leave_out(struct listing *listing, const char *name)
{
	size_t length = strlen(name);

	for (uint32_t i = 0; i < listing->directories[0].count; i++) {
		struct node *node = &listing->nodes[i];

		if (node->name_length == length && memcmp(listing->names + node->name, name, length) == 0)
			node->left_out = true;
	}
}

struct listing *listing_empty(void)
{
	return make(0, 0);
}

struct listing *listing_hold(struct listing *listing)
{
	listing->holders++;
	return listing;
}

void listing_release(struct listing **listing)
{
	struct listing *held = *listing;

	*listing = NULL;
	if (!held || --held->holders > 0)
		return;
	free(held->nodes);
	free(held->directories);
	free(held->names);
	free(held);
}

size_t listing_bytes(const struct listing *listing)
{
	return sizeof *listing + listing->nodes_count * sizeof *listing->nodes +
	       listing->directories_count * sizeof *listing->directories + listing->names_length;
}

uint64_t listing_newest(const struct listing *listing)
{
	uint64_t newest = 0;

	for (uint32_t i = 0; i < listing->nodes_count; i++)
		if (!S_ISDIR(listing->nodes[i].mode) && listing->nodes[i].ctime_ns > newest)
			newest = listing->nodes[i].ctime_ns;
	return newest;
}

/* --- comparing --- */

/* A directory in one of two listings. */
struct side {
	const struct listing *listing;
	const struct directory *directory;
};

enum change { CREATED, MODIFIED, DELETED, CHANGE_MAX };

struct comparison {
	json_t *lists[CHANGE_MAX];               /* NULL while changes are only counted */
	uint64_t at_depth[FILEOP_DEPTH_MAX + 1]; /* changes; then how many may still be told of */
	char path[FILEOP_PATH_MAX];
	/* Directories that were not looked into: the first, why, and how many. */
	size_t unknown_length;
	char unknown[FILEOP_PATH_MAX];
	uint32_t unknown_errnum;
	uint64_t unknown_count;
};

/* What has one name. `old` or `new` is NULL where there is nothing; `length` of the path are before the name. */
struct pair {
	struct side before, after;
	const struct node *old, *new;
	size_t length;
	unsigned depth;
};

static struct side side_of(const struct listing *listing, const struct node *node)
{
	static const struct directory none;

	return (struct side){listing, node ? &listing->directories[node->directory] : &none};
}

/* The node of number *next or, where it was left out, after it: *next becomes its number. NULL: there is none. */
static const struct node *node_at(const struct side *side, uint32_t *next)
{
	for (; *next < side->directory->count; (*next)++) {
		const struct node *node = &side->listing->nodes[side->directory->first + *next];

		if (!node->left_out)
			return node;
	}
	return NULL;
}

static bool differ(const struct node *old, const struct node *new)
{
	if (old->mode != new->mode || S_ISDIR(old->mode))
		return old->mode != new->mode;
	return old->inode != new->inode || old->size != new->size || old->ctime_ns != new->ctime_ns;
}

static void tell(struct comparison *comparison, enum change change, const struct node *node, size_t path_length)
{
	json_t *path = bytes_to_json(comparison->path, path_length);

	if (change != DELETED)
		path = json_pack("{s:o, s:I}", "path", path, "size",
			S_ISDIR(node->mode) ? (json_int_t)0 : (json_int_t)node->size);
	json_array_append_new(comparison->lists[change], path);
}

/* Counts it, or tells of it where there is room. */
static void note(struct comparison *comparison, enum change change, const struct pair *pair, size_t path_length)
{
	uint64_t *count = &comparison->at_depth[pair->depth];

	if (!comparison->lists[change]) {
		(*count)++;
	} else if (*count > 0) {
		(*count)--;
		tell(comparison, change, pair->new ?: pair->old, path_length);
	}
}

static void note_unknown(struct comparison *comparison, uint32_t errnum, size_t path_length)
{
	if (comparison->lists[0] || errnum == EXDEV)
		return;
	if (comparison->unknown_count++ > 0)
		return;
	comparison->unknown_errnum = errnum;
	comparison->unknown_length = path_length;
	memcpy(comparison->unknown, comparison->path, path_length);
}

static void compare_directories(struct comparison *comparison, const struct side *before, const struct side *after,
	size_t path_length, unsigned depth);

static void compare_pair(struct comparison *comparison, const struct pair *pair)
{
	const struct node *node = pair->new ?: pair->old;
	const struct side *side = pair->new ? &pair->after : &pair->before;
	size_t path_length = pair->length + node->name_length;
	struct side before, after;

	memcpy(comparison->path + pair->length, side->listing->names + node->name, node->name_length);
	if (!pair->old || !pair->new)
		note(comparison, pair->new ? CREATED : DELETED, pair, path_length);
	else if (differ(pair->old, pair->new))
		note(comparison, MODIFIED, pair, path_length);
	/* Those that have one name are both directories, or neither: the slash is a part of it. */
	if (!S_ISDIR(node->mode))
		return;
	before = side_of(pair->before.listing, pair->old);
	after = side_of(pair->after.listing, pair->new);
	compare_directories(comparison, &before, &after, path_length, pair->depth + 1);
}

static void compare_directories(struct comparison *comparison, const struct side *before, const struct side *after,
	size_t path_length, unsigned depth)
{
	uint32_t errnum = before->directory->errnum ?: after->directory->errnum, i = 0, j = 0;
	struct pair pair = {.before = *before, .after = *after, .length = path_length, .depth = depth};

	if (errnum) {
		note_unknown(comparison, errnum, path_length);
		return;
	}
	for (;;) {
		int order;

		pair.old = node_at(before, &i);
		pair.new = node_at(after, &j);
		if (!pair.old && !pair.new)
			return;
		order = !pair.old   ? 1
			: !pair.new ? -1
				    : compare_names(before->listing, pair.old, after->listing, pair.new);
		if (order < 0)
			pair.new = NULL;
		if (order > 0)
			pair.old = NULL;
		i += order <= 0;
		j += order >= 0;
		compare_pair(comparison, &pair);
	}
}

/* What of the changes is told of: as many as there is room for, from the top of the tree. Returns how many are not. */
static uint64_t choose(struct comparison *comparison)
{
	uint64_t room = LISTING_CHANGES_MAX, omitted = 0;

	for (size_t depth = 0; depth <= FILEOP_DEPTH_MAX; depth++) {
		uint64_t *count = &comparison->at_depth[depth], told = *count < room ? *count : room;

		omitted += *count - told;
		room -= told;
		*count = told;
	}
	return omitted;
}

static void describe_unknown(const struct comparison *comparison, const char *name, struct error *ret)
{
	char others[64] = "";
	const char *reason = "";
	int errnum = 0;

	switch (comparison->unknown_errnum) {
	case E2BIG:
		reason = ": there are too many files and directories";
		break;
	case ETIME:
		reason = ": there was no time left";
		break;
	case ESTALE:
		reason = ": another one was put in its place";
		break;
	case ENAMETOOLONG:
		reason = ": it lies too deep";
		break;
	default:
		errnum = (int)comparison->unknown_errnum;
	}
	if (comparison->unknown_count > 1)
		snprintf(
			others, sizeof others, ", and %llu other%s,", (unsigned long long)comparison->unknown_count - 1,
			comparison->unknown_count > 2 ? "s" : "");
	error_set(ret, errnum, "%s/%.*s%s %s not looked into%s", name, (int)comparison->unknown_length,
		comparison->unknown, others, *others ? "were" : "was", reason);
}

static json_t *changes_to_json(json_t *lists[CHANGE_MAX], uint64_t omitted)
{
	return json_pack("{s:o, s:o, s:o, s:I}", "created", lists[CREATED], "modified", lists[MODIFIED], "deleted",
		lists[DELETED], "omitted", (json_int_t)omitted);
}

json_t *listing_compare(const struct listing *before, const struct listing *after, const char *name)
{
	struct comparison *comparison = xcalloc(1, sizeof *comparison);
	struct side sides[] = {{before, before->directories}, {after, after->directories}};
	uint64_t omitted;
	struct error err;
	json_t *changes;

	compare_directories(comparison, &sides[0], &sides[1], 0, 0);
	omitted = choose(comparison);
	for (size_t i = 0; i < CHANGE_MAX; i++)
		comparison->lists[i] = json_array();
	compare_directories(comparison, &sides[0], &sides[1], 0, 0);
	changes = changes_to_json(comparison->lists, omitted);
	if (comparison->unknown_count > 0) {
		describe_unknown(comparison, name, &err);
		json_object_set_new(changes, "incomplete", json_string(err.text));
	}
	free(comparison);
	return changes;
}

json_t *listing_no_changes(const char *incomplete)
{
	json_t *changes = changes_to_json((json_t *[]){json_array(), json_array(), json_array()}, 0);

	if (incomplete)
		json_object_set_new(changes, "incomplete", json_string(incomplete));
	return changes;
}
