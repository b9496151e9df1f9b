/* SPDX-License-Identifier: MIT */
/* Languages: lookup, the strictness of the format, and the specs that come of them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/language.h"
#include "sandbox/spec.h"
#include "util/cleanup.h"
#include "util/error.h"

struct fixture {
	char base[64], installed[96], user[128];
};

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status, (void)type, (void)ftw;
	return remove(path);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);
	char path[128];

	strcpy(fixture->base, "/tmp/nsbox-language-XXXXXX");
	assert_non_null(mkdtemp(fixture->base));
	snprintf(fixture->installed, sizeof fixture->installed, "%s/installed", fixture->base);
	snprintf(path, sizeof path, "%s/nsbox", fixture->base);
	snprintf(fixture->user, sizeof fixture->user, "%s/nsbox/languages", fixture->base);
	mkdir(fixture->installed, 0755);
	mkdir(path, 0755);
	mkdir(fixture->user, 0755);
	setenv("NSBOX_LANGUAGES_DIR", fixture->installed, 1);
	setenv("XDG_CONFIG_HOME", fixture->base, 1);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	nftw(fixture->base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(fixture);
	return 0;
}

#define HEAD "{\"name\": \"t\", \"title\": \"T\", \"extension\": \"t\", \"source\": \"main.t\", "

static const char valid[] = HEAD
	"\"aliases\": [\"tee\", \"t+\"],\n"
	"\"compile\": {\"argv\": [\"true\", \"{source}\", \"{output}\"], \"timeout_ms\": 1234},\n"
	"\"run\": {\"argv\": [\"true\", \"-m{memory_mib}\", \"-h{heap_mib}\", \"{workspace}\", \"{{x}}\", \"a{source}b\"]},\n"
	"\"env\": {\"A\": \"{memory_mib}\", \"PATH\": \"/own\"}, \"needs\": [{\"program\": \"true\"}]}";

static struct language *load(const char *name)
{
	struct language *language = NULL;
	struct error err = {0};

	if (language_load(name, &language, &err) < 0)
		fail_msg("%s", err.text);
	return language;
}

static void test_lookup(void **state)
{
	struct fixture *fixture = *state;
	static const char *const names[] = {"t", "T", "tee", "TEE", "t+"};

	write_file(fixture->installed, "t.json", valid);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct language *language = load(names[i]);

		assert_string_equal(language_name(language), "t");
		language_free(language);
	}
}

static void test_unknown(void **state)
{
	struct fixture *fixture = *state;
	static const char *const names[] = {"cobol", "", "../installed/t", "t/", "a b", "t.json"};

	write_file(fixture->installed, "t.json", valid);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct language *language = NULL;
		struct error err = {0};

		assert_int_equal(language_load(names[i], &language, &err), -1);
		assert_non_null(strstr(err.text, "unknown language"));
		assert_non_null(strstr(err.text, "there are: t"));
		assert_null(language);
	}
}

static void test_none_installed(void **state)
{
	struct language *language = NULL;
	struct error err = {0};

	assert_int_equal(language_load("python", &language, &err), -1);
	assert_non_null(strstr(err.hint, "NSBOX_LANGUAGES_DIR"));
}

static const char *find_env(const struct exec_spec *exec, const char *name)
{
	for (char **next = exec->env; *next; next++)
		if (strncmp(*next, name, strlen(name)) == 0 && (*next)[strlen(name)] == '=')
			return *next + strlen(name) + 1;
	return NULL;
}

static void test_prepare(void **state)
{
	struct fixture *fixture = *state;
	char *arguments[] = {"{source}", "", NULL};
	struct language *language;
	struct error err = {0};
	struct spec spec;

	write_file(fixture->installed, "t.json", valid);
	language = load("t");
	spec_init(&spec);
	spec.limits.memory_bytes = 1024u << 20;
	assert_int_equal(language_prepare(language, "a\0b", 3, arguments, 77, &spec, &err), 0);
	assert_int_equal(spec.files_count, 2);
	assert_string_equal(spec.files[0].path, "/workspace/main.t");
	assert_int_equal(spec.files[0].length, 3);
	assert_memory_equal(spec.files[0].content, "a\0b", 3);
	assert_string_equal(spec.files[1].path, "/tmp/.nsbox/source");
	assert_memory_equal(spec.files[1].content, "/workspace/main.t", spec.files[1].length);
	assert_int_equal(spec.execs_count, 2);
	assert_string_equal(spec.execs[0].phase, "compile");
	assert_int_equal(spec.execs[0].timeout_ms, 1234);
	assert_int_equal(spec.execs[0].stdin_kind, STDIN_NULL);
	assert_string_equal(spec.execs[0].argv[1], "/workspace/main.t");
	assert_string_equal(spec.execs[1].phase, "run");
	assert_int_equal(spec.execs[1].timeout_ms, 77);
	assert_string_equal(spec.execs[1].cwd, "/workspace");
	assert_string_equal(spec.execs[1].argv[1], "-m1024");
	assert_string_equal(spec.execs[1].argv[2], "-h768");
	assert_string_equal(spec.execs[1].argv[3], "/workspace");
	assert_string_equal(spec.execs[1].argv[4], "{x}");
	assert_string_equal(spec.execs[1].argv[5], "a/workspace/main.tb");
	assert_string_equal(
		spec.execs[1].argv[6], "{source}"); /* a caller's argument stays what it is */
	assert_string_equal(spec.execs[1].argv[7], "");
	assert_null(spec.execs[1].argv[8]);
	assert_string_equal(find_env(&spec.execs[1], "A"), "1024");
	assert_string_equal(find_env(&spec.execs[1], "PATH"), "/own");
	assert_string_equal(find_env(&spec.execs[0], "PATH"), "/own");
	spec_free(&spec);
	language_free(language);
}

