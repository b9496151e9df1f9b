/* SPDX-License-Identifier: MIT */
/*
 * What shims would start: see shims.h. The rules are those of the managers: a variable, else a file in
 * the working directory or above, else a default of the user's.
 */
#define _GNU_SOURCE
#include "language/shims.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { FILE_SIZE_MAX = 16384 };

static char *directory_of(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash && slash != file ? xasprintf("%.*s", (int)(slash - file), file) : xstrdup("/");
}

static const char *name_of(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

static bool is_program(const char *file)
{
	struct stat status;

	return stat(file, &status) == 0 && S_ISREG(status.st_mode) && access(file, X_OK) == 0;
}

static bool exists(const char *directory, const char *name)
{
	cleanup_free char *path = xasprintf("%s/%s", directory, name);

	return access(path, F_OK) == 0;
}

/* The text of DIRECTORY/NAME, malloc'd; or NULL. */
static char *read_text(const char *directory, const char *name)
{
	cleanup_free char *path = xasprintf("%s/%s", directory, name);
	char text[FILE_SIZE_MAX];

	return read_small_file(AT_FDCWD, path, text, sizeof text) < 0 ? NULL : xstrdup(text);
}

/* The text of the nearest file `name` in the working directory and above it, malloc'd; or NULL. */
static char *read_upwards(const char *name)
{
	char directory[PATH_MAX];

	if (!getcwd(directory, sizeof directory) || directory[0] != '/')
		return NULL;
	for (;;) {
		char *text = read_text(directory, name), *slash = strrchr(directory, '/');

		if (text || !directory[0])
			return text;
		*slash = '\0';
	}
}

/* The directory below `directory` that is `wanted`, or the last version of it («3.11» → «3.11.7»); malloc'd, or NULL. */
static char *find_version(const char *directory, const char *wanted)
{
	size_t length = strlen(wanted);
	char *found = NULL;
	DIR *stream;

	if (!wanted[0] || strchr(wanted, '/') || wanted[0] == '.')
		return NULL;
	if (exists(directory, wanted))
		return xstrdup(wanted);
	stream = opendir(directory);
	for (struct dirent *entry; stream && (entry = readdir(stream));) {
		if (strncmp(entry->d_name, wanted, length) != 0 ||
			!strchr(".-", entry->d_name[length]))
			continue;
		if (found && strverscmp(found, entry->d_name) >= 0)
			continue;
		free(found);
		found = xstrdup(entry->d_name);
	}
	if (stream)
		closedir(stream);
	return found;
}

/* --- pyenv and its relatives: ROOT/shims, ROOT/versions --- */

static const struct env_manager {
	const char *name, *variable, *file;
} env_managers[] = {
	{"pyenv", "PYENV_VERSION", ".python-version"},
	{"rbenv", "RBENV_VERSION", ".ruby-version"},
	{"nodenv", "NODENV_VERSION", ".node-version"},
	{"goenv", "GOENV_VERSION", ".go-version"},
	{"plenv", "PLENV_VERSION", ".perl-version"},
	{"phpenv", "PHPENV_VERSION", ".php-version"},
	{"jenv", "JENV_VERSION", ".java-version"},
};

static char *env_manager_wish(const struct env_manager *manager, const char *root)
{
	const char *variable = getenv(manager->variable);
	char *text = variable && variable[0] ? xstrdup(variable) : read_upwards(manager->file);

	return text ? text : read_text(root, "version");
}

/* Several versions may be wished for; the first that has the program counts. */
static int resolve_env_manager(const struct env_manager *manager, const char *root,
	const char *program, char **ret, struct error *err)
{
	cleanup_free char *wish = env_manager_wish(manager, root),
			  *versions = xasprintf("%s/versions", root);
	char *save = NULL, none[] = "";

	for (char *word = strtok_r(wish ? wish : none, ": \t\r\n", &save); word;
		word = strtok_r(NULL, ": \t\r\n", &save)) {
		cleanup_free char *version = find_version(versions, word), *file = NULL;

		if (!version)
			continue;
		file = xasprintf("%s/%s/bin/%s", versions, version, program);
		if (!is_program(file))
			continue;
		*ret = xstrdup(file);
		return 1;
	}
	return error_set(err, 0, "%s has no version selected that has it", manager->name);
}

/* --- asdf: the shim names the plugins that have the program, .tool-versions the version --- */

/* The version of `plugin` in a file of lines «PLUGIN VERSION…», malloc'd; or NULL. */
static char *tool_version(const char *plugin, const char *text)
{
	size_t length = strlen(plugin);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, plugin, length) != 0 || !strchr(" \t", line[length]))
			continue;
		line += length + strspn(line + length, " \t");
		return xasprintf("%.*s", (int)strcspn(line, " \t\r\n#"), line);
	}
	return NULL;
}

static int resolve_asdf(
	const char *root, const char *shim, const char *program, char **ret, struct error *err)
{
	static const char *const bins[] = {"bin", "go/bin"};
	static const char mark[] = "# asdf-plugin: ";
	const char *home = getenv("HOME");
	cleanup_free char *text = read_text("", shim), *here = read_upwards(".tool-versions");
	cleanup_free char *there = home ? read_text(home, ".tool-versions") : NULL;

	for (char *line = text ? strstr(text, mark) : NULL; line; line = strstr(line + 1, mark)) {
		const char *name = line + strlen(mark);
		cleanup_free char *plugin = xasprintf("%.*s", (int)strcspn(name, " \n"), name);
		cleanup_free char *version = here ? tool_version(plugin, here) : NULL;

		if (!version && there)
			version = tool_version(plugin, there);
		for (size_t i = 0; version && i < sizeof bins / sizeof *bins; i++) {
			cleanup_free char *file = xasprintf(
				"%s/installs/%s/%s/%s/%s", root, plugin, version, bins[i], program);

			if (!is_program(file))
				continue;
			*ret = xstrdup(file);
			return 1;
		}
	}
	return error_set(err, 0, "asdf has no version selected that has it");
}

