/* SPDX-License-Identifier: MIT */
/* Makes specs of languages: see language.h. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/cache.h"
#include "language/definition.h"
#include "language/language.h"
#include "language/managers.h"
#include "language/needs.h"
#include "language/typenames.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"

enum {
	FILE_MODE = 0644,
	VERSION_TIMEOUT_MS = 20 * 1000,
	CACHE_MEMORY_BYTES = 1 << 30,
	CACHE_DISK_BYTES = 1 << 30,
};

/* What the execs of one spec have in common. */
struct preparation {
	const struct language *language;
	struct choice choice;
	struct placeholders values;
	char *path; /* the PATH inside */
	struct spec *spec;
	struct error *err;
};

static void preparation_free(struct preparation *preparation)
{
	choice_free(&preparation->choice);
	free(preparation->path);
}

#define cleanup_preparation __attribute__((cleanup(preparation_free)))

/* Programs outside of the usual directories go before them, in the order of the needs. */
static char *make_path(const struct choice *choice, const struct spec *spec)
{
	cleanup_free char *own = xstrdup("");

	for (size_t i = 0; choice->programs && i < choice->toolchain->needs_count; i++) {
		const struct location *location = &choice->programs[i].location;
		cleanup_free char *before = NULL;

		if (!location->file || location->standard)
			continue;
		before = own;
		own = xasprintf("%s%.*s:", before,
			(int)(strrchr(location->file, '/') - location->file), location->file);
	}
	return xasprintf("%s%s", own, needs_path(spec));
}

static bool is_mounted(const struct spec *spec, const char *target)
{
	for (size_t i = 0; i < spec->mounts_count; i++)
		if (strcmp(spec->mounts[i].target, target) == 0)
			return true;
	return false;
}

static void add_binds(const struct choice *choice, struct spec *spec)
{
	for (size_t i = 0; choice->programs && i < choice->toolchain->needs_count; i++)
		for (char **bind = choice->programs[i].location.binds; bind && *bind; bind++)
			if (!is_mounted(spec, *bind))
				spec_add_bind(spec, *bind, *bind, true);
}

/* Chooses the toolchain, and binds what of it is outside of /usr. */
static int prepare(const struct language *language, struct spec *spec, struct preparation *ret,
	struct error *err)
{
	*ret = (struct preparation){.language = language, .spec = spec, .err = err};
	if (needs_choose(language, spec, &ret->choice, err) < 0)
		return -1;
	ret->values.memory_bytes = spec->limits.memory_bytes;
	ret->path = make_path(&ret->choice, spec);
	add_binds(&ret->choice, spec);
	return 0;
}

/* The program of a command stands for the one that was found for the need that it names. */
static const char *program_of(const struct choice *choice, const char *name)
{
	for (size_t i = 0; choice->programs && i < choice->toolchain->needs_count; i++) {
		const struct found_program *found = &choice->programs[i];

		if (strcmp(choice->toolchain->needs[i].programs[0], name) == 0)
			return found->location.file && !found->location.standard
				       ? found->location.file
				       : found->name;
	}
	return name;
}

static int add_arguments(
	const struct preparation *preparation, char *const *argv, struct exec_spec *exec)
{
	for (size_t i = 0; argv[i]; i++) {
		cleanup_free char *expanded =
			definition_expand(&preparation->values, argv[i], preparation->err);

		if (!expanded)
			return -1;
		exec_add_arg(exec, i == 0 ? program_of(&preparation->choice, expanded) : expanded);
	}
	return 0;
}

static int add_env(const struct preparation *preparation, const struct environment *env,
	struct exec_spec *exec)
{
	for (size_t i = 0; env->names && env->names[i]; i++) {
		cleanup_free char *value =
			definition_expand(&preparation->values, env->values[i], preparation->err);

		if (!value)
			return -1;
		exec_set_env(exec, env->names[i], value);
	}
	return 0;
}

