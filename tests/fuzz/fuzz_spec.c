/* SPDX-License-Identifier: MIT */
/*
 * The spec of a sandbox as JSON, as supervisors get it. What was read, written and read again is the same;
 * spec_validate can be asked about any of it.
 */
#define _GNU_SOURCE
#include <jansson.h>

#include "fuzz/fuzz.h"
#include "report/report.h"
#include "sandbox/spec.h"
#include "util/error.h"

static void check_spec(const struct spec *spec)
{
	struct error err = {0};
	struct spec again;
	json_t *first = spec_to_json(spec), *second;

	require(first != NULL, "a spec can be written");
	require(spec_from_json(first, &again, &err) == 0, "and read again");
	second = spec_to_json(&again);
	require(json_equal(first, second), "to the same");
	if (spec_validate(spec, &err) < 0)
		require(err.text[0] && !strchr(err.text, '\n'), "there is a reason of one line");
	else
		limits_disk_inodes(&spec->limits);
	json_decref(first);
	json_decref(second);
	spec_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *object = json_loadb((const char *)data, size, REPORT_JSON_LOAD_FLAGS, NULL);
	struct error err = {0};
	struct spec spec;

	if (!object)
		return 0;
	if (spec_from_json(object, &spec, &err) == 0) {
		check_spec(&spec);
		spec_free(&spec);
	} else {
		require(strncmp(err.text, "spec", 4) == 0, "an error says that it is of a spec");
	}
	json_decref(object);
	return 0;
}
