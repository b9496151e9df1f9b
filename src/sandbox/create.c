/* SPDX-License-Identifier: MIT */
/* Making and ending a sandbox: see create.h. */
#define _GNU_SOURCE
#include "sandbox/create.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/allocfilter.h"
#include "sandbox/diagnose.h"
#include "sandbox/features.h"
#include "sandbox/inside.h"
#include "sandbox/landlock.h"
#include "sandbox/modefilter.h"
#include "sandbox/mounts.h"
#include "sandbox/pasta.h"
#include "sandbox/result.h"
#include "sandbox/wire.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

void add_warning(struct run_result *result, const char *format, ...)
{
	va_list ap;

	if (result->warnings_count == RESULT_WARNINGS_MAX)
		return;
	va_start(ap, format);
	vsnprintf(result->warnings[result->warnings_count++], ERROR_TEXT_MAX, format, ap);
	va_end(ap);
}

/* --- limits: who enforces what --- */

static void note_enforcers(struct sandbox *sandbox, struct run_result *result)
{
	const struct limits *limits = &sandbox->spec->limits;
	enum enforced_by *by = result->enforced_by;

	by[LIMIT_MEMORY] = sandbox->cgroup.memory ? ENFORCED_CGROUP : ENFORCED_WATCHER;
	by[LIMIT_PIDS] = sandbox->cgroup.pids ? ENFORCED_CGROUP : ENFORCED_RLIMIT;
	by[LIMIT_CPU] = !limits->cpu_millis   ? ENFORCED_NONE
			: sandbox->cgroup.cpu ? ENFORCED_CGROUP
					      : ENFORCED_AFFINITY;
	by[LIMIT_DISK] = by[LIMIT_INODES] = sandbox->spec->storage_folder ? ENFORCED_WATCHER : ENFORCED_TMPFS;
	by[LIMIT_HOST_DISK] = sandbox->spec->storage_folder ? ENFORCED_WATCHER : ENFORCED_NONE;
	by[LIMIT_FILE_SIZE] = limits->file_size_bytes ? ENFORCED_RLIMIT : ENFORCED_NONE;
	by[LIMIT_OUTPUT] = sandbox->spec->capture && limits->output_bytes ? ENFORCED_SUPERVISOR
									  : ENFORCED_NONE;
	by[LIMIT_TIME] = ENFORCED_NONE;
	for (size_t i = 0; i < sandbox->spec->execs_count; i++)
		if (sandbox->spec->execs[i].timeout_ms)
			by[LIMIT_TIME] = ENFORCED_SUPERVISOR;
}

static bool writes_to_the_host(const struct spec *spec)
{
	for (size_t i = 0; i < spec->mounts_count; i++)
		if (spec->mounts[i].kind == MOUNT_BIND && !spec->mounts[i].read_only)
			return true;
	return false;
}

/* On disk no file can be larger than the writable space, of which nobody but us keeps count. (What is bound is not it.) */
static uint64_t file_size_of(const struct spec *spec)
{
	uint64_t bytes = spec->limits.file_size_bytes;

	if (!spec->storage_folder || writes_to_the_host(spec) || (bytes && bytes <= spec->limits.disk_bytes))
		return bytes;
	return spec->limits.disk_bytes;
}

static struct agent_limits agent_limits_of(const struct sandbox *sandbox)
{
	const struct limits *limits = &sandbox->spec->limits;

	return (struct agent_limits){
		/* The agent counts too, and those beside the sandbox that have its id. */
		.processes = sandbox->cgroup.pids ? 0
						  : limits->pids + 1 + (sandbox->spec->network == NETWORK_PASTA) +
							    (sandbox->spec->publish_count > 0),
		.open_files = limits->open_files,
		.file_size_bytes = file_size_of(sandbox->spec),
		.cpus = sandbox->cgroup.cpu ? 0 : (limits->cpu_millis + 999) / 1000,
		.background = sandbox->spec->background,
		.session = sandbox->spec->session,
	};
}

static int choose_cgroup(struct sandbox *sandbox, struct run_result *result, struct error *err)
{
	char why[ERROR_TEXT_MAX] = "";
	int r = cgroup_create(sandbox->spec, &sandbox->cgroup, why, err);

	if (r < 0)
		return -1;
	sandbox->tier1 = r > 0 && sandbox->cgroup.memory;
	if (r == 0) {
		add_warning(result,
			"limits are enforced by watching and by resource limits, not by a cgroup: %s",
			why);
		result->limits_warning = result->warnings_count;
	} else
		snprintf(result->cgroup, sizeof result->cgroup, "%s", sandbox->cgroup.path);
	return 0;
}