static int add_exec(const struct preparation *preparation, const char *phase, char *const *argv,
	uint64_t timeout_ms)
{
	struct spec *spec = preparation->spec;
	struct exec_spec *exec = &spec->execs[spec->execs_count];

	memset(exec, 0, sizeof *exec);
	spec->execs_count++;
	exec->phase = phase;
	exec->cwd = xstrdup(DEFINITION_WORKSPACE);
	exec->timeout_ms = timeout_ms;
	exec_set_env(exec, "LANG", "C.UTF-8");
	exec_set_env(exec, "HOME", spec_home(spec)); /* as /etc/passwd inside says */
	exec_add_env(exec, spec->root_env);
	exec_set_env(exec, "PATH", preparation->path);
	if (add_env(preparation, &preparation->language->env, exec) < 0 ||
		add_env(preparation, &preparation->choice.toolchain->env, exec) < 0)
		return -1;
	return add_arguments(preparation, argv, exec);
}

static void add_source(
	const struct preparation *preparation, const char *path, const void *code, size_t length)
{
	const struct language *language = preparation->language;
	size_t prepended = language->prepend_text ? strlen(language->prepend_text) : 0;
	cleanup_free char *text = NULL;

	if (prepended == 0 ||
		memmem(code, length, language->prepend_unless, strlen(language->prepend_unless))) {
		spec_add_file(preparation->spec, path, code, length, FILE_MODE);
		return;
	}
	text = xrealloc(NULL, prepended + length + 1, 1);
	memcpy(text, language->prepend_text, prepended);
	memcpy(text + prepended, code, length);
	spec_add_file(preparation->spec, path, text, prepended + length, FILE_MODE);
}

/* The directory comes into being with the file that says which source it belongs to. */
static void add_support(const struct preparation *preparation, const char *source)
{
	const struct language *language = preparation->language;
	const char *directory = preparation->values.support;

	if (preparation->choice.toolchain->compile_argv) {
		cleanup_free char *path = xasprintf("%s/source", directory);

		spec_add_file(preparation->spec, path, source, strlen(source), FILE_MODE);
	}
	for (size_t i = 0; i < language->files_count; i++) {
		const struct support_file *file = &language->files[i];
		cleanup_free char *path = xasprintf("%s/%s", directory, file->name);

		spec_add_file(preparation->spec, path, file->text, strlen(file->text), FILE_MODE);
	}
}

static void use_cache(struct preparation *preparation)
{
	struct error reason;
	cleanup_free char *cache = NULL;

	/* A sandbox that lasts has what it was made with. */
	if (preparation->spec->session) {
		preparation->values.cache_bound =
			is_mounted(preparation->spec, DEFINITION_CACHE);
		return;
	}
	cache = cache_find(preparation->language, &preparation->choice, &reason);
	if (!cache)
		return;
	spec_add_bind(preparation->spec, cache, DEFINITION_CACHE, true);
	preparation->values.cache_bound = true;
}

char *language_support_directory(const char *unique)
{
	return unique ? xasprintf(DEFINITION_SUPPORT "/%s", unique) : xstrdup(DEFINITION_SUPPORT);
}

/* Its own name is the usual one, unless that may be somebody else's. */
static char *name_source(const struct preparation *preparation, const char *unique)
{
	const struct language *language = preparation->language;
	cleanup_free char *name =
		definition_expand(&preparation->values, language->source, preparation->err);

	if (!name)
		return NULL;
	if (!unique)
		return xasprintf(DEFINITION_WORKSPACE "/%s", name);
	/* A name that the text prescribes is kept, beside the workspace; others are beside its modules. */
	return strchr(language->source, '{')
		       ? xasprintf("%s/source.d/%s", preparation->values.support, name)
		       : xasprintf(DEFINITION_WORKSPACE "/exec_%s.%s", unique, language->extension);
}

static int add_phases(struct preparation *preparation, const struct language_source *source,
	uint64_t timeout_ms)
{
	const struct toolchain *toolchain = preparation->choice.toolchain;
	cleanup_free char *path = source->file ? xstrdup(source->file)
					       : name_source(preparation, source->unique);
	struct spec *spec = preparation->spec;

	if (!path)
		return -1;
	preparation->values.source = path;
	if (!source->file)
		add_source(preparation, path, source->code, source->length);
	add_support(preparation, path);
	if (toolchain->compile_argv) {
		if (add_exec(preparation, "compile", toolchain->compile_argv,
			    toolchain->compile_timeout_ms) < 0)
			return -1;
		spec->execs[spec->execs_count - 1].stdin_kind = STDIN_NULL;
	}
	return add_exec(preparation, "run", toolchain->run_argv, timeout_ms);
}

