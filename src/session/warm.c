/* SPDX-License-Identifier: MIT */
/* Fills the caches of compilers: see warm.h. */
#define _GNU_SOURCE
#include "session/warm.h"

#include <stdlib.h>
#include <string.h>

#include "image/root.h"
#include "language/language.h"
#include "seccomp/load.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

char *warm_output_of(const struct exec_result *exec)
{
	const struct captured *out = &exec->output[0], *err = &exec->output[1];
	size_t out_length = out->head_length + out->tail_length,
	       err_length = err->head_length + err->tail_length;
	char *text = xcalloc(out_length + err_length + 1, 1);

	if (out_length > 0)
		memcpy(text, out->data, out_length);
	if (err_length > 0)
		memcpy(text + out_length, err->data, err_length);
	return text;
}

static int run(const struct language *language, const struct spec *spec,
	const struct run_control *control, char **ret_output, struct error *err)
{
	struct run_result result = {0};
	const struct exec_result *last;
	int status = -1;

	sandbox_run(spec, control, &result);
	last = run_result_last(&result);
	if (last->ended_by == ENDED_EXITED && last->exit_code == 0) {
		status = 0;
	} else if (last->ended_by == ENDED_SETUP) {
		*err = last->error;
	} else {
		error_set(err, 0, "%s: the cache could not be filled: %s", language_name(language),
			last->ended_by == ENDED_EXITED	      ? "its command failed"
			: last->ended_by == ENDED_TIMEOUT     ? "it took too long"
			: last->ended_by == ENDED_OOM	      ? "it needs more memory"
							      : "it was ended");
		*ret_output = warm_output_of(last);
	}
	run_result_free(&result);
	return status;
}

/* The host's root, which it is, or the image's. */
static int set_root(const char *image, struct spec *spec, struct error *err)
{
	cleanup_free char *missing = NULL;
	int r = image ? image_choose_root(image, false, spec, &missing, err) : 0;

	if (r > 0)
		return error_set(err, 0, "the image %s is not in the store any more", missing);
	return r < 0 ? -1 : image_hold_layers(spec, err);
}

int warm_language(const struct language *language, const char *image, bool background,
	const struct run_control *control, char **ret_path, char **ret_output, struct error *err)
{
	struct language_cache cache;
	cleanup_free char *path = NULL;
	struct error unimportant;
	struct spec spec;
	int result;

	*ret_path = *ret_output = NULL;
	spec_init(&spec);
	result = set_root(image, &spec, err);
	if (result == 0)
		result = language_prepare_cache(language, !background, &spec, &cache, err);
	if (result > 0) {
		bool filled;

		spec.background = background;
		filled = spec_load_filters(&spec, err) == 0 &&
			 run(language, &spec, control, ret_output, err) == 0;
		path = xstrdup(cache.path);
		if (language_finish_cache(&cache, filled, filled ? err : &unimportant) < 0 || !filled)
			result = -1;
	}
	spec_free(&spec);
	if (result > 0) {
		*ret_path = path;
		path = NULL;
	}
	return result;
}
