/* SPDX-License-Identifier: MIT */
/*
 * Makes each system call of a run of nsbox fail in turn, and looks at what comes of it. Prints TAP.
 *
 *	sweep [--all] [--every N] [--offset N] [--json | --terminal | --files | --server] [--cgroups] [--allocations] NAME COMMAND [ARGUMENT]...
 *
 * COMMAND is nsbox run with the program fingerprint inside; @NS among its arguments stands for the host's
 * namespaces. Each process of nsbox is one test: its calls are made to fail, to write less than asked, or to
 * be the moment of its death or of a SIGTERM. --all does all of that to each call; without it each call gets
 * one of these, another one with another N; --every N leaves out all but each N-th. --json and --terminal:
 * COMMAND has such an option. --files: its standard input and output are files. --cgroups: nobody else runs
 * nsbox here, so that no cgroup of it may be left. With --allocations COMMAND is the nsbox of alloc.c, and each
 * allocation fails in turn.
 *
 * With --server COMMAND is nsbox mcp, with a language «fp» whose programs are the program fingerprint. It is asked
 * for two executions, one after the other; the first one's processes, the server and its spawner meet the faults.
 *
 * What must hold, whatever fails:
 *   - nsbox ends in time, and nothing of it outlives it: no process, mount, temporary file or lock on ids;
 *   - either the command ran in exactly the sandbox that it has without a fault, and the status is its own;
 *   - or the status is one of nsbox's, standard error has one line that says why (and one more, what to do),
 *     and the command has not run, or has run in that same sandbox;
 *   - a server goes on after whatever happens to an execution: the next one is as if nothing had been.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "rules.h"
#include "trace.h"

enum {
	LIMIT_MS = 30000,
	PATIENCE_MS = 10000,
	ANSWERS = 3,
	STATUS_FAILED = 125,
	TRIES = 4,
	SHOWN_MAX = 12,
	MOUNTS_MAX = 256 << 10
};

static struct sweep {
	const char *name;
	char **argv;
	bool all, json, terminal, files, server, cgroups;
	size_t every;
	size_t offset;
	unsigned tests, failures;
	size_t faults, shown;
	bool failed; /* in the test that is going on */
	struct outcome plain, outcome;
	char mounts[MOUNTS_MAX];
	char locks[4096];
	struct alloc_plan *plan;
	char *requests[8]; /* of a client */
} sweep;

/* What a server has answered: by id, from 1 on. */
static struct answers {
	bool got[ANSWERS + 1], failed[ANSWERS + 1], whole[ANSWERS + 1], wordless;
	bool broken; /* there is a line that is no answer */
	char second
		[TRACE_TEXT_MAX]; /* what the second execution wrote; the first one's is the outcome's output */
} answers;

static void run_traced(const struct fault *fault, struct outcome *outcome)
{
	const struct trace_options options = {.files = sweep.files,
		.requests = sweep.server ? sweep.requests : NULL,
		.patience_ms = PATIENCE_MS,
		.limit_ms = LIMIT_MS};

	trace_run(sweep.argv, fault, &options, outcome);
}

/* --- what is left of a run --- */

static void read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t n;

	while (fd >= 0 && length < size - 1 && (n = read(fd, text + length, size - 1 - length)) > 0)
		length += (size_t)n;
	text[length] = '\0';
	if (fd >= 0)
		close(fd);
}

/* How many locks there are on the file of ids, which must be one that nobody else uses: see run. */
static int count_locks(void)
{
	static char text[64 << 10];
	struct stat st;
	char inode[48];
	int count = 0;

	if (stat("/run/nsbox/ids", &st) < 0)
		return 0;
	snprintf(inode, sizeof inode, " %02x:%02x:%llu ", major(st.st_dev), minor(st.st_dev),
		(unsigned long long)st.st_ino);
	read_file("/proc/locks", text, sizeof text);
	for (const char *next = text; (next = strstr(next, inode)); next++)
		count++;
	return count;
}

