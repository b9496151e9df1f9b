/* SPDX-License-Identifier: MIT */
/* Installs packages: see packages.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "gate/policy.h"
#include "image/discard.h"
#include "image/root.h"
#include "language/recipe.h"
#include "packages/growth.h"
#include "packages/install.h"
#include "packages/layers.h"
#include "packages/packages.h"
#include "report/report.h"
#include "sandbox/account.h"
#include "seccomp/load.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum {
	OUTPUT_BYTES = 8 << 20, /* kept of what the manager writes to each stream */
	PIDS = 512,
	OPEN_FILES = 4096,
	NAMES_SHOWN = 160, /* bytes of names in an error */
};

static const uint64_t MEMORY_BYTES = UINT64_C(2) << 30, DISK_BYTES = UINT64_C(4) << 30,
		      STORE_BYTES = UINT64_C(10) << 30, TMPFS_BYTES = UINT64_C(512) << 20;

/* --- options --- */

void packages_options_init(struct packages_options *ret, const struct config *config)
{
	static const struct config_packages none;
	const struct config_packages *given = config ? &config->packages : &none;

	*ret = (struct packages_options){
		.memory_bytes = given->memory_bytes ?: MEMORY_BYTES,
		.disk_bytes = given->disk_bytes ?: DISK_BYTES,
		.store_bytes = given->size_bytes ?: STORE_BYTES,
		.timeout_ms = given->timeout_ms,
		.pids = given->pids ?: PIDS,
		.allow = given->allow,
	};
}

/* What raises a limit of an install, unlike that of a run. "": nothing does. */
static void name_options(struct exec_result *exec)
{
	static const char *const options[LIMIT_MAX] = {
		[LIMIT_MEMORY] = "packages.memory in nsbox.conf",
		[LIMIT_PIDS] = "packages.pids in nsbox.conf",
		[LIMIT_DISK] = "packages.disk in nsbox.conf",
		[LIMIT_INODES] = "",
		[LIMIT_OUTPUT] = "",
		[LIMIT_FILE_SIZE] = "packages.disk in nsbox.conf",
		[LIMIT_TIME] = "packages.timeout in nsbox.conf",
		[LIMIT_HOST_DISK] = "NSBOX_STORE",
	};

	for (size_t i = 0; i < exec->hits_count; i++)
		exec->hits[i].option = options[exec->hits[i].limit];
}

/* --- the sandbox of an install --- */

static void set_limits(const struct packages_options *options, struct spec *spec)
{
	spec->limits.memory_bytes = options->memory_bytes;
	spec->limits.disk_bytes = TMPFS_BYTES < options->memory_bytes ? TMPFS_BYTES : options->memory_bytes;
	spec->limits.pids = options->pids;
	spec->limits.open_files = OPEN_FILES;
	spec->limits.file_size_bytes = options->disk_bytes;
	spec->limits.output_bytes = OUTPUT_BYTES;
}

static void add_rules(struct spec *spec, const char *rules)
{
	cleanup_free char *before = spec->allow;

	spec->allow = xasprintf("%s%s%s", before ?: "", before ? "," : "", rules);
}

static int prepare(const struct install *install, const struct install_place *place, const struct spec *root,
	const struct packages_options *options, struct spec *ret, struct error *err)
{
	spec_copy_root(root, ret);
	set_limits(options, ret);
	if (install->prepare(install->data, place->folder, place->work, ret, err) < 0)
		return -1;
	if (options->allow && ret->network == NETWORK_ALLOW)
		add_rules(ret, options->allow);
	if (options->timeout_ms)
		ret->execs[0].timeout_ms = options->timeout_ms;
	return spec_load_filters(ret, err) < 0 ? -1 : image_hold_layers(ret, err);
}

/* --- what became of it --- */

/* «requests, flask», shortened. */
static char *list_names(char *const *names)
{
	char *list = xstrdup(*names);

	for (names++; *names; names++) {
		cleanup_free char *before = list;
		bool room = strlen(before) + strlen(*names) < NAMES_SHOWN;

		list = xasprintf("%s, %s", before, room ? *names : "…");
		if (!room)
			break;
	}
	return list;
}

/* Of the host itself and of its network a package asks for what it likes; nobody is told how to let it (169.254.169.254). */
static bool leads_inside(const struct report_entry *entry)
{
	return entry->reason == REASON_ADDRESS ? address_is_private(&entry->address)
					       : entry->reason == REASON_NAME && strcmp(entry->name, POLICY_HOST_NAME) == 0;
}

