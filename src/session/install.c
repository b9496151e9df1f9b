/* SPDX-License-Identifier: MIT */
/* Installs packages for a server: see install.h. */
#define _GNU_SOURCE
#include "session/install.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "language/language.h"
#include "packages/apt.h"
#include "packages/packages.h"
#include "packages/session.h"
#include "report/report.h"
#include "sandbox/spec.h"
#include "seccomp/load.h"
#include "session/client.h"
#include "session/session.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/utf8.h"

struct request {
	struct spec spec;
	char **names; /* borrowed, NULL-terminated; the array is owned */
	struct language *language; /* NULL: of the system */
	json_t *session; /* what the session says of itself; NULL: there is none */
	bool session_unknown; /* there is none of the id that was given */
	struct config config;
	struct packages_options options;
};

/* Of a session: where its packages are, and its root. */
static json_t *ask_session(const char *id, struct error *err)
{
	int socket = session_connect_shared(id, err);

	if (socket < 0)
		return NULL;
	if (fcntl(socket, F_SETFL, 0) < 0) {
		error_set(err, errno, "asking the sandbox %s", id);
		close(socket);
		return NULL;
	}
	return session_request(socket, json_pack("{s:s, s:s}", "op", "packages", "from", "mcp"), NULL, err);
}

static int read_request(const json_t *object, struct request *ret, struct error *err)
{
	const char *language = json_string_value(json_object_get(object, "language")),
		   *session = json_string_value(json_object_get(object, "session"));
	const json_t *names = json_object_get(object, "packages"), *name;
	size_t i;

	if (!json_is_true(json_object_get(object, "no_config")) &&
		config_load(json_string_value(json_object_get(object, "config")), &ret->config, err) < 0)
		return -1;
	if (session) {
		ret->session = ask_session(session, err);
		if (!ret->session) {
			ret->session_unknown = err->errnum == ENOENT;
			return -1;
		}
		object = ret->session;
		if (!language)
			language = json_string_value(json_object_get(object, "language"));
		if (!language || !*language)
			return error_set(err, 0, "the packages of which language? give language, too");
	}

	ret->names = xcalloc(json_array_size(names) + 1, sizeof *ret->names);
	json_array_foreach (names, i, name)
		ret->names[i] = (char *)(json_string_value(name) ?: "");
	if (spec_from_json(json_object_get(object, "spec"), &ret->spec, err) < 0 || spec_load_filters(&ret->spec, err) < 0 ||
		(language && language_load(language, &ret->language, err) < 0))
		return -1;
	packages_options_init(&ret->options, &ret->config);
	return 0;
}

/* What the manager wrote to both streams, one behind the other. */
static json_t *output_to_json(const struct packages_report *report)
{
	const struct exec_result *exec = report->result ? run_result_last(report->result) : NULL;
	size_t length = 0, valid_length;
	cleanup_free char *text = NULL, *valid = NULL;

	for (int i = 0; exec && i < 2; i++) {
		const struct captured *output = &exec->output[i];
		size_t more = output->head_length + output->tail_length;

		text = xrealloc(text, length + more + 1, 1);
		if (more > 0)
			memcpy(text + length, output->data, more);
		length += more;
	}
	/* Whoever reads it takes a NUL for its end, and what is behind it would be hidden: it is no better than invalid bytes. */
	for (size_t i = 0; i < length; i++)
		if (text[i] == '\0')
			text[i] = '\xff';
	valid = utf8_replace_invalid(text ?: "", length, &valid_length);
	return json_stringn(valid, valid_length);
}

static int install_system(const struct request *request, const struct run_control *control, struct packages_report *report,
	struct error *err)
{
	struct apt_set set;
	int r;

	if (apt_resolve(&request->spec, request->names, &set, err) < 0)
		return -1;
	r = apt_install(&set, &request->spec, &request->options, control, report, err);
	apt_set_free(&set);
	return r;
}

static int install(const struct request *request, const struct run_control *control, struct packages_report *report,
	struct error *err)
{
	struct packages_set set;
	int r;

	if (request->session)
		return packages_install_into(json_string_value(json_object_get(request->session, "folder")) ?: "",
			request->language, &request->spec, request->names, &request->options, control, report, err);
	if (!request->language)
		return install_system(request, control, report, err);
	if (packages_resolve(request->language, &request->spec, request->names, &set, err) < 0)
		return -1;
	r = packages_install(&set, &request->spec, &request->options, control, report, err);
	packages_set_free(&set);
	return r;
}

json_t *install_for_server(const json_t *object, const struct run_control *control)
{
	struct packages_report report = {0};
	struct request request = {.names = NULL};
	struct error err = {0};
	json_t *answer;
	int r;

	spec_init(&request.spec);
	config_init(&request.config);
	r = read_request(object, &request, &err);
	if (r == 0)
		r = install(&request, control, &report, &err);
	answer = json_pack("{s:o}", "output", output_to_json(&report));
	if (r == 0 && request.session && !report.result)
		json_object_set_new(answer, "from_store", json_true());
	if (r < 0)
		json_object_set_new(answer, "failed",
			json_pack("{s:s, s:s, s:b}", "text", err.text, "hint", err.hint, "unknown", request.session_unknown));
	packages_report_free(&report);
	config_free(&request.config);
	spec_free(&request.spec);
	language_free(request.language);
	json_decref(request.session);
	free(request.names);
	return answer;
}