static void test_heap_leaves_room(void **state)
{
	struct fixture *fixture = *state;
	static const unsigned memory_mib[] = {8, 32, 64, 128, 256, 512, 4096};

	write_file(fixture->installed, "t.json", valid);
	for (size_t i = 0; i < sizeof memory_mib / sizeof memory_mib[0]; i++) {
		struct language *language = load("t");
		struct error err = {0};
		struct spec spec;
		unsigned long heap;

		spec_init(&spec);
		spec.limits.memory_bytes = (uint64_t)memory_mib[i] << 20;
		assert_int_equal(language_prepare(language, "", 0, NULL, 0, &spec, &err), 0);
		heap = strtoul(spec.execs[1].argv[2] + 2, NULL, 10);
		assert_true(heap >= 1 && heap <= memory_mib[i] * 3 / 4);
		spec_free(&spec);
		language_free(language);
	}
}

static void test_user_goes_first(void **state)
{
	struct fixture *fixture = *state;
	struct language *language;
	struct error err = {0};
	struct spec spec;

	write_file(fixture->installed, "t.json", valid);
	write_file(fixture->user, "t.json", HEAD "\"run\": {\"argv\": [\"mine\"]}}");
	language = load("t");
	spec_init(&spec);
	assert_int_equal(language_prepare(language, "", 0, NULL, 0, &spec, &err), 0);
	assert_int_equal(spec.execs_count, 1);
	assert_string_equal(spec.execs[0].argv[0], "mine");
	spec_free(&spec);
	language_free(language);
}

struct seen {
	char text[512];
};

static void note(void *data, const char *name, const struct error *broken)
{
	struct seen *seen = data;
	size_t used = strlen(seen->text);

	snprintf(seen->text + used, sizeof seen->text - used, "%s%s ", name, broken ? "!" : "");
}

static void test_broken_harms_nobody(void **state)
{
	struct fixture *fixture = *state;
	struct language *language;
	struct seen seen = {""};
	struct error err = {0};

	write_file(fixture->installed, "t.json", valid);
	write_file(fixture->installed, "a.json", "{\n\n nonsense");
	write_file(fixture->installed, "z.json", "[]");
	write_file(fixture->installed, "README", "no language");
	mkfifo(strcat(strcpy((char[256]){0}, fixture->installed), "/fifo.json"), 0644);
	language = load("tee");
	language_free(language);
	language_list(note, &seen);
	assert_string_equal(seen.text, "a! fifo! t z! ");
	assert_int_equal(language_load("a", &language, &err), -1);
	assert_non_null(strstr(err.text, "/a.json:3: "));
	assert_int_equal(language_load("none", &language, &err), -1);
	assert_non_null(strstr(err.hint, "/a.json:3: "));
}

