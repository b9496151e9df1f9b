/* SPDX-License-Identifier: MIT */
/* Programs as commands of a session: see program.h. */
#define _GNU_SOURCE
#include "session/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "language/language.h"
#include "sandbox/spec.h"
#include "session/supervise.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

static const char *text_of(const json_t *program, const char *key)
{
	return json_string_value(json_object_get(program, key));
}

/* The root of the session, as languages look at it. */
static void take_root(const struct spec *from, struct spec *ret)
{
	spec_copy_root(from, ret);
	ret->session = true;
	ret->uid = from->uid;
	ret->gid = from->gid;
	ret->home = from->home ? xstrdup(from->home) : NULL;
	ret->limits = from->limits;
	for (size_t i = 0; i < from->mounts_count; i++) {
		const struct mount_spec *mount = &from->mounts[i];

		if (mount->kind == MOUNT_BIND)
			spec_add_bind(ret, mount->source, mount->target, mount->read_only);
		else
			spec_add_tmpfs(ret, mount->target, mount->size_bytes);
	}
}

static struct language *choose_language(
	const struct session *session, const json_t *program, struct error *err)
{
	const char *name = text_of(program, "language"), *file = text_of(program, "file");
	struct language *language;

	if (!name && file && (language = language_of_file(file, err)))
		return language;
	if (!name && session->options.language[0])
		name = session->options.language;
	if (!name && file)
		return NULL;
	if (!name) {
		error_set(err, 0, "which language is the code in?");
		error_hint(err, "name it with --lang");
		return NULL;
	}
	return language_load(name, &language, err) == 0 ? language : NULL;
}

bool program_reads_file(const json_t *program, const char **ret_path)
{
	const char *name = text_of(program, "language");
	struct language *language = NULL;
	struct error unimportant;
	bool reads = false;

	*ret_path = text_of(program, "file");
	if (!*ret_path)
		return false;
	if (name && language_load(name, &language, &unimportant) < 0)
		return false;
	if (!name)
		language = language_of_file(*ret_path, &unimportant);
	if (language)
		reads = language_reads_source(language);
	language_free(language);
	return reads;
}

static void free_commands(struct spec *spec)
{
	struct spec rest;

	spec_init(&rest);
	memcpy(rest.execs, spec->execs, sizeof rest.execs);
	rest.execs_count = spec->execs_count;
	memset(spec->execs, 0, sizeof spec->execs);
	spec->execs_count = 0;
	spec_free(&rest);
}

/* What the caller wants of the command goes to the last of those that were made. */
static void carry_wishes(const struct exec_spec *wanted, struct exec_spec *exec)
{
	exec_add_env(exec, wanted->env);
	if (wanted->cwd) {
		free(exec->cwd);
		exec->cwd = xstrdup(wanted->cwd);
	}
	exec->stdin_kind = wanted->stdin_kind;
	if (wanted->stdin_kind == STDIN_DATA) {
		exec->stdin_data = xmemdup(wanted->stdin_data, wanted->stdin_length);
		exec->stdin_length = wanted->stdin_length;
	}
}

/* Files and commands of `made` become the job's. */
static void take_commands(struct spec *made, struct job *job)
{
	carry_wishes(&job->spec.execs[0], &made->execs[made->execs_count - 1]);
	free_commands(&job->spec);
	memcpy(job->spec.execs, made->execs, sizeof made->execs);
	job->spec.execs_count = made->execs_count;
	memset(made->execs, 0, sizeof made->execs);
	made->execs_count = 0;
	for (size_t i = 0; i < made->files_count; i++) {
		const struct file_spec *file = &made->files[i];

		spec_add_file(&job->spec, file->path, file->content, file->length, file->mode);
	}
}

/* An absolute path inside of what a request names; malloc'd. */
static char *whole_path(const char *path)
{
	return *path == '/' ? xstrdup(path) : xasprintf("/workspace/%s", path);
}

static int came_later(const struct language *language, struct error *err)
{
	error_set(err, 0, "%s came to this host after the session was made, which cannot see it", language_title(language));
	return error_hint(err, "make another session");
}