/* --- filters --- */

static void add_filter(struct sandbox *sandbox, struct filter filter)
{
	if (filter.length > 0)
		sandbox->filters[sandbox->filters_count++] = filter;
}

/* The profile's last: it may refuse that more are loaded. Joined, it is the first: see filter_join. */
static int choose_filters(struct sandbox *sandbox, struct error *err)
{
	const struct spec *spec = sandbox->spec;
	struct filter profile = sandbox->tier1
					? (struct filter){spec->filter, spec->filter_length}
					: (struct filter){spec->filter_tier2,
						  spec->filter_tier2_length};
	struct filter profile_first[SANDBOX_FILTERS_MAX] = {profile};

	if (writes_to_the_host(spec))
		add_filter(sandbox, modefilter());
	if (spec->storage_folder)
		add_filter(sandbox, allocfilter());
	add_filter(sandbox, (struct filter){spec->essential_filter, spec->essential_filter_length});
	add_filter(sandbox, (struct filter){spec->emulation_filter, spec->emulation_filter_length});
	add_filter(sandbox, profile);
	if (!spec->explain || profile.length == 0)
		return 0;
	memcpy(profile_first + 1, sandbox->filters,
		(sandbox->filters_count - 1) * sizeof *profile_first);
	return filter_join(profile_first, sandbox->filters_count, &sandbox->explaining, err);
}

/* --- trees that root's child could not clone or idmap for itself --- */

static int open_root_trees(const struct spec *spec, int *trees, struct error *err)
{
	for (size_t i = 0; i < spec_lowers_count(spec); i++) {
		trees[i] = tree_clone_lower(spec, i, false, 0, err);
		if (trees[i] < 0)
			return -1;
	}
	return 0;
}

static int open_bind_trees(const struct spec *spec, int *trees, struct error *err)
{
	for (size_t i = 0; i < spec->mounts_count; i++) {
		const struct mount_spec *mount = &spec->mounts[i];

		if (mount->kind != MOUNT_BIND)
			continue;
		trees[i] = tree_clone_source(mount, err);
		if (trees[i] < 0)
			return -1;
	}
	return 0;
}

static int idmap_tree(int tree, int user_namespace, uint64_t attributes)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP | attributes, .userns_fd = (uint64_t)user_namespace};

	return sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr);
}

static int idmap_binds(const struct sandbox *sandbox, const int *trees, struct run_result *result,
	struct error *err)
{
	const struct spec *spec = sandbox->spec;
	cleanup_close int user_namespace = -1;

	for (size_t i = 0; i < spec->mounts_count; i++) {
		if (trees[i] < 0)
			continue;
		if (user_namespace < 0)
			user_namespace = idmap_open_bind_namespace(
				&sandbox->idmap, spec->root_emulation, err);
		if (user_namespace < 0)
			return -1;
		if (idmap_tree(trees[i], user_namespace, 0) == 0)
			continue;
		/* EPERM: it is idmapped already, or is another user namespace's. */
		if (errno != EINVAL && errno != EPERM)
			return error_set(err, errno, "mapping the ids of %s", spec->mounts[i].source);
		add_warning(result,
				"%s is on a file system that cannot be idmapped (%s): inside, its files belong to others and are used with the rights of others",
				spec->mounts[i].source, error_name(errno));
	}
	return 0;
}

static void give_pipes(const struct sandbox *sandbox, struct stdio *stdio)
{
	if (sandbox->idmap.by_parent)
		stdio_give_pipes(
			stdio, sandbox->idmap.host_uid, sandbox->idmap.host_gid, IDMAP_SLOT_FIRST);
}

/* --- clone --- */

static uint64_t namespaces_of(const struct spec *spec)
{
	uint64_t flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
			 CLONE_NEWCGROUP;

	return spec_has_own_network(spec) ? flags | CLONE_NEWNET : flags;
}

static int clone_child(struct sandbox *sandbox, struct inside *inside, struct error *err)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = namespaces_of(sandbox->spec) | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid;

	if (sandbox->cgroup.path[0]) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)sandbox->cgroup.agent_fd;
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (pid == 0)
		inside_main(inside);
	if (pid < 0) {
		error_set(err, errno, "making the namespaces of the sandbox");
		diagnose_namespaces(err->errnum, err);
		return -1;
	}
	sandbox->pid = pid;
	sandbox->pidfd = pidfd;
	return 0;
}

