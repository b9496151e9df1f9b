/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_REPORT_REPORT_H
#define NSBOX_REPORT_REPORT_H

/*
 * What people and machines read of a spec and of a result: JSON objects (documented key by key in
 * nsbox-run(1)) and sentences.
 */

#include <jansson.h>
#include <stddef.h>

struct error;
struct run_result;
struct spec;

/* The spec as a JSON object (new reference). Bytes that are not UTF-8 go as {"base64": "…"}. The compiled filter is left out. */
json_t *spec_to_json(const struct spec *spec);

/*
 * The reverse. Unknown keys are refused. *ret is initialized here and must be freed by the caller
 * when 0 is returned. The filter is not set.
 */
int spec_from_json(const json_t *object, struct spec *ret, struct error *err);

/* The result as a JSON object (new reference), as `nsbox run --json` prints it. */
json_t *run_result_to_json(const struct run_result *result, const struct spec *spec);

/*
 * One sentence that says why a run ended otherwise than by its own exit, with the limit, what was
 * used, and the option that raises it («killed: memory limit of 128 MiB reached …; raise it with
 * --memory»). Writes an empty string when there is nothing to say.
 */
void run_result_sentence(const struct run_result *result, const struct spec *spec, char *ret, size_t size);

/* «512 MiB», «1.5 GiB», «900 bytes» */
void format_bytes(uint64_t bytes, char *ret, size_t size);

/* «30 s», «1.5 s», «250 ms» */
void format_duration_ms(uint64_t ms, char *ret, size_t size);

#endif
