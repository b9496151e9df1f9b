/* SPDX-License-Identifier: MIT */
/* Packages: recipes and the names that they take, keys of layers, and what of the host's settings is carried over. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/recipe.h"
#include "packages/layers.h"
#include "packages/packages.h"
#include "packages/settings.h"
#include "sandbox/spec.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/sha256.h"

static char base[] = "/tmp/nsbox-packages-XXXXXX";

/* --- SHA-256: the examples of FIPS 180-4, and a length at the edge of a block --- */

static void digest_is(const char *text, const char *expected)
{
	char hex[SHA256_HEX_SIZE];
	struct sha256 hash;

	sha256_init(&hash);
	/* In parts: it must make no difference. */
	for (size_t i = 0, length = strlen(text); i < length; i += 7)
		sha256_add(&hash, text + i, length - i < 7 ? length - i : 7);
	sha256_finish(&hash, hex);
	assert_string_equal(hex, expected);
}

static void sha256_of_known_texts(void **state)
{
	char ones[65] = "";

	digest_is("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	digest_is("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	digest_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(ones, '1', 64);
	digest_is(ones, "3138bb9bc78df27c473ecfd1410f7bd45ebac1f59cf3ff9cfe4db77aab7aedd3");
}

/* --- recipes --- */

#define NAMES "\"names\": {\"pattern\": \"[a-z]+(=[0-9]+)?\", \"example\": \"a or a=1\"}"
#define INSTALL "\"install\": {\"argv\": [\"pm\", \"{names}\"]}"

static struct recipe *read_recipe(const char *text, struct error *err)
{
	json_t *object = json_loads(text, 0, NULL);
	struct recipe *recipe = NULL;

	assert_non_null(object);
	if (recipe_read(object, &recipe, err) < 0)
		assert_null(recipe);
	json_decref(object);
	return recipe;
}

static void a_whole_recipe(void **state)
{
	struct error err = {0};
	struct recipe *recipe = read_recipe("{\"manager\": \"pm\", \"folder\": \"other\", \"hosts\": [\"a.b\", \"c.d:1\"], " NAMES
		", \"install\": {\"argv\": [\"pm\", \"-x\", \"{names}\"], \"timeout_ms\": 5, \"env\": {\"A\": \"{packages}/x\"}},"
		"\"needs\": [{\"program\": \"pm\"}], \"files\": {\"f\": [\"1\", \"2\"]}, \"env\": {\"PATH\": \"{packages}:{path}\"},"
		"\"compile\": {\"argv\": [\"c\", \"{source}\"], \"timeout_ms\": 7}, \"run\": {\"argv\": [\"{packages}/r\"]},"
		"\"binds\": {\"node/x\": \"/node\"}}", &err);

	assert_non_null(recipe);
	assert_string_equal(recipe->manager, "pm");
	assert_string_equal(recipe_folder(NULL, recipe), "other");
	assert_string_equal(recipe->hosts[1], "c.d:1");
	assert_int_equal(recipe->install_timeout_ms, 5);
	assert_string_equal(recipe->install_env.values[0], "{packages}/x");
	assert_string_equal(recipe->files[0].text, "1\n2\n");
	assert_int_equal(recipe->compile_timeout_ms, 7);
	assert_string_equal(recipe->run_argv[0], "{packages}/r");
	assert_string_equal(recipe->binds[0].from, "node/x");
	assert_string_equal(recipe->binds[0].target, "/node");
	recipe_free(recipe);
}

static void refused_recipe(const char *text, const char *expected)
{
	struct error err = {0};

	assert_null(read_recipe(text, &err));
	assert_string_equal(err.text, expected);
}

static void mistakes_in_recipes_are_named(void **state)
{
	refused_recipe("{}", "packages: manager: missing");
	refused_recipe("{\"manager\": \"pm\"}", "packages: hosts: missing");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], \"names\": {}}", "packages: names: pattern: missing");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], \"names\": {\"pattern\": \"(a{99}){99}\", \"example\": \"a\"}}",
		"packages: names.pattern: there are no bounds ({…}) in it");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], \"names\": {\"pattern\": \"(a\", \"example\": \"a\"}}",
		"packages: names.pattern: Unmatched ( or \\(");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], " NAMES "}", "packages: install: missing");
	refused_recipe("{\"manager\": \"pm\", \"folder\": \"../x\", \"hosts\": [], " NAMES ", " INSTALL "}",
		"packages: folder: \"../x\" cannot be a language's name");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], " NAMES ", \"install\": {\"argv\": [\"pm\"]}}",
		"packages: install.argv: one of its arguments, and no more, has to be \"{names}\"");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], " NAMES ", \"install\": {\"argv\": [\"{names}\"]}}",
		"packages: install.argv: one of its arguments, and no more, has to be \"{names}\"");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], " NAMES ", " INSTALL ", \"binds\": {\"../x\": \"/y\"}}",
		"packages: binds: \"../x\" is no path below {packages}");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], " NAMES ", " INSTALL ", \"binds\": {\"x\": \"y\"}}",
		"packages: binds.x: expected an absolute path inside");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], " NAMES ", " INSTALL ", \"comments\": 1}",
		"packages: comments: unknown key");
	refused_recipe("{\"manager\": \"pm\", \"hosts\": [], " NAMES ", " INSTALL ", \"env\": {\"A\": \"{nothing}\"}}",
		"packages: env: A: \"{nothing}\": unknown placeholder; there are {source}, {output}, {workspace}, {support}, "
		"{cache}, {memory_mib}, {heap_mib}, {public_type} and {main_type}, {packages} and {path}");
}