static bool is_empty(const char *path)
{
	DIR *dir = path ? opendir(path) : NULL;
	struct dirent *entry;
	bool empty = true;

	while (dir && (entry = readdir(dir)))
		empty &= entry->d_name[0] == '.';
	if (dir)
		closedir(dir);
	return empty;
}

static size_t cgroups_seen;

static int see_cgroup(const char *path, const struct stat *st, int type, struct FTW *place)
{
	cgroups_seen += type == FTW_D && strncmp(path + place->base, "nsbox-", 6) == 0;
	return 0;
}

/* Those of nsbox, anybody's: on a host where others run it too, they cannot be counted. */
static size_t count_cgroups(void)
{
	cgroups_seen = 0;
	if (sweep.cgroups)
		nftw("/sys/fs/cgroup", see_cgroup, 8, FTW_PHYS);
	return cgroups_seen;
}

/* One that could not be removed, or whose supervisor was killed, goes with the next run. */
static bool cgroup_is_left(void)
{
	static struct outcome outcome;
	static const struct fault none = {.kind = FAULT_NONE};

	if (count_cgroups() == 0)
		return false;
	run_traced(&none, &outcome);
	return count_cgroups() > 0;
}

static const char *find_leftover(void)
{
	static char mounts[MOUNTS_MAX];

	if (cgroup_is_left())
		return "a cgroup is left";
	read_file("/proc/self/mountinfo", mounts, sizeof mounts);
	if (strcmp(mounts, sweep.mounts) != 0)
		return "the host's mounts changed";
	if (!is_empty(getenv("TMPDIR")))
		return "a temporary file is left";
	return count_locks() > 0 ? "a range of ids is locked still" : NULL;
}

/* --- the result as JSON --- */

/* The value of a key that is a string, with its escapes undone; empty when there is none. */
static void take_string(const char *json, const char *key, char *text)
{
	const char *at = strstr(json, key);

	for (at = at ? at + strlen(key) : ""; *at && *at != '"'; at++) {
		if (*at == '\\' && at[1])
			*text++ = *++at == 'n' ? '\n' : *at == 't' ? '\t' : *at;
		else
			*text++ = *at;
	}
	*text = '\0';
}

/* Puts what the command wrote, and what nsbox says, where they are without --json. An object that was cut is none. */
static void read_json(struct outcome *outcome)
{
	static char json[TRACE_TEXT_MAX];
	size_t length = strlen(outcome->output), used = strlen(outcome->errors);
	bool whole = length > 2 && strcmp(outcome->output + length - 2, "}\n") == 0;
	char message[4096];

	strcpy(json, whole ? outcome->output : "");
	take_string(json, "\n  \"stdout\": \"", outcome->output);
	take_string(json, "\n  \"message\": \"", message);
	if (*message && used + sizeof message + 200 < TRACE_TEXT_MAX)
		used += (size_t)sprintf(outcome->errors + used, "nsbox: %s\n", message);
	/* Every result says who enforces limits. */
	if (strstr(json, "cannot be idmapped"))
		used += (size_t)sprintf(
			outcome->errors + used, "nsbox: warning: a tree cannot be idmapped\n");
	if (strstr(json, " is lost\""))
		sprintf(outcome->errors + used, "nsbox: warning: something is lost\n");
}

/* --- a server's answers --- */

static void read_answer(const char *line, struct outcome *outcome)
{
	const char *id = strstr(line, "\"id\":");
	int number = id ? atoi(id + 5) : 0;

	if (strncmp(line, "{\"jsonrpc\":\"2.0\",", 17) != 0 || line[strlen(line) - 1] != '}' ||
		number < 1 || number > ANSWERS || answers.got[number]) {
		answers.broken = true;
		return;
	}
	answers.got[number] = true;
	/* The code's own end can be the fault's: killed by a signal. And lost output is warned of. */
	answers.whole[number] = strstr(line, "\"ended_by\":\"exited\",\"exit_code\":0,") &&
				!strstr(line, "; what came after is lost\"");
	answers.failed[number] =
		strstr(line, "\"isError\":true") || strstr(line, "\"error\":{\"code\"");
	if (answers.failed[number] && !strstr(line, "\"text\":\"") &&
		!strstr(line, "\"message\":\""))
		answers.wordless = true;
	if (strstr(line, "cannot be idmapped"))
		strncat(outcome->errors, "nsbox: warning: a tree cannot be idmapped\n",
			TRACE_TEXT_MAX - 1 - strlen(outcome->errors));
	if (number >= 2)
		take_string(line, "\"stdout\":\"", number == 2 ? outcome->output : answers.second);
}

