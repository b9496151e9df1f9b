/* SPDX-License-Identifier: MIT */
/* `nsbox session install`: see session_install.h. */
#define _GNU_SOURCE
#include "cli/session_install.h"

#include <jansson.h>
#include <string.h>

#include "cli/installing.h"
#include "language/language.h"
#include "packages/session.h"
#include "report/report.h"
#include "sandbox/spec.h"
#include "session/client.h"
#include "session/place.h"
#include "util/error.h"

struct wanted {
	const char *folder;
	struct language *language;
	struct spec root;
	char *const *names;
	struct packages_options options;
};

static int install(void *data, const struct run_control *control, struct packages_report *ret, struct error *err)
{
	const struct wanted *wanted = data;

	return packages_install_into(
		wanted->folder, wanted->language, &wanted->root, wanted->names, &wanted->options, control, ret, err);
}

static int install_with(const json_t *session, const char *language, char *const *names, const struct config *config,
	struct error *err)
{
	const char *own = json_string_value(json_object_get(session, "language"));
	struct wanted wanted = {.folder = json_string_value(json_object_get(session, "folder")), .names = names};
	struct packages_report report = {0};
	struct installing installing = {.install = install, .data = &wanted};
	int r;

	if (!language && own && *own)
		language = own;
	if (!language) {
		error_set(err, 0, "the packages of which language?");
		return error_hint(err, "name it with --lang");
	}
	if (language_load(language, &wanted.language, err) < 0)
		return -1;
	r = spec_from_json(json_object_get(session, "spec"), &wanted.root, err);
	if (r == 0) {
		installing.whose = language_name(wanted.language);
		packages_options_init(&wanted.options, config);
		r = installing_run(&installing, &report, err);
		packages_report_free(&report);
		spec_free(&wanted.root);
	}
	language_free(wanted.language);
	return r;
}

int session_install(const char *id, const char *language, char *const *names, const struct config *config,
	struct error *err)
{
	int fd = session_connect(id, NULL, err), r;
	json_t *session;

	if (fd < 0)
		return -1;
	session = session_request(fd, json_pack("{s:s}", "op", "packages"), NULL, err);
	if (!session)
		return -1;
	r = install_with(session, language, names, config, err);
	json_decref(session);
	return r;
}