static const struct {
	const char *text, *expected;
} broken[] = {
	{"", "/t.json:1: "},
	{"{\n\"name\": \"t\",\n\"name\": \"t\"}", "/t.json:3: duplicate"},
	{"[]", "/t.json: expected an object, not an array"},
	{"{}", "/t.json: name: missing"},
	{"{\"name\": 1}", "/t.json: name: expected a string, not a number"},
	{"{\"name\": \"\"}", "/t.json: name: an empty string"},
	{HEAD "\"x\": 1}", "/t.json: run: missing"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"Env\": {}}", "/t.json: Env: unknown key"},
	{HEAD "\"run\": {\"argv\": [\"a\"], \"timeout_ms\": 1}}",
		"/t.json: run.timeout_ms: unknown key"},
	{HEAD "\"run\": []}", "/t.json: run: expected an object, not an array"},
	{HEAD "\"run\": {}}", "/t.json: run.argv: missing"},
	{HEAD "\"run\": {\"argv\": []}}", "/t.json: run.argv: no program"},
	{HEAD "\"run\": {\"argv\": \"a\"}}",
		"/t.json: run.argv: expected an array of strings, not a string"},
	{HEAD "\"run\": {\"argv\": [\"a\", null]}}",
		"/t.json: run.argv[1]: expected a string, not null"},
	{HEAD "\"run\": {\"argv\": [\"a\", \"{sauce}\"]}}",
		"/t.json: run.argv[1]: \"{sauce}\": unknown placeholder"},
	{HEAD "\"run\": {\"argv\": [\"a\", \"{source\"]}}", "unknown placeholder"},
	{HEAD "\"run\": {\"argv\": [\"a\", \"}\"]}}", "unknown placeholder"},
	{HEAD "\"compile\": {\"argv\": [\"a\"], \"timeout_ms\": 0}, \"run\": {\"argv\": [\"a\"]}}",
		"compile.timeout_ms: expected milliseconds"},
	{HEAD "\"compile\": {\"argv\": [\"a\"], \"timeout_ms\": \"1\"}, \"run\": {\"argv\": [\"a\"]}}",
		"compile.timeout_ms: expected milliseconds"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"env\": {\"A=B\": \"\"}}",
		"/t.json: env.A=B: not the name"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"env\": {\"A\": 1}}",
		"/t.json: env.A: expected a string"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"env\": {\"A\": \"{b}\"}}",
		"/t.json: env.A: \"{b}\": unknown placeholder"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"needs\": [\"a\"]}",
		"/t.json: needs[0]: expected an object"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"needs\": [{\"program\": \"/bin/a\"}]}",
		"needs[0]: program: \"/bin/a\" is a path"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"needs\": [{\"program\": \"a\", \"packages\": {\"beos\": \"a\"}}]}",
		"needs[0]: packages.beos: unknown key"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"needs\": [{\"program\": []}]}",
		"/t.json: needs[0]: program: no program"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"needs\": [{\"program\": [\"a\", \"b/c\"]}]}",
		"needs[0]: program: \"b/c\" is a path"},
	{HEAD "\"toolchains\": []}", "/t.json: toolchains: expected an array of at least one"},
	{HEAD "\"toolchains\": [{}]}", "/t.json: toolchains[0]: run: missing"},
	{HEAD "\"toolchains\": [{\"run\": {\"argv\": [\"a\"]}, \"x\": 1}]}",
		"/t.json: toolchains[0]: x: unknown key"},
	{HEAD "\"toolchains\": [{\"run\": {\"argv\": [\"a\"]}}], \"run\": {\"argv\": [\"a\"]}}",
		"/t.json: run: unknown key"},
	{HEAD "\"toolchains\": [{\"run\": {\"argv\": [\"a\"]}}, {\"run\": {\"argv\": [\"{x}\"]}}]}",
		"/t.json: toolchains[1]: run.argv[0]: \"{x}\": unknown"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"version\": []}", "/t.json: version: no program"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"cache\": {}}", "/t.json: cache.argv: missing"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"files\": {\"../x\": \"\"}}",
		"/t.json: files: \"../x\": expected the name"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"files\": {\"x\": [1]}}",
		"/t.json: files.x: [0]: expected a string"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"prepend\": {\"text\": \"a\"}}",
		"/t.json: prepend: unless: missing"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"repl\": [\"a\"]}", "/t.json: repl: expected an object, not an array"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"repl\": {}}", "/t.json: repl: run: missing"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"repl\": {\"run\": []}}", "/t.json: repl: run: no program in it"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"repl\": {\"run\": [\"a\"], \"argv\": [\"a\"]}}", "/t.json: repl: argv: unknown key"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"repl\": {\"run\": [\"a\", \"{b}\"]}}",
		"/t.json: repl: run[1]: \"{b}\": unknown placeholder"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"repl\": {\"run\": [\"a\"], \"env\": {\"A\": 1}}}", "/t.json: repl: env"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"context\": [\"a\"]}", "/t.json: context: expected an object, not an array"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"context\": {\"run\": [\"a\"]}}", "/t.json: context: driver: missing"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"context\": {\"driver\": \"a\"}}", "/t.json: context: run: missing"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"context\": {\"driver\": \"../a\", \"run\": [\"a\"]}}",
		"/t.json: context: driver: \"../a\": expected the name of a file"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"context\": {\"driver\": \".a\", \"run\": [\"a\"]}}",
		"/t.json: context: driver: \".a\": expected the name of a file"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"context\": {\"driver\": \"a\", \"run\": []}}",
		"/t.json: context: run: no program in it"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"context\": {\"driver\": \"a\", \"run\": [\"a\"], \"env\": {}}}",
		"/t.json: context: env: unknown key"},
	{HEAD "\"run\": {\"argv\": [\"a\"]}, \"context\": {\"driver\": \"a\", \"run\": [\"a\", \"{b}\"]}}",
		"/t.json: context.run[1]: \"{b}\": unknown placeholder"},
	{HEAD "\"run\": {\"argv\": [\"{driver}\"]}}", "/t.json: run.argv[0]: \"{driver}\": unknown placeholder"},
	{HEAD "\"toolchains\": [{\"run\": {\"argv\": [\"a\"]}, \"context\": {}}]}",
		"/t.json: toolchains[0]: context: driver: missing"},
	{"{\"name\": \"t\", \"title\": \"T\", \"extension\": \"t\", \"source\": \"{source}\", \"run\": {\"argv\": [\"a\"]}}",
		"/t.json: source: \"{source}\": unknown placeholder"},
	{HEAD "\"aliases\": [\"a/b\"], \"run\": {\"argv\": [\"a\"]}}",
		"/t.json: aliases[0]: \"a/b\" cannot be"},
	{"{\"name\": \"u\", \"title\": \"T\", \"extension\": \"t\", \"source\": \"m\", \"run\": {\"argv\": [\"a\"]}}",
		"expected u.json"},
	{"{\"name\": \"t\", \"title\": \"T\", \"extension\": \"t\", \"source\": \"../m\", \"run\": {\"argv\": [\"a\"]}}",
		"/t.json: source: \"../m\": expected the name of a file"},
};

