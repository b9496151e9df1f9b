/* SPDX-License-Identifier: MIT */
/* What a gate knows: names of addresses, what it takes over from its host, what it reports. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gate/names.h"
#include "gate/report.h"
#include "gate/settings.h"
#include "util/error.h"

static struct address address(const char *text)
{
	struct address address;

	if (!address_parse(text, &address))
		fail_msg("%s is no address", text);
	return address;
}

/* --- names --- */

static bool is_named(const struct names *names, const char *text, const char *name)
{
	struct address one = address(text);

	for (const struct name_record *record = NULL; (record = names_next(names, &one, record));)
		if (strcmp(record->name, name) == 0)
			return true;
	return false;
}

static void add(struct names *names, const char *name, const char *text)
{
	struct address one = address(text);

	names_add(names, name, &one);
}

static void an_address_has_all_the_names_that_it_was_answered_for(void **state)
{
	static struct names names;

	(void)state;
	add(&names, "a.org", "1.2.3.4");
	add(&names, "b.org", "1.2.3.4");
	add(&names, "b.org", "2001:db8::1");
	add(&names, "b.org", "2001:db8::1");
	assert_true(is_named(&names, "1.2.3.4", "a.org"));
	assert_true(is_named(&names, "1.2.3.4", "b.org"));
	assert_true(is_named(&names, "2001:db8::1", "b.org"));
	assert_false(is_named(&names, "2001:db8::1", "a.org"));
	assert_false(is_named(&names, "1.2.3.5", "a.org"));
}

static void the_oldest_name_is_forgotten_first(void **state)
{
	static struct names names;
	char name[32];

	(void)state;
	add(&names, "old.org", "1.1.1.1");
	add(&names, "used.org", "1.1.1.2");
	for (int i = 0; i < NAMES_MAX - 1; i++) {
		snprintf(name, sizeof name, "n%d.org", i);
		add(&names, name, "1.1.1.3");
		add(&names, "used.org", "1.1.1.2");
	}
	assert_false(is_named(&names, "1.1.1.1", "old.org"));
	assert_true(is_named(&names, "1.1.1.2", "used.org"));
	assert_true(is_named(&names, "1.1.1.3", "n1.org"));
}

static void a_name_keeps_its_place(void **state)
{
	static struct names names;
	struct address first = names_place(&names, "a.org", NAME_PROXY),
		       second = names_place(&names, "b.org", NAME_PROXY),
		       again = names_place(&names, "a.org", NAME_PROXY);
	const struct name_record *record = names_next(&names, &first, NULL);

	(void)state;
	assert_true(address_equal(&first, &again));
	assert_false(address_equal(&first, &second));
	assert_int_equal(first.bytes[12], 198);
	assert_int_equal(first.bytes[13], 18);
	assert_int_equal(record->way, NAME_PROXY);
	assert_string_equal(record->name, "a.org");
	assert_null(names_next(&names, &first, record));
}

/* --- the host --- */

static void a_resolv_conf_names_servers(void **state)
{
	struct settings settings = {.hosts = NULL}, none = {.hosts = NULL};
	struct address own = address("127.0.0.1"), first = address("10.1.2.3"),
		       second = address("2001:db8::53");

	(void)state;
	settings_read_resolver(
		"# nameserver 9.9.9.9\n;nameserver 9.9.9.8\nsearch a.org\n nameserver 10.1.2.3 # x\n"
		"nameserver\nnameserver nonsense\nnameserver 2001:db8::53\r\n"
		"nameserver fe80::1%7\nnameserver 8.8.8.8\n",
		&settings);
	assert_int_equal(settings.servers_count, 3);
	assert_true(address_equal(&settings.servers[0].address, &first));
	assert_true(address_equal(&settings.servers[1].address, &second));
	assert_int_equal(settings.servers[2].scope, 7);
	settings_read_resolver("options edns0\n", &none);
	assert_int_equal(none.servers_count, 1);
	assert_true(address_equal(&none.servers[0].address, &own));
}

static void of_hosts_what_is_allowed_is_taken(void **state)
{
	struct policy policy = {.count = 0};
	struct settings settings = {.hosts = NULL};
	struct error err;

	(void)state;
	assert_int_equal(policy_add(&policy, "", "db.example.org,*.corp.example", &err), 0);
	settings_read_hosts(
		"127.0.0.1 localhost\n10.0.0.5\tDB.example.org db # db.example.org\n"
		"#10.0.0.6 db.example.org\n::5 db.example.org.\nx db.example.org\n10.0.0.7 a.corp.example\n",
		&policy, &settings);
	assert_int_equal(settings.hosts_count, 3);
	assert_string_equal(settings.hosts[0].name, "db.example.org");
	assert_string_equal(settings.hosts[1].name, "db.example.org");
	assert_string_equal(settings.hosts[2].name, "a.corp.example");
	settings_free(&settings);
	policy_free(&policy);
}