int language_prepare_source(const struct language *language, const struct language_source *source,
	char *const *arguments, uint64_t timeout_ms, struct spec *spec, struct error *err)
{
	cleanup_free char *support = language_support_directory(source->unique);
	cleanup_preparation struct preparation preparation = {0};
	struct typenames names;
	int result;

	if (prepare(language, spec, &preparation, err) < 0)
		return -1;
	use_cache(&preparation);
	typenames_read(source->code, source->length, &names);
	preparation.values.support = support;
	preparation.values.public_type = names.public_type;
	preparation.values.main_type = names.main_type ? names.main_type : names.public_type;
	result = add_phases(&preparation, source, timeout_ms);
	typenames_free(&names);
	if (result < 0)
		return -1;
	for (; arguments && *arguments; arguments++)
		/* as they are: braces in them are the caller's */
		exec_add_arg(&spec->execs[spec->execs_count - 1], *arguments);
	return 0;
}

int language_prepare(const struct language *language, const void *code, size_t length,
	char *const *arguments, uint64_t timeout_ms, struct spec *spec, struct error *err)
{
	const struct language_source source = {.code = code, .length = length};

	return language_prepare_source(language, &source, arguments, timeout_ms, spec, err);
}

static bool mentions_type(char *const *argv)
{
	for (; argv && *argv; argv++)
		if (strstr(*argv, "{public_type}") || strstr(*argv, "{main_type}"))
			return true;
	return false;
}

bool language_reads_source(const struct language *language)
{
	for (size_t i = 0; i < language->toolchains_count; i++)
		if (mentions_type(language->toolchains[i].compile_argv) ||
			mentions_type(language->toolchains[i].run_argv))
			return true;
	return false;
}

/* --- sandboxes that last --- */

/* What every language that is there adds to the spec. */
struct lasting {
	const struct language *named;
	struct spec *spec;
	char *path; /* that they put before the usual one */
};

static void add_lasting(struct lasting *lasting, const struct language *language,
	const struct choice *choice)
{
	cleanup_free char *own = make_path(choice, lasting->spec), *before = NULL, *cache = NULL;
	size_t length = strlen(own) - strlen(needs_path(lasting->spec));
	struct error unimportant;

	own[length] = '\0';
	if (length > 0 && !strstr(lasting->path, own)) {
		before = lasting->path;
		lasting->path = xasprintf("%s%s", before, own);
	}
	add_binds(choice, lasting->spec);
	cache = cache_find(language, choice, &unimportant);
	if (cache && !is_mounted(lasting->spec, DEFINITION_CACHE))
		spec_add_bind(lasting->spec, cache, DEFINITION_CACHE, true);
}

static void add_other(void *data, const char *name, const struct error *broken)
{
	struct lasting *lasting = data;
	struct choice choice = {0};
	struct language *language;
	struct error unimportant;

	if (broken || (lasting->named && strcmp(name, lasting->named->name) == 0) ||
		language_load(name, &language, &unimportant) < 0)
		return;
	if (needs_choose(language, lasting->spec, &choice, &unimportant) == 0)
		add_lasting(lasting, language, &choice);
	choice_free(&choice);
	language_free(language);
}

static int add_lasting_env(const struct language *language, const struct choice *choice,
	struct spec *spec, struct error *err)
{
	struct preparation preparation = {.language = language,
		.spec = spec,
		.err = err,
		.values = {.memory_bytes = spec->limits.memory_bytes,
			.cache_bound = is_mounted(spec, DEFINITION_CACHE),
			.source = ""}};

	if (add_env(&preparation, &language->env, &spec->execs[0]) < 0)
		return -1;
	return add_env(&preparation, &choice->toolchain->env, &spec->execs[0]);
}