/* Puts what the first execution wrote where a command's output is. */
static void read_answers(struct outcome *outcome)
{
	static char text[TRACE_TEXT_MAX];
	char *line, *end;

	strcpy(text, outcome->output);
	answers = (struct answers){0};
	outcome->output[0] = '\0';
	for (line = text; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (*line)
			read_answer(line, outcome);
	}
	answers.broken |= *line != '\0';
}

static void run_once(const struct fault *fault, struct outcome *outcome)
{
	run_traced(fault, outcome);
	if (sweep.json)
		read_json(outcome);
	if (sweep.server)
		read_answers(outcome);
}

/* --- judging --- */

/*
 * Which differences are none. What a kernel may not have or refuse may be lacking; what nsbox cannot see of
 * the host is not shown; EIO of a terminal is its end; a toolchain whose folder cannot be
 * found by its links is in the PATH by its own; and where ids cannot be mapped, nsbox warns of it.
 */
struct leniency {
	bool sysctl, shows_less, not_idmapped, cut, search_path, no_cgroup;
};

static struct leniency leniency_for(const struct fault *fault)
{
	bool looking = fault->number == SYS_faccessat || fault->number == SYS_faccessat2;

	return (struct leniency){
		.sysctl = fault->errnum == EPERM || fault->errnum == EACCES,
		.shows_less = fault->errnum == EACCES && looking,
		/* A host that refuses a cgroup is one without; one that is short of something is not. */
		.no_cgroup = sweep.cgroups && fault->errnum != ENOMEM && fault->errnum != EMFILE &&
			     fault->errnum != ENFILE && fault->errnum != EIO,
		.search_path = fault->number == SYS_readlink || fault->number == SYS_readlinkat ||
			       sweep.plan,
		.cut = sweep.terminal && fault->number == SYS_read && fault->errnum == EIO,
		.not_idmapped = strstr(sweep.outcome.errors, "nsbox: warning: ") &&
				strstr(sweep.outcome.errors, "cannot be idmapped"),
	};
}

/* The next line of *text, which it moves on; NULL at the end. */
static char *next_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	if (!*line)
		return NULL;
	if (end)
		*end = '\0';
	*text = end ? end + 1 : line + strlen(line);
	return line;
}

/* Whether `seen` is `plain` without `word`. */
static bool same_but_for(const char *seen, const char *plain, const char *word)
{
	const char *at = strstr(plain, word);

	return at && strncmp(seen, plain, (size_t)(at - plain)) == 0 &&
	       strcmp(seen + (at - plain), at + strlen(word)) == 0;
}

/* Passes over lines of what is shown of the host, to the one that is `line`. */
static char *find_shown(char **text, const char *line)
{
	char *next;

	while ((next = next_line(text)))
		if (strcmp(next, line) == 0)
			return next;
	return NULL;
}

