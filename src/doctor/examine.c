/* SPDX-License-Identifier: MIT */
/* What works on this host: see examine.h. */
#define _GNU_SOURCE
#include "doctor/examine.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "doctor/probe.h"
#include "language/language.h"
#include "sandbox/cgroup.h"
#include "sandbox/diagnose.h"
#include "sandbox/features.h"
#include "sandbox/idmap.h"
#include "sandbox/landlock.h"
#include "sandbox/pasta.h"
#include "sandbox/sandbox.h"
#include "seccomp/profile.h"
#include "util/alloc.h"
#include "util/utf8.h"

enum { RUN_TIMEOUT_MS = 10000 };

/* Adds a finding, for its maker to fill in. When there are too many the last is overwritten: there is no harm in that. */
static struct finding *add(struct examination *examination, enum verdict verdict, const char *name)
{
	size_t index = examination->count < FINDINGS_MAX ? examination->count++ : FINDINGS_MAX - 1;
	struct finding *finding = &examination->findings[index];

	*finding = (struct finding){ .verdict = verdict };
	snprintf(finding->name, sizeof finding->name, "%s", name);
	return finding;
}

static struct finding *__attribute__((format(printf, 4, 5)))
add_text(struct examination *examination, enum verdict verdict, const char *name, const char *format, ...)
{
	struct finding *finding = add(examination, verdict, name);
	va_list ap;

	va_start(ap, format);
	vsnprintf(finding->text, sizeof finding->text, format, ap);
	va_end(ap);
	return finding;
}

static void add_error(struct examination *examination, enum verdict verdict, const char *name, const struct error *err)
{
	struct finding *finding = add(examination, verdict, name);

	memcpy(finding->text, err->text, sizeof finding->text);
	memcpy(finding->remedy, err->hint, sizeof finding->remedy);
}

static void __attribute__((format(printf, 2, 3))) set_remedy(struct finding *finding, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(finding->remedy, sizeof finding->remedy, format, ap);
	va_end(ap);
}

/* --- the kernel --- */

/* What the kernel lacks by its version. What is found out by trying (`probed`) is left to that. */
static void examine_features(struct examination *examination, int major_number, int minor_number)
{
	for (unsigned i = 0; i < features_count; i++) {
		const struct feature *feature = &features[i];

		if (feature->required || feature->probed || feature_is_in(feature, major_number, minor_number) ||
			(feature->root_only && geteuid() != 0))
			continue;
		set_remedy(add_text(examination, VERDICT_WARNING, "kernel", "no %s (Linux %d.%d). %s", feature->name, feature->major,
				   feature->minor, feature->below),
			"boot Linux %d.%d or later", feature->major, feature->minor);
	}
}

static void examine_kernel(struct examination *examination)
{
	struct utsname name = { 0 };
	struct error err = { 0 };
	int major_number, minor_number;

	uname(&name);
	kernel_version(&major_number, &minor_number);
	if (features_require_kernel(&err) < 0) {
		add_error(examination, VERDICT_FAILED, "kernel", &err);
		return;
	}
	add_text(examination, VERDICT_OK, "kernel", "Linux %s (%s); %d.%d or later is needed", name.release, name.machine,
		KERNEL_FLOOR_MAJOR, KERNEL_FLOOR_MINOR);
	if (major_number > 0)
		examine_features(examination, major_number, minor_number);
}

static const struct {
	const char *name;
	const char *good;      /* what its success means */
	const char *bad;       /* what its failure means, where nsbox runs all the same */
} attempts[ATTEMPT_MAX] = {
	[ATTEMPT_NAMESPACES] = { "namespaces", "user, mount, pid, network, ipc, uts and cgroup namespaces can be made", NULL },
	[ATTEMPT_TMPFS] = { "mounts", "file systems can be mounted in a sandbox", NULL },
	[ATTEMPT_OVERLAY] = { "overlayfs", "a tree given with --rootfs is writable inside and unchanged outside",
		"--rootfs does not work, runs on the host root do" },
	[ATTEMPT_OPAQUE] = { "overlayfs removal", "a directory of a tree given with --rootfs can be removed and made again",
		"with --rootfs, a directory of the tree that was removed cannot be made again; tmpfs has no user extended attributes before Linux 6.6" },
	[ATTEMPT_PROC] = { "proc", "a sandbox can have a /proc of its own", NULL },
	[ATTEMPT_FILTER] = { "seccomp", "the built-in filter of system calls can be loaded", NULL },
};