/* Gives the trees of the root to the sandbox's ids. Returns 1 when they cannot be idmapped. */
static int idmap_root(const struct sandbox *sandbox, const int *trees, struct error *err)
{
	cleanup_close int user_namespace = -1;
	char path[40];

	snprintf(path, sizeof path, "/proc/%d/ns/user", (int)sandbox->pid);
	user_namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (user_namespace < 0)
		return error_set(err, errno, "opening %s", path);
	for (size_t i = 0; i < spec_lowers_count(sandbox->spec); i++) {
		if (!sandbox->idmap.range)
			tree_restrict(trees[i], TREE_READ_ONLY | TREE_NO_DEV_SUID);
		else if (idmap_tree(trees[i], user_namespace, TREE_READ_ONLY | TREE_NO_DEV_SUID) < 0)
			return errno == EINVAL || errno == EPERM
				       ? 1
				       : error_set(err, errno, "mapping the ids of the root %s",
						 spec_lower(sandbox->spec, i));
	}
	return 0;
}

/* What root does for its child once that has a user namespace. Returns 1 when the root cannot be idmapped. */
static int serve_root_child(struct sandbox *sandbox, const struct inside *inside,
	struct run_result *result, struct error *err)
{
	struct agent_request go = {.type = REQUEST_GO};
	int r;

	if (idmap_write_for(&sandbox->idmap, sandbox->pid, err) < 0)
		return -1;
	if (inside->root_trees && (r = idmap_root(sandbox, inside->root_trees, err)) != 0)
		return r;
	if (inside->bind_trees && idmap_binds(sandbox, inside->bind_trees, result, err) < 0)
		return -1;
	if (wire_send(sandbox->socket, &go, sizeof go, NULL, 0, 0) < 0)
		return error_set(err, errno, "starting the sandbox");
	return 0;
}

/*
 * Those that join its network namespace. The child waits for this message, since once it has given up its rights nobody
 * but root may look for its namespaces.
 */
static int start_helpers(struct sandbox *sandbox, struct error *err)
{
	const struct agent_request request = {.type = REQUEST_NETWORK};
	const struct spec *spec = sandbox->spec;
	int ends[PASTA_ENDS] = {-1, -1, -1}, r = 0;

	if (spec->publish_count > 0)
		r = publish_start(sandbox->pidfd, &sandbox->idmap, sandbox->published, spec->publish_count,
			&sandbox->helpers[SANDBOX_PUBLISHER], err);
	if (r == 0 && spec->network == NETWORK_PASTA)
		r = pasta_start(sandbox->pid, &sandbox->idmap, &sandbox->helpers[SANDBOX_PASTA], ends, err);
	if (r == 0 && wire_send(sandbox->socket, &request, sizeof request, ends,
			      spec->network == NETWORK_PASTA ? PASTA_ENDS : 0, 0) < 0)
		r = error_set(err, errno, "telling the sandbox of its network");
	for (int i = 0; i < PASTA_ENDS; i++)
		close_fd(&ends[i]);
	return r;
}

static void close_all_of(int **trees, size_t count)
{
	for (size_t i = 0; *trees && i < count; i++)
		close_fd(&(*trees)[i]);
	free(*trees);
	*trees = NULL;
}

static void close_trees(const struct spec *spec, struct inside *inside)
{
	close_all_of(&inside->root_trees, spec_lowers_count(spec));
	close_all_of(&inside->bind_trees, spec->mounts_count);
	close_fd(&inside->storage_tree);
}

/* `count` descriptors, and one more so that none is an allocation as well; all -1. */
static int *no_trees(size_t count)
{
	int *trees = calloc(count + 1, sizeof *trees);

	if (trees)
		memset(trees, 0xff, (count + 1) * sizeof *trees);
	return trees;
}

/* It becomes the sandbox's own, whose ids no other sandbox has. No file of it is there yet. */
static int open_storage(const struct idmap *idmap, const struct spec *spec, struct inside *inside, struct error *err)
{
	inside->storage_tree = tree_clone(AT_FDCWD, spec->storage_folder, false, TREE_NO_DEV_SUID);
	if (inside->storage_tree < 0)
		return error_set(err, errno, "the writable space %s", spec->storage_folder);
	if (fchownat(inside->storage_tree, "", idmap->host_uid, idmap->host_gid, AT_EMPTY_PATH) < 0)
		return error_set(err, errno, "giving the writable space %s to the sandbox", spec->storage_folder);
	return 0;
}