/* Whether what the command printed is what it prints without a fault, or the beginning of it. */
static bool is_same_sandbox(const struct fault *fault, bool whole)
{
	static char seen_text[TRACE_TEXT_MAX], plain_text[TRACE_TEXT_MAX];
	struct leniency lenient = leniency_for(fault);
	char *seen = strcpy(seen_text, sweep.outcome.output),
	     *plain = strcpy(plain_text, sweep.plain.output);
	char *seen_line, *plain_line;

	whole = whole && !lenient.cut;
	while ((seen_line = next_line(&seen))) {
		plain_line = next_line(&plain);
		if (!plain_line)
			return false;
		if (strcmp(seen_line, plain_line) == 0)
			continue;
		if (lenient.no_cgroup && strncmp(seen_line, "Max processes", 13) == 0)
			continue;
		if (lenient.search_path && strncmp(seen_line, "environment: PATH=", 18) == 0)
			continue;
		/* A file that cannot be opened anew is carried. */
		if (sweep.files && strncmp(seen_line, "/proc/self/fd/0 0 pipe:", 23) == 0)
			continue;
		if (lenient.sysctl && strncmp(seen_line, "sysctl", 6) == 0)
			continue;
		if (lenient.not_idmapped && same_but_for(seen_line, plain_line, "idmapped "))
			continue;
		if (lenient.shows_less && (plain_line = find_shown(&plain, seen_line)))
			continue;
		if (!whole && !*seen && strncmp(seen_line, plain_line, strlen(seen_line)) == 0)
			continue;
		return false;
	}
	return !whole || !next_line(&plain);
}

/* Lines of nsbox's on standard error: warnings, and others. False: something else is there. */
static bool count_lines(size_t *ret_warnings, size_t *ret_others)
{
	static char text[TRACE_TEXT_MAX];
	char *next = strcpy(text, sweep.outcome.errors), *line;

	*ret_warnings = *ret_others = 0;
	while ((line = next_line(&next))) {
		line[strcspn(line, "\r")] = '\0';
		if ((strncmp(line, "nsbox: ", 7) != 0 && strncmp(line, "nsbox mcp: ", 11) != 0) ||
			strlen(line) < 20)
			return false;
		*(strncmp(line, "nsbox: warning: ", 16) == 0 ? ret_warnings : ret_others) += 1;
	}
	return true;
}

/* Process 0 before its first call of its own, which looks at its standard descriptors: the C library starts. */
static bool is_before_main(const struct fault *fault)
{
	const struct outcome *plain = &sweep.plain;

	if (fault->process != 0)
		return false;
	for (size_t i = 0; i < plain->calls_count[0] && i <= fault->call; i++)
		if (plain->calls[0][i].number == SYS_fcntl)
			return false;
	return true;
}

/* Whether both executions wrote what they do without a fault, or the beginning of it. */
static bool are_same_sandboxes(const struct fault *fault, bool first_whole, bool second_whole)
{
	static char first[TRACE_TEXT_MAX];
	bool same = is_same_sandbox(fault, first_whole);

	strcpy(first, sweep.outcome.output);
	strcpy(sweep.outcome.output, answers.second);
	same = is_same_sandbox(fault, second_whole) && same;
	strcpy(sweep.outcome.output, first);
	return same;
}

/*
 * Of a server. What happens to an execution is no reason to end; what happens to the server itself, or
 * to its spawner, may be one, which is said then.
 */
static const char *judge_server(const struct fault *fault)
{
	const struct outcome *outcome = &sweep.outcome;
	bool own = sweep.plan || (fault->kind != FAULT_NONE && fault->process < 2);
	bool all = answers.got[1] && answers.got[2] && answers.got[3];
	size_t warnings, others;
	int status;

	if (!are_same_sandboxes(fault, answers.whole[2], answers.whole[3]))
		return "another sandbox";
	if (fault->process == 0 && WIFSIGNALED(outcome->status) &&
		WTERMSIG(outcome->status) == (fault->kind == FAULT_KILL ? SIGKILL : SIGTERM))
		return fault->kind == FAULT_KILL || fault->kind == FAULT_TERM ? NULL
									      : "it was ended";
	if (!WIFEXITED(outcome->status))
		return "the server was ended by a signal";
	/* A line that could be written in part only stays so, and nothing can be said after it. */
	if (answers.broken && !(fault->process == 0 && fault->number == SYS_write &&
				      WEXITSTATUS(outcome->status) == STATUS_FAILED))
		return "standard output has a line that is no answer, or half of one";
	if (answers.wordless)
		return "an execution failed without a word";
	status = WEXITSTATUS(outcome->status);
	if (!count_lines(&warnings, &others))
		return "standard error has a line that is not nsbox's";
	if (fault->process == 0 && fault->kind == FAULT_TERM)
		return status == 0 ? NULL : "it was asked to end, and failed";
	if (status == 0 && all && (own || answers.whole[3]))
		return NULL;
	if (!own)
		return "the server did not go on after an execution's fault";
	return status == 0 && !others ? "answers are missing, and nothing says why"
	       : others == 0          ? "it failed without a word"
				      : NULL;
}

