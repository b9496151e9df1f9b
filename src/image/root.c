/* SPDX-License-Identifier: MIT */
/* From the record of an image to the root of a spec: see root.h. */
#define _GNU_SOURCE
#include "image/root.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/parse.h"

int image_open(const struct reference *reference, struct image *ret, struct error *err)
{
	struct image image;
	int r = store_open(false, &image.store, err);

	if (r != 0)
		return r;
	r = record_load(&image.store, reference, &image.record, err);
	if (r == 0)
		*ret = image;
	else
		store_close(&image.store);
	return r;
}

void image_close(struct image *image)
{
	record_free(&image->record);
	store_close(&image->store);
}

int image_missing(const struct reference *reference, struct error *err)
{
	char name[REFERENCE_MAX + 1];

	if (reference_is_local(reference))
		return reference_refuse_local(reference, err);
	reference_format_short(reference, name);
	error_set(err, 0, "there is no image %s in the store", name);
	return error_hint(err, "fetch it with: nsbox pull %s", name);
}

/* The topmost first, as overlayfs has them. */
static void set_layers(const struct image *image, struct spec *spec)
{
	const struct image_record *record = &image->record;
	size_t count = 0;

	strings_free(spec->root_layers);
	spec->root_layers = xcalloc(record->layers_count + 1, sizeof *spec->root_layers);
	for (size_t i = record->layers_count; i-- > 0;) {
		char name[STORE_NAME_MAX];

		if (record->layers[i].hidden)
			break;
		spec->root_layers[count++] = xasprintf("%s/%s/fs", image->store.path,
			store_layer_name(record->layers[i].chain_id, name));
	}
}

static void set_env(const struct image_record *record, struct spec *spec)
{
	size_t count = 0, kept = 0;

	while (record->env && record->env[count])
		count++;
	strings_free(spec->root_env);
	spec->root_env = xcalloc(count + 1, sizeof *spec->root_env);
	for (size_t i = 0; i < count; i++) {
		const char *equals = strchr(record->env[i], '=');

		if (equals && equals > record->env[i])
			spec->root_env[kept++] = xstrdup(record->env[i]);
	}
}

/* Places that a program of the image expects to be there. */
static void set_directories(const struct image_record *record, struct spec *spec)
{
	if (record->working_directory && record->working_directory[0] == '/')
		spec_add_directory(spec, record->working_directory);
	for (char **volume = record->volumes; volume && *volume; volume++)
		if (**volume == '/')
			spec_add_directory(spec, *volume);
}

void image_set_root(const struct image *image, bool keep_user, struct spec *spec)
{
	const struct image_record *record = &image->record;
	char name[REFERENCE_MAX + 1];

	spec->root = ROOT_IMAGE;
	free(spec->root_path);
	spec->root_path = xstrdup(reference_format(&record->reference, name));
	free(spec->root_digest);
	spec->root_digest = xstrdup(record->manifest);
	set_layers(image, spec);
	set_env(record, spec);
	set_directories(record, spec);
	if (keep_user)
		return;
	spec->uid = record->uid;
	spec->gid = record->gid;
	free(spec->home);
	spec->home = record->home && record->home[0] == '/' ? xstrdup(record->home) : NULL;
}

int image_choose_root(
	const char *image, bool keep_user, struct spec *spec, char **ret_missing, struct error *err)
{
	char name[REFERENCE_MAX + 1];
	struct reference reference;
	struct image opened;
	int r;

	if (reference_parse(image, &reference, err) < 0)
		return -1;
	r = image_open(&reference, &opened, err);
	if (r == 0) {
		image_set_root(&opened, keep_user, spec);
		image_close(&opened);
	} else if (r > 0) {
		*ret_missing = xstrdup(reference_format_short(&reference, name));
	}
	return r;
}

int image_stop_signal(const struct image *image, uint32_t *ret, struct error *err)
{
	const char *text = image->record.stop_signal;
	char name[REFERENCE_MAX + 1];

	*ret = 0;
	if (!text || !*text || parse_signal("its StopSignal", text, ret, err) == 0)
		return 0;
	error_context(err, "the image %s", reference_format_short(&image->record.reference, name));
	return error_hint(err, "name the signal that stops it with --stop-signal");
}

int image_hold_layers(const struct spec *spec, struct error *err)
{
	for (char **layer = spec->root_layers; layer && *layer; layer++)
		if (store_hold_layer(*layer, err) < 0)
			return error_hint(err, "pull or import the image again");
	return 0;
}
