/* SPDX-License-Identifier: MIT */
/* Which packages there are, and how code gets them: see packages.h. */
#define _GNU_SOURCE
#include "packages/packages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "language/recipe.h"
#include "packages/install.h"
#include "packages/layers.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

/* Another way to make layers has another number: those that were made otherwise are not taken. */
static const char FORMAT[] = "nsbox packages 1\n";

static int by_text(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

char **install_sort_names(char *const *names)
{
	size_t count = 0, kept = 0;
	char **sorted;

	while (names[count])
		count++;
	sorted = xcalloc(count + 1, sizeof *sorted);
	memcpy(sorted, names, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, by_text);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || strcmp(sorted[i], sorted[kept - 1]) != 0)
			sorted[kept++] = xstrdup(sorted[i]);
	sorted[kept] = NULL;
	return sorted;
}

static void add_strings(struct sha256 *hash, char *const *strings)
{
	for (; strings && *strings; strings++)
		sha256_add(hash, *strings, strlen(*strings) + 1);
	sha256_add(hash, "", 1);
}

static void make_key(struct packages_set *set)
{
	const struct host_settings *settings = &set->settings;
	struct sha256 hash;

	sha256_init(&hash);
	sha256_add(&hash, FORMAT, sizeof FORMAT);
	sha256_add(&hash, set->how.identity, strlen(set->how.identity) + 1);
	sha256_add(&hash, set->how.recipe->text, strlen(set->how.recipe->text) + 1);
	add_strings(&hash, settings->env);
	for (size_t i = 0; i < settings->files_count; i++) {
		sha256_add(&hash, settings->files[i].path, strlen(settings->files[i].path) + 1);
		sha256_add(&hash, settings->files[i].text, strlen(settings->files[i].text) + 1);
	}
	sha256_add(&hash, "", 1);
	add_strings(&hash, set->names);
	sha256_finish(&hash, set->key);
}

int install_find_set(const struct language *language, const struct spec *spec, char *const *names, struct packages_set *ret,
	struct error *err)
{
	struct error unimportant;

	*ret = (struct packages_set){.language = language};
	if (language_find_packages(language, spec, &ret->how, err) < 0)
		return -1;
	if (recipe_check_names(ret->how.recipe, names, err) < 0) {
		packages_set_free(ret);
		return -1;
	}
	ret->names = install_sort_names(names);
	host_settings_read(ret->how.recipe->manager, &ret->settings);
	make_key(ret);
	if (layers_tree_path(ret->key, ret->tree, &unimportant) < 0)
		ret->tree[0] = '\0';
	return 0;
}

int packages_resolve(const struct language *language, const struct spec *spec, char *const *names,
	struct packages_set *ret, struct error *err)
{
	if (install_find_set(language, spec, names, ret, err) < 0)
		return -1;
	if (ret->tree[0] || layers_tree_path(ret->key, ret->tree, err) == 0)
		return 0;
	packages_set_free(ret);
	return -1;
}

void packages_set_free(struct packages_set *set)
{
	language_packages_free(&set->how);
	host_settings_free(&set->settings);
	strings_free(set->names);
	*set = (struct packages_set){0};
}

bool packages_installed(const struct packages_set *set)
{
	return access(set->tree, F_OK) == 0;
}

/* --- mounts --- */

int packages_use(const struct packages_set *set, struct spec *spec, struct error *err)
{
	const struct recipe *recipe = set->how.recipe;
	cleanup_free char *place = xasprintf(PACKAGES_PLACE "/%s", set->how.folder);
	cleanup_close int tree = open(set->tree, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_free char *real = NULL;

	if (tree < 0)
		return error_set(err, errno, "the installed packages in %s", set->tree);
	if (install_check_parts(tree, recipe, err) < 0)
		return -1;
	/* Before there was a store, its path was as it is written, maybe with links. */
	real = realpath(set->tree, NULL);
	if (!real)
		return error_set(err, errno, "the installed packages in %s", set->tree);
	spec_add_bind(spec, set->tree, place, true);
	for (size_t i = 0; i < recipe->binds_count; i++) {
		cleanup_free char *source = xasprintf("%s/%s", real, recipe->binds[i].from);

		spec_add_exact_bind(spec, source, recipe->binds[i].target, true);
	}
	return 0;
}

int packages_hold(const struct spec *spec, struct error *err)
{
	for (size_t i = 0; i < spec->mounts_count; i++) {
		const struct mount_spec *mount = &spec->mounts[i];

		if (mount->kind == MOUNT_BIND && mount->read_only && layer_is_tree(mount->source) &&
			spec_path_below(mount->target, PACKAGES_PLACE) && layer_hold(mount->source, err) < 0)
			return -1;
	}
	return 0;
}

/* --- all of them --- */

int packages_prune(struct packages_pruned *ret, struct error *err)
{
	struct layer_entry *entries;
	struct layers layers;
	size_t count;
	int r = layers_open(false, &layers, err);

	*ret = (struct packages_pruned){0};
	if (r != 0)
		return r < 0 ? -1 : 0;
	layers_sweep(&layers);
	count = layers_read(&layers, &entries);
	for (size_t i = 0; i < count; i++) {
		if (layer_remove(&layers, entries[i].key) != 0) {
			ret->in_use++;
			continue;
		}
		ret->layers++;
		ret->bytes += entries[i].bytes;
	}
	layers_free(entries, count);
	layers_close(&layers);
	return 0;
}

int packages_list(void (*each)(void *data, const char *key, const char *about, uint64_t unused_s), void *data,
	struct error *err)
{
	struct layer_entry *entries;
	struct layers layers;
	time_t now = time(NULL);
	size_t count;
	int r = layers_open(false, &layers, err);

	if (r != 0)
		return r < 0 ? -1 : 0;
	count = layers_read(&layers, &entries);
	for (size_t i = count; i-- > 0;)
		each(data, entries[i].key, entries[i].about,
			entries[i].used_s < now ? (uint64_t)(now - entries[i].used_s) : 0);
	layers_free(entries, count);
	layers_close(&layers);
	return 0;
}