static void names_are_checked(void **state)
{
	static const struct {
		const char *name, *error;
	} wrong[] = {
		{"", "the package \"\" is empty"},
		{"-a", "the package \"-a\" begins with a -, as options do"},
		{"a b", "the package \"a b\" has a space or a control character in it"},
		{"a\033", "the package \"a?\" has a space or a control character in it"},
		{"git+https://x/y", "the package \"git+https://x/y\" is a URL: packages come from the registry, by their names"},
		{"./a", "the package \"./a\" is a path: packages come from the registry, by their names"},
		{"~a", "the package \"~a\" is a path: packages come from the registry, by their names"},
		{"A", "\"A\" cannot be a package of pm"},
		{"a=", "\"a=\" cannot be a package of pm"},
		{"a=1;", "\"a=1;\" cannot be a package of pm"},
	};
	struct error err = {0};
	struct recipe *recipe = read_recipe("{\"manager\": \"pm\", \"hosts\": [], " NAMES ", " INSTALL "}", &err);

	assert_int_equal(recipe_check_names(recipe, (char *[]){(char *)"a", (char *)"b=2", NULL}, &err), 0);
	assert_int_equal(recipe_check_names(recipe, (char *[]){NULL}, &err), -1);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char *names[] = {(char *)"a", (char *)wrong[i].name, NULL};

		assert_int_equal(recipe_check_names(recipe, names, &err), -1);
		assert_string_equal(err.text, wrong[i].error);
	}
	recipe_free(recipe);
}

