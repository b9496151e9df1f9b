/* SPDX-License-Identifier: MIT */
/* What a gate let through and refused, for people and machines: see report.h. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gate/report.h"
#include "report/report.h"
#include "sandbox/result.h"

enum { WHY_MAX = 160 };

static json_t *hosts_to_json(const struct report *report)
{
	json_t *list = json_array();
	char host[REPORT_HOST_MAX];

	for (size_t i = 0; i < REPORT_MAX && report->entries[i].count > 0; i++)
		if (report->entries[i].verdict == REPORT_ALLOWED)
			json_array_append_new(
				list, json_string(report_host(&report->entries[i], host)));
	return list;
}

static json_t *reasons_to_json(const struct report *report, enum report_verdict verdict)
{
	json_t *list = json_array();

	for (size_t i = 0; i < REPORT_MAX && report->entries[i].count > 0; i++) {
		const struct report_entry *entry = &report->entries[i];
		char host[REPORT_HOST_MAX], rule[REPORT_HOST_MAX], why[WHY_MAX];
		bool has_rule = verdict == REPORT_BLOCKED && report_rule(entry, rule);

		if (entry->verdict != verdict)
			continue;
		report_why(entry, why, sizeof why);
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s?, s:I}", "host", report_host(entry, host),
				      "why", why, "rule", has_rule ? rule : NULL, "count",
				      (json_int_t)entry->count));
	}
	return list;
}

void network_to_json(const struct report *report, json_t *object)
{
	uint64_t others = 0;

	if (!report)
		return;
	for (size_t i = 0; i < REPORT_VERDICTS; i++)
		others += report->others[i];
	json_object_set_new(object, "network_allowed", hosts_to_json(report));
	json_object_set_new(object, "network_blocked", reasons_to_json(report, REPORT_BLOCKED));
	json_object_set_new(object, "network_failed", reasons_to_json(report, REPORT_FAILED));
	json_object_set_new(object, "network_omitted", json_integer((json_int_t)others));
}

bool network_sentence(const struct report *report, enum report_verdict verdict, size_t index,
	char *ret, size_t size)
{
	static const char *const words[] = {
		[REPORT_BLOCKED] = "blocked", [REPORT_FAILED] = "not reached"};
	char host[REPORT_HOST_MAX], rule[REPORT_HOST_MAX], why[WHY_MAX];

	for (size_t i = 0; report && i < REPORT_MAX && report->entries[i].count > 0; i++) {
		const struct report_entry *entry = &report->entries[i];

		if (entry->verdict != verdict || index-- > 0)
			continue;
		report_why(entry, why, sizeof why);
		snprintf(ret, size, "%s: %s: %s", words[verdict], report_host(entry, host), why);
		if (verdict == REPORT_BLOCKED && report_rule(entry, rule))
			snprintf(ret + strlen(ret), size - strlen(ret),
				"; add %s to --network allow=", rule);
		return true;
	}
	return false;
}