static void test_strict(void **state)
{
	struct fixture *fixture = *state;

	for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
		struct language *language = NULL;
		struct error err = {0};

		write_file(fixture->installed, "t.json", broken[i].text);
		assert_int_equal(language_load("t", &language, &err), -1);
		if (!strstr(err.text, broken[i].expected))
			fail_msg("for %s\n expected: %s\n got: %s", broken[i].text,
				broken[i].expected, err.text);
	}
}

static const struct file_spec *find_file(const struct spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->files_count; i++)
		if (strcmp(spec->files[i].path, path) == 0)
			return &spec->files[i];
	return NULL;
}

static void prepare_context(struct fixture *fixture, const char *text, int expected, struct spec *spec, struct error *err)
{
	struct language *language;

	write_file(fixture->installed, "t.json", text);
	language = load("t");
	spec_init(spec);
	assert_int_equal(language_prepare_context(language, "7", spec, err), expected);
	language_free(language);
}

/* Its driver is beside the language's file, and inside beside what the language and it have besides. */
static void test_context(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct spec spec;
	char path[256];

	prepare_context(fixture,
		HEAD "\"run\": {\"argv\": [\"a\"]}, \"files\": {\"own\": \"o\"}, \"env\": {\"A\": \"b\"}, \"context\": {\"driver\": \"d.t\", "
		     "\"run\": [\"true\", \"-m{memory_mib}\", \"{driver}\", \"{support}\"], \"files\": {\"its\": [\"i\"]}}}",
		-1, &spec, &err);
	assert_non_null(strstr(err.text, "the driver of contexts of T: "));
	assert_non_null(strstr(err.text, "/installed/contexts/d.t: No such file"));
	spec_free(&spec);
	snprintf(path, sizeof path, "%s/contexts", fixture->installed);
	mkdir(path, 0755);
	write_file(path, "d.t", "driver");
	prepare_context(fixture,
		HEAD "\"run\": {\"argv\": [\"a\"]}, \"files\": {\"own\": \"o\"}, \"env\": {\"A\": \"b\"}, \"context\": {\"driver\": \"d.t\", "
		     "\"run\": [\"true\", \"-m{memory_mib}\", \"{driver}\", \"{support}\"], \"files\": {\"its\": [\"i\"]}}}",
		0, &spec, &err);
	assert_int_equal(spec.execs_count, 1);
	assert_string_equal(spec.execs[0].argv[1], "-m512");
	assert_string_equal(spec.execs[0].argv[2], "/tmp/.nsbox/7/d.t");
	assert_string_equal(spec.execs[0].argv[3], "/tmp/.nsbox/7");
	assert_string_equal(spec.execs[0].cwd, "/workspace");
	assert_string_equal(exec_get_env(&spec.execs[0], "A"), "b");
	assert_int_equal(spec.files_count, 3);
	assert_memory_equal(find_file(&spec, "/tmp/.nsbox/7/d.t")->content, "driver", 6);
	assert_memory_equal(find_file(&spec, "/tmp/.nsbox/7/own")->content, "o", 1);
	assert_memory_equal(find_file(&spec, "/tmp/.nsbox/7/its")->content, "i\n", 2);
	spec_free(&spec);
}

