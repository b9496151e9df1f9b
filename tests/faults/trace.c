/* SPDX-License-Identifier: MIT */
/* A run with a fault: see trace.h. */
#define _GNU_SOURCE
#include "trace.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LEFT_MS = 5000, TICK_US = 50 * 1000, TICK_TALKING_US = 5 * 1000, QUIET_MS = 40 };

struct registers {
#ifdef __x86_64__
	struct user_regs_struct all;
#else
	struct user_pt_regs all;
#endif
};

struct process {
	pid_t pid;  /* 0: an empty place */
	int number; /* -1: its maker's stop for having made it is still to come, and it waits */
	size_t calls;
	size_t same;	/* of them as the one that is to go wrong */
	bool foreign;  /* it has executed the command */
	bool replaced; /* it is in the call that went wrong, whose result is the error */
	/* Or one of whose arguments was changed: compilers count on finding it where they put it. */
	int changed_argument; /* -1: none */
	uint64_t argument;
};

static struct trace {
	const struct fault *fault;
	struct outcome *outcome;
	const struct trace_options *options;
	struct process processes[TRACE_PROCESSES_MAX];
	int next_number;
	bool started; /* nsbox is executed */
	bool over;    /* process 0 has ended */
	int streams[2];
	size_t lengths[2];
	uint64_t until_ms;
	/* With requests: */
	char *const *next_request;
	int input; /* -1: it is at its end */
	size_t asked;
	uint64_t patient_until_ms;
	uint64_t last_ms; /* something was traced */
} trace;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- registers --- */

static bool get_registers(pid_t pid, struct registers *registers)
{
	struct iovec iov = {&registers->all, sizeof registers->all};

	return ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &iov) == 0;
}

static void set_registers(pid_t pid, struct registers *registers)
{
	struct iovec iov = {&registers->all, sizeof registers->all};

	ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &iov);
}

/* Makes a call that is about to be made another one. */
static void set_call(pid_t pid, struct registers *registers, int number)
{
#ifdef __x86_64__
	registers->all.orig_rax = (unsigned long)number;
	set_registers(pid, registers);
#else
	struct iovec iov = {&number, sizeof number};

	set_registers(pid, registers);
	ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &iov);
#endif
}

static uint64_t exchange_argument(struct registers *registers, int index, uint64_t value)
{
	uint64_t old;

#ifdef __x86_64__
	old = index == 0 ? registers->all.rdi : registers->all.rdx;
	if (index == 0)
		registers->all.rdi = value;
	else
		registers->all.rdx = value;
#else
	old = registers->all.regs[index];
	registers->all.regs[index] = value;
#endif
	return old;
}

/* Whether the result comes in the register of the argument. */
static bool argument_is_result(int index)
{
#ifdef __x86_64__
	return false;
#else
	return index == 0;
#endif
}

static void set_result(struct registers *registers, long value)
{
#ifdef __x86_64__
	registers->all.rax = (unsigned long)value;
#else
	registers->all.regs[0] = (unsigned long)value;
#endif
}

/* --- the fault --- */

static void change_argument(
	struct process *process, struct registers *registers, int index, uint64_t value)
{
	process->argument = exchange_argument(registers, index, value);
	process->changed_argument = index;
	set_registers(process->pid, registers);
}

static void apply(struct process *process, const struct call *call)
{
	struct registers registers;

	trace.outcome->reached = true;
	trace.outcome->call = *call;
	if (trace.fault->kind == FAULT_KILL || trace.fault->kind == FAULT_TERM) {
		kill(process->pid, trace.fault->kind == FAULT_KILL ? SIGKILL : SIGTERM);
		return;
	}
	if (!get_registers(process->pid, &registers))
		return;
	if (trace.fault->kind == FAULT_SHORT) {
		change_argument(process, &registers, 2, call->length / 2);
	} else if (call->number == SYS_brk) {
		/* It says that it failed by the end of the heap as it was. */
		change_argument(process, &registers, 0, 0);
	} else {
		process->replaced = true;
		/* A call that every filter lets through. */
		set_call(process->pid, &registers, SYS_getpid);
	}
}

/* How often one that lasts waits is chance. */
static bool is_waiting(const struct process *process, const struct call *call)
{
	return trace.options->lasting > 0 && process->number == 1 &&
	       (call->number == SYS_ppoll || call->number == SYS_restart_syscall
#ifdef SYS_poll
		       || call->number == SYS_poll
#endif
	       );
}

static void entered(struct process *process, const struct call *call)
{
	struct outcome *outcome = trace.outcome;
	size_t index;

	if (is_waiting(process, call))
		return;
	index = process->calls++;

	if (index < TRACE_CALLS_MAX) {
		outcome->calls[process->number][index] = *call;
		outcome->calls_count[process->number] = index + 1;
	}
	if (trace.fault->kind == FAULT_NONE || trace.fault->process != process->number ||
		trace.fault->number != call->number)
		return;
	if (trace.fault->call == (trace.fault->among_same ? process->same++ : index))
		apply(process, call);
}