int language_prepare_lasting(const struct language *language, struct spec *spec, struct error *err)
{
	struct lasting lasting = {.named = language, .spec = spec, .path = xstrdup("")};
	struct exec_spec *exec = &spec->execs[0];
	cleanup_free char *path = NULL;
	struct choice choice = {0};
	int r = 0;

	if (language)
		r = needs_choose(language, spec, &choice, err);
	if (r == 0 && language)
		add_lasting(&lasting, language, &choice);
	if (r == 0 && spec->root == ROOT_HOST)
		language_list(add_other, &lasting);
	for (char **entry = spec->root_env; entry && *entry; entry++) {
		cleanup_free char *name = xmemdup(*entry, strcspn(*entry, "="));

		exec_default_env(exec, name, strchr(*entry, '=') + 1);
	}
	path = xasprintf("%s%s", lasting.path, exec_get_env(exec, "PATH") ?: needs_path(spec));
	free(lasting.path);
	exec_default_env(exec, "LANG", "C.UTF-8");
	exec_default_env(exec, "HOME", spec_home(spec));
	exec_set_env(exec, "PATH", path);
	if (r == 0 && language)
		r = add_lasting_env(language, &choice, spec, err);
	choice_free(&choice);
	return r;
}

/* --- status and version --- */

/* How a version is asked for, and which files answer. */
static char *identity_of(const struct choice *choice)
{
	char *identity = xasprintf("%s\n", choice->image_digest ?: "");

	for (char **word = choice->toolchain->version_argv; word && *word; word++) {
		cleanup_free char *before = identity;

		identity = xasprintf("%s%s\n", before, *word);
	}
	for (size_t i = 0; choice->programs && i < choice->toolchain->needs_count; i++) {
		const char *file = choice->programs[i].location.file;
		cleanup_free char *before = NULL;
		struct stat status;

		if (!file || stat(file, &status) < 0)
			continue;
		before = identity;
		identity = xasprintf("%s%s %llx %llx %llx.%lx\n", before, file,
			(unsigned long long)status.st_dev, (unsigned long long)status.st_ino,
			(unsigned long long)status.st_mtim.tv_sec,
			(unsigned long)status.st_mtim.tv_nsec);
	}
	return identity;
}

void language_status(
	const struct language *language, const struct spec *spec, struct language_status *ret)
{
	struct choice choice = {0};

	*ret = (struct language_status){0};
	ret->ready = needs_choose(language, spec, &choice, &ret->missing) == 0;
	ret->programs = xcalloc(1, sizeof *ret->programs);
	ret->binds = xcalloc(1, sizeof *ret->binds);
	for (size_t i = 0; choice.programs && i < choice.toolchain->needs_count; i++) {
		const struct found_program *found = &choice.programs[i];

		list_add(&ret->programs,
			xstrdup(found->location.file ? found->location.file
				: found->inside	     ? found->inside
						     : found->name));
		for (char **bind = found->location.binds; bind && *bind; bind++)
			list_add(&ret->binds, xstrdup(*bind));
	}
	ret->identity = ret->ready ? identity_of(&choice) : NULL;
	choice_free(&choice);
}

void language_status_free(struct language_status *status)
{
	for (char **next = status->programs; next && *next; next++)
		free(*next);
	for (char **next = status->binds; next && *next; next++)
		free(*next);
	free(status->programs);
	free(status->binds);
	free(status->identity);
}

int language_prepare_version(const struct language *language, struct spec *spec, struct error *err)
{
	cleanup_preparation struct preparation preparation = {0};

	if (prepare(language, spec, &preparation, err) < 0)
		return -1;
	if (!preparation.choice.toolchain->version_argv)
		return error_set(err, 0, "%s: its file does not say how to ask for a version",
			language->title);
	preparation.values.source = "";
	if (add_exec(&preparation, "run", preparation.choice.toolchain->version_argv,
		    VERSION_TIMEOUT_MS) < 0)
		return -1;
	spec->execs[spec->execs_count - 1].stdin_kind = STDIN_NULL;
	spec->capture = true;
	return 0;
}

/* A digit that no word is before, as in «v20.1» and «Python 3.11», not in «lua5». */
static bool version_begins(const char *output, size_t i)
{
	if (!isdigit((unsigned char)output[i]))
		return false;
	if (i > 0 && output[i - 1] == 'v')
		i--;
	return i == 0 || !(isalnum((unsigned char)output[i - 1]) || strchr(".-_", output[i - 1]));
}