static void proxies_have_hosts_ports_and_credentials(void **state)
{
	struct error err;
	struct proxy proxy;

	(void)state;
	assert_int_equal(
		settings_read_proxy("P", "http://Proxy.example.org:3128/", &proxy, &err), 0);
	assert_string_equal(proxy.name, "proxy.example.org");
	assert_int_equal(proxy.port, 3128);
	assert_null(proxy.credentials);
	assert_int_equal(settings_read_proxy("P", "[2001:db8::1]:8080", &proxy, &err), 0);
	assert_string_equal(proxy.name, "");
	assert_int_equal(proxy.port, 8080);
	assert_int_equal(
		settings_read_proxy("P", "HTTP://us%65r:p%40ss@10.0.0.1", &proxy, &err), 0);
	assert_int_equal(proxy.port, 80);
	assert_string_equal(proxy.credentials, "dXNlcjpwQHNz"); /* user:p@ss */
	free(proxy.credentials);
}

/* And nothing of what may be a password is in the message. */
static void proxies_of_other_kinds_are_refused(void **state)
{
	static const char *const wrong[] = {"socks5://u:secret@h:1", "https://u:secret@h:1",
		"http://u:secret@h:0", "http://u:secret@h:x", "http://u:secret@",
		"http://u:secret@h:70000", "http://u:secret@a b:1"};
	struct error err;
	struct proxy proxy;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		if (settings_read_proxy("HTTPS_PROXY", wrong[i], &proxy, &err) == 0)
			fail_msg("%s is taken", wrong[i]);
		assert_null(strstr(err.text, "secret"));
		assert_null(strstr(err.hint, "secret"));
		assert_int_equal(strncmp(err.text, "HTTPS_PROXY: ", 13), 0);
	}
}