static void left(struct process *process)
{
	struct registers registers;

	if ((!process->replaced && process->changed_argument < 0) ||
		!get_registers(process->pid, &registers))
		return;
	if (process->replaced)
		set_result(&registers, -trace.fault->errnum);
	else if (!argument_is_result(process->changed_argument))
		exchange_argument(&registers, process->changed_argument, process->argument);
	process->replaced = false;
	process->changed_argument = -1;
	set_registers(process->pid, &registers);
}

static void at_call(struct process *process)
{
	struct __ptrace_syscall_info info;
	struct call call;

	if (!trace.started ||
		ptrace(PTRACE_GET_SYSCALL_INFO, process->pid, sizeof info, &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		call = (struct call){info.entry.nr, info.entry.args[2]};
		entered(process, &call);
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
		left(process);
	}
}

/* --- processes --- */

static struct process *find(pid_t pid)
{
	for (size_t i = 0; i < TRACE_PROCESSES_MAX; i++)
		if (trace.processes[i].pid == pid)
			return &trace.processes[i];
	return NULL;
}

static void add(pid_t pid, int number)
{
	struct process *process = find(0);

	if (!process || trace.next_number == TRACE_PROCESSES_MAX) {
		fprintf(stderr, "more processes than there is room for\n");
		exit(2);
	}
	*process = (struct process){.pid = pid, .number = number, .changed_argument = -1};
}

static void go_on(const struct process *process, bool listen, int signal_number)
{
	ptrace(listen              ? PTRACE_LISTEN
		: process->foreign ? PTRACE_CONT
				   : PTRACE_SYSCALL,
		process->pid, 0, signal_number);
}

/* Processes have their numbers from their makers, whose order does not depend on which is faster. */
static void made(const struct process *maker)
{
	unsigned long pid = 0;
	struct process *process;

	ptrace(PTRACE_GETEVENTMSG, maker->pid, 0, &pid);
	process = find((pid_t)pid);
	if (!process) {
		add((pid_t)pid, trace.next_number);
	} else {
		process->number = trace.next_number;
		go_on(process, false, 0);
	}
	trace.outcome->processes_count = (size_t)++trace.next_number;
}

static bool is_quiet(void)
{
	return trace.options->lets_go && trace.over && now_ms() > trace.last_ms + QUIET_MS;
}

/* What lasts goes on, with all that it has made. */
static void let_go(void)
{
	for (size_t i = 0; i < TRACE_PROCESSES_MAX; i++) {
		struct process *process = &trace.processes[i];
		int status, number;

		if (process->pid == 0 || ptrace(PTRACE_INTERRUPT, process->pid, 0, 0) < 0)
			continue;
		while (waitpid(process->pid, &status, __WALL) < 0 && errno == EINTR)
			;
		if (!WIFSTOPPED(status))
			continue;
		number = status >> 16 || WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
		if (!process->foreign && WSTOPSIG(status) == (SIGTRAP | 0x80))
			left(process);
		ptrace(PTRACE_DETACH, process->pid, 0, number);
	}
}

static void ended(struct process *process, int status)
{
	if (process->number == 0) {
		trace.outcome->status = status;
		trace.over = true;
		trace.until_ms = trace.options->lets_go ? UINT64_MAX : now_ms() + LEFT_MS;
	}
	process->pid = 0;
}

static void stopped(struct process *process, int status)
{
	int event = status >> 16, number = WSTOPSIG(status), deliver = 0;
	bool listen = false;

	if (number == (SIGTRAP | 0x80)) {
		if (!process->foreign)
			at_call(process);
	} else if (event == PTRACE_EVENT_EXEC) {
		if (process->number == 0)
			trace.started = true;
		else
			process->foreign = true;
	} else if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK ||
		   event == PTRACE_EVENT_VFORK) {
		made(process);
	} else if (event == PTRACE_EVENT_STOP) {
		if (number != SIGTRAP)
			listen = true;
	} else if (event == 0) {
		deliver = number;
	}
	go_on(process, listen, deliver);
}

/* --- the run --- */

/* What is in the pipes. They are read also while it runs, or it could wait for room in them. */
static void read_streams(void)
{
	char *const texts[2] = {trace.outcome->output, trace.outcome->errors};

	for (int i = 0; i < 2; i++) {
		ssize_t n;

		do {
			n = read(trace.streams[i], texts[i] + trace.lengths[i],
				TRACE_TEXT_MAX - 1 - trace.lengths[i]);
			if (n > 0)
				trace.lengths[i] += (size_t)n;
		} while (n > 0);
		texts[i][trace.lengths[i]] = '\0';
	}
}

static size_t count_answers(void)
{
	size_t count = 0;

	for (const char *at = trace.outcome->output; (at = strchr(at, '\n')); at++)
		count++;
	return count;
}

/* Says to a server what comes next. */
static void talk(void)
{
	if (trace.input < 0 || !trace.started)
		return;
	while (count_answers() >= trace.asked && *trace.next_request) {
		const char *line = *trace.next_request++;

		if (write(trace.input, line, strlen(line)) < 0)
			trace.patient_until_ms = 0;
		trace.asked += strstr(line, "\"id\":") != NULL;
		trace.patient_until_ms = now_ms() + trace.options->patience_ms;
	}
	if (count_answers() < trace.asked && now_ms() < trace.patient_until_ms)
		return;
	close(trace.input);
	trace.input = -1;
}