/* Names that the recipes that come with nsbox take, and those that they must not. */
static void names_of_real_managers(void **state)
{
	static const struct {
		const char *language, *good[6], *bad[6];
	} cases[] = {
		{"python", {"requests", "requests==2.32.3", "a[b,c]>=1,<2", "zope.interface"}, {"a @ b", "a==1;x", "git+ssh"}},
		{"javascript", {"lodash", "lodash@4", "@types/node@^20.1.0", "left-pad@latest"},
			{"a/b", "lodash@file:x", "lodash@npm:b", "x@github:a/b"}},
		{"go", {"github.com/google/uuid", "github.com/google/uuid@v1.6.0"}, {"uuid", "github.com/x@v1;y"}},
		{"rust", {"serde", "serde@1.0.200"}, {"serde=1", "serde@path:x"}},
		{"java", {"com.google.code.gson:gson:2.11.0"}, {"gson", "a:b:c:d:e:f"}},
		{"ruby", {"nokogiri"}, {"a/b"}},
		{"php", {"monolog/monolog"}, {"monolog"}},
		{"perl", {"Mojolicious", "JSON::PP@4.16"}, {"a/b"}},
		{"r", {"jsonlite"}, {"a/b"}},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct language *language;
		struct error err = {0};

		if (language_load(cases[i].language, &language, &err) < 0)
			fail_msg("%s", err.text);
		if (!language->toolchains[0].packages)
			fail_msg("%s has no packages", cases[i].language);
		for (size_t n = 0; cases[i].good[n]; n++)
			if (recipe_check_names(
				    language->toolchains[0].packages, (char *[]){(char *)cases[i].good[n], NULL}, &err) < 0)
				fail_msg("%s: %s", cases[i].language, err.text);
		for (size_t n = 0; cases[i].bad[n]; n++)
			if (recipe_check_names(
				    language->toolchains[0].packages, (char *[]){(char *)cases[i].bad[n], NULL}, &err) == 0)
				fail_msg("%s: %s was taken", cases[i].language, cases[i].bad[n]);
		language_free(language);
	}
}

/* --- layers --- */

static void paths_of_layers(void **state)
{
	char path[256], key[65];

	memset(key, 'a', 64);
	key[64] = '\0';
	snprintf(path, sizeof path, "/store/packages/%s/fs", key);
	assert_true(layer_is_tree(path));
	assert_false(layer_is_tree("/store/packages/fs"));
	assert_false(layer_is_tree(""));
	snprintf(path, sizeof path, "/store/layers/%s/fs", key);
	assert_false(layer_is_tree(path));
	snprintf(path, sizeof path, "/store/packages/%s/x", key);
	assert_false(layer_is_tree(path));
}

static void drafts_become_layers_or_nothing(void **state)
{
	const struct layer_wait wait = {.cancel_fd = -1};
	struct layer_draft draft = LAYER_DRAFT_NONE;
	struct layer_entry *entries;
	struct error err = {0};
	struct layers layers;
	char key[80], tree[PATH_MAX];
	int held;

	memset(key, 'b', 64);
	key[64] = '\0';
	assert_int_equal(layers_open(true, &layers, &err), 0);
	assert_int_equal(layer_begin(&layers, key, &wait, &draft, &err), 0);
	layer_abandon(&layers, &draft);
	assert_int_equal(layers_read(&layers, &entries), 0);
	assert_int_equal(layer_begin(&layers, key, &wait, &draft, &err), 0);
	layer_drop_work(&draft);
	assert_int_equal(layer_commit(&layers, &draft, "{\"bytes\": 77}", &err), 0);
	layer_abandon(&layers, &draft);
	/* It is there: nothing to begin. */
	assert_int_equal(layer_begin(&layers, key, &wait, &draft, &err), 1);
	assert_int_equal(layers_read(&layers, &entries), 1);
	assert_string_equal(entries[0].key, key);
	assert_int_equal(entries[0].bytes, 77);
	layers_free(entries, 1);
	assert_int_equal(layers_tree_path(key, tree, &err), 0);
	held = layer_hold(tree, &err);
	assert_true(held >= 0);
	assert_int_equal(layer_remove(&layers, key), 1);
	close(held);
	assert_int_equal(layer_remove(&layers, key), 0);
	assert_int_equal(layer_hold(tree, &err), -1);
	assert_int_equal(err.errnum, ENOENT);
	/* What a killed process has left. */
	assert_int_equal(layer_begin(&layers, key, &wait, &draft, &err), 0);
	layer_close(&draft);
	layers_sweep(&layers);
	assert_int_equal(faccessat(layers.fd, strcat(key, ".new"), F_OK, 0), -1);
	layers_close(&layers);
}

