/* SPDX-License-Identifier: MIT */
/* Where toolchains are found outside of /usr, what of a home is bound, shims, alternatives, caches, and names in Java. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/language.h"
#include "language/locate.h"
#include "language/managers.h"
#include "language/typenames.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

/* A home in which each test puts what it needs. */
static char base[64], home[96], languages[96];

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status, (void)type, (void)ftw;
	return remove(path);
}

static int setup(void **state)
{
	char made[64] = "/tmp/nsbox-toolchain-XXXXXX", *real;
	static const char *const variables[] = {
		"PYENV_VERSION", "RUSTUP_TOOLCHAIN", "RUSTUP_HOME", "XDG_CACHE_HOME"};

	(void)state;
	assert_non_null(mkdtemp(made));
	real = realpath(made, NULL);
	snprintf(base, sizeof base, "%s", real);
	free(real);
	snprintf(home, sizeof home, "%s/home", base);
	snprintf(languages, sizeof languages, "%s/languages", base);
	assert_int_equal(mkdir(home, 0755), 0);
	assert_int_equal(mkdir(languages, 0755), 0);
	assert_int_equal(chdir(home), 0);
	setenv("HOME", home, 1);
	setenv("XDG_CONFIG_HOME", base, 1);
	setenv("NSBOX_LANGUAGES_DIR", languages, 1);
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		unsetenv(variables[i]);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(chdir("/"), 0);
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

/* Makes HOME/PATH, with the directories above it. */
static void put(const char *path, const char *text, unsigned mode)
{
	char whole[512];
	FILE *file;

	snprintf(whole, sizeof whole, "%s/%s", home, path);
	for (char *slash = strchr(whole + strlen(home) + 1, '/'); slash;
		slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(whole, 0755);
		*slash = '/';
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	chmod(whole, mode);
}

static void program(const char *path)
{
	put(path, "#!/bin/sh\n", 0755);
}

static void path_is(const char *directories)
{
	char path[1024] = "";

	for (const char *next = directories; *next;) {
		size_t length = strcspn(next, ":");

		snprintf(path + strlen(path), sizeof path - strlen(path), "%s%s/%.*s",
			path[0] ? ":" : "", home, (int)length, next);
		next += length + (next[length] == ':');
	}
	setenv("PATH", path, 1);
}

/* `name` is found at HOME/FILE, and HOME/BIND is bound for it. */
static void assert_found(const char *name, const char *file, const char *bind)
{
	char expected_file[512], expected_bind[512];
	struct location location;
	struct error err;

	snprintf(expected_file, sizeof expected_file, "%s/%s", home, file);
	snprintf(expected_bind, sizeof expected_bind, "%s/%s", home, bind);
	if (!locate_program(name, &location, &err))
		fail_msg("%s: %s", name, err.text);
	assert_string_equal(location.file, expected_file);
	assert_false(location.standard);
	assert_non_null(location.binds);
	assert_string_equal(location.binds[0], expected_bind);
	assert_null(location.binds[1]);
	location_free(&location);
}

static void assert_refused(const char *name, const char *reason)
{
	struct location location;
	struct error err;

	assert_int_equal(locate_program(name, &location, &err), 0);
	if (!strstr(err.text, reason))
		fail_msg("expected: %s\n got: %s", reason, err.text);
}

static void test_managers(void **state)
{
	static const struct {
		const char *file, *bind;
	} cases[] = {
		{".pyenv/versions/3.12.1/bin/tool-a", ".pyenv/versions/3.12.1"},
		{".nvm/versions/node/v22.1.0/bin/tool-b", ".nvm/versions/node/v22.1.0"},
		{".rustup/toolchains/stable-x/bin/tool-c", ".rustup/toolchains/stable-x"},
		{".asdf/installs/nodejs/20.1.0/bin/tool-d", ".asdf/installs/nodejs/20.1.0"},
		{".sdkman/candidates/java/17-tem/bin/tool-e", ".sdkman/candidates/java/17-tem"},
		{".local/share/mise/installs/go/1.22/bin/tool-f",
			".local/share/mise/installs/go/1.22"},
		{".local/share/uv/python/cpython-3.12/bin/tool-g",
			".local/share/uv/python/cpython-3.12"},
		{".local/share/fnm/node-versions/v20/installation/bin/tool-h",
			".local/share/fnm/node-versions/v20/installation"},
		{"sdk/go1.22/bin/tool-i", "sdk/go1.22"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char directory[256];
		const char *slash = strrchr(cases[i].file, '/');

		program(cases[i].file);
		snprintf(directory, sizeof directory, "%.*s", (int)(slash - cases[i].file),
			cases[i].file);
		path_is(directory);
		assert_found(slash + 1, cases[i].file, cases[i].bind);
	}
}

static void test_conda_and_links(void **state)
{
	char target[256], link[256];

	(void)state;
	program("miniconda3/envs/work/bin/tool-a");
	put("miniconda3/envs/work/conda-meta/history", "", 0644);
	path_is("miniconda3/envs/work/bin");
	assert_found("tool-a", "miniconda3/envs/work/bin/tool-a", "miniconda3/envs/work");
	/* A link that a person made counts as what it leads to, under the name of that. */
	program(".nvm/versions/node/v1/bin/tool-b");
	put("bin/other", "", 0644);
	snprintf(target, sizeof target, "%s/.nvm/versions/node/v1/bin/tool-b", home);
	snprintf(link, sizeof link, "%s/bin/tool-b", home);
	assert_int_equal(symlink(target, link), 0);
	path_is("bin");
	assert_found("tool-b", ".nvm/versions/node/v1/bin/tool-b", ".nvm/versions/node/v1");
}

static void test_not_bound(void **state)
{
	char link[256], path[256];

	(void)state;
	program("bin/tool-a");
	program(".local/bin/tool-b");
	path_is("bin:.local/bin");
	assert_refused("tool-a", "no directory that nsbox knows");
	assert_refused("tool-b", "no directory that nsbox knows");
	assert_refused("tool-b", "/.local/bin/tool-b is not shown");
	program(".pyenv/versions/1/bin/tool-c");
	put(".pyenv/versions/1/credentials.toml", "", 0600);
	path_is(".pyenv/versions/1/bin");
	assert_refused("tool-c", "may be secret: credentials.toml");
	/* A version that is a link to the home. */
	snprintf(link, sizeof link, "%s/.pyenv/versions/2", home);
	assert_int_equal(symlink(home, link), 0);
	path_is(".pyenv/versions/2/bin");
	assert_refused("tool-a", "no directory that nsbox knows");
	/* What others can exchange. */
	program(".pyenv/versions/3/bin/tool-d");
	snprintf(path, sizeof path, "%s/.pyenv/versions", home);
	assert_int_equal(chmod(path, 0777), 0);
	path_is(".pyenv/versions/3/bin");
	assert_refused("tool-d", "can be changed by others");
}

static void test_check_bind(void **state)
{
	struct error err;
	char path[256];

	(void)state;
	assert_int_equal(manager_check_bind("/", &err), -1);
	assert_int_equal(manager_check_bind(home, &err), -1);
	assert_int_equal(manager_check_bind(base, &err), -1); /* above the home */
	for (const char *const *name = (const char *const[]){".local", ".cargo", ".config", NULL};
		*name; name++) {
		snprintf(path, sizeof path, "%s/%s", home, *name);
		mkdir(path, 0755);
		assert_int_equal(manager_check_bind(path, &err), -1);
	}
	put("fine/bin/x", "", 0755);
	snprintf(path, sizeof path, "%s/fine", home);
	assert_int_equal(manager_check_bind(path, &err), 0);
	put("fine/.git-credentials", "", 0600);
	assert_int_equal(manager_check_bind(path, &err), -1);
}

static void test_pyenv_shim(void **state)
{
	(void)state;
	program(".pyenv/shims/tool-a");
	program(".pyenv/versions/3.11.7/bin/tool-a");
	program(".pyenv/versions/3.12.1/bin/tool-a");
	program(".pyenv/versions/3.12.9/bin/tool-a");
	path_is(".pyenv/shims");
	assert_refused("tool-a", "pyenv has no version selected");
	put(".pyenv/version", "3.11.7\n", 0644);
	assert_found("tool-a", ".pyenv/versions/3.11.7/bin/tool-a", ".pyenv/versions/3.11.7");
	put(".python-version", "3.12\n", 0644); /* of the working directory: the last of them */
	assert_found("tool-a", ".pyenv/versions/3.12.9/bin/tool-a", ".pyenv/versions/3.12.9");
	setenv("PYENV_VERSION", "system:3.12.1", 1);
	assert_found("tool-a", ".pyenv/versions/3.12.1/bin/tool-a", ".pyenv/versions/3.12.1");
	setenv("PYENV_VERSION", "../../..", 1);
	assert_refused("tool-a", "pyenv has no version selected");
}

static void test_rustup_shim(void **state)
{
	char link[256], settings[512];

	(void)state;
	program(".cargo/bin/rustup");
	put(".cargo/credentials.toml", "", 0600);
	snprintf(link, sizeof link, "%s/.cargo/bin/tool-a", home);
	assert_int_equal(symlink("rustup", link), 0);
	program(".rustup/toolchains/stable-x/bin/tool-a");
	program(".rustup/toolchains/nightly-x/bin/tool-a");
	path_is(".cargo/bin");
	assert_refused("tool-a", "rustup has no toolchain selected");
	put(".rustup/settings.toml", "default_toolchain = \"stable-x\"\n", 0644);
	assert_found(
		"tool-a", ".rustup/toolchains/stable-x/bin/tool-a", ".rustup/toolchains/stable-x");
	put("rust-toolchain.toml", "[toolchain]\nchannel = \"nightly\"\n", 0644);
	assert_found("tool-a", ".rustup/toolchains/nightly-x/bin/tool-a",
		".rustup/toolchains/nightly-x");
	snprintf(settings, sizeof settings,
		"default_toolchain = \"nightly-x\"\n[overrides]\n\"%s\" = \"stable-x\"\n", home);
	put(".rustup/settings.toml", settings, 0644);
	assert_found(
		"tool-a", ".rustup/toolchains/stable-x/bin/tool-a", ".rustup/toolchains/stable-x");
	setenv("RUSTUP_TOOLCHAIN", "nightly", 1);
	assert_found("tool-a", ".rustup/toolchains/nightly-x/bin/tool-a",
		".rustup/toolchains/nightly-x");
}

static void test_asdf_and_volta_shims(void **state)
{
	(void)state;
	put(".asdf/shims/tool-a",
		"#!/bin/sh\n# asdf-plugin: nodejs 20.1.0\n# asdf-plugin: nodejs 18.0.0\n", 0755);
	program(".asdf/installs/nodejs/18.0.0/bin/tool-a");
	program(".asdf/installs/nodejs/20.1.0/bin/tool-a");
	path_is(".asdf/shims");
	assert_refused("tool-a", "asdf has no version selected");
	put(".tool-versions", "python 3.1\nnodejs 18.0.0 # old\n", 0644);
	assert_found("tool-a", ".asdf/installs/nodejs/18.0.0/bin/tool-a",
		".asdf/installs/nodejs/18.0.0");
	program(".volta/bin/volta-shim");
	assert_int_equal(symlink("volta-shim", ".volta/bin/tool-b"), 0);
	program(".volta/tools/image/node/20.2.0/bin/tool-b");
	path_is(".volta/bin");
	assert_refused("tool-b", "volta has no default version");
	put(".volta/tools/user/platform.json", "{\"node\": {\"runtime\": \"20.2.0\"}}", 0644);
	assert_found("tool-b", ".volta/tools/image/node/20.2.0/bin/tool-b",
		".volta/tools/image/node/20.2.0");
}

static void test_usr_is_standard(void **state)
{
	struct location location;
	struct error err;

	(void)state;
	program("bin/sh"); /* goes before, but may not be bound: the next in PATH counts */
	path_is("bin");
	assert_int_equal(locate_program("sh", &location, &err), 1);
	assert_true(location.standard);
	assert_null(location.binds);
	location_free(&location);
	assert_int_equal(locate_program("no-such-program", &location, &err), 0);
	assert_string_equal(err.text, "");
}

/* --- whole languages --- */

#define HEAD "{\"name\": \"t\", \"title\": \"T\", \"extension\": \"t\", \"source\": \"main.t\", "

static struct language *load(const char *text)
{
	struct language *language = NULL;
	struct error err = {0};
	char path[256];
	FILE *file;

	snprintf(path, sizeof path, "%s/t.json", languages);
	file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
	if (language_load("t", &language, &err) < 0)
		fail_msg("%s", err.text);
	return language;
}

static const char *find_env(const struct exec_spec *exec, const char *name)
{
	for (char **next = exec->env; *next; next++)
		if (strncmp(*next, name, strlen(name)) == 0 && (*next)[strlen(name)] == '=')
			return *next + strlen(name) + 1;
	return NULL;
}

static void prepare(const struct language *language, const char *code, struct spec *spec)
{
	struct error err = {0};

	spec_init(spec);
	if (language_prepare(language, code, strlen(code), NULL, 0, spec, &err) < 0)
		fail_msg("%s", err.text);
}

static void test_alternatives(void **state)
{
	struct language *language = load(HEAD
		"\"env\": {\"A\": \"all\", \"B\": \"all\"}, \"toolchains\": ["
		"{\"needs\": [{\"program\": \"no-such-program\"}], \"run\": {\"argv\": [\"first\"]}},"
		"{\"needs\": [{\"program\": [\"nor-this\", \"true\"]}], \"run\": {\"argv\": [\"nor-this\", \"{source}\"]},"
		" \"env\": {\"B\": \"second\"}}]}");
	struct spec spec;

	(void)state;
	prepare(language, "", &spec);
	assert_int_equal(spec.execs_count, 1);
	assert_string_equal(spec.execs[0].argv[0],
		"true"); /* the program that was found stands for the need's first */
	assert_string_equal(find_env(&spec.execs[0], "A"), "all");
	assert_string_equal(find_env(&spec.execs[0], "B"), "second");
	spec_free(&spec);
	language_free(language);
}

static void test_bound_program(void **state)
{
	struct language *language;
	struct language_status status;
	char expected[512];
	struct spec spec;

	(void)state;
	program(".nvm/versions/node/v9/bin/tool-a");
	path_is(".nvm/versions/node/v9/bin");
	language = load(
		HEAD "\"run\": {\"argv\": [\"tool-a\"]}, \"needs\": [{\"program\": \"tool-a\"}]}");
	prepare(language, "", &spec);
	snprintf(expected, sizeof expected, "%s/.nvm/versions/node/v9", home);
	assert_int_equal(spec.mounts_count, 1);
	assert_string_equal(spec.mounts[0].source, expected);
	assert_string_equal(spec.mounts[0].target, expected);
	assert_true(spec.mounts[0].read_only);
	snprintf(expected, sizeof expected, "%s/.nvm/versions/node/v9/bin/tool-a", home);
	assert_string_equal(spec.execs[0].argv[0], expected);
	snprintf(expected, sizeof expected, "%s/.nvm/versions/node/v9/bin:" LANGUAGE_PATH, home);
	assert_string_equal(find_env(&spec.execs[0], "PATH"), expected);
	spec_free(&spec);
	spec_init(&spec);
	language_status(language, &spec, &status);
	assert_true(status.ready);
	assert_non_null(strstr(status.programs[0], "/v9/bin/tool-a"));
	assert_non_null(strstr(status.binds[0], "/v9"));
	assert_null(status.binds[1]);
	language_status_free(&status);
	spec_free(&spec);
	language_free(language);
}

static void test_files_and_prepend(void **state)
{
	struct language *language = load(HEAD
		"\"prepend\": {\"text\": \"<?php \", \"unless\": \"<?\"}, \"files\": {\"a.txt\": [\"one\", \"two\"]},"
		"\"run\": {\"argv\": [\"x\", \"{support}/a.txt\"]}}");
	struct spec spec;

	(void)state;
	prepare(language, "echo 1;", &spec);
	assert_int_equal(spec.files_count, 2);
	assert_int_equal(spec.files[0].length, 13);
	assert_memory_equal(spec.files[0].content, "<?php echo 1;", 13);
	assert_string_equal(spec.files[1].path, spec.execs[0].argv[1]);
	assert_memory_equal(spec.files[1].content, "one\ntwo\n", 8);
	spec_free(&spec);
	prepare(language, "\n<?php echo 1;", &spec);
	assert_int_equal(spec.files[0].length, 14);
	spec_free(&spec);
	language_free(language);
}

static void test_cache(void **state)
{
	struct language *language;
	struct language_cache cache;
	struct error err = {0};
	struct spec spec;
	struct stat status;

	(void)state;
	language = load(HEAD
		"\"cache\": {\"argv\": [\"fill\", \"{cache}\"]}, \"env\": {\"C\": \"{cache}\"},"
		"\"run\": {\"argv\": [\"true\"]}, \"needs\": [{\"program\": \"true\"}]}");
	prepare(language, "", &spec);
	assert_string_equal(find_env(&spec.execs[0], "C"), "/tmp/.nsbox/cache");
	assert_int_equal(spec.mounts_count, 0);
	spec_free(&spec);
	spec_init(&spec);
	assert_int_equal(language_prepare_cache(language, false, &spec, &cache, &err), 1);
	assert_string_equal(spec.execs[0].argv[1], "/var/cache/nsbox");
	assert_string_equal(spec.mounts[0].source, cache.directory);
	assert_false(spec.mounts[0].read_only);
	spec_free(&spec);
	prepare(language, "", &spec); /* not before it is filled */
	assert_int_equal(spec.mounts_count, 0);
	spec_free(&spec);
	assert_int_equal(language_finish_cache(&cache, true, &err), 0);
	prepare(language, "", &spec);
	assert_int_equal(spec.mounts_count, 1);
	assert_true(spec.mounts[0].read_only);
	assert_string_equal(find_env(&spec.execs[0], "C"), "/var/cache/nsbox");
	assert_int_equal(chmod(spec.mounts[0].source, 0777), 0);
	spec_free(&spec);
	prepare(language, "", &spec); /* others could have put something there */
	assert_int_equal(spec.mounts_count, 0);
	spec_free(&spec);
	assert_int_equal(stat(".cache/nsbox", &status), 0);
	assert_int_equal(status.st_mode & 077, 0);
	language_free(language);
}

static void test_abandoned_cache(void **state)
{
	struct language *language =
		load(HEAD "\"cache\": {\"argv\": [\"fill\"]}, \"run\": {\"argv\": [\"true\"]}, "
			  "\"needs\": [{\"program\": \"true\"}]}");
	struct language_cache cache;
	struct error err = {0};
	char directory[256];
	struct spec spec;

	(void)state;
	spec_init(&spec);
	assert_int_equal(language_prepare_cache(language, false, &spec, &cache, &err), 1);
	snprintf(directory, sizeof directory, "%s", cache.directory);
	assert_int_equal(access(directory, F_OK), 0);
	assert_int_equal(language_finish_cache(&cache, false, &err), 0);
	assert_int_equal(access(directory, F_OK), -1);
	spec_free(&spec);
	language_free(language);
}

/* Of several processes one fills a cache. */
static void test_filling_once(void **state)
{
	struct language *language =
		load(HEAD "\"cache\": {\"argv\": [\"fill\"]}, \"run\": {\"argv\": [\"true\"]}, "
			  "\"needs\": [{\"program\": \"false\"}]}");
	struct language_cache first, second;
	struct error err = {0};
	cleanup_free char *left = NULL, *path = NULL;
	struct spec spec;
	int fd;

	(void)state;
	spec_init(&spec);
	assert_true(language_wants_cache(language, &spec));
	assert_int_equal(language_prepare_cache(language, false, &spec, &first, &err), 1);
	spec_free(&spec);
	spec_init(&spec);
	assert_true(language_wants_cache(language, &spec));
	assert_int_equal(language_prepare_cache(language, false, &spec, &second, &err), 0);
	/* The first is killed: the second takes over its place, without what is in it. */
	left = xasprintf("%s/left", first.directory);
	fd = open(left, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	close(first.lock);
	assert_int_equal(language_prepare_cache(language, false, &spec, &second, &err), 1);
	assert_string_equal(second.directory, first.directory);
	assert_int_equal(access(left, F_OK), -1);
	path = xstrdup(second.path);
	assert_int_equal(language_finish_cache(&second, true, &err), 0);
	assert_int_equal(access(first.directory, F_OK), -1);
	spec_free(&spec);
	spec_init(&spec);
	assert_false(language_wants_cache(language, &spec));
	assert_int_equal(language_prepare_cache(language, true, &spec, &second, &err), 0);
	/* One that others can change is neither used nor filled anew. */
	assert_int_equal(chmod(path, 0777), 0);
	assert_false(language_wants_cache(language, &spec));
	assert_int_equal(language_prepare_cache(language, false, &spec, &second, &err), -1);
	assert_non_null(strstr(err.hint, path));
	spec_free(&spec);
	free(first.directory);
	free(first.path);
	language_free(language);
}

static void test_versions(void **state)
{
	static const struct {
		const char *output, *version;
	} cases[] = {
		{"Python 3.11.7\n", "3.11.7"},
		{"v20.20.2\n", "20.20.2"},
		{"go version go1.26.8 linux/amd64\n", "1.26.8"},
		{"gcc (Debian 12.2.0-14+deb12u1) 12.2.0\n", "12.2.0"},
		{"openjdk version \"17.0.15\" 2025-04-15\n", "17.0.15"},
		{"rustc 1.95.0-nightly (59807616e 2026-04-14)\n", "1.95.0-nightly"},
		{"ruby 3.1.2p20 (2022-04-12 revision 4491bb740a)\n", "3.1.2p20"},
		{"Rscript (R) version 4.2.2 (2022-10-31)\n", "4.2.2"},
		{"nothing here 5\n", ""},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char version[32];

		language_version_of(
			cases[i].output, strlen(cases[i].output), version, sizeof version);
		assert_string_equal(version, cases[i].version);
	}
}

static void test_typenames(void **state)
{
	static const struct {
		const char *source, *public_type, *main_type;
	} cases[] = {
		{"public class A { public static void main(String[] a) {} }", "A", "A"},
		{"class A { static void main(String[] a) {} }", NULL, "A"},
		{"package a.b ; class C { public static final void main() {} } public enum D { E }",
			"D", "a.b.C"},
		{"// public class X\n/* public class Y */ public class Z { String s = \"public class Q {\"; char c = '{';\n"
		 "void f() { main(); } public static void main(String... a) { } }",
			"Z", "Z"},
		{"class A { void main() {} } class B { static void main() {} }", NULL, "B"},
		{"class A { void main() {} }", NULL, "A"},
		{"class A { String t = \"\"\"\n } \\\"\"\" class X {\n\"\"\"; static class N { static void main() {} } }",
			NULL, NULL},
		{"@Deprecated public final strictfp class Größe<T extends A> {}", "Größe", NULL},
		{"public record P(int x) { public static void main(String[] a) {} }", "P", "P"},
		{"class", NULL, NULL},
		{"\"", NULL, NULL},
		{"public class '\\", NULL, NULL},
		{"", NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct typenames names;

		typenames_read(cases[i].source, strlen(cases[i].source), &names);
		if (strcmp(names.public_type ? names.public_type : "",
			    cases[i].public_type ? cases[i].public_type : "") != 0 ||
			strcmp(names.main_type ? names.main_type : "",
				cases[i].main_type ? cases[i].main_type : "") != 0)
			fail_msg("%s: %s, %s", cases[i].source, names.public_type, names.main_type);
		typenames_free(&names);
	}
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_managers),
		TEST(test_conda_and_links),
		TEST(test_not_bound),
		TEST(test_check_bind),
		TEST(test_pyenv_shim),
		TEST(test_rustup_shim),
		TEST(test_asdf_and_volta_shims),
		TEST(test_usr_is_standard),
		TEST(test_alternatives),
		TEST(test_bound_program),
		TEST(test_files_and_prepend),
		TEST(test_cache),
		TEST(test_abandoned_cache),
		TEST(test_filling_once),
		TEST(test_versions),
		TEST(test_typenames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