static void kill_all(void)
{
	if (trace.over)
		trace.outcome->left = true;
	else
		trace.outcome->hung = true;
	for (size_t i = 0; i < TRACE_PROCESSES_MAX; i++)
		if (trace.processes[i].pid > 0)
			kill(trace.processes[i].pid, SIGKILL);
	trace.until_ms = UINT64_MAX;
}

static void alarmed(int number)
{
}

/* An alarm that repeats, since a single one may come just before the wait. */
static void start_alarms(bool on)
{
	const bool often = trace.options->requests || trace.options->lets_go;
	const suseconds_t tick = !on ? 0 : often ? TICK_TALKING_US : TICK_US;
	struct itimerval timer = {.it_interval.tv_usec = tick, .it_value.tv_usec = tick};

	sigaction(SIGALRM, &(struct sigaction){.sa_handler = alarmed}, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void loop(void)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, __WALL);
		struct process *process;

		if (pid < 0 && errno == ECHILD)
			return;
		if (pid < 0) {
			read_streams();
			talk();
			if (is_quiet()) {
				let_go();
				return;
			}
			if (now_ms() > trace.until_ms)
				kill_all();
			continue;
		}
		trace.last_ms = now_ms();
		process = find(pid);
		if (process && WIFSTOPPED(status))
			stopped(process, status);
		else if (process)
			ended(process, status);
		else if (WIFSTOPPED(status))
			add(pid, -1);
	}
}

/* A file to read; a pipe whose other end is trace.input; or one at its end. */
static int open_input(const char *file)
{
	int ends[2];

	if (file)
		return open(file, O_RDONLY | O_CLOEXEC);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	if (trace.options->requests)
		trace.input = ends[1];
	else
		close(ends[1]);
	return ends[0];
}

static pid_t start(char *const *argv, int input, int gate, const int *far)
{
	pid_t pid = fork();
	char byte;

	if (pid != 0)
		return pid;
	start_alarms(false);
	signal(SIGPIPE, SIG_DFL);
	if (read(gate, &byte, 1) != 1 || dup2(input, 0) < 0)
		_exit(99);
	dup2(far[0], 1);
	dup2(far[1], 2);
	syscall(SYS_close_range, 3U, ~0U, 0U);
	execv(argv[0], argv);
	_exit(99);
}

/* Where the run writes to (*ret_far) and we read from. */
static int open_stream(bool file, int *ret_far)
{
	int ends[2];
	char name[32];

	if (!file) {
		if (pipe2(ends, O_CLOEXEC) < 0)
			die("pipe");
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
		*ret_far = ends[1];
		return ends[0];
	}
	*ret_far = memfd_create("output", MFD_CLOEXEC);
	snprintf(name, sizeof name, "/proc/self/fd/%d", *ret_far);
	ends[0] = open(name, O_RDONLY | O_CLOEXEC);
	if (ends[0] < 0)
		die("a file for the output");
	return ends[0];
}

void trace_run(char *const *argv, const struct fault *fault, const struct trace_options *options,
	struct outcome *ret)
{
	static const long events = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC |
				   PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
				   PTRACE_O_EXITKILL;
	int gate[2], far[2], input;
	pid_t pid;

	memset(ret->calls_count, 0, sizeof ret->calls_count);
	ret->reached = ret->hung = ret->left = false;
	ret->status = -1;
	ret->processes_count = 1;
	trace = (struct trace){.fault = fault,
		.outcome = ret,
		.options = options,
		.until_ms = now_ms() + options->limit_ms,
		.next_request = options->requests,
		.input = -1};
	signal(SIGPIPE, SIG_IGN);
	input = open_input(options->files ? argv[0] : NULL);
	if (input < 0 || pipe2(gate, O_CLOEXEC) < 0)
		die("pipe");
	trace.streams[0] = open_stream(options->files, &far[0]);
	trace.streams[1] = open_stream(false, &far[1]);
	pid = start(argv, input, gate[0], far);
	if (pid < 0 || ptrace(PTRACE_SEIZE, pid, 0, events) < 0)
		die("tracing");
	add(pid, 0);
	trace.next_number = 1;
	if (options->lasting > 0) {
		if (ptrace(PTRACE_SEIZE, options->lasting, 0, events & ~PTRACE_O_EXITKILL) < 0)
			die("tracing what lasts");
		add(options->lasting, trace.next_number++);
		ret->processes_count = 2;
		ptrace(PTRACE_INTERRUPT, options->lasting, 0, 0);
	}
	start_alarms(true);
	if (write(gate[1], "", 1) != 1)
		die("starting");
	for (int i = 0; i < 2; i++) {
		close(gate[i]);
		close(far[i]);
	}
	close(input);
	/* Only from the exec on is it traced by calls, and the exec is an event. */
	loop();
	start_alarms(false);
	read_streams();
	close(trace.streams[0]);
	close(trace.streams[1]);
	if (trace.input >= 0)
		close(trace.input);
}