static void report_attempt(struct examination *examination, int attempt, const struct attempt_result *result)
{
	struct finding *finding;

	if (!result->made)
		return;
	if (result->ok) {
		add_text(examination, VERDICT_OK, attempts[attempt].name, "%s", attempts[attempt].good);
		return;
	}
	if (!attempts[attempt].bad) {
		add_error(examination, VERDICT_FAILED, attempts[attempt].name, &result->error);
		return;
	}
	finding = add_text(examination, VERDICT_WARNING, attempts[attempt].name, "%.200s: %s", result->error.text,
		attempts[attempt].bad);
	if (result->error.hint[0])
		memcpy(finding->remedy, result->error.hint, sizeof finding->remedy);
	else if (attempt == ATTEMPT_OVERLAY)
		set_remedy(finding, "as root: modprobe overlay");
	else
		set_remedy(finding, "boot Linux 6.6 or later");
}

static void examine_idmapped_mount(struct examination *examination, const struct idmap *idmap, const char *path)
{
	struct error err = { 0 };

	if (probe_idmapped_mount(idmap, path, &err) == 0) {
		add_text(examination, VERDICT_OK, "idmapped mounts", "files of %s keep their owners inside, under ids that no other sandbox has",
			path);
		return;
	}
	set_remedy(add_text(examination, VERDICT_WARNING, "idmapped mounts",
			   "%.300s: as root's --rootfs it is read with the rights of a single unprivileged id", err.text),
		"keep the tree on a file system that can be: ext4, xfs, btrfs, f2fs, or tmpfs from Linux 6.3 on");
}

/* The rest needs ids: a slot for root, the caller's own for everybody else. Returns 0 when a sandbox can be made. */
static int examine_sandbox_parts(struct examination *examination, const struct spec *spec)
{
	struct attempt_result results[ATTEMPT_MAX];
	struct idmap idmap;
	struct error err = { 0 };
	char note[ERROR_TEXT_MAX] = "";

	if (idmap_choose(spec, false, &idmap, note, sizeof note, &err) < 0) {
		add_error(examination, VERDICT_FAILED, "ids", &err);
		return -1;
	}
	probe_kernel(&idmap, results);
	for (int attempt = 0; attempt < ATTEMPT_MAX; attempt++)
		report_attempt(examination, attempt, &results[attempt]);
	if (note[0])
		add_text(examination, VERDICT_WARNING, "ids", "%s", note);
	else if (idmap.range)
		add_text(examination, VERDICT_OK, "ids", "root's sandboxes get %d ids each from %u upwards, never root's own", IDMAP_SLOT_SIZE,
			(unsigned)IDMAP_SLOT_FIRST);
	else
		add_text(examination, VERDICT_OK, "ids", "sandboxes have the caller's single id, %u", idmap.host_uid);
	if (idmap.range && results[ATTEMPT_NAMESPACES].ok)
		examine_idmapped_mount(examination, &idmap, spec->root == ROOT_DIRECTORY ? spec->root_path : "/");
	idmap_release(&idmap);
	return results[ATTEMPT_NAMESPACES].ok ? 0 : -1;
}

/* --- limits --- */