/* What it was refused, or did not reach, may be why: the manager itself sees no more than that a connection failed. */
static void explain_network(const struct report *network, struct error *err)
{
	char host[REPORT_HOST_MAX], rule[REPORT_HOST_MAX], sentence[ERROR_TEXT_MAX];

	for (size_t i = 0; network && i < REPORT_MAX; i++) {
		const struct report_entry *entry = &network->entries[i];

		if (!entry->count || entry->verdict != REPORT_BLOCKED)
			continue;
		if (leads_inside(entry)) {
			error_hint(err, "it was kept from %s, which is none of the registry's", report_host(entry, host));
		} else if (report_rule(entry, rule)) {
			error_hint(err,
				"it was kept from %s; {\"packages\": {\"allow\": \"%s\"}} in nsbox.conf lets installs go there",
				report_host(entry, host), rule);
			return;
		}
	}
	if (network && network_sentence(network, REPORT_FAILED, 0, sentence, sizeof sentence))
		error_hint(err, "%s", sentence);
}

/*
 * A single file can be as large as all of them together. Whoever meets that gets EFBIG, which the kernel tells nobody else of:
 * managers say it in their own words.
 */
static void explain_size(const struct exec_result *exec, struct error *err)
{
	const char *words = strerror(EFBIG);

	for (size_t i = 0; i < 2; i++) {
		const struct captured *output = &exec->output[i];

		if (!output->data || !memmem(output->data, output->head_length + output->tail_length, words, strlen(words)))
			continue;
		error_hint(err, "no file can be larger than packages.disk in nsbox.conf: raise that");
		return;
	}
}

static int not_installed(
	const struct install *install, const struct spec *spec, const struct run_result *result, struct error *err)
{
	const struct exec_result *exec = run_result_last(result);
	cleanup_free char *names = list_names(install->names);
	const char *manager = install->manager;
	char sentence[ERROR_TEXT_MAX];

	if (exec->ended_by == ENDED_SETUP) {
		*err = exec->error;
		return error_context(err, "%s could not be started to install %s", manager, names);
	}
	run_result_sentence(result, spec, sentence, sizeof sentence);
	if (exec->ended_by == ENDED_EXITED && !exec->exec_errno) {
		error_set(err, 0, "%s could not install %s: exit status %d%s%s", manager, names, exec->exit_code,
			*sentence ? "; " : "", sentence);
		explain_network(result->network, err);
		if (!*err->hint)
			explain_size(exec, err);
		return -1;
	}
	return error_set(err, exec->ended_by == ENDED_CANCELLED ? ECANCELED : 0, "%s could not install %s: %s", manager,
		names, sentence);
}

int install_refuse_size(const struct install *install, struct exec_result *exec, struct error *err)
{
	cleanup_free char *names = list_names(install->names);
	char message[ERROR_TEXT_MAX];

	name_options(exec);
	limit_hit_message(&exec->hits[0], message, sizeof message);
	return error_set(err, 0, "there is no room for %s: %s", names, message);
}

/* What nobody can measure takes the disk past every limit, and is never made room of. */
static int unmeasured(const struct install *install, struct error *err)
{
	cleanup_free char *names = list_names(install->names);

	return error_set(err, 0, "%s could not install %s: how much it left could not be measured", install->manager, names);
}

static bool has_succeeded(const struct run_result *result)
{
	const struct exec_result *exec = run_result_last(result);

	return exec->ended_by == ENDED_EXITED && exec->exit_code == 0;
}

static char **copy_strings(char *const *strings)
{
	size_t count = 0;
	char **copy;

	while (strings && strings[count])
		count++;
	copy = xcalloc(count + 1, sizeof *copy);
	for (size_t i = 0; i < count; i++)
		copy[i] = xstrdup(strings[i]);
	return copy;
}

/* --- the run --- */

/* Two things can end it: how it grows, and that nobody wants it any more. */
struct watching {
	const struct install *install;
	struct growth growth;
};

static enum ended_by look(void *data, int proc_fd, struct exec_result *exec, uint64_t *ret_next_us)
{
	struct watching *watching = data;

