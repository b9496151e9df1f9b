/* SPDX-License-Identifier: MIT */
/* Packages of Debian: see apt.h. */
#define _GNU_SOURCE
#include "packages/apt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/layers.h"
#include "image/reference.h"
#include "image/upper.h"
#include "language/recipe.h"
#include "packages/install.h"
#include "packages/layers.h"
#include "packages/sources.h"
#include "sandbox/spec.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/parse.h"

enum { NAME_BYTES_MAX = 256, TIMEOUT_MS = 10 * 60 * 1000 };

/* Whatever is changed in how layers are made, also in SCRIPT and LEFT_OUT, has to change this. */
static const char FORMAT[] = "nsbox apt 1";

/*
 * A source that cannot be read is an error, and not a warning: nobody would see what is missing. Nobody can be asked
 * anything. Nothing is synchronized one by one: the layer is, when it is whole.
 */
static const char SCRIPT[] =
	"set -e\n"
	"apt() {\n"
	"	apt-get -q -y -o Acquire::Retries=2 ${SSL_CERT_FILE:+-o \"Acquire::https::CAInfo=$SSL_CERT_FILE\"} \"$@\"\n"
	"}\n"
	"apt -o APT::Update::Error-Mode=any update\n"
	"apt -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-unsafe-io \\\n"
	"	-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \\\n"
	"	--no-install-recommends install -- \"$@\"\n";

/* What nsbox puts there at each run, what apt and dpkg need for themselves, and what would be old. */
static const char *const LEFT_OUT[] = {
	"dev",
	"proc",
	"sys",
	"workspace",
	"tmp/*",
	"run/*",
	"var/tmp/*",
	"etc/hosts",
	"etc/hostname",
	"etc/resolv.conf",
	"etc/nsbox-authorities.pem",
	"etc/apt/apt.conf.d/99nsbox-root-emulation",
	"usr/sbin/policy-rc.d",
	"var/lib/apt/lists/*",
	"var/cache/apt/*.bin",
	"var/cache/apt/archives/*",
	"var/cache/debconf/*-old",
	"var/cache/ldconfig/aux-cache",
	"var/lib/dpkg/*-old",
	"var/lib/dpkg/lock*",
	"var/lib/dpkg/triggers/Lock",
	"var/log/apt/*",
	"var/log/*.log",
	"etc/.pwd.lock",
	"etc/passwd-",
	"etc/group-",
	"etc/shadow-",
	"etc/gshadow-",
	"etc/subuid-",
	"etc/subgid-",
	NULL,
};

/* --- names --- */

static const char LOWER_AND_DIGITS[] = "abcdefghijklmnopqrstuvwxyz0123456789";

/* The length of what `text` begins with: one of `first`, then any of `first` and `more`. */
static size_t span(const char *text, const char *first, const char *more)
{
	size_t length = 0;

	if (!*text || !strchr(first, *text))
		return 0;
	while (text[length] && (strchr(first, text[length]) || strchr(more, text[length])))
		length++;
	return length;
}

/* A minus at the end of a name would have the package removed. */
static bool is_name(const char *text)
{
	size_t length = span(text, LOWER_AND_DIGITS, "+-.");

	if (length < 2 || text[length - 1] == '-' || strlen(text) > NAME_BYTES_MAX)
		return false;
	text += length;
	if (*text == ':') {
		length = span(text + 1, LOWER_AND_DIGITS, "-");
		if (length == 0 || text[length] == '-')
			return false;
		text += 1 + length;
	}
	if (*text != '=')
		return !*text;
	length = span(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "+-.~:");
	return length > 0 && !text[1 + length];
}

int apt_check_name(const char *name, struct error *err)
{
	char buffer[QUOTED_MAX];

	if (is_name(name))
		return 0;
	error_set(err, 0, "apt:%s is not the name of a package of Debian", quoted(name, buffer));
	return error_hint(err, "write apt:NAME or apt:NAME=VERSION, such as apt:jq or apt:jq=1.7.1-6");
}

/* --- which set it is --- */