void language_version_of(const char *output, size_t length, char *ret, size_t size)
{
	ret[0] = '\0';
	for (size_t i = 0; i < length; i++) {
		size_t end = i, dots = 0;

		if (output[i] != 'g' || i + 2 >= length || output[i + 1] != 'o' ||
			!isdigit((unsigned char)output[i + 2])) {
			if (!version_begins(output, i))
				continue;
		} else {
			end = i += 2; /* «go1.26» */
		}
		/* «12.2.0-14+deb12u1»: what a distribution adds is left out, «1.95.0-nightly» is whole. */
		for (; end < length && (isalnum((unsigned char)output[end]) || output[end] == '.' ||
					       (output[end] == '-' && end + 1 < length &&
						       isalpha((unsigned char)output[end + 1])));
			end++)
			dots += output[end] == '.';
		if (dots == 0 || end - i >= size)
			continue;
		memcpy(ret, output + i, end - i);
		ret[end - i] = '\0';
		return;
	}
}

/* --- caches --- */

/* The directory is bound by the caller's own hand, writable for this one sandbox. */
static int add_filling(struct preparation *preparation, const char *directory)
{
	const struct toolchain *toolchain = preparation->choice.toolchain;
	struct spec *spec = preparation->spec;

	spec_add_bind(spec, directory, DEFINITION_CACHE, false);
	preparation->values.cache_bound = true;
	preparation->values.source = "";
	spec->capture = true;
	spec->limits.memory_bytes = CACHE_MEMORY_BYTES;
	spec->limits.disk_bytes = CACHE_DISK_BYTES;
	if (add_exec(preparation, "run", toolchain->cache_argv, toolchain->cache_timeout_ms) < 0)
		return -1;
	spec->execs[spec->execs_count - 1].stdin_kind = STDIN_NULL;
	return 0;
}

static void cache_release(struct language_cache *cache)
{
	free(cache->directory);
	free(cache->path);
	close_fd(&cache->lock);
	*cache = (struct language_cache){.lock = -1};
}

/* Whether the cache at `path` (NULL: no use for one) is missing. -1: it is there, and not to be used. */
static int is_missing(const struct preparation *preparation, const char *path)
{
	struct error reason;
	cleanup_free char *usable =
		cache_find(preparation->language, &preparation->choice, &reason);

	if (!path || usable)
		return 0;
	if (!reason.text[0])
		return 1;
	*preparation->err = reason;
	return -1;
}

bool language_wants_cache(const struct language *language, const struct spec *spec)
{
	cleanup_preparation struct preparation preparation = {0};
	cleanup_free char *path = NULL;
	struct error err = {0};

	preparation.language = language;
	preparation.err = &err;
	if (needs_choose(language, spec, &preparation.choice, &err) < 0)
		return false;
	path = cache_path(language, &preparation.choice);
	return is_missing(&preparation, path) > 0;
}

int language_prepare_cache(const struct language *language, bool wait, struct spec *spec,
	struct language_cache *ret_cache, struct error *err)
{
	cleanup_preparation struct preparation preparation = {0};
	int result;

	*ret_cache = (struct language_cache){.lock = -1};
	if (prepare(language, spec, &preparation, err) < 0)
		return -1;
	ret_cache->path = cache_path(language, &preparation.choice);
	result = is_missing(&preparation, ret_cache->path);
	if (result > 0)
		result = cache_begin(
			ret_cache->path, wait, &ret_cache->directory, &ret_cache->lock, err);
	if (result > 0 && add_filling(&preparation, ret_cache->directory) < 0) {
		cache_abandon(ret_cache->directory);
		result = -1;
	}
	if (result <= 0)
		cache_release(ret_cache);
	return result;
}

int language_finish_cache(struct language_cache *cache, bool filled, struct error *err)
{
	int result = 0;

	if (filled)
		result = cache_commit(cache->directory, cache->path, err);
	if (!filled || result < 0)
		cache_abandon(cache->directory);
	cache_release(cache);
	return result;
}