	if (watching->install->is_lost && watching->install->is_lost(watching->install->whose))
		return ENDED_CANCELLED;
	return growth_look(&watching->growth, proc_fd, exec, ret_next_us);
}

/* What does not stay is not measured. */
static void empty(const char *directory)
{
	cleanup_close int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		discard_content(fd, UINT64_MAX);
}

static int run(const struct install *install, const struct install_place *place, const struct spec *spec,
	const struct packages_options *options, const struct run_control *control, struct packages_report *report,
	uint64_t *ret_bytes, struct error *err)
{
	struct watching watching = {.install = install};
	const struct run_watch watch = {look, &watching};
	struct run_control watched = *control;
	struct run_result *result;
	struct exec_result *exec;
	int r = 0;

	if (growth_begin(place->fd, options->disk_bytes, &watching.growth, err) < 0)
		return -1;
	result = report->result = xcalloc(1, sizeof *result);
	watched.watch = &watch;
	sandbox_run(spec, &watched, result);
	report->warnings = copy_strings(install->warnings);
	if (has_succeeded(result) && install->settle)
		r = install->settle(install->data, place->fd, err);
	/* Of what is kept that is no part; of what has failed it may be what was too much. */
	if (has_succeeded(result))
		empty(place->work);
	exec = &result->execs[result->execs_count - 1];
	if (growth_end(&watching.growth, exec) && has_succeeded(result))
		exec->ended_by = ENDED_DISK;
	empty(place->work);
	if (r == 0 && has_succeeded(result) && !watching.growth.whole)
		r = unmeasured(install, err);
	name_options(exec);
	*ret_bytes = watching.growth.used_bytes;
	return r < 0 || has_succeeded(result) ? r : not_installed(install, spec, result, err);
}

int install_run(const struct install *install, const struct install_place *place, const struct spec *root,
	const struct packages_options *options, const struct run_control *control, struct packages_report *report,
	uint64_t *ret_bytes, struct error *err)
{
	struct spec spec;
	int r = prepare(install, place, root, options, &spec, err);

	if (r == 0)
		r = run(install, place, &spec, options, control, report, ret_bytes, err);
	spec_free(&spec);
	return r;
}

/* --- layers --- */

static char *describe(const struct install *install, const struct spec *spec, uint64_t bytes)
{
	json_t *names = json_array(), *object;
	char *text;

	for (char *const *name = install->names; *name; name++)
		json_array_append_new(names, json_string(*name));
	object = json_pack("{s:s*, s:s, s:o, s:s, s:I, s:I}", "language", install->language, "manager", install->manager,
		"packages", names, "root", spec->root == ROOT_HOST ? "host" : spec->root_path, "bytes", (json_int_t)bytes,
		"installed_s", (json_int_t)time(NULL));
	text = json_dumps(object, JSON_INDENT(2));
	json_decref(object);
	return text ?: xstrdup("{}");
}

/* Those that were used the longest time ago make room for the new one. */
static void keep_size(const struct layers *layers, const char *key, uint64_t store_bytes)
{
	struct layer_entry *entries;
	size_t count = layers_read(layers, &entries);
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += entries[i].bytes;
	for (size_t i = 0; i < count && sum > store_bytes; i++)
		if (strcmp(entries[i].key, key) != 0 && layer_remove(layers, entries[i].key) == 0)
			sum -= entries[i].bytes;
	layers_free(entries, count);
}

static int fill(const struct install *install, const struct spec *root, const struct packages_options *options,
	const struct run_control *control, const struct layers *layers, const struct layer_draft *draft,
	struct packages_report *report, struct error *err)
{
	cleanup_free char *folder = xasprintf("%s/%s.new/fs", layers->path, install->key);
	cleanup_free char *work = xasprintf("%s/%s.new/work", layers->path, install->key), *about = NULL;
	const struct install_place place = {.fd = draft->folder, .folder = folder, .work = work};
	uint64_t bytes;

	if (install_run(install, &place, root, options, control, report, &bytes, err) < 0)
		return -1;
	layer_drop_work(draft);
	about = describe(install, root, bytes);
	if (layer_commit(layers, draft, about, err) < 0)
		return -1;
	keep_size(layers, draft->key, options->store_bytes);
	return 0;
}