static void test_context_of_toolchain(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct spec spec;
	char path[256];

	snprintf(path, sizeof path, "%s/contexts", fixture->installed);
	mkdir(path, 0755);
	write_file(path, "d", "driver");
	prepare_context(fixture,
		HEAD "\"toolchains\": [{\"run\": {\"argv\": [\"a\"]}, \"context\": {\"driver\": \"d\", \"run\": [\"its\"]}}], "
		     "\"context\": {\"driver\": \"d\", \"run\": [\"all\"]}}",
		0, &spec, &err);
	assert_string_equal(spec.execs[0].argv[0], "its");
	spec_free(&spec);
	prepare_context(fixture,
		HEAD "\"toolchains\": [{\"run\": {\"argv\": [\"a\"]}}], \"context\": {\"driver\": \"d\", \"run\": [\"all\"]}}", 0,
		&spec, &err);
	assert_string_equal(spec.execs[0].argv[0], "all");
	spec_free(&spec);
	prepare_context(fixture, HEAD "\"run\": {\"argv\": [\"a\"]}}", -1, &spec, &err);
	assert_string_equal(err.text, "T has no contexts");
	spec_free(&spec);
	prepare_context(fixture,
		HEAD "\"toolchains\": [{\"run\": {\"argv\": [\"a\"]}}, {\"run\": {\"argv\": [\"b\"]}, \"context\": {\"driver\": \"d\", "
		     "\"run\": [\"its\"]}}]}",
		-1, &spec, &err);
	assert_string_equal(err.text, "T has no contexts with the toolchain that is there");
	spec_free(&spec);
}

