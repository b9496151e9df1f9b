/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_SESSION_PROGRAM_H
#define NSBOX_SESSION_PROGRAM_H

/*
 * Programs of a session: text in a language, a file in one, or a line for a shell, as commands of a job.
 *
 *     {"code": TEXT, "language": L}    L may be left out where the session has a language
 *     {"file": PATH, "language": L}    L may be left out where the file's name tells
 *     {"shell": TEXT}
 *     {"repl": L}                      the interactive interpreter of that language, for a terminal
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct error;
struct job;
struct session;

/* Whether program_prepare has to be given the text of the file that the program names; *ret_path is it. */
bool program_reads_file(const json_t *program, const char **ret_path);

/*
 * Turns job->spec, whose first command has the program's arguments, environment, directory and standard input, into one
 * that runs `program`. `text` is that of its file (`length` bytes), or NULL. What the job has to remove afterwards is in
 * job->source and job->support. Returns 0, or -1 with *err.
 */
int program_prepare(const struct session *session, struct job *job, const json_t *program,
	const void *text, size_t length, struct error *err);

/*
 * Makes job->spec one that keeps an interpreter of `language` (language_prepare_context); what is to be removed once that has
 * ended is in job->support. Returns 0, or -1 with *err.
 */
int program_prepare_context(const struct session *session, struct job *job, const char *language, struct error *err);

#endif