/* What is wrong with the outcome; NULL: nothing. */
static const char *judge(const struct fault *fault)
{
	const struct outcome *outcome = &sweep.outcome;
	size_t warnings, others;
	int status;

	if (outcome->hung)
		return "it hung";
	if (outcome->left)
		return "processes outlived nsbox";
	if (sweep.server && !is_before_main(fault))
		return judge_server(fault);
	if (is_before_main(fault))
		return *outcome->output && !is_same_sandbox(fault, false) ? "another sandbox"
									  : NULL;
	if (fault->kind == FAULT_KILL && fault->process == 0) {
		if (!WIFSIGNALED(outcome->status) || WTERMSIG(outcome->status) != SIGKILL)
			return "the killed process was not killed";
		return *outcome->output && !is_same_sandbox(fault, false) ? "another sandbox"
									  : NULL;
	}
	/* Before nsbox looks out for signals, and once it has nothing to pass them on to, it ends by them. */
	if (fault->kind == FAULT_TERM && WIFSIGNALED(outcome->status) &&
		WTERMSIG(outcome->status) == SIGTERM)
		return *outcome->output && !is_same_sandbox(fault, false) ? "another sandbox"
									  : NULL;
	if (!WIFEXITED(outcome->status))
		return "nsbox was ended by a signal";
	status = WEXITSTATUS(outcome->status);
	if (!count_lines(&warnings, &others))
		return "standard error has a line that is not nsbox's";
	if (status == 0) {
		if (others > 0)
			return "success, and a line that says why not";
		return is_same_sandbox(fault, true) ? NULL : "another sandbox";
	}
	if (status < 125)
		return "the status is neither the command's nor nsbox's";
	if (others + warnings == 0)
		return "it failed without a word";
	if (others > 2)
		return "it failed with too many words";
	return *outcome->output && !is_same_sandbox(fault, false) ? "another sandbox" : NULL;
}

/* --- telling --- */

static void print_comment(const char *label, const char *text, size_t lines)
{
	static char copy[TRACE_TEXT_MAX];
	char *next = strcpy(copy, text), *line;

	while (lines-- > 0 && (line = next_line(&next)))
		printf("#     %s%s\n", label, line);
}

/* The lines of one text that another does not have, some of them. */
static void print_extra(const char *label, const char *text, const char *other)
{
	static char copy[TRACE_TEXT_MAX];
	char *next = strcpy(copy, text), *line;

	for (int shown = 0; shown < 4 && (line = next_line(&next));) {
		const char *found = strstr(other, line);

		if (found && (found == other || found[-1] == '\n') && found[strlen(line)] == '\n')
			continue;
		printf("#     %s: %s\n", label, line);
		shown++;
	}
}

static void complain(const struct fault *fault, const char *what)
{
	const struct outcome *outcome = &sweep.outcome;
	const char *kind = fault->kind == FAULT_KILL    ? "killed"
			   : fault->kind == FAULT_TERM  ? "asked to end"
			   : fault->kind == FAULT_SHORT ? "half written"
			   : fault->errnum              ? strerrorname_np(fault->errnum)
							: "no memory";

	sweep.failed = true;
	if (sweep.shown++ >= SHOWN_MAX)
		return;
	printf("#   call %zu of process %d, system call %llu, %s: %s (status %s %d)\n", fault->call,
		fault->process, (unsigned long long)outcome->call.number, kind, what,
		WIFEXITED(outcome->status) ? "" : "signal",
		WIFEXITED(outcome->status) ? WEXITSTATUS(outcome->status)
					   : WTERMSIG(outcome->status));
	print_comment("stderr: ", outcome->errors, 4);
	if (*outcome->output) {
		print_extra("inside", outcome->output, sweep.plain.output);
		print_extra("without the fault", sweep.plain.output, outcome->output);
	}
}

