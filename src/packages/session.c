/* SPDX-License-Identifier: MIT */
/* Packages of sessions: see session.h. */
#define _GNU_SOURCE
#include "packages/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/discard.h"
#include "image/storage.h"
#include "language/language.h"
#include "language/recipe.h"
#include "packages/install.h"
#include "packages/layers.h"
#include "packages/take.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum {
	LOCK_POLL_MS = 50,
	TRIES = 3, /* where a layer is removed before it can be held */
};

/* --- the folder of a new session --- */

/*
 * Every directory on the way to `path` below `dir`, and itself. In a session that has the packages of another one they are
 * there, as installs have left them: where one is a link, that is an error.
 */
static int make_directories(int dir, const char *path)
{
	cleanup_free char *copy = xstrdup(path);
	cleanup_close int place = -1;
	char *rest = copy, *name;

	while ((name = strsep(&rest, "/"))) {
		int parent = place < 0 ? dir : place, next = -1;

		if (mkdirat(parent, name, 0755) == 0 || errno == EEXIST)
			next = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -1;
		close_fd(&place);
		place = next;
	}
	return 0;
}

static int add_place(const struct storage *storage, const char *place, struct spec *spec, struct error *err)
{
	const char *target = strchr(place, ':');
	cleanup_free char *part = xasprintf("%.*s", (int)strcspn(place, ":"), place);
	cleanup_free char *source = xasprintf("%s/%s", storage->path, part);

	if (make_directories(storage->space, part) < 0)
		return error_set(err, errno, "making %s", source);
	if (target && !spec_find_mount(spec, target + 1))
		spec_add_exact_bind(spec, source, target + 1, true);
	return 0;
}

int session_packages_add(const struct storage *storage, struct spec *spec, struct error *err)
{
	size_t mounts = spec->mounts_count;

	spec_add_bind(spec, storage->path, PACKAGES_PLACE, true);
	for (char **place = spec->package_places; place && *place; place++)
		if (add_place(storage, *place, spec, err) < 0) {
			/* Without its folder none of them is there. */
			spec->mounts_count = mounts;
			return -1;
		}
	return 0;
}

/* --- installs --- */

/* What an install in a session works with. */
struct place {
	int storage; /* the folder of the session, which its supervisor has locked */
	int lock;    /* of the one install at a time; -1: it is another's */
	char *work;
};

/* What an install has left in `work` may be anything: nothing is looked for through it. */
static int remove_work(int storage)
{
	cleanup_close int work = openat(storage, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (work < 0)
		return errno == ENOENT ? 0 : -1;
	return discard_content(work, UINT64_MAX) == 0 ? unlinkat(storage, "work", AT_REMOVEDIR) : -1;
}

static void place_close(struct place *place)
{
	if (place->lock >= 0)
		(void)remove_work(place->storage);
	close_fd(&place->lock);
	close_fd(&place->storage);
	free(place->work);
}

static int lock(int fd, int cancel_fd, struct error *err)
{
	struct pollfd cancel = {.fd = cancel_fd, .events = POLLIN};

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return error_set(err, errno, "locking the packages of the session");
		if (poll(&cancel, 1, LOCK_POLL_MS) > 0)
			return error_set(err, ECANCELED, "waiting for another install in the session");
	}
	return 0;
}

/*
 * `folder` is «…/space»; what is beside it no sandbox sees. So the lock is there: whoever can open a file can lock it, and
 * the session's code can open all below its packages.
 */
