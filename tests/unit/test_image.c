/* SPDX-License-Identifier: MIT */
/* What is read of images before anything is fetched or unpacked: references, platforms, documents, users, challenges. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/auth.h"
#include "image/manifest.h"
#include "image/platform.h"
#include "image/reference.h"
#include "image/user.h"
#include "util/error.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DIGEST "sha256:" HEX

static void assert_same(const struct reference *a, const struct reference *b)
{
	assert_string_equal(a->registry, b->registry);
	assert_string_equal(a->repository, b->repository);
	assert_string_equal(a->tag, b->tag);
	assert_string_equal(a->digest, b->digest);
}

static void references_are_read_as_docker_reads_them(void **state)
{
	static const struct {
		const char *text, *whole, *brief;
	} cases[] = {
		{"python", "docker.io/library/python:latest", "python"},
		{"python:3.13-slim", "docker.io/library/python:3.13-slim", "python:3.13-slim"},
		{"a/b", "docker.io/a/b:latest", "a/b"},
		{"docker.io/python", "docker.io/library/python:latest", "python"},
		{"index.docker.io/a/b:c", "docker.io/a/b:c", "a/b:c"},
		{"localhost/x", "localhost/x:latest", "localhost/x"},
		{"localhost:5000/x/y:z", "localhost:5000/x/y:z", "localhost:5000/x/y:z"},
		{"127.0.0.1:5000/x", "127.0.0.1:5000/x:latest", "127.0.0.1:5000/x"},
		{"[::1]:5000/x", "[::1]:5000/x:latest", "[::1]:5000/x"},
		{"ghcr.io/owner/name:1.0", "ghcr.io/owner/name:1.0", "ghcr.io/owner/name:1.0"},
		{"EXAMPLE.com/a", "EXAMPLE.com/a:latest", "EXAMPLE.com/a"},
		{"a__b/c.d-e--f", "docker.io/a__b/c.d-e--f:latest", "a__b/c.d-e--f"},
		{"python@" DIGEST, "docker.io/library/python@" DIGEST, "python@" DIGEST},
		{"python:3@" DIGEST, "docker.io/library/python:3@" DIGEST, "python:3@" DIGEST},
		{"python:" HEX, "docker.io/library/python:" HEX, "python:" HEX},
		{"library/" HEX, "docker.io/library/" HEX ":latest", "library/" HEX},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char buffer[REFERENCE_MAX + 1];
		struct reference reference, again;
		struct error err = {0};

		assert_int_equal(reference_parse(cases[i].text, &reference, &err), 0);
		assert_string_equal(reference_format(&reference, buffer), cases[i].whole);
		assert_int_equal(reference_parse(buffer, &again, &err), 0);
		assert_same(&reference, &again);
		assert_string_equal(reference_format_short(&reference, buffer), cases[i].brief);
		assert_int_equal(reference_parse(buffer, &again, &err), 0);
		assert_same(&reference, &again);
	}
}

static void what_is_no_reference_is_refused(void **state)
{
	static const char *const cases[] = {"", "/", "a/", "/a", "a//b", "A", "a:", "a:-x", "a:.x", "a b", "a@", "a@sha256:12",
		"a@sha512:" HEX, "a@" DIGEST "0", "https://a/b", HEX, "-a", "a-", "a..b", "a.-b", "a___b", "_a", "a/../b", "../a",
		"a.b:/c", "a.b:123456/c", "a.b:x/c", "-x.y/c", "x-.y/c", "x..y/c", "[::1/c", "[]:1/c", "a\nb", "ä"};
	char longest[REFERENCE_MAX + 64];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct reference reference = {.tag = "untouched"};
		struct error err = {0};

		if (reference_parse(cases[i], &reference, &err) != -1)
			fail_msg("\"%s\" was taken", cases[i]);
		assert_string_equal(reference.tag, "untouched");
		assert_non_null(strstr(err.text, "image reference"));
		assert_true(err.hint[0]);
	}
	for (size_t length = 240; length < sizeof longest - 1; length += 3) {
		struct reference reference;
		struct error err;

		memset(longest, 'a', length);
		longest[length] = '\0';
		if (length > 255)
			assert_int_equal(reference_parse(longest, &reference, &err), -1);
		else
			(void)reference_parse(longest, &reference, &err);
	}
}

static void the_best_platform_is_chosen(void **state)
{
	struct platform wanted, offered;
	struct error err;
	char text[PLATFORM_TEXT_MAX];

	assert_int_equal(platform_parse("linux/arm64/v8", &wanted, &err), 0);
	assert_string_equal(platform_format(&wanted, text), "linux/arm64/v8");
	assert_int_equal(platform_parse("arm64", &offered, &err), 0);
	assert_string_equal(platform_format(&offered, text), "linux/arm64");
	assert_true(platform_match(&wanted, &offered) > 0);
	assert_int_equal(platform_parse("linux/amd64/v3", &wanted, &err), 0);
	assert_int_equal(platform_parse("linux/amd64/v2", &offered, &err), 0);
	assert_int_equal(platform_match(&wanted, &offered), 2);
	assert_int_equal(platform_match(&offered, &wanted), 0);
	assert_int_equal(platform_parse("linux/arm64/v9", &offered, &err), 0);
	assert_int_equal(platform_match(&wanted, &offered), 0);
	for (const char **bad = (const char *[]){"", "linux/", "/amd64", "linux/amd64/", "linux/amd64/v1/x", "Linux/amd64",
		     "linux/aaaaaaaaaaaaaaaaaaaa", "linux/amd64 ", NULL};
		*bad; bad++)
		if (platform_parse(*bad, &offered, &err) != -1)
			fail_msg("\"%s\" was taken", *bad);
}

#define OCI "application/vnd.oci.image."
#define DOCKER "application/vnd.docker.distribution."
#define CONFIG "\"config\": {\"mediaType\": \"" OCI "config.v1+json\", \"digest\": \"" DIGEST "\", \"size\": 2}"
#define LAYER(type) "{\"mediaType\": \"" type "\", \"digest\": \"" DIGEST "\", \"size\": 3}"

static void manifests_are_taken_apart(void **state)
{
	static const char text[] = "{\"schemaVersion\": 2, \"mediaType\": \"" OCI "manifest.v1+json\", " CONFIG ", \"layers\": ["
		LAYER(OCI "layer.v1.tar+gzip") ", " LAYER(OCI "layer.v1.tar+zstd") ", "
		LAYER("application/vnd.docker.image.rootfs.diff.tar.gzip") ", " LAYER(OCI "layer.v1.tar") "]}";
	struct manifest manifest;
	struct error err;

	assert_int_equal(manifest_parse(text, strlen(text), OCI "manifest.v1+json; charset=utf-8", "it", &manifest, &err), 0);
	assert_false(manifest.is_index);
	assert_string_equal(manifest.config.digest, DIGEST);
	assert_int_equal(manifest.count, 4);
	assert_int_equal(manifest.entries[0].media, MEDIA_LAYER_GZIP);
	assert_int_equal(manifest.entries[1].media, MEDIA_LAYER_ZSTD);
	assert_int_equal(manifest.entries[2].media, MEDIA_LAYER_GZIP);
	assert_int_equal(manifest.entries[3].media, MEDIA_LAYER);
	assert_int_equal(manifest.entries[3].size, 3);
	manifest_free(&manifest);
}

static void manifests_of_strangers_are_refused(void **state)
{
	static const struct {
		const char *text, *type, *reason;
	} cases[] = {
		{"", NULL, "is not JSON"},
		{"[]", NULL, "is not a JSON object"},
		{"{}", NULL, "schemaVersion"},
		{"{\"schemaVersion\": 1}", NULL, "schema 1"},
		{"{\"schemaVersion\": 2}", DOCKER "manifest.v1+prettyjws", "schema 1"},
		{"{\"schemaVersion\": 2, \"manifests\": [], \"layers\": []}", NULL, "both an index and a manifest"},
		{"{\"schemaVersion\": 2, \"mediaType\": \"" OCI "index.v1+json\", \"manifests\": []}", OCI "manifest.v1+json", "was sent as"},
		{"{\"schemaVersion\": 2, " CONFIG "}", NULL, "no list of layers"},
		{"{\"schemaVersion\": 2, " CONFIG ", \"layers\": [{}]}", NULL, "layer 1 has no digest"},
		{"{\"schemaVersion\": 2, " CONFIG ", \"layers\": [{\"digest\": \"sha256:../../x\"}]}", NULL, "has a digest that is not"},
		{"{\"schemaVersion\": 2, " CONFIG ", \"layers\": [{\"digest\": \"" DIGEST "\", \"size\": -1}]}", NULL, "no size"},
		{"{\"schemaVersion\": 2, " CONFIG ", \"layers\": [" LAYER("text/plain") "]}", NULL, "text/plain"},
		{"{\"schemaVersion\": 2, \"config\": {\"mediaType\": \"application/vnd.cncf.helm.config.v1+json\", \"digest\": \"" DIGEST
		 "\", \"size\": 2}, \"layers\": []}", NULL, "no image that can be run"},
		{"{\"schemaVersion\": 2, \"schemaVersion\": 2}", NULL, "is not JSON"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct manifest manifest;
		struct error err = {0};

		assert_int_equal(manifest_parse(cases[i].text, strlen(cases[i].text), cases[i].type, "it", &manifest, &err), -1);
		if (!strstr(err.text, cases[i].reason))
			fail_msg("case %zu: \"%s\" instead of \"%s\"", i, err.text, cases[i].reason);
	}
}

static void an_index_without_the_platform_says_what_it_has(void **state)
{
	static const char text[] = "{\"schemaVersion\": 2, \"manifests\": ["
		"{\"mediaType\": \"" OCI "manifest.v1+json\", \"digest\": \"" DIGEST "\", \"size\": 1, \"platform\": {\"os\": \"linux\", \"architecture\": \"s390x\"}},"
		"{\"mediaType\": \"" OCI "manifest.v1+json\", \"digest\": \"" DIGEST "\", \"size\": 7, \"platform\": {\"os\": \"linux\", \"architecture\": \"amd64\", \"variant\": \"v2\"}},"
		"{\"mediaType\": \"" OCI "manifest.v1+json\", \"digest\": \"" DIGEST "\", \"size\": 2, \"platform\": {\"os\": \"unknown\", \"architecture\": \"unknown\"}}]}";
	const struct platform v3 = {"linux", "amd64", "v3"}, v1 = {"linux", "amd64", "v1"};
	const struct descriptor *chosen;
	struct manifest index;
	struct error err;

	assert_int_equal(manifest_parse(text, strlen(text), NULL, "it", &index, &err), 0);
	assert_true(index.is_index);
	assert_int_equal(index_choose(&index, &v3, "it", &chosen, &err), 0);
	assert_int_equal(chosen->size, 7);
	assert_int_equal(index_choose(&index, &v1, "it", &chosen, &err), -1);
	assert_string_equal(err.text, "it has no image for linux/amd64/v1");
	assert_string_equal(err.hint, "it has: linux/s390x, linux/amd64/v2");
	manifest_free(&index);
}

static void configurations_are_taken_apart(void **state)
{
	static const char text[] = "{\"architecture\": \"amd64\", \"os\": \"linux\", \"created\": \"2026-01-01T00:00:00Z\","
		"\"config\": {\"User\": \"app:app\", \"Env\": [\"A=b\"], \"Entrypoint\": [\"/e\"], \"Cmd\": null, \"WorkingDir\": \"/w\","
		"\"Volumes\": {\"/v\": {}}, \"StopSignal\": \"SIGQUIT\"}, \"rootfs\": {\"type\": \"layers\", \"diff_ids\": [\"" DIGEST "\"]}}";
	struct image_config config;
	struct error err = {0};

	assert_int_equal(image_config_parse(text, strlen(text), "it", &config, &err), 0);
	assert_string_equal(config.user, "app:app");
	assert_string_equal(config.env[0], "A=b");
	assert_string_equal(config.entrypoint[0], "/e");
	assert_null(config.command);
	assert_string_equal(config.volumes[0], "/v");
	assert_string_equal(config.stop_signal, "SIGQUIT");
	assert_int_equal(config.layers, 1);
	assert_string_equal(config.diff_ids[0], DIGEST);
	image_config_free(&config);
	for (const char **bad = (const char *[]){"{}", "{\"rootfs\": {\"diff_ids\": [1]}}", "{\"rootfs\": {\"diff_ids\": []}, \"config\": 1}",
		     "{\"rootfs\": {\"diff_ids\": []}, \"config\": {\"Env\": \"A=b\"}}",
		     "{\"rootfs\": {\"diff_ids\": []}, \"config\": {\"User\": 0}}",
		     "{\"rootfs\": {\"diff_ids\": []}, \"config\": {\"Cmd\": [\"a\\u0000b\"]}}", NULL};
		*bad; bad++)
		if (image_config_parse(*bad, strlen(*bad), "it", &config, &err) != -1)
			fail_msg("%s was taken", *bad);
}

static void users_are_found_in_the_image(void **state)
{
	static const char passwd[] = "root:x:0:0::/root:/bin/sh\napp:x:1234:1235:App:/home/app:/bin/sh\n42:x:7:8::/h:/bin/sh\nbad:x:y:0::/:\nbroken\nbig:x:70000:1::/:",
			  group[] = "root:x:0:\nstaff:x:50:app\n";
	static const struct {
		const char *text;
		uint32_t uid, gid;
		const char *home;
	} cases[] = {{NULL, 0, 0, "/root"}, {"", 0, 0, "/root"}, {"app", 1234, 1235, "/home/app"}, {"1234", 1234, 1235, "/home/app"},
		{"app:staff", 1234, 50, "/home/app"}, {"app:99", 1234, 99, "/home/app"}, {"9999", 9999, 0, ""}, {"9999:staff", 9999, 50, ""},
		{"42", 7, 8, "/h"}, {"app:", 1234, 1235, "/home/app"}, {":staff", 0, 50, "/root"}};
	struct image_user user;
	struct error err;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(image_user_resolve(cases[i].text, passwd, group, &user, &err), 0);
		assert_int_equal(user.uid, cases[i].uid);
		assert_int_equal(user.gid, cases[i].gid);
		assert_string_equal(user.home, cases[i].home);
	}
	assert_int_equal(image_user_resolve("1000", NULL, NULL, &user, &err), 0);
	for (const char **bad = (const char *[]){"nobody", "app:nogroup", "bad", "big", "70000", "-1", "1234567890123", NULL}; *bad; bad++)
		if (image_user_resolve(*bad, passwd, group, &user, &err) != -1)
			fail_msg("%s was taken", *bad);
}

static void challenges_are_taken_apart(void **state)
{
	struct challenge challenge = {0};

	challenge_parse("Bearer realm=\"https://auth.example/token\",service=\"reg\",scope=\"repository:a/b:pull,push\"", &challenge);
	assert_int_equal(challenge.scheme, CHALLENGE_BEARER);
	assert_string_equal(challenge.realm, "https://auth.example/token");
	assert_string_equal(challenge.service, "reg");
	assert_string_equal(challenge.scope, "repository:a/b:pull,push");
	challenge = (struct challenge){0};
	challenge_parse("Negotiate abc, Basic realm=\"x \\\"y\\\"\"", &challenge);
	assert_int_equal(challenge.scheme, CHALLENGE_BASIC);
	assert_string_equal(challenge.realm, "x \"y\"");
	challenge = (struct challenge){0};
	challenge_parse("Basic realm=x, bearer realm=y", &challenge);
	assert_int_equal(challenge.scheme, CHALLENGE_BEARER);
	for (const char **odd = (const char *[]){"", ",", "Bearer", "Bearer realm", "Bearer realm=", "Bearer realm=\"", "=,=,=", "Bearer =x", NULL};
		*odd; odd++) {
		challenge = (struct challenge){0};
		challenge_parse(*odd, &challenge);
		assert_int_equal(challenge.scheme, CHALLENGE_NONE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(references_are_read_as_docker_reads_them),
		cmocka_unit_test(what_is_no_reference_is_refused),
		cmocka_unit_test(the_best_platform_is_chosen),
		cmocka_unit_test(manifests_are_taken_apart),
		cmocka_unit_test(manifests_of_strangers_are_refused),
		cmocka_unit_test(an_index_without_the_platform_says_what_it_has),
		cmocka_unit_test(configurations_are_taken_apart),
		cmocka_unit_test(users_are_found_in_the_image),
		cmocka_unit_test(challenges_are_taken_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