/* --- the host's settings --- */

static void put(const char *path, const char *text)
{
	char whole[256];
	FILE *file;

	snprintf(whole, sizeof whole, "%s/%s", base, path);
	for (char *slash = strchr(whole + strlen(base) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(whole, 0755);
		*slash = '/';
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static bool has(char *const *list, const char *string)
{
	for (; list && *list; list++)
		if (strstr(*list, string))
			return true;
	return false;
}

/* The file of that path must have `text` in it. */
static void carries(const struct host_settings *settings, const char *path, const char *text)
{
	for (size_t i = 0; i < settings->files_count; i++)
		if (strcmp(settings->files[i].path, path) == 0) {
			if (!strstr(settings->files[i].text, text))
				fail_msg("%s has no %s: %s", path, text, settings->files[i].text);
			return;
		}
	fail_msg("%s is not carried over", path);
}

static void no_secret(const struct host_settings *settings)
{
	for (size_t i = 0; i < settings->files_count; i++)
		assert_null(strstr(settings->files[i].text, "secret"));
	assert_false(has(settings->env, "secret"));
	assert_false(has(settings->hosts, "secret"));
	assert_false(has(settings->warnings, "secret"));
}

static void settings_of_pip(void **state)
{
	struct host_settings settings;

	put(".config/pip/pip.conf", "[global]\nindex-url = https://me:secret@pypi.example/simple\nproxy = http://x\n"
				    "[install]\nextra-index-url =\n  https://a.example:8443/s\n  http://localhost:3141/s\ntimeout=9\n");
	setenv("PIP_FIND_LINKS", "/opt/wheels https://wheels.example/x", 1);
	host_settings_read("pip", &settings);
	carries(&settings, ".config/pip/pip.conf", "index-url = https://pypi.example/simple\n");
	carries(&settings, ".config/pip/pip.conf",
		"extra-index-url = https://a.example:8443/s http://host.nsbox.internal:3141/s\n");
	carries(&settings, ".config/pip/pip.conf", "find-links = https://wheels.example/x\n");
	carries(&settings, ".config/pip/pip.conf", "trusted-host = host.nsbox.internal\n");
	assert_true(has(settings.hosts, "pypi.example:443"));
	assert_true(has(settings.hosts, "a.example:8443"));
	assert_true(has(settings.hosts, "host.nsbox.internal:3141"));
	assert_true(has(settings.warnings, "the name and password of pypi.example are not given"));
	assert_true(has(settings.warnings, "/opt/wheels is not carried over"));
	no_secret(&settings);
	host_settings_free(&settings);
	unsetenv("PIP_FIND_LINKS");
}

static void a_password_is_in_no_warning(void **state)
{
	struct host_settings settings;

	setenv("PIP_INDEX_URL", "HTTPS://me:secret@pypi.example/simple", 1);
	setenv("PIP_EXTRA_INDEX_URL", "git+ssh://me:secret@git.example/x //me:sec/ret@host.example/ ftp://me:secret/@ftp.example", 1);
	host_settings_read("pip", &settings);
	assert_true(has(settings.hosts, "pypi.example:443"));
	assert_true(has(settings.warnings, "git+ssh://git.example/x is not carried over"));
	assert_true(has(settings.warnings, "//host.example/ is not carried over"));
	assert_true(has(settings.warnings, "ftp://ftp.example is not carried over"));
	no_secret(&settings);
	host_settings_free(&settings);
	unsetenv("PIP_INDEX_URL");
	unsetenv("PIP_EXTRA_INDEX_URL");

	/* What nearly is a URL. */
	setenv("PIP_INDEX_URL", "me:secret@pypi.example/simple", 1);
	setenv("PIP_EXTRA_INDEX_URL", "https:/me:secret@other.example/simple", 1);
	host_settings_read("pip", &settings);
	assert_true(has(settings.warnings, ": pypi.example/simple is not carried over"));
	assert_true(has(settings.warnings, ": other.example/simple is not carried over"));
	no_secret(&settings);
	host_settings_free(&settings);
	unsetenv("PIP_INDEX_URL");
	unsetenv("PIP_EXTRA_INDEX_URL");
	setenv("GOPROXY", "me:secret@go.example,direct", 1);
	host_settings_read("go", &settings);
	assert_true(has(settings.warnings, ": go.example is not carried over"));
	no_secret(&settings);
	host_settings_free(&settings);

	setenv("GOPROXY", "socks://me:secret@go.example,direct", 1);
	host_settings_read("go", &settings);
	assert_true(has(settings.warnings, "socks://go.example is not carried over"));
	no_secret(&settings);
	host_settings_free(&settings);
	unsetenv("GOPROXY");

	put(".config/composer/config.json", "{\"repositories\": [{\"type\": \"composer\", \"url\": \"ssh://me:secret@php.example\"}]}");
	host_settings_read("composer", &settings);
	assert_true(has(settings.warnings, "ssh://php.example is not carried over"));
	no_secret(&settings);
	host_settings_free(&settings);
}

static void settings_of_npm(void **state)
{
	struct host_settings settings;

	put(".npmrc", "registry=https://npm.example/\n@corp:registry = http://10.0.0.5:4873\n//npm.example/:_authToken=secret\n"
		      "cafile=/etc/x\nscript-shell=/bin/evil\n");
	host_settings_read("npm", &settings);
	carries(&settings, ".npmrc", "registry=https://npm.example/\n@corp:registry=http://10.0.0.5:4873\n");
	assert_true(has(settings.hosts, "10.0.0.5:4873"));
	assert_true(has(settings.warnings, "the token or password of npm.example is not given"));
	assert_null(strstr(settings.files[0].text, "evil"));
	no_secret(&settings);
	host_settings_free(&settings);
}

static void settings_of_compiled_languages(void **state)
{
	struct host_settings settings;

	put(".cargo/config.toml", "[build]\nrustc-wrapper = \"evil\"\n[source.crates-io]\nreplace-with = \"mirror\"\n"
				  "[source.mirror]\nregistry = \"sparse+https://crates.example/index/\"\n[registries.x]\ntoken = \"secret\"\n");
	host_settings_read("cargo", &settings);
	carries(&settings, ".cargo/config.toml", "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\n"
						 "registry = \"sparse+https://crates.example/index/\"\n");
	assert_null(strstr(settings.files[0].text, "evil"));
	assert_true(has(settings.hosts, "crates.example:443"));
	no_secret(&settings);
	host_settings_free(&settings);

	setenv("GOPROXY", "https://u:secret@go.example/x,https://proxy.golang.org|direct", 1);
	put(".config/go/env", "GONOSUMDB=corp.example/*\nGOPROXY=https://not.used\n");
	host_settings_read("go", &settings);
	assert_true(has(settings.env, "GOPROXY=https://go.example/x,https://proxy.golang.org|direct"));
	assert_true(has(settings.env, "GONOSUMDB=corp.example/*"));
	assert_true(has(settings.hosts, "go.example:443"));
	assert_false(has(settings.hosts, "not.used"));
	no_secret(&settings);
	host_settings_free(&settings);
	unsetenv("GOPROXY");

	put(".m2/settings.xml",
		"<settings><servers><server><id>m</id><password>secret</password></server></servers>\n<mirrors>\n"
		"<!-- <mirror><url>https://old.example</url></mirror> -->\n<mirror><id>m</id><mirrorOf>*</mirrorOf>\n"
		" <url> https://maven.example/repo </url></mirror></mirrors></settings>");
	host_settings_read("maven", &settings);
	carries(&settings, ".m2/settings.xml", "<mirror><id>m</id><mirrorOf>*</mirrorOf><url>https://maven.example/repo</url></mirror>");
	assert_true(has(settings.warnings, "names and passwords of servers are not given"));
	assert_false(has(settings.hosts, "old.example"));
	no_secret(&settings);
	host_settings_free(&settings);
}

static void settings_of_the_others(void **state)
{
	struct host_settings settings;

	put(".config/composer/config.json", "{\"config\": {\"secure-http\": false}, \"repositories\": {\"packagist.org\": false, \"m\":"
					    "{\"type\": \"composer\", \"url\": \"http://localhost:8080\", \"options\": \"secret\"}}}");
	host_settings_read("composer", &settings);
	carries(&settings, ".config/composer/config.json", "\"url\": \"http://host.nsbox.internal:8080\"");
	carries(&settings, ".config/composer/config.json", "\"secure-http\": false");
	no_secret(&settings);
	host_settings_free(&settings);

	put(".gemrc", "---\n:backtrace: false\n:sources:\n- https://gems.example\n- 'https://two.example/'\n:update: true\n- https://no\n");
	host_settings_read("gem", &settings);
	carries(&settings, ".gemrc", ":sources:\n- https://gems.example\n- https://two.example/\n");
	assert_false(has(settings.hosts, "no:443"));
	host_settings_free(&settings);

	setenv("PERL_CPANM_OPT", "--mirror http://localhost:5/ --mirror-only --notest --from=https://c.example/ --scandeps", 1);
	host_settings_read("cpanm", &settings);
	assert_true(has(settings.env,
		"PERL_CPANM_OPT=--mirror http://host.nsbox.internal:5/ --mirror-only --from=https://c.example/"));
	host_settings_free(&settings);
	unsetenv("PERL_CPANM_OPT");

	put(".luarocks/config-5.4.lua", "lua_dir = '/x'\nrocks_servers = {\n 'https://rocks.example', \"/srv/local\"\n}\nos.exit(1)\n");
	host_settings_read("luarocks", &settings);
	carries(&settings, ".luarocks/config-5.4.lua", "rocks_servers = {\n  \"https://rocks.example\",\n}\n");
	host_settings_free(&settings);

	put(".Rprofile", "# repos = 'https://old.example'\noptions(repos = c(CRAN = \"https://cran.example\", B='https://b.example'))\nq()\n");
	host_settings_read("R", &settings);
	carries(&settings, ".Rprofile", "options(repos = c(CRAN = \"https://cran.example\", B = \"https://b.example\"))\n");
	assert_false(has(settings.hosts, "old.example"));
	host_settings_free(&settings);

	host_settings_read("another", &settings);
	assert_int_equal(settings.files_count, 0);
	host_settings_free(&settings);
}

/* --- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status, (void)type, (void)ftw;
	return remove(path);
}

static int setup(void **state)
{
	static const char *const variables[] = {"PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS",
		"CARGO_HOME", "GOPROXY", "GOENV", "COMPOSER_HOME", "GEMRC", "NPM_CONFIG_USERCONFIG", "R_PROFILE_USER",
		"XDG_CONFIG_HOME", "NSBOX_STORE"};
	const char *source = getenv("srcdir");
	char path[PATH_MAX];

	assert_non_null(mkdtemp(base));
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		unsetenv(variables[i]);
	setenv("HOME", base, 1);
	setenv("XDG_DATA_HOME", base, 1);
	snprintf(path, sizeof path, "%s/languages", source ? source : ".");
	setenv("NSBOX_LANGUAGES_DIR", path, 1);
	return 0;
}

static int teardown(void **state)
{
	return nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sha256_of_known_texts),
		cmocka_unit_test(a_whole_recipe),
		cmocka_unit_test(mistakes_in_recipes_are_named),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(names_of_real_managers),
		cmocka_unit_test(paths_of_layers),
		cmocka_unit_test(drafts_become_layers_or_nothing),
		cmocka_unit_test(settings_of_pip),
		cmocka_unit_test(a_password_is_in_no_warning),
		cmocka_unit_test(settings_of_npm),
		cmocka_unit_test(settings_of_compiled_languages),
		cmocka_unit_test(settings_of_the_others),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