static void no_proxy_says_what_goes_past_it(void **state)
{
	static const struct {
		const char *no_proxy, *name, *address;
		bool wants;
	} cases[] = {
		{"", "a.org", NULL, true},
		{"*", "a.org", NULL, false},
		{"b.org", "a.org", NULL, true},
		{"a.org", "a.org", NULL, false},
		{"a.org", "x.A.org", NULL, false},
		{".a.org, c.org", "x.a.org", NULL, false},
		{"*.a.org", "x.a.org", NULL, false},
		{"a.org", "xa.org", NULL, true},
		{"a.org", "org", NULL, true},
		{"10.0.0.0/8", "", "10.1.2.3", false},
		{"10.0.0.0/8,x", "", "11.1.2.3", true},
		{"fd00::1", "", "fd00::1", false},
		{"10.0.0.0/8", "a.org", NULL, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct settings settings = {
			.proxy.used = true, .no_proxy = (char *)cases[i].no_proxy};
		struct address one = address(cases[i].address ? cases[i].address : "::");

		if (settings_wants_proxy(&settings, cases[i].name, &one) != cases[i].wants)
			fail_msg("NO_PROXY=%s, %s%s", cases[i].no_proxy, cases[i].name,
				cases[i].address ?: "");
	}
	assert_false(settings_wants_proxy(&(struct settings){.hosts = NULL}, "a.org", NULL));
}

/* --- reports --- */

static struct report_entry entry_of(
	enum report_verdict verdict, enum report_reason reason, const char *name, uint16_t port)
{
	struct report_entry entry = {
		.verdict = (uint8_t)verdict, .reason = (uint8_t)reason, .port = port};

	snprintf(entry.name, sizeof entry.name, "%s", name);
	return entry;
}

static void what_happens_twice_is_counted(void **state)
{
	static struct report report, copy;
	struct report_entry one = entry_of(REPORT_ALLOWED, REASON_NONE, "a.org", 443);
	struct report_entry other = entry_of(REPORT_BLOCKED, REASON_NAME, "b.org", 0);

	(void)state;
	report_add(&report, &one);
	report_add(&report, &other);
	report_add(&report, &one);
	report_read(&report, &copy);
	assert_int_equal(copy.entries[0].count, 2);
	assert_int_equal(copy.entries[1].count, 1);
	assert_int_equal(copy.entries[2].count, 0);
	assert_true(report_has(&copy, REPORT_BLOCKED));
	assert_false(report_has(&copy, REPORT_FAILED));
	report_read(NULL, &copy);
	assert_false(report_has(&copy, REPORT_ALLOWED));
}

static void what_has_no_place_is_counted_all_the_same(void **state)
{
	static struct report report, copy;
	size_t told = 0;

	(void)state;
	for (int i = 0; i < REPORT_MAX + 10; i++) {
		char name[32];
		struct report_entry one;

		snprintf(name, sizeof name, "n%d.org", i);
		one = entry_of(REPORT_BLOCKED, REASON_NAME, name, 0);
		report_add(&report, &one);
	}
	report_read(&report, &copy);
	while (told < REPORT_MAX && copy.entries[told].count > 0)
		told++;
	assert_true(told < REPORT_MAX);
	assert_int_equal(told + copy.others[REPORT_BLOCKED], REPORT_MAX + 10);
	/* Of other kinds there is room for as much as before. */
	for (enum report_verdict verdict = 0; verdict < REPORT_VERDICTS; verdict++) {
		struct report_entry one = entry_of(verdict, REASON_NONE, "other.org", 0);

		report_add(&report, &one);
	}
	report_read(&report, &copy);
	assert_true(report_has(&copy, REPORT_ALLOWED));
	assert_int_equal(copy.others[REPORT_ALLOWED], 0);
	assert_int_equal(copy.others[REPORT_FAILED], 0);
}

/* Whoever has taken over the gate can write anything there. */
static void what_makes_no_sense_is_left_out(void **state)
{
	static struct report report, copy;

	(void)state;
	for (int i = 0; i < 6; i++)
		report.entries[i] = entry_of(REPORT_BLOCKED, REASON_NAME, "a.org", 1);
	for (int i = 0; i < 6; i++)
		report.entries[i].count = 1;
	report.entries[0].verdict = REPORT_VERDICTS;
	report.entries[1].reason = REASONS;
	memset(report.entries[2].name, 'a', sizeof report.entries[2].name);
	strcpy(report.entries[3].name, "\x1b[31m");
	strcpy(report.entries[4].name, "A.org");
	report_read(&report, &copy);
	assert_string_equal(copy.entries[0].name, "a.org");
	assert_int_equal(copy.entries[1].count, 0);
}

static void only_what_is_new_remains(void **state)
{
	static struct report report, before, after;
	struct report_entry one = entry_of(REPORT_ALLOWED, REASON_NONE, "a.org", 443);
	struct report_entry other = entry_of(REPORT_ALLOWED, REASON_NONE, "b.org", 443);

	(void)state;
	report_add(&report, &one);
	report_add(&report, &other);
	report_read(&report, &before);
	report_add(&report, &other);
	report_read(&report, &after);
	report_subtract(&after, &before);
	assert_string_equal(after.entries[0].name, "b.org");
	assert_int_equal(after.entries[0].count, 1);
	assert_int_equal(after.entries[1].count, 0);
}

static void reports_are_words(void **state)
{
	static const struct {
		enum report_reason reason;
		const char *name, *address, *host, *rule;
		uint16_t port;
	} cases[] = {
		{REASON_NAME, "a.org", "::", "a.org", "a.org", 0},
		{REASON_NAME, "host.nsbox.internal", "::", "host.nsbox.internal", "host.nsbox.internal:PORT", 0},
		{REASON_PORT, "a.org", "::", "a.org:5432", "a.org:5432", 5432},
		{REASON_PORT, "a.org", "::", "a.org:80", "a.org", 80},
		{REASON_ADDRESS, "", "1.2.3.4", "1.2.3.4:443", "1.2.3.4", 443},
		{REASON_ADDRESS, "", "2001:db8::1", "[2001:db8::1]:22", "[2001:db8::1]:22", 22},
		{REASON_PRIVATE, "db.org", "10.0.0.5", "db.org", "10.0.0.5", 0},
		{REASON_PRIVATE, "db.org", "127.0.0.1", "db.org", "host.nsbox.internal", 0},
		{REASON_NO_TLS, "a.org", "::", "a.org:443", NULL, 443},
	};
	char host[REPORT_HOST_MAX], rule[REPORT_HOST_MAX], why[200];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct report_entry entry =
			entry_of(REPORT_BLOCKED, cases[i].reason, cases[i].name, cases[i].port);

		entry.address = address(cases[i].address);
		assert_string_equal(report_host(&entry, host), cases[i].host);
		assert_int_equal(report_rule(&entry, rule), cases[i].rule != NULL);
		if (cases[i].rule)
			assert_string_equal(rule, cases[i].rule);
	}
	/* Each reason has words, and any number of the kernel's is one that it may be. */
	for (int reason = REASON_NONE + 1; reason < REASONS; reason++) {
		struct report_entry entry =
			entry_of(REPORT_FAILED, (enum report_reason)reason, "a.org", 1);

		entry.value = -7;
		report_why(&entry, why, sizeof why);
		assert_true(*why);
		assert_true(strlen(why) < sizeof why - 1);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_has_all_the_names_that_it_was_answered_for),
		cmocka_unit_test(the_oldest_name_is_forgotten_first),
		cmocka_unit_test(a_name_keeps_its_place),
		cmocka_unit_test(a_resolv_conf_names_servers),
		cmocka_unit_test(of_hosts_what_is_allowed_is_taken),
		cmocka_unit_test(proxies_have_hosts_ports_and_credentials),
		cmocka_unit_test(proxies_of_other_kinds_are_refused),
		cmocka_unit_test(no_proxy_says_what_goes_past_it),
		cmocka_unit_test(what_happens_twice_is_counted),
		cmocka_unit_test(what_has_no_place_is_counted_all_the_same),
		cmocka_unit_test(what_makes_no_sense_is_left_out),
		cmocka_unit_test(only_what_is_new_remains),
		cmocka_unit_test(reports_are_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