static void test_missing_program(void **state)
{
	struct fixture *fixture = *state;
	struct language *language;
	struct error err = {0};
	struct spec spec;

	write_file(fixture->installed, "t.json",
		HEAD
		"\"run\": {\"argv\": [\"a\"]}, \"needs\": [{\"program\": \"no-such-program-here\", \"packages\": "
		"{\"debian\": \"pkg-x\", \"fedora\": \"pkg-x\", \"arch\": \"pkg-x\", \"suse\": \"pkg-x\", \"alpine\": \"pkg-x\"}}]}");
	language = load("t");
	spec_init(&spec);
	assert_int_equal(language_prepare(language, "", 0, NULL, 0, &spec, &err), -1);
	assert_non_null(strstr(err.text, "no-such-program-here"));
	assert_non_null(strstr(err.hint, "nstall it"));
	spec_free(&spec);
	language_free(language);
}

/* A root's absolute links are links inside of it; what they point to on the host does not count. */
static void test_root_directory(void **state)
{
	struct fixture *fixture = *state;
	struct language *language;
	struct error err = {0};
	struct spec spec;
	char path[256];

	write_file(fixture->installed, "t.json",
		HEAD "\"run\": {\"argv\": [\"a\"]}, \"needs\": [{\"program\": \"true\"}]}");
	language = load("t");
	spec_init(&spec);
	spec.root = ROOT_DIRECTORY;
	spec.root_path = strdup(fixture->base);
	snprintf(path, sizeof path, "%s/bin", fixture->base);
	mkdir(path, 0755);
	snprintf(path, sizeof path, "%s/bin/true", fixture->base);
	assert_int_equal(symlink("/usr/bin/true", path), 0);
	assert_int_equal(language_prepare(language, "", 0, NULL, 0, &spec, &err), -1);
	assert_non_null(strstr(err.text, fixture->base));
	snprintf(path, sizeof path, "%s/usr", fixture->base);
	mkdir(path, 0755);
	snprintf(path, sizeof path, "%s/usr/bin", fixture->base);
	mkdir(path, 0755);
	write_file(path, "true", "");
	assert_int_equal(
		language_prepare(language, "", 0, NULL, 0, &spec, &err), -1); /* not executable */
	strcat(path, "/true");
	chmod(path, 0755);
	assert_int_equal(language_prepare(language, "", 0, NULL, 0, &spec, &err), 0);
	spec_free(&spec);
	language_free(language);
}

static void test_bind_may_bring_it(void **state)
{
	struct fixture *fixture = *state;
	struct language *language;
	struct error err = {0};
	struct spec spec;

	write_file(fixture->installed, "t.json",
		HEAD
		"\"run\": {\"argv\": [\"a\"]}, \"needs\": [{\"program\": \"no-such-program-here\"}]}");
	language = load("t");
	spec_init(&spec);
	spec_add_bind(&spec, "/x", "/usr/local/binx", true);
	assert_int_equal(language_prepare(language, "", 0, NULL, 0, &spec, &err), -1);
	spec_add_bind(&spec, "/x", "/usr/local", true);
	assert_int_equal(language_prepare(language, "", 0, NULL, 0, &spec, &err), 0);
	spec_free(&spec);
	language_free(language);
}

static void collect(void *data, const char *name, const struct error *error)
{
	if (error)
		fail_msg("%s", error->text);
	note(data, name, error);
}

/* The files that come with nsbox are read by the same code. */
static void test_ours(void **state)
{
	const char *source = getenv("srcdir");
	struct seen seen = {""};
	char path[512];

	snprintf(path, sizeof path, "%s/languages", source ? source : ".");
	setenv("NSBOX_LANGUAGES_DIR", path, 1);
	language_list(collect, &seen);
	assert_string_equal(seen.text,
		"bash c cpp go java javascript lua perl php python r ruby rust typescript ");
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_lookup),
		TEST(test_unknown),
		TEST(test_none_installed),
		TEST(test_prepare),
		TEST(test_heap_leaves_room),
		TEST(test_user_goes_first),
		TEST(test_broken_harms_nobody),
		TEST(test_context),
		TEST(test_context_of_toolchain),
		TEST(test_strict),
		TEST(test_missing_program),
		TEST(test_root_directory),
		TEST(test_bind_may_bring_it),
		TEST(test_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