static const char remedy[] =
	"take an image of Debian: --image debian:stable-slim, or --image localhost/nsbox/debian, which rootfs-scripts/debian builds";

static int check_apt(const struct spec *spec, struct error *err)
{
	cleanup_free char **lowers = spec_lowers(spec);

	if (layers_have_program(lowers, "/usr/bin/apt-get") && layers_have_program(lowers, "/usr/bin/dpkg"))
		return 0;
	error_set(err, 0, "%s has no apt, by which packages of the system (apt:…) are installed", spec->root_path);
	return error_hint(err, remedy);
}

static void add_text(struct sha256 *hash, const char *text)
{
	sha256_add(hash, text, strlen(text) + 1);
}

/* What is at the path in a directory, if anything, and whether it is what it was. */
static int add_file(struct sha256 *hash, const char *directory, const char *path, struct error *err)
{
	cleanup_free char *full = xasprintf("%s/%s", directory, path);
	cleanup_free char *text = NULL;
	struct stat st = {0};

	/* Only what it says of itself is used: a link that leads elsewhere makes another name, and no harm. */
	if (lstat(full, &st) < 0 && errno != ENOENT && errno != ENOTDIR)
		return error_set(err, errno, "looking at %s", full);
	text = xasprintf("%ju:%ju %jd.%09ld %jd", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, (intmax_t)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec, (intmax_t)st.st_size);
	add_text(hash, text);
	return 0;
}