static int open_trees(const struct idmap *idmap, const struct spec *spec, struct inside *inside, struct error *err)
{
	if (spec->storage_folder && open_storage(idmap, spec, inside, err) < 0)
		return -1;
	if (spec_lowers_count(spec) > 0) {
		inside->root_trees = no_trees(spec_lowers_count(spec));
		if (!inside->root_trees)
			return error_set(err, ENOMEM, "preparing the layers of the root");
		if (open_root_trees(spec, inside->root_trees, err) < 0)
			return -1;
	}
	inside->bind_trees = no_trees(spec->mounts_count);
	if (!inside->bind_trees)
		return error_set(err, ENOMEM, "preparing bind mounts");
	return open_bind_trees(spec, inside->bind_trees, err);
}

/* One attempt with one id scheme. Returns 1 when root's tree cannot be idmapped. */
static int try_create(struct sandbox *sandbox, struct inside *inside, struct stdio *stdio,
	bool single, struct run_result *result, struct error *err)
{
	int sockets[2], r;
	char note[ERROR_TEXT_MAX] = "";

	if (idmap_choose(sandbox->spec, single, &sandbox->idmap, note, sizeof note, err) < 0)
		return -1;
	if (note[0])
		add_warning(result, "%s", note);
	inside->idmap = &sandbox->idmap;
	give_pipes(sandbox, stdio);
	if (sandbox->idmap.by_parent && open_trees(&sandbox->idmap, sandbox->spec, inside, err) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return error_set(err, errno, "making a socket for the sandbox");
	sandbox->socket = sockets[0];
	inside->socket = sockets[1];
	inside->far_socket = sockets[0];
	r = sandbox->spec->allow ? gate_start(sandbox->spec->allow, &sandbox->gate, &sandbox->helpers[SANDBOX_GATE], &inside->gate_socket, err) : 0;
	inside->policy = &sandbox->gate.policy;
	if (r == 0)
		r = clone_child(sandbox, inside, err);
	close(sockets[1]);
	close_fd(&inside->gate_socket);
	if (r == 0 && sandbox->idmap.by_parent)
		r = serve_root_child(sandbox, inside, result, err);
	if (r == 0 && spec_has_helpers(sandbox->spec))
		r = start_helpers(sandbox, err);
	close_trees(sandbox->spec, inside);
	return r;
}

static void end_helpers(struct sandbox *sandbox)
{
	for (int i = 0; i < SANDBOX_HELPERS; i++)
		helper_end(&sandbox->helpers[i]);
}

static void undo_try(struct sandbox *sandbox)
{
	struct rusage usage;

	sandbox_kill(sandbox);
	sandbox_wait(sandbox, &usage);
	end_helpers(sandbox);
	close_fd(&sandbox->socket);
	close_fd(&sandbox->pidfd);
	gate_release(&sandbox->gate);
	idmap_release(&sandbox->idmap);
}

/* Since 5.19 an overlay may have idmapped layers. */
static bool kernel_has_idmapped_layers(void)
{
	int major, minor;

	kernel_version(&major, &minor);
	return major > 5 || (major == 5 && minor >= 19);
}

static int create_with_fallback(struct sandbox *sandbox, struct inside *inside, struct stdio *stdio,
	struct run_result *result, struct error *err)
{
	const char *why = "is on a file system that cannot be idmapped";
	int r = 1;

	if (spec_lowers_count(sandbox->spec) > 0 && geteuid() == 0 && !kernel_has_idmapped_layers())
		why = "cannot be idmapped below an overlay before Linux 5.19";
	else
		r = try_create(sandbox, inside, stdio, false, result, err);
	/* Nobody could change what a sandbox before this one has left. */
	if (r == 1 && sandbox->spec->resumed)
		return error_set(err, 0, "what the layer %s holds %s", spec_lower(sandbox->spec, 0), why);
	if (r == 1) {
		undo_try(sandbox);
		add_warning(result,
			"%s %s: inside, its files belong to nobody and cannot be changed, and there is a single id",
			sandbox->spec->root_path, why);
		r = try_create(sandbox, inside, stdio, true, result, err);
	}
	return r == 0 ? 0 : -1;
}

static void note_resolver(struct run_result *result)
{
	char theirs[4096], ours[4096];

	if (read_small_file(AT_FDCWD, "/etc/resolv.conf", theirs, sizeof theirs) < 0 ||
		!pasta_resolver(theirs, ours, sizeof ours))
		add_warning(result,
			"names do not resolve in the sandbox: /etc/resolv.conf has no name server that can be reached from it");
}

static int create(struct sandbox *sandbox, struct stdio *stdio, struct run_result *result, struct error *err)
{
	const struct spec *spec = sandbox->spec;
	struct inside inside = {.spec = spec, .cgroup_procs = -1, .storage_tree = -1, .gate_socket = -1};
	int r;

	if (choose_cgroup(sandbox, result, err) < 0)
		return -1;
	note_enforcers(sandbox, result);
	if (sandbox->cgroup.path[0] && !spec->session &&
		cgroup_create_run(&sandbox->cgroup, ++sandbox->runs, &inside.cgroup_procs, err) < 0)
		return -1;
	memcpy(inside.stdio, stdio->child, sizeof inside.stdio);
	memcpy(inside.reopen, stdio->reopen, sizeof inside.reopen);
	inside.limits = agent_limits_of(sandbox);
	if (landlock_abi(&inside.landlock_abi, err) < 0)
		return -1;
	result->landlock_abi = inside.landlock_abi;
	if (choose_filters(sandbox, err) < 0)
		return -1;
	inside.filters = sandbox->filters;
	inside.filters_count = sandbox->filters_count;
	if (sandbox->explaining.length > 0)
		inside.explaining = &sandbox->explaining;
	inside.authorities = &sandbox->authorities;
	r = authorities_find(spec, &sandbox->authorities, result, err);
	if (r == 0)
		r = create_with_fallback(sandbox, &inside, stdio, result, err);
	close_fd(&sandbox->authorities.fd);
	close_fd(&inside.cgroup_procs);
	result->host_uid = sandbox->idmap.host_uid;
	result->host_gid = sandbox->idmap.host_gid;
	result->id_range = sandbox->idmap.range;
	if (spec->network == NETWORK_PASTA)
		note_resolver(result);
	return r;
}

/* Before anything else is made, which would be for nothing where a port is taken. */
static int listen_for_others(struct sandbox *sandbox, struct run_result *result, struct error *err)
{
	const struct spec *spec = sandbox->spec;

	if (publish_listen(spec->publish, spec->publish_count, sandbox->published, err) < 0)
		return -1;
	for (size_t i = 0; i < spec->publish_count; i++) {
		const struct published *one = &sandbox->published[i];

		result->published[i] = (struct result_port){
			one->host_port, one->port, one->listeners[0] >= 0, one->listeners[1] >= 0};
	}
	result->published_count = spec->publish_count;
	return 0;
}

int sandbox_create(const struct spec *spec, struct stdio *stdio, struct sandbox *sandbox,
	struct run_result *result, struct error *err)
{
	int r;

	*sandbox = SANDBOX_NONE;
	sandbox->spec = spec;
	if (listen_for_others(sandbox, result, err) < 0)
		return -1;
	r = create(sandbox, stdio, result, err);
	/* The publisher's alone from now on: without it, who connects is refused. */
	publish_close(sandbox->published, spec->publish_count);
	return r;
}

/* Sends a command, for whose cgroup `number` stands. */
static int send_exec(struct sandbox *sandbox, struct agent_request request, unsigned number,
	const struct exec_spec *exec, struct stdio *stdio, struct error *err)
{
	cleanup_free char **env = authorities_environment(&sandbox->authorities, exec->env);
	cleanup_close int body = !env ? -1
				      : agent_pack_exec(exec->argv, env,
						exec->cwd                          ? exec->cwd
						: sandbox->spec->root == ROOT_HOST ? "/workspace"
										   : "/");
	cleanup_close int cgroup_procs = -1;
	int fds[6] = {body, stdio->child[0], stdio->child[1], stdio->child[2]};
	size_t count = 4;

	if (body < 0)
		return error_set(err, errno, "packing the command");
	give_pipes(sandbox, stdio);
	if (stdio->fourth >= 0) {
		request.has_fourth = 1;
		fds[count++] = stdio->fourth;
	}
	if (sandbox->cgroup.path[0]) {
		if (cgroup_create_run(&sandbox->cgroup, number, &cgroup_procs, err) < 0)
			return -1;
		request.has_cgroup = 1;
		fds[count++] = cgroup_procs;
	}
	if (wire_send(sandbox->socket, &request, sizeof request, fds, count, 0) < 0)
		return error_set(err, errno, "sending the command to the sandbox");
	return 0;
}

int sandbox_exec(struct sandbox *sandbox, const struct exec_spec *exec, bool more,
	struct stdio *stdio, struct error *err)
{
	const struct agent_request request = {.type = REQUEST_EXEC, .more = more};

	return send_exec(sandbox, request, ++sandbox->runs, exec, stdio, err);
}

int sandbox_start(struct sandbox *sandbox, uint32_t id, const struct exec_spec *exec, bool terminal,
	struct stdio *stdio, struct error *err)
{
	struct agent_request request = {.type = REQUEST_START, .id = id, .terminal = terminal};

	if (!writes_to_the_host(sandbox->spec))
		request.file_size_bytes = sandbox->file_size_bytes;
	return send_exec(sandbox, request, id, exec, stdio, err);
}

static int send_request(
	const struct sandbox *sandbox, const struct agent_request *request, struct error *err)
{
	return wire_send(sandbox->socket, request, sizeof *request, NULL, 0, 0) < 0
		       ? error_set(err, errno, "asking the sandbox's first process")
		       : 0;
}

int sandbox_signal(
	const struct sandbox *sandbox, uint32_t id, int number, struct error *err)
{
	const struct agent_request request = {.type = REQUEST_SIGNAL, .id = id, .value = number};

	return send_request(sandbox, &request, err);
}

int sandbox_end_command(const struct sandbox *sandbox, uint32_t id, struct error *err)
{
	const struct agent_request request = {.type = REQUEST_END, .id = id};

	/* Where there is a cgroup, at once; its keeper is not in it, and tells of the end. */
	if (sandbox->cgroup.path[0])
		cgroup_kill_run(&sandbox->cgroup, id);
	return send_request(sandbox, &request, err);
}

int sandbox_pause(const struct sandbox *sandbox, uint32_t id, struct error *err)
{
	const struct agent_request request = {.type = REQUEST_PAUSE, .id = id};

	if (sandbox->cgroup.path[0])
		return cgroup_freeze_runs(&sandbox->cgroup, true, err);
	return send_request(sandbox, &request, err) < 0 ? -1 : 1;
}

int sandbox_resume(const struct sandbox *sandbox, uint32_t id, struct error *err)
{
	const struct agent_request request = {.type = REQUEST_RESUME, .id = id};

	if (sandbox->cgroup.path[0])
		return cgroup_freeze_runs(&sandbox->cgroup, false, err);
	return send_request(sandbox, &request, err) < 0 ? -1 : 1;
}

void sandbox_forget_command(struct sandbox *sandbox, uint32_t id)
{
	if (sandbox->cgroup.path[0])
		cgroup_remove_run(&sandbox->cgroup, id);
}

int sandbox_file(const struct sandbox *sandbox, uint32_t id, const void *request, size_t length,
	int channel, struct error *err)
{
	const struct agent_request message = {.type = REQUEST_FILE, .id = id};
	cleanup_close int body = memfd_create("request", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const int fds[] = {body, channel};

	if (body < 0 || write_whole(body, request, length) < 0 ||
		fcntl(body, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return error_set(err, errno, "packing a request for a file");
	return wire_send(sandbox->socket, &message, sizeof message, fds, 2, 0) < 0
		       ? error_set(err, errno, "asking the sandbox's first process")
		       : 0;
}

void sandbox_kill(struct sandbox *sandbox)
{
	/* It is a child that nobody has waited for. A filter around nsbox may not know the first call: who waits would do so for ever. */
	if (sandbox->pid > 0 && syscall(SYS_pidfd_send_signal, sandbox->pidfd, SIGKILL, NULL, 0) < 0)
		kill(sandbox->pid, SIGKILL);
	if (sandbox->cgroup.path[0])
		cgroup_kill(&sandbox->cgroup);
}

void sandbox_wait(struct sandbox *sandbox, struct rusage *ret_usage)
{
	memset(ret_usage, 0, sizeof *ret_usage);
	if (sandbox->pid <= 0)
		return;
	/* The kernel lets pid 1 end only after all others of its pid namespace are gone and reaped. */
	while (wait4(sandbox->pid, NULL, 0, ret_usage) < 0 && errno == EINTR)
		;
	sandbox->pid = 0;
}

void sandbox_release(struct sandbox *sandbox)
{
	end_helpers(sandbox);
	close_fd(&sandbox->socket);
	close_fd(&sandbox->pidfd);
	if (sandbox->cgroup.path[0])
		cgroup_destroy(&sandbox->cgroup);
	gate_release(&sandbox->gate);
	idmap_release(&sandbox->idmap);
	free((void *)sandbox->explaining.instructions);
	sandbox->explaining = (struct filter){NULL, 0};
}