static void report(const char *what, size_t calls)
{
	sweep.failures += sweep.failed;
	printf("%sok %u - %s: %s: %zu faults at %zu places\n", sweep.failed ? "not " : "",
		++sweep.tests, sweep.name, what, sweep.faults, calls);
	fflush(stdout);
	sweep.failed = false;
	sweep.faults = sweep.shown = 0;
}

/* --- sweeping --- */

/* Processes run at the same time, so the number of the calls of one can differ from run to run. */
static void run_until_reached(const struct fault *fault)
{
	for (int i = 0; i < TRIES; i++) {
		run_once(fault, &sweep.outcome);
		if (sweep.outcome.reached)
			return;
	}
}

static const struct fault no_fault = {.kind = FAULT_NONE};

static void try_fault(const struct fault *fault)
{
	const char *wrong;

	run_until_reached(fault);
	sweep.faults += sweep.outcome.reached;
	wrong = judge(sweep.outcome.reached ? fault : &no_fault);
	if (!wrong)
		wrong = find_leftover();
	if (wrong)
		complain(fault, wrong);
}

static void sweep_process(int process)
{
	const struct outcome *plain = &sweep.plain;
	size_t calls = plain->calls_count[process];
	char what[32];

	for (size_t i = sweep.every ? sweep.offset % sweep.every : 0; i < calls;
		i += sweep.every ?: 1) {
		struct fault faults[FAULTS_MAX];
		size_t count = list_faults(process == 0, &plain->calls[process][i], faults);

		for (size_t j = 0; j < count; j++) {
			if (!sweep.all && j != (i + sweep.offset) % count)
				continue;
			faults[j].process = process;
			faults[j].call = i;
			faults[j].number = plain->calls[process][i].number;
			try_fault(&faults[j]);
		}
	}
	snprintf(what, sizeof what, "process %d", process);
	report(what, calls);
}

static void sweep_allocations(void)
{
	uint64_t count;

	sweep.plan->fail = 0;
	sweep.plan->made = 0;
	run_once(&no_fault, &sweep.outcome);
	count = sweep.plan->made;
	for (uint64_t i = 1 + (sweep.every ? sweep.offset % sweep.every : 0); i <= count;
		i += sweep.every ?: 1) {
		struct fault fault = {.kind = FAULT_ERROR, .process = 1, .call = i};

		sweep.plan->made = 0;
		sweep.plan->fail = i;
		run_once(&no_fault, &sweep.outcome);
		sweep.faults++;
		const char *wrong = judge(&fault) ?: find_leftover();
		if (wrong)
			complain(&fault, wrong);
	}
	report("allocations", count);
}

/* The run without a fault, twice: it must be what it is each time. */
static bool run_plain(void)
{
	const char *wrong;

	if (sweep.plan) /* what an earlier sweep has left in it would come true here */
		*sweep.plan = (struct alloc_plan){0};
	read_file("/proc/self/mountinfo", sweep.mounts, sizeof sweep.mounts);
	run_once(&no_fault, &sweep.plain);
	sweep.outcome = sweep.plain;
	wrong = judge(&no_fault);
	if (!wrong && (sweep.plain.status != 0 || *sweep.plain.errors ||
			      strlen(sweep.plain.output) < 1000))
		wrong = "the run without a fault is no model";
	if (!wrong) {
		run_once(&no_fault, &sweep.outcome);
		wrong = judge(&no_fault) ?: find_leftover();
	}
	if (wrong) {
		complain(&no_fault, wrong);
		print_comment("stdout: ", sweep.outcome.output, 5);
	}
	sweep.faults = 2;
	report("without a fault, the same twice", 0);
	return !wrong;
}