static int place_open(const char *folder, int cancel_fd, struct place *ret, struct error *err)
{
	cleanup_free char *parent = xasprintf("%.*s", (int)(strrchr(folder, '/') - folder), folder);
	cleanup_close int fd = -1;

	*ret = (struct place){.storage = -1, .lock = -1};
	ret->storage = open(parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd = openat(ret->storage, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(err, errno, "the packages of the session in %s", folder);
	if (lock(fd, cancel_fd, err) < 0)
		return -1;
	ret->lock = move_fd(&fd);
	ret->work = xasprintf("%s/work", parent);
	/* One that was killed may have left its own. */
	if (remove_work(ret->storage) < 0 || make_directories(ret->storage, "work/tmp") < 0)
		return error_set(err, errno, "making %s", ret->work);
	return 0;
}

/* The supervisor has the lock as long as the session lives, and then whoever removes the folder. */
static bool session_is_gone(const void *whose)
{
	const struct place *place = whose;
	struct stat st;

	if (fstat(place->storage, &st) < 0 || st.st_nlink == 0)
		return true;
	if (flock(place->storage, LOCK_SH | LOCK_NB) < 0)
		return false;
	flock(place->storage, LOCK_UN);
	return true;
}

/* --- the mark of a language that has packages --- */

static char *mark_of(const char *folder, const struct packages_set *set)
{
	return xasprintf("%s/.%s", folder, set->how.folder);
}

/* It stands for no content: that it is there says all. */
static int mark(const char *folder, const struct packages_set *set, struct error *err)
{
	cleanup_free char *path = mark_of(folder, set);
	int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return error_set(err, errno, "making %s", path);
	close(fd);
	return 0;
}

static bool is_marked(const char *folder, const struct packages_set *set)
{
	cleanup_free char *path = mark_of(folder, set);

	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- one install --- */

/* What is wanted, and by whom. */
struct wanted {
	const struct packages_set *set;
	const char *folder;
	const struct spec *root;
	const struct packages_options *options;
	const struct run_control *control;
	struct place place;
};

/* Over what is there. */
static int install(const struct wanted *wanted, struct packages_report *ret, struct error *err)
{
	cleanup_free char *target = xasprintf("%s/%s", wanted->folder, wanted->set->how.folder);
	const struct install_place place = {wanted->place.storage, target, wanted->place.work};
	struct install_language language;
	struct install install;
	uint64_t bytes;

	install_of_set(wanted->set, &language, &install);
	install.is_lost = session_is_gone;
	install.whose = &wanted->place;
	return install_run(&install, &place, wanted->root, wanted->options, wanted->control, ret, &bytes, err);
}

/* Whether the layer is there, or can be. */
static bool can_use_store(const struct packages_set *set)
{
	struct error unimportant;
	struct layers layers;
	bool can;

	if (!set->tree[0] || packages_installed(set))
		return set->tree[0];
	if (layers_open(true, &layers, &unimportant) < 0)
		return false;
	can = faccessat(layers.fd, ".", W_OK, AT_EACCESS) == 0;
	layers_close(&layers);
	return can;
}

/* Returns the lock of the layer, which is made where it is not there. */
static int hold_layer(const struct wanted *wanted, struct packages_report *ret, struct error *err)
{
	const struct packages_set *set = wanted->set;

	for (unsigned tries = TRIES;; tries--) {
		int lock;

		packages_report_free(ret);
		if (!packages_installed(set) && install_set(set, wanted->root, wanted->options, wanted->control,
							session_is_gone, &wanted->place, ret, err) < 0)
			return -1;
		lock = layer_hold(set->tree, err);
		if (lock >= 0 || err->errnum != ENOENT || packages_installed(set) || tries == 1)
			return lock;
	}
}

static bool copy_is_to_end(void *data)
{
	const struct wanted *wanted = data;
	struct pollfd cancel = {.fd = wanted->control->cancel_fd, .events = POLLIN};

	return poll(&cancel, 1, 0) > 0 || session_is_gone(&wanted->place);
}

/* Returns 1 where it is not by way of the store that the session can have them. */
static int take(struct wanted *wanted, struct packages_report *ret, struct error *err)
{
	struct install_language language;
	struct install install;
	const struct take take = {
		.storage = wanted->place.storage,
		.folder = wanted->set->how.folder,
		.recipe = wanted->set->how.recipe,
		.install = &install,
		.disk_bytes = wanted->options->disk_bytes,
		.end = {copy_is_to_end, wanted},
	};
	cleanup_close int held = -1;

	if (is_marked(wanted->folder, wanted->set) || !can_use_store(wanted->set))
		return 1;
	held = hold_layer(wanted, ret, err);
	if (held < 0)
		return -1;
	install_of_set(wanted->set, &language, &install);
	return take_layer(&take, wanted->set->tree, err);
}

static int take_or_install(struct wanted *wanted, struct packages_report *ret, struct error *err)
{
	int r;

	if (session_is_gone(&wanted->place))
		return error_set(err, 0, "the session has ended");
	r = take(wanted, ret, err);
	if (r == 1) {
		packages_report_free(ret);
		r = install(wanted, ret, err);
	}
	if (session_is_gone(&wanted->place))
		return error_set(err, 0, "the session has ended, and the install with it");
	return r == 0 ? mark(wanted->folder, wanted->set, err) : -1;
}

static int refuse_system(char *const *names, struct error *err)
{
	for (char *const *name = names; *name; name++)
		if (strncmp(*name, "apt:", 4) == 0) {
			error_set(err, 0,
				"%s: a root gets packages of its system only before a session is made in it", *name);
			return error_hint(err, "make another one: nsbox session new --image NAME --with apt:NAME");
		}
	return 0;
}

int packages_install_into(const char *folder, const struct language *language, const struct spec *spec,
	char *const *names, const struct packages_options *options, const struct run_control *control,
	struct packages_report *ret, struct error *err)
{
	struct packages_set set;
	struct wanted wanted = {.set = &set, .folder = folder, .root = spec, .options = options, .control = control};
	int r;

	*ret = (struct packages_report){0};
	if (refuse_system(names, err) < 0 || install_find_set(language, spec, names, &set, err) < 0)
		return -1;
	r = place_open(folder, control->cancel_fd, &wanted.place, err);
	if (r == 0)
		r = take_or_install(&wanted, ret, err);
	place_close(&wanted.place);
	packages_set_free(&set);
	return r;
}