static bool cgroup2_is_mounted(void)
{
	struct statfs fs;

	return statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

static void set_cgroup_remedy(struct finding *finding)
{
	bool systemd = access("/run/systemd/system", F_OK) == 0;

	if (container_around() == CONTAINER_PODMAN)
		set_remedy(finding, "start the container with: podman run --security-opt unmask=ALL …");
	else if (container_around() != CONTAINER_NONE)
		set_remedy(finding, "start nsbox outside of the container: its cgroup is not the container's to divide");
	else if (!cgroup2_is_mounted() && access("/sys/fs/cgroup", F_OK) != 0)
		set_remedy(finding, "as root: mount -t sysfs sysfs /sys && mount -t cgroup2 cgroup2 /sys/fs/cgroup");
	else if (!cgroup2_is_mounted() && systemd)
		set_remedy(finding, "boot with cgroup v2 alone: add systemd.unified_cgroup_hierarchy=1 to the kernel's command line");
	else if (!cgroup2_is_mounted())
		set_remedy(finding, "boot with cgroup v2 alone, mounted on /sys/fs/cgroup: cgroup_no_v1=all on the kernel's command line");
	else if (systemd && geteuid() == 0)
		set_remedy(finding, "systemd-run --scope -p Delegate=yes nsbox run …");
	else if (systemd)
		set_remedy(finding, "systemd-run --user --scope -p Delegate=yes nsbox run …; where a controller is missing, as root: "
			"mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu memory pids\\n' > "
			"/etc/systemd/system/user@.service.d/delegate.conf && systemctl daemon-reload, then log in anew");
	else
		set_remedy(finding, "as root: cd /sys/fs/cgroup && echo '+cpu +memory +pids' >cgroup.subtree_control && mkdir -p nsbox-%d && "
			"chown -R %d nsbox-%d && echo $$ >nsbox-%d/cgroup.procs && exec setpriv --reuid %d --regid %d --init-groups nsbox run …",
			(int)getuid(), (int)getuid(), (int)getuid(), (int)getuid(), (int)getuid(), (int)getgid());
}

static void examine_cgroup(struct examination *examination)
{
	char base[256] = "", why[ERROR_TEXT_MAX] = "";
	struct finding *finding;

	if (cgroup_probe(NULL, base, why) > 0) {
		add_text(examination, VERDICT_OK, "cgroup", "tier 1: limits of memory, processes and CPU are enforced by a cgroup below %s",
			base);
		return;
	}
	finding = add_text(examination, VERDICT_WARNING, "cgroup",
		"tier 2: limits are enforced by watching and by resource limits, which stops accidents, not attacks: %.200s", why);
	set_cgroup_remedy(finding);
}

/* --- for information --- */

static void report_no_landlock(struct examination *examination, int errnum)
{
	struct finding *finding;

	if (errnum == EOPNOTSUPP) {
		finding = add_text(examination, VERDICT_WARNING, "landlock", "switched off when this kernel was booted: there is no second wall behind the mounts");
		set_remedy(finding, "add landlock to lsm= on the kernel's command line: lsm=landlock,lockdown,yama,integrity,apparmor,bpf");
	} else {
		finding = add_text(examination, VERDICT_WARNING, "landlock",
			"not in this kernel, or a version that cannot be used: there is no second wall behind the mounts");
		set_remedy(finding, "boot Linux 5.19 or later with CONFIG_SECURITY_LANDLOCK");
	}
}

static void examine_landlock(struct examination *examination)
{
	int kernel = landlock_kernel_abi(), errnum = kernel ? 0 : errno, abi = 0;
	struct error err;

	if (landlock_abi(&abi, &err) < 0)
		add_error(examination, VERDICT_FAILED, "landlock", &err);
	else if (!abi)
		report_no_landlock(examination, errnum);
	else
		add_text(examination, VERDICT_OK, "landlock", "ABI %d: a second wall behind the mounts%s", abi,
			abi >= LANDLOCK_ABI_SCOPES ? ", and before abstract sockets and processes outside" : "");
}

static void examine_terminal_input(struct examination *examination)
{
	long tiocsti = sysctl_value("dev/tty/legacy_tiocsti");

	if (tiocsti == 0)
		add_text(examination, VERDICT_OK, "TIOCSTI", "off on this host, and refused in a sandbox");
	else
		add_text(examination, VERDICT_OK, "TIOCSTI", "allowed on this host, refused in a sandbox");
}

/* --- languages --- */

struct language_data {
	struct examination *examination;
	const char *rootfs;
};

static void set_root(struct spec *spec, const char *rootfs)
{
	if (!rootfs)
		return;
	spec->root = ROOT_DIRECTORY;
	spec->root_path = xstrdup(rootfs);
}

static void examine_language(void *data, const char *name, const struct error *broken)
{
	const struct language_data *language_data = data;
	struct examination *examination = language_data->examination;
	struct language *language;
	struct error err = { 0 };
	struct spec spec;

	if (broken) {
		add_error(examination, VERDICT_WARNING, name, broken);
		return;
	}
	if (language_load(name, &language, &err) < 0) {
		add_error(examination, VERDICT_WARNING, name, &err);
		return;
	}
	spec_init(&spec);
	set_root(&spec, language_data->rootfs);
	if (language_prepare(language, "", 0, NULL, SPEC_TIMEOUT_DEFAULT_MS, &spec, &err) < 0)
		add_error(examination, VERDICT_WARNING, name, &err);
	else
		add_text(examination, VERDICT_OK, name, "ready: nsbox run --lang %s", name);
	spec_free(&spec);
	language_free(language);
}

static void examine_languages(struct examination *examination, const char *rootfs)
{
	struct language_data data = { examination, rootfs };
	size_t before = examination->count;

	language_list(examine_language, &data);
	if (examination->count == before)
		set_remedy(add_text(examination, VERDICT_WARNING, "languages", "there are no languages in %s: nsbox is not installed where it was built for",
				   getenv("NSBOX_LANGUAGES_DIR") ?: LANGUAGES_DIR),
			"in the source tree: make install; or name their folder in the variable NSBOX_LANGUAGES_DIR");
}

/* --- a whole run --- */

static void set_filter(struct spec *spec)
{
	const struct builtin_filter *plain = builtin_filter_find("default", false);
	const struct builtin_filter *tier2 = builtin_filter_find("default", true);

	if (!plain || !tier2)
		return;
	spec->filter = xmemdup(plain->instructions, plain->length * sizeof *plain->instructions);
	spec->filter_length = plain->length;
	spec->filter_tier2 = xmemdup(tier2->instructions, tier2->length * sizeof *tier2->instructions);
	spec->filter_tier2_length = tier2->length;
}

/* A tree given with --rootfs need not have a program `true`: that the sandbox came to look for it is enough. */
static void examine_run(struct examination *examination, struct spec *spec)
{
	const struct run_control control = { .cancel_fd = -1 };
	struct run_result result = { 0 };
	const struct exec_result *last;

	sandbox_run(spec, &control, &result);
	last = run_result_last(&result);
	if (last->ended_by == ENDED_SETUP)
		add_error(examination, VERDICT_FAILED, "run", &last->error);
	else if (last->ended_by != ENDED_EXITED || (last->exit_code != 0 && spec->root == ROOT_HOST))
		add_text(examination, VERDICT_FAILED, "run", "the command true in a sandbox ended otherwise than with success (%s, status %d)",
			ended_by_name(last->ended_by), last->exit_code);
	else
		add_text(examination, VERDICT_OK, "run", "a sandbox on %s was made and its command started within %.1f ms",
			spec->root == ROOT_HOST ? "the host root" : spec->root_path, (double)result.setup_us / 1000);
	run_result_free(&result);
}

static void make_spec(struct spec *spec, const char *rootfs)
{
	spec_init(spec);
	set_root(spec, rootfs);
	set_filter(spec);
	spec->capture = true;
	spec->execs_count = 1;
	spec->execs[0].phase = "run";
	spec->execs[0].stdin_kind = STDIN_NULL;
	spec->execs[0].timeout_ms = RUN_TIMEOUT_MS;
	exec_add_arg(&spec->execs[0], "true");
	exec_set_env(&spec->execs[0], "PATH", "/usr/local/bin:/usr/bin:/bin");
}

/* The only sure test is to have it make a network. */
static void examine_pasta(struct examination *examination, struct spec *spec)
{
	const struct run_control control = { .cancel_fd = -1 };
	char program[PASTA_PROGRAM_MAX];
	struct run_result result;
	struct error err = { 0 };

	if (pasta_find(program, &err) < 0) {
		add_error(examination, VERDICT_WARNING, "pasta", &err);
		return;
	}
	spec->network = NETWORK_PASTA;
	if (sandbox_run(spec, &control, &result) < 0)
		add_error(examination, VERDICT_WARNING, "pasta", &run_result_last(&result)->error);
	else
		add_text(examination, VERDICT_OK, "pasta", "%s made a network for a sandbox: nsbox run --network pasta", program);
	run_result_free(&result);
	spec->network = NETWORK_NONE;
}

void examine(const char *rootfs, struct examination *ret)
{
	struct spec spec;

	ret->count = 0;
	make_spec(&spec, rootfs);
	examine_kernel(ret);
	if (examine_sandbox_parts(ret, &spec) == 0) {
		examine_run(ret, &spec);
		examine_pasta(ret, &spec);
	}
	examine_cgroup(ret);
	examine_landlock(ret);
	examine_terminal_input(ret);
	examine_languages(ret, rootfs);
	spec_free(&spec);
}

bool examination_passed(const struct examination *examination)
{
	for (size_t i = 0; i < examination->count; i++)
		if (examination->findings[i].verdict == VERDICT_FAILED)
			return false;
	return true;
}

/* Paths may be of any bytes, and texts may have been cut. A new reference. */
static json_t *valid_string(const char *text)
{
	size_t length;
	char *valid = utf8_replace_invalid(text, strlen(text), &length);
	json_t *string = json_stringn(valid, length);

	free(valid);
	return string;
}

json_t *examination_to_json(const struct examination *examination)
{
	json_t *array = json_array();

	for (size_t i = 0; i < examination->count; i++) {
		const struct finding *finding = &examination->findings[i];
		json_t *ok = finding->verdict == VERDICT_WARNING ? json_string("warning") : json_boolean(finding->verdict == VERDICT_OK);

		json_array_append_new(array, json_pack("{s:o, s:o, s:o, s:o}", "name", valid_string(finding->name), "ok", ok, "text",
			valid_string(finding->text), "remedy", finding->remedy[0] ? valid_string(finding->remedy) : json_null()));
	}
	return array;
}