/* --- arguments --- */

static char *namespace_link(const char *name)
{
	char path[32], link[64];
	ssize_t n;

	snprintf(path, sizeof path, "/proc/self/ns/%s", name);
	n = readlink(path, link, sizeof link - 1);
	link[n < 0 ? 0 : n] = '\0';
	return strdup(link);
}

static void set_command(int argc, char **argv)
{
	static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	size_t count = 0;

	sweep.argv = calloc((size_t)argc + 8, sizeof *sweep.argv);
	if (!sweep.argv)
		exit(2);
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "@NS") != 0) {
			sweep.argv[count++] = argv[i];
			continue;
		}
		for (size_t j = 0; j < sizeof names / sizeof *names; j++)
			sweep.argv[count++] = namespace_link(names[j]);
	}
}

/* A client's lines. */
static void make_requests(void)
{
	static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	char arguments[1024] = "", *next = arguments;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		next += sprintf(next, "%s\"%s\"", i ? "," : "", namespace_link(names[i]));
	sweep.requests[0] =
		strdup("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
		       "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
		       "\"clientInfo\":{\"name\":\"sweep\",\"version\":\"1\"}}}\n");
	sweep.requests[1] =
		strdup("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
	for (int i = 2; i <= ANSWERS; i++)
		if (asprintf(&sweep.requests[i],
			    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{"
			    "\"name\":\"execute_code\",\"arguments\":{\"language\":\"fp\",\"code\":\"-\","
			    "\"args\":[%s]}}}\n",
			    i, arguments) < 0)
			exit(2);
}

/* Of a server the second execution's processes are as the first one's: they meet no faults. */
static int processes_to_sweep(void)
{
	int count = (int)sweep.plain.processes_count;

	return sweep.server ? 2 + (count - 2) / 2 : count;
}

static void make_plan(void)
{
	int fd = open(getenv(ALLOC_PLAN_VARIABLE) ?: "", O_RDWR | O_CLOEXEC);

	sweep.plan =
		fd < 0 ? MAP_FAILED
		       : mmap(NULL, sizeof *sweep.plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (sweep.plan == MAP_FAILED) {
		perror(ALLOC_PLAN_VARIABLE);
		exit(2);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	bool allocations = false;
	int next = 1;

	for (; next < argc && argv[next][0] == '-'; next++) {
		if (strcmp(argv[next], "--all") == 0)
			sweep.all = true;
		else if (strcmp(argv[next], "--json") == 0)
			sweep.json = true;
		else if (strcmp(argv[next], "--terminal") == 0)
			sweep.terminal = true;
		else if (strcmp(argv[next], "--files") == 0)
			sweep.files = true;
		else if (strcmp(argv[next], "--server") == 0)
			sweep.server = true;
		else if (strcmp(argv[next], "--cgroups") == 0)
			sweep.cgroups = true;
		else if (strcmp(argv[next], "--every") == 0 && next + 1 < argc)
			sweep.every = (size_t)atol(argv[++next]);
		else if (strcmp(argv[next], "--allocations") == 0)
			allocations = true;
		else if (strcmp(argv[next], "--offset") == 0 && next + 1 < argc)
			sweep.offset = (size_t)atol(argv[++next]);
	}
	if (argc - next < 2) {
		fprintf(stderr,
			"usage: sweep [--all] [--every N] [--offset N] [--json | --terminal | --files | --server] [--cgroups] [--allocations] NAME COMMAND [ARGUMENT]...\n");
		return 2;
	}
	sweep.name = argv[next];
	set_command(argc - next - 1, argv + next + 1);
	if (sweep.server)
		make_requests();
	if (allocations)
		make_plan();
	if (run_plain() && allocations)
		sweep_allocations();
	else if (sweep.failures == 0)
		for (int process = 0; process < processes_to_sweep(); process++)
			sweep_process(process);
	printf("1..%u\n", sweep.tests);
	return sweep.failures > 0;
}