/* An image is what its layers are; a directory is another when its dpkg has done something. */
static int add_root(struct sha256 *hash, const struct spec *spec, struct error *err)
{
	if (spec->root == ROOT_DIRECTORY) {
		struct stat st = {0};
		cleanup_free char *text = NULL;

		if (stat(spec->root_path, &st) < 0)
			return error_set(err, errno, "root directory %s", spec->root_path);
		text = xasprintf("%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
		add_text(hash, text);
		if (add_file(hash, spec->root_path, "var/lib/dpkg/status", err) < 0)
			return -1;
	}
	for (size_t i = 0; spec->root_layers && spec->root_layers[i]; i++) {
		cleanup_free char *layer = xstrdup(spec->root_layers[i]);
		char *end = strrchr(layer, '/');

		/* «…/layers/HEX/fs»: the name of a layer is that of its content. */
		if (end)
			*end = '\0';
		end = strrchr(layer, '/');
		add_text(hash, end ? end + 1 : layer);
	}
	return 0;
}

static int make_key(const struct spec *spec, struct apt_set *set, struct error *err)
{
	struct sha256 hash;

	sha256_init(&hash);
	add_text(&hash, FORMAT);
	if (add_root(&hash, spec, err) < 0)
		return -1;
	for (char **name = set->names; *name; name++)
		add_text(&hash, *name);
	sha256_finish(&hash, set->key);
	return 0;
}

int apt_resolve(const struct spec *spec, char *const *names, struct apt_set *ret, struct error *err)
{
	struct apt_set set = {0};
	size_t count = 0;

	for (char *const *name = names; *name; name++, count++)
		if (apt_check_name(*name, err) < 0)
			return -1;
	if (count == 0 || count > PACKAGES_NAMES_MAX)
		return error_set(err, 0, "expected from 1 to %d packages of the system, not %zu", PACKAGES_NAMES_MAX, count);
	if (spec->root == ROOT_HOST) {
		error_set(err, 0, "packages of the system (apt:…) cannot be installed in the host's own root");
		return error_hint(err, remedy);
	}
	set.names = install_sort_names(names);
	/* What is installed was so by an apt: looking for that again takes longer than all else. */
	if (make_key(spec, &set, err) < 0 || layers_tree_path(set.key, set.tree, err) < 0 ||
		(!apt_installed(&set) && check_apt(spec, err) < 0)) {
		apt_set_free(&set);
		return -1;
	}
	*ret = set;
	return 0;
}

void apt_set_free(struct apt_set *set)
{
	strings_free(set->names);
	*set = (struct apt_set){0};
}

bool apt_installed(const struct apt_set *set)
{
	return access(set->tree, F_OK) == 0;
}

void apt_use(const struct apt_set *set, struct spec *spec)
{
	spec_add_layer(spec, set->tree);
}

/* --- the install --- */

/* Whether who made the root is who runs it: then its sources may lead into the host's own network. */
static bool is_callers_own(const struct spec *spec)
{
	struct reference reference;
	struct error unimportant;

	return spec->root == ROOT_DIRECTORY ||
	       (reference_parse(spec->root_path, &reference, &unimportant) == 0 && reference_is_local(&reference));
}

static int set_network(const struct packages_options *options, struct spec *spec, struct error *err)
{
	cleanup_free char **lowers = spec_lowers(spec);
	cleanup_free char *left_out = NULL;
	cleanup_free char *rules = sources_rules(lowers, is_callers_own(spec), &left_out);

	if (!*rules && left_out && !options->allow) {
		error_set(err, 0, "apt's sources in %s lead to %s in the host's own network, which no image may choose",
			spec->root_path, left_out);
		return error_hint(err, "{\"packages\": {\"allow\": \"%s\"}} in nsbox.conf lets installs go there", left_out);
	}
	/* There may be no sources but files of the root. */
	if (*rules || left_out)
		spec->network = NETWORK_ALLOW;
	if (*rules)
		spec->allow = xstrdup(rules);
	return 0;
}

static void set_command(const struct apt_set *set, struct spec *spec)
{
	struct exec_spec *exec = &spec->execs[spec->execs_count++];

	exec_add_arg(exec, "/bin/sh");
	exec_add_arg(exec, "-c");
	exec_add_arg(exec, SCRIPT);
	exec_add_arg(exec, "apt");
	for (char **name = set->names; *name; name++)
		exec_add_arg(exec, *name);
	exec_set_env(exec, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	exec_set_env(exec, "HOME", "/root");
	exec_set_env(exec, "LC_ALL", "C.UTF-8");
	exec_set_env(exec, "DEBIAN_FRONTEND", "noninteractive");
	exec_set_env(exec, "DEBCONF_NONINTERACTIVE_SEEN", "true");
	exec->cwd = xstrdup("/");
	exec->stdin_kind = STDIN_NULL;
	exec->phase = "run";
	exec->timeout_ms = TIMEOUT_MS;
}

struct apt_install {
	const struct apt_set *set;
	const struct packages_options *options;
};

/* The writable space is `work`, whose disk the layer is on: what the sandbox writes there becomes the layer as it is. */
static int prepare(void *data, const char *folder, const char *work, struct spec *spec, struct error *err)
{
	static const char no_services[] = "#!/bin/sh\nexit 101\n"; /* invoke-rc.d(8): «action forbidden by policy» */
	const struct apt_install *install = data;

	(void)folder;
	spec->root_emulation = true;
	spec->capture = true;
	spec->limits.disk_bytes = install->options->disk_bytes;
	spec->storage_folder = xstrdup(work);
	spec_add_file(spec, "/usr/sbin/policy-rc.d", no_services, strlen(no_services), 0755);
	set_command(install->set, spec);
	return set_network(install->options, spec, err);
}

static int settle(void *data, int draft, struct error *err)
{
	cleanup_close int upper = openat(draft, "work/upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	(void)data;
	if (upper < 0)
		return error_set(err, errno, "opening what apt has installed");
	if (upper_become_layer(upper, LEFT_OUT, err) < 0)
		return error_context(err, "what apt has installed");
	return renameat(draft, "work/upper", draft, "fs") < 0 ? error_set(err, errno, "moving what apt has installed") : 0;
}

int apt_install(const struct apt_set *set, const struct spec *spec, const struct packages_options *options,
	const struct run_control *control, struct packages_report *ret, struct error *err)
{
	struct apt_install own = {set, options};
	const struct install install = {
		.manager = "apt",
		.names = set->names,
		.key = set->key,
		.prepare = prepare,
		.settle = settle,
		.data = &own,
	};

	return install_layer(&install, spec, options, control, ret, err);
}