int install_layer(const struct install *install, const struct spec *root, const struct packages_options *options,
	const struct run_control *control, struct packages_report *ret, struct error *err)
{
	const struct layer_wait wait = {control->cancel_fd, install->is_lost, install->whose};
	struct layer_draft draft = LAYER_DRAFT_NONE;
	struct layers layers;
	int r;

	*ret = (struct packages_report){0};
	if (layers_open(true, &layers, err) < 0)
		return -1;
	layers_sweep(&layers);
	r = layer_begin(&layers, install->key, &wait, &draft, err);
	if (r == 0)
		r = fill(install, root, options, control, &layers, &draft, ret, err);
	layer_abandon(&layers, &draft);
	layers_close(&layers);
	return r < 0 ? -1 : 0;
}

/* --- sets of languages --- */

/* In the home of the install: the files that its manager looks for there. */
static int write_files(const struct host_settings *settings, const char *work, struct error *err)
{
	for (size_t i = 0; i < settings->files_count; i++) {
		const struct host_file *file = &settings->files[i];
		cleanup_free char *path = xasprintf("%s/%s", work, file->path);
		cleanup_close int fd = -1;

		for (char *slash = strchr(path + strlen(work) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
			*slash = '\0';
			if (mkdir(path, 0755) < 0 && errno != EEXIST)
				return error_set(err, errno, "making %s", path);
			*slash = '/';
		}
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0 || write_whole(fd, file->text, strlen(file->text)) < 0)
			return error_set(err, errno, "writing %s", path);
	}
	return 0;
}

/* The hosts of the recipe, and those that the settings name. */
static void allow(const struct install_language *wanted, struct spec *spec)
{
	char **const lists[] = {wanted->recipe->hosts, wanted->settings->hosts};

	spec->network = NETWORK_ALLOW;
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		for (char **host = lists[i]; host && *host; host++)
			add_rules(spec, *host);
}

int install_prepare_language(void *data, const char *folder, const char *work, struct spec *spec, struct error *err)
{
	const struct install_language *wanted = data;

	if (write_files(wanted->settings, work, err) < 0 ||
		language_prepare_install(wanted->language, wanted->names, folder, work, spec, err) < 0)
		return -1;
	exec_add_env(&spec->execs[0], wanted->settings->env);
	allow(wanted, spec);
	return 0;
}

static int check_part(int tree, const char *from, const char *what, struct error *err)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
	cleanup_close int fd = (int)syscall(SYS_openat2, tree, from, &how, sizeof how);

	return fd < 0 ? error_set(err, errno, "%s: %s in what was installed", what, from) : 0;
}

int install_check_parts(int tree, const struct recipe *recipe, struct error *err)
{
	for (size_t i = 0; i < recipe->binds_count; i++)
		if (check_part(tree, recipe->binds[i].from, recipe->manager, err) < 0)
			return -1;
	return 0;
}

/* What could not be used would be in the way of every later call. */
static int settle_set(void *data, int draft, struct error *err)
{
	const struct install_language *wanted = data;
	cleanup_close int tree = openat(draft, "fs", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return tree < 0 ? error_set(err, errno, "opening what was installed") : install_check_parts(tree, wanted->recipe, err);
}

void install_of_set(const struct packages_set *set, struct install_language *wanted, struct install *ret)
{
	*wanted = (struct install_language){set->language, set->how.recipe, &set->settings, set->names};
	*ret = (struct install){
		.manager = set->how.recipe->manager,
		.language = language_name(set->language),
		.names = set->names,
		.prepare = install_prepare_language,
		.data = wanted,
		.warnings = set->settings.warnings,
	};
}

int install_set(const struct packages_set *set, const struct spec *root, const struct packages_options *options,
	const struct run_control *control, bool (*is_lost)(const void *whose), const void *whose, struct packages_report *ret,
	struct error *err)
{
	struct install_language wanted;
	struct install install;

	install_of_set(set, &wanted, &install);
	install.key = set->key;
	install.settle = settle_set;
	install.is_lost = is_lost;
	install.whose = whose;
	return install_layer(&install, root, options, control, ret, err);
}

int packages_install(const struct packages_set *set, const struct spec *spec, const struct packages_options *options,
	const struct run_control *control, struct packages_report *ret, struct error *err)
{
	return install_set(set, spec, options, control, NULL, NULL, ret, err);
}

void packages_report_free(struct packages_report *report)
{
	strings_free(report->warnings);
	if (report->result)
		run_result_free(report->result);
	free(report->result);
	*report = (struct packages_report){0};
}
