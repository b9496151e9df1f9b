/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_REPORT_REPORT_H
#define NSBOX_REPORT_REPORT_H

/*
 * What people and machines read of a spec and of a result: JSON objects (documented key by key in
 * nsbox-run(1)) and sentences.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/report.h"

struct error;
struct exec_result;
struct limit_hit;
struct refusal;
struct refusals;
struct run_result;
struct spec;

/*
 * For json_dump*: times and CPUs are real numbers with three digits after the point, which without a
 * precision are written as 0.10000000000000001. For json_load*: output may contain NUL characters.
 */
#define REPORT_JSON_DUMP_FLAGS JSON_REAL_PRECISION(12)
#define REPORT_JSON_LOAD_FLAGS JSON_ALLOW_NUL

/* Bytes as a string, or {"base64": "…"} where they are not UTF-8 or have a NUL; null for NULL. New reference. */
json_t *bytes_to_json(const void *data, size_t length);

/*
 * The spec as a JSON object (new reference). Bytes that are not UTF-8 go as {"base64": "…"}. The
 * compiled filter is left out.
 */
json_t *spec_to_json(const struct spec *spec);

/*
 * The reverse. Unknown keys are refused; what is missing has the default of spec_init. *ret is
 * initialized here and must be freed by the caller when 0 is returned. The filter is not set.
 */
int spec_from_json(const json_t *object, struct spec *ret, struct error *err);

/* The result as a JSON object (new reference), as `nsbox run --json` prints it. All keys are always there. */
json_t *run_result_to_json(const struct run_result *result, const struct spec *spec);

/*
 * Adds to such an object «kept» (of which streams there is a kept file since the object has not all of it, and whether
 * there is one of the files that were left) and «kept_whole». The descriptors of these are ret_fds, in order, at most
 * RESULT_KEPT_MAX, and remain the result's. Returns their number.
 */
size_t run_result_add_kept(const struct run_result *result, json_t *object, int *ret_fds);

/* Sets NAME, NAME_base64, NAME_bytes, NAME_omitted_bytes and NAME_omitted_at of a stream that was captured. */
struct captured;
void captured_to_json(json_t *object, const char *name, const struct captured *captured);

/* The ports that lead into the sandbox, as in the result (new reference). */
json_t *published_to_json(const struct run_result *result);

/* For ports that nobody has chosen: a sentence for each on standard error, which begins with «nsbox: ». */
void print_chosen_ports(const struct spec *spec, const struct run_result *result);

/* What of it is true of any command in the sandbox: limits, sandbox, warnings (new reference). */
json_t *run_result_walls_to_json(const struct run_result *result, const struct spec *spec);

/*
 * One sentence that says why a run ended otherwise than by its own exit, with the limit, what was
 * used, and the option that raises it («killed: memory limit of 128 MiB reached …; raise it with
 * --memory»), and which limits were met besides. Writes an empty string when there is nothing to say.
 */
void run_result_sentence(
	const struct run_result *result, const struct spec *spec, char *ret, size_t size);

/* The same for one command of a run. */
void exec_result_sentence(const struct run_result *result, size_t index, const struct spec *spec,
	char *ret, size_t size);

/* One limit that was met: «memory limit of 128 MiB reached (…); raise it with --memory». */
void limit_hit_message(const struct limit_hit *hit, char *ret, size_t size);

/* With --explain, a call that was refused: «socket(AF_VSOCK, SOCK_STREAM, 0): EAFNOSUPPORT (…), 2 times». */
void refusal_message(const struct refusal *refusal, char *ret, size_t size);

/* All of them (new reference); null where they were not asked for. */
json_t *refusals_to_json(const struct refusals *refusals);

/*
 * Without --explain: where what a command that failed wrote speaks of an error that the filter gives, that --explain
 * would tell. Empty otherwise, and where nsbox did not see its standard error.
 */
void exec_result_hint(
	const struct exec_result *exec, const struct spec *spec, char *ret, size_t size);

/* Adds what the gate let through and refused, as nsbox-run(1) has it; NULL: there was no gate, and nothing is added. */
void network_to_json(const struct report *report, json_t *object);

/*
 * What was blocked, or failed: a sentence for the `index`th, which says why, and what would allow it. Returns false where
 * there is no such.
 */
bool network_sentence(const struct report *report, enum report_verdict verdict, size_t index, char *ret, size_t size);

/* «512 MiB», «1.5 GiB», «900 bytes» */
void format_bytes(uint64_t bytes, char *ret, size_t size);

/* «30 s», «1.5 s», «250 ms» */
void format_duration_ms(uint64_t ms, char *ret, size_t size);

/* «SIGKILL» */
void format_signal(int signal, char *ret, size_t size);

#endif