/* --- rustup: rustc and its kin are links to the program rustup --- */

/* The quoted value of KEY = "VALUE" in a TOML file, malloc'd; or NULL. */
static char *toml_value(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *value;

		line += *line == '\n';
		line += strspn(line, " \t\"");
		if (strncmp(line, key, length) != 0)
			continue;
		value = line + length + strspn(line + length, "\" \t");
		if (*value != '=')
			continue;
		value += 1 + strspn(value + 1, " \t");
		if (*value == '"')
			return xasprintf("%.*s", (int)strcspn(value + 1, "\"\n"), value + 1);
	}
	return NULL;
}

/* A setting for the working directory or one above it. */
static char *rustup_override(const char *settings)
{
	char directory[PATH_MAX];

	if (!settings || !getcwd(directory, sizeof directory) || directory[0] != '/')
		return NULL;
	while (directory[0]) {
		char *value = toml_value(settings, directory);

		if (value)
			return value;
		*strrchr(directory, '/') = '\0';
	}
	return NULL;
}

static char *rustup_file_wish(void)
{
	cleanup_free char *toml = read_upwards("rust-toolchain.toml"), *plain = NULL;
	char *value = toml ? toml_value(toml, "channel") : NULL;

	if (value)
		return value;
	plain = read_upwards("rust-toolchain");
	if (!plain)
		return NULL;
	value = toml_value(plain, "channel");
	return value ? value : xasprintf("%.*s", (int)strcspn(plain, " \t\r\n"), plain);
}

static int resolve_rustup(const char *directory, const char *program, char **ret, struct error *err)
{
	const char *variable = getenv("RUSTUP_TOOLCHAIN"), *named = getenv("RUSTUP_HOME");
	cleanup_free char *home =
		named && named[0] ? xstrdup(named) : xasprintf("%s/../../.rustup", directory);
	cleanup_free char *settings = read_text(home, "settings.toml"),
			  *toolchains = xasprintf("%s/toolchains", home);
	cleanup_free char *wish =
		variable && variable[0] ? xstrdup(variable) : rustup_override(settings);
	cleanup_free char *version = NULL, *file = NULL;

	if (!wish)
		wish = rustup_file_wish();
	if (!wish && settings)
		wish = toml_value(settings, "default_toolchain");
	version = wish ? find_version(toolchains, wish) : NULL;
	if (!version)
		return error_set(err, 0, "rustup has no toolchain selected that is installed");
	file = xasprintf("%s/%s/bin/%s", toolchains, version, program);
	if (!is_program(file))
		return error_set(err, 0, "rustup's toolchain %s does not have it", version);
	*ret = xstrdup(file);
	return 1;
}

/* --- volta: only its default is read --- */

static int resolve_volta(const char *directory, const char *program, char **ret, struct error *err)
{
	cleanup_free char *text = read_text(directory, "../tools/user/platform.json"), *file = NULL;
	json_t *platform = text ? json_loads(text, 0, NULL) : NULL;
	const char *version =
		json_string_value(json_object_get(json_object_get(platform, "node"), "runtime"));

	if (version && !strchr(version, '/'))
		file = xasprintf("%s/../tools/image/node/%s/bin/%s", directory, version, program);
	json_decref(platform);
	if (!file || !is_program(file))
		return error_set(err, 0, "volta has no default version that has it");
	*ret = xstrdup(file);
	return 1;
}

/* A link to rustup or, as its installer makes them, another name of the same file. */
static bool is_rustup(const char *file, const char *directory, const char *real)
{
	cleanup_free char *rustup = xasprintf("%s/rustup", directory);
	struct stat one, other;

	if (strcmp(name_of(file), "rustup") == 0)
		return false;
	return strcmp(name_of(real), "rustup") == 0 ||
	       (stat(rustup, &one) == 0 && stat(file, &other) == 0 && one.st_dev == other.st_dev &&
		       one.st_ino == other.st_ino);
}

static int resolve_in_shims(
	const char *root, const char *file, const char *real, char **ret, struct error *err)
{
	if (strcmp(name_of(real), "mise") == 0 || strcmp(name_of(real), "rtx") == 0)
		return error_set(err, 0,
			"only mise knows what its shim starts; put the directory that "
			"\"mise where\" prints, with /bin, in front of PATH");
	for (size_t i = 0; i < sizeof env_managers / sizeof *env_managers; i++)
		if (exists(root, "versions") && strstr(name_of(root), env_managers[i].name))
			return resolve_env_manager(&env_managers[i], root, name_of(file), ret, err);
	if (exists(root, "installs"))
		return resolve_asdf(root, file, name_of(file), ret, err);
	return 0;
}

int shim_resolve(const char *file, char **ret, struct error *err)
{
	cleanup_free char *directory = directory_of(file), *root = directory_of(directory);
	cleanup_free char *real = realpath(file, NULL);

	if (!real)
		return 0;
	if (strcmp(name_of(directory), "shims") == 0)
		return resolve_in_shims(root, file, real, ret, err);
	if (strcmp(name_of(real), "volta-shim") == 0)
		return resolve_volta(directory, name_of(file), ret, err);
	if (is_rustup(file, directory, real))
		return resolve_rustup(directory, name_of(file), ret, err);
	return 0;
}