static int prepare_code(const struct session *session, struct job *job, const json_t *program,
	struct language_source *source, struct error *err)
{
	const char *const *arguments = (const char *const *)job->spec.execs[0].argv;
	struct language *language = choose_language(session, program, err);
	struct spec made;
	char unique[16];
	int r;

	if (!language)
		return -1;
	take_root(session->spec, &made);
	snprintf(unique, sizeof unique, "%u", job->process);
	source->unique = unique;
	r = language_prepare_source(language, source, (char *const *)arguments,
		job->spec.execs[0].timeout_ms, &made, err);
	if (r == 0 && made.mounts_count != session->spec->mounts_count)
		r = came_later(language, err);
	if (r == 0) {
		if (!source->file)
			job->source = xstrdup(made.files[0].path);
		if (made.files_count > (source->file ? 0 : 1))
			job->support = language_support_directory(unique);
		take_commands(&made, job);
	}
	spec_free(&made);
	language_free(language);
	return r;
}

/* Most lines that are written for a shell are written for bash. */
static const char *choose_shell(const struct session *session)
{
	struct language_status status;
	struct language *bash;
	struct error unimportant;
	struct spec spec;
	bool ready;

	if (language_load("bash", &bash, &unimportant) < 0)
		return "sh";
	take_root(session->spec, &spec);
	language_status(bash, &spec, &status);
	ready = status.ready;
	language_status_free(&status);
	spec_free(&spec);
	language_free(bash);
	return ready ? "bash" : "sh";
}

static void prepare_shell(const struct session *session, struct job *job, const char *line)
{
	struct exec_spec *exec = &job->spec.execs[0];
	char **arguments = exec->argv;
	const char *shell = choose_shell(session);

	exec->argv = NULL;
	exec_add_arg(exec, shell);
	exec_add_arg(exec, "-c");
	exec_add_arg(exec, line);
	if (arguments && *arguments)
		exec_add_arg(exec, shell);
	for (char **argument = arguments; argument && *argument; argument++) {
		exec_add_arg(exec, *argument);
		free(*argument);
	}
	free(arguments);
}

/* A command of `language`'s that was made with `prepare`, whose files are the job's to remove. */
static int prepare_own(const struct session *session, struct job *job, const char *name,
	int (*prepare)(const struct language *, const char *unique, struct spec *, struct error *), struct error *err)
{
	struct language *language;
	struct spec made;
	char unique[16];
	int r;

	if (language_load(name, &language, err) < 0)
		return -1;
	take_root(session->spec, &made);
	snprintf(unique, sizeof unique, "%u", job->process);
	r = prepare(language, unique, &made, err);
	if (r == 0 && made.mounts_count != session->spec->mounts_count)
		r = came_later(language, err);
	if (r == 0) {
		if (made.files_count > 0)
			job->support = language_support_directory(unique);
		take_commands(&made, job);
	}
	spec_free(&made);
	language_free(language);
	return r;
}

int program_prepare(const struct session *session, struct job *job, const json_t *program,
	const void *text, size_t length, struct error *err)
{
	const json_t *code = json_object_get(program, "code");
	const char *file = text_of(program, "file"), *line = text_of(program, "shell"), *repl = text_of(program, "repl");
	cleanup_free char *path = file ? whole_path(file) : NULL;
	struct language_source source = {.code = "", .file = path};

	if (job->spec.execs_count != 1)
		return error_set(err, 0, "a program is one command");
	if (line) {
		prepare_shell(session, job, line);
		return 0;
	}
	if (repl)
		return prepare_own(session, job, repl, language_prepare_repl, err);
	if (json_is_string(code)) {
		source.code = json_string_value(code);
		source.length = json_string_length(code);
	} else if (!file) {
		return error_set(err, 0, "a program is \"code\", \"file\" or \"shell\"");
	} else if (text) {
		source.code = text;
		source.length = length;
	}
	return prepare_code(session, job, program, &source, err);
}

int program_prepare_context(const struct session *session, struct job *job, const char *name, struct error *err)
{
	job->spec.execs_count = 1;
	job->spec.execs[0].stdin_kind = STDIN_NULL;
	return prepare_own(session, job, name, language_prepare_context, err);
}
