/* SPDX-License-Identifier: MIT */
/*
 * nsbox session: sandboxes that last. Each subcommand but `new` asks the session's supervisor (session/session.h),
 * so that it does not matter who made it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/finish.h"
#include "cli/run_options.h"
#include "cli/run_spec.h"
#include "cli/session_context.h"
#include "cli/session_commit.h"
#include "cli/session_copy.h"
#include "cli/session_install.h"
#include "cli/session_results.h"
#include "cli/session_snapshots.h"
#include "config/config.h"
#include "language/language.h"
#include "report/report.h"
#include "sandbox/spec.h"
#include "session/attach.h"
#include "session/client.h"
#include "session/session.h"
#include "session/streams.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"
#include "util/parse.h"

static const char help[] =
	"Usage: nsbox session COMMAND [OPTION]… [ARGUMENT]…\n"
	"Sandboxes that last: what one command leaves, the next one finds.\n"
	"\n"
	"  new     make a session, and print its id\n"
	"  install install packages of a language for its code\n"
	"  exec    run a command in it\n"
	"  context list interpreters that are kept in it, interrupt, restart or end them\n"
	"  shell   a shell in it, or a command, on a terminal\n"
	"  repl    the interactive interpreter of a language, in a new one or a given one\n"
	"  ls      list sessions\n"
	"  ps      list the commands of a session\n"
	"  logs    show what a command in the background wrote\n"
	"  input   write to the standard input of one\n"
	"  kill    send a signal to one, or end it\n"
	"  cp      copy a file into a session or out of it\n"
	"  pause   stop all that runs in a session, until\n"
	"  resume  lets it go on\n"
	"  snapshot  keep what a session has written\n"
	"  snapshots  list what was kept, or remove some of it\n"
	"  fork    make a session of another one, or of a snapshot\n"
	"  restore bring a session back to a snapshot\n"
	"  commit  make an image of what it has written\n"
	"  stop    end sessions, with all that is in them\n"
	"\n"
	"  -h, --help  print this help\n"
	"\n"
	"An id can be shortened to what no other session's begins with. nsbox session COMMAND --help shows the options.\n";

static const char new_help[] =
	"Usage: nsbox session new [OPTION]…\n"
	"Makes a session and prints its id. It lives until nsbox session stop, or until its time is up.\n"
	"\n"
	"      --lang LANGUAGE  the language of code that names none; in its image, as with nsbox run --lang\n"
	"      --with PACKAGE[,PACKAGE]  packages of that language, or apt:NAME of the root\n"
	"      --mcp            let MCP servers of yours use it, too\n"
	"      --storage disk|memory  where its files are (default: disk, where the store's disk can carry them)\n"
	"      --idle DURATION  end it when nothing was asked of it for so long (default 1h; none: never)\n"
	"      --life DURATION  end it after so long anyway (default 24h; none: never)\n"
	"      --help           print this help\n"
	"\n"
	"The other options are those of nsbox run that say what the sandbox is: --image, --rootfs, --bind, --memory, --disk,\n"
	"--network, --env and so on. Limits hold for all that runs in the session at a time.\n";

static const char install_help[] =
	"Usage: nsbox session install [OPTION]… ID PACKAGE…\n"
	"Installs packages of a language, for the code that runs in a session and comes to run in it. They are named as its\n"
	"package manager names them, with a version or without (nsbox-packages(7)). It happens in a sandbox of its own: the\n"
	"session gets no network by it. The first packages of a language are copied from the store where they are there.\n"
	"\n"
	"      --lang LANGUAGE  whose packages they are (default: the session's language)\n"
	"      --help           print this help\n";

static const char exec_help[] =
	"Usage: nsbox session exec [OPTION]… ID [--] COMMAND [ARGUMENT]…\n"
	"       nsbox session exec --lang LANGUAGE [OPTION]… ID FILE [ARGUMENT]…\n"
	"       nsbox session exec --context NAME [--lang LANGUAGE] [OPTION]… ID FILE\n"
	"Runs a command in a session. When it ends, so does everything that it has started.\n"
	"\n"
	"      --lang LANGUAGE       COMMAND is a file here with a program in that language, - for standard input\n"
	"  -c, --code CODE           the program is CODE; what follows ID are its arguments\n"
	"      --context NAME        run the program in an interpreter that is kept: what one leaves, the next one finds\n"
	"      --results DIR         with --context: save plots, tables and what else it shows as files in DIR\n"
	"  -d, --detach              in the background: print the number of the process, and do not wait\n"
	"  -i, --interactive         with --detach: keep its standard input open, for nsbox session input\n"
	"  -t, --tty                 on a terminal of its own, which yours shows\n"
	"  -e, --env NAME=VALUE      set a variable\n"
	"  -w, --workdir DIR         start in DIR\n"
	"      --timeout DURATION    end it after so long (default: none)\n"
	"      --json                print the result as JSON, with the output in it\n"
	"      --changes             say which files below /workspace were created (A), modified (M), deleted (D)\n"
	"      --help                print this help\n"
	"\n"
	"Options may also follow ID. The exit status is the command's, or as nsbox run has it.\n";

static const char shell_help[] =
	"Usage: nsbox session shell [OPTION]… ID [COMMAND [ARGUMENT]…]\n"
	"Runs a shell, or a command, in a session, on a terminal of its own, which yours shows.\n"
	"\n"
	"  -e, --env NAME=VALUE  set a variable\n"
	"  -w, --workdir DIR     start in DIR (default: where the session's commands start, and not in /)\n"
	"      --help            print this help\n"
	"\n"
	"The shell is bash where there is one, else sh. When it ends, or your terminal does, so does everything that it has\n"
	"started. The exit status is its own.\n";

static const char context_help[] =
	"Usage: nsbox session context ls [OPTION]… ID\n"
	"       nsbox session context interrupt|restart|end [OPTION]… ID NAME\n"
	"Interpreters that nsbox session exec --context has begun in a session, and keeps.\n"
	"\n"
	"  ls         list them, and what they do\n"
	"  interrupt  end what one runs; its state stays. One that is starting is ended\n"
	"  restart    end one, with all that it has started, and begin it anew\n"
	"  end        end one, with all that it has started\n"
	"\n"
	"      --json   with ls: print an array of objects\n"
	"      --help   print this help\n";

static const char repl_help[] =
	"Usage: nsbox session repl [OPTION]… LANGUAGE\n"
	"Runs the interactive interpreter of a language, on a terminal, in a new session, which ends with it.\n"
	"\n"
	"      --session ID  in that session, which stays\n"
	"      --keep        let the new session live, and say its id\n"
	"      --with PACKAGE[,PACKAGE]  packages of the language for the new session, or apt:NAME of its root\n"
	"      --help        print this help\n"
	"\n"
	"The other options are those of nsbox session new, for the new session. LANGUAGE can stand before them. The exit\n"
	"status is the interpreter's.\n";

static const char ls_help[] = "Usage: nsbox session ls [OPTION]…\n"
			      "Lists the sessions that live.\n"
			      "\n"
			      "  -q, --quiet  ids only\n"
			      "      --json   print an array of objects\n"
			      "      --help   print this help\n";

static const char ps_help[] =
	"Usage: nsbox session ps [OPTION]… ID\n"
	"Lists the commands of a session that run, and those in the background that have ended.\n"
	"\n"
	"      --json   print an array of objects\n"
	"      --help   print this help\n";

static const char logs_help[] =
	"Usage: nsbox session logs [OPTION]… ID PROCESS\n"
	"Shows what a command in the background has written, standard output and error as they came.\n"
	"\n"
	"  -f, --follow  go on until it ends; the exit status is the command's then\n"
	"      --help    print this help\n";

static const char input_help[] =
	"Usage: nsbox session input [OPTION]… ID PROCESS [TEXT]\n"
	"Writes a line to the standard input of a command that exec --detach --interactive has started. With - for TEXT it is\n"
	"what comes from standard input, as it is.\n"
	"\n"
	"  -n, --no-newline  TEXT alone, without the end of a line\n"
	"      --close       close its standard input afterwards\n"
	"      --help        print this help\n";

static const char kill_help[] =
	"Usage: nsbox session kill [OPTION]… ID PROCESS\n"
	"Ends a command and all that it has started.\n"
	"\n"
	"  -s, --signal SIGNAL  send this to its process group instead: a name or a number\n"
	"      --help           print this help\n";

static const char cp_help[] =
	"Usage: nsbox session cp ID:PATH FILE\n"
	"       nsbox session cp FILE ID:PATH\n"
	"Copies a file out of a session, or into it. FILE can be -, for standard input or output. A directory as the target\n"
	"gets a file of the same name: ID:dir/, or ID: for where relative paths begin.\n"
	"\n"
	"      --help  print this help\n";

static const char pause_help[] =
	"Usage: nsbox session pause ID…\n"
	"Stops all that runs in sessions, until nsbox session resume. The time limits of commands and the idle time of the\n"
	"session stand meanwhile, its life does not. What has been written can be read, and commands can be ended.\n"
	"\n"
	"      --help  print this help\n";

static const char resume_help[] = "Usage: nsbox session resume ID…\n"
				  "Lets sessions go on that nsbox session pause has stopped.\n"
				  "\n"
				  "      --help  print this help\n";

static const char stop_help[] = "Usage: nsbox session stop [OPTION]… ID…\n"
				"Ends sessions, and waits until everything of them is gone.\n"
				"\n"
				"      --all   all of them\n"
				"      --help  print this help\n";

enum {
	LOGS_WAIT_MS = 10 * 1000,
	INPUT_PIECE = 64 << 10,      /* bytes in one request */
	INPUT_PENDING_MAX = 512 << 10, /* where the command has so much to read, no more is sent to it */
	INPUT_PAUSE_MS = 20,
	SENTENCE_MAX = 2048,
	STOPPING_MAX = 64, /* sessions that are ended at a time */
	LIST_DEADLINE_S = 5, /* for one that is well to say how it is */
	STOP_DEADLINE_S = 60, /* for one to be gone */
	OPTION_HELP = 256,
	OPTION_JSON,
	OPTION_TIMEOUT,
	OPTION_ALL,
	OPTION_CLOSE,
	OPTION_LANG,
	OPTION_CHANGES,
	OPTION_CONTEXT,
	OPTION_RESULTS,
};

/* --- common --- */

/* `option` is what getopt_long returned for something that it does not know. */
static int refuse_option(int option, char **argv, const char *command, struct error *err)
{
	char buffer[QUOTED_MAX], letter[3] = {'-', (char)optopt, '\0'};
	const char *written = optopt > 0 && optopt < 256 ? letter : argv[optind - 1];

	if (option == ':')
		return error_set(err, 0, "option %s needs an argument; see nsbox session %s --help",
			quoted(written, buffer), command);
	return error_set(err, 0, "unknown option %s; see nsbox session %s --help",
		quoted(written, buffer), command);
}

static json_t *ask(const char *id, json_t *request, const int *streams, struct error *err)
{
	int fd = session_connect(id, NULL, err);

	if (fd < 0) {
		json_decref(request);
		return NULL;
	}
	return session_request(fd, request, streams, err);
}

static int parse_process(const char *text, json_int_t *ret, struct error *err)
{
	char *end, buffer[QUOTED_MAX];
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || *end || end == text || value < 1 || value > UINT32_MAX)
		return error_set(err, 0,
			"%s is no number of a process; nsbox session ps lists them",
			quoted(text, buffer));
	*ret = value;
	return 0;
}

/* --- new --- */

/* The value of our own option `name` at argv[*i], which then is its last word; NULL where it is another. */
static const char *own_option(char **argv, int *i, const char *name, const char *command, struct error *err)
{
	size_t length = strlen(name);

	if (strncmp(argv[*i], name, length) != 0 || !strchr("=", argv[*i][length]))
		return NULL;
	if (argv[*i][length])
		return argv[*i] + length + 1;
	if (argv[*i + 1])
		return argv[++*i];
	error_set(err, 0, "option %s needs an argument; see nsbox session %s --help", name, command);
	return NULL;
}

static int take_language(const char *name, struct session_options *ret, struct error *err)
{
	struct language *language;

	if (language_load(name, &language, err) < 0)
		return -1;
	snprintf(ret->language, sizeof ret->language, "%s", language_name(language));
	language_free(language);
	return 0;
}

/* One that has an interactive interpreter. */
static int take_repl_language(const char *name, struct session_options *ret, struct error *err)
{
	struct language *language;
	int r;

	if (language_load(name, &language, err) < 0)
		return -1;
	r = language_require_repl(language, err);
	language_free(language);
	return r < 0 ? -1 : take_language(name, ret, err);
}

static int take_storage(const char *value, enum storage_kind *ret, struct error *err)
{
	char buffer[QUOTED_MAX];

	*ret = strcmp(value, "disk") == 0 ? STORAGE_DISK : strcmp(value, "memory") == 0 ? STORAGE_MEMORY : STORAGE_DEFAULT;
	return *ret ? 0 : error_set(err, 0, "--storage: %s is neither disk nor memory", quoted(value, buffer));
}

/* Takes our own options out of argv, wherever they stand before what is nsbox run's. */
static int take_own(int *argc, char **argv, struct session_options *ret, enum storage_kind *ret_storage, struct error *err)
{
	const char *value;
	int kept = 1, r = 0;

	*ret = (struct session_options){
		.idle_ms = SESSION_IDLE_DEFAULT_MS, .life_ms = SESSION_LIFE_DEFAULT_MS};
	for (int i = 1; i < *argc && r == 0; i++) {
		*err = (struct error){0};
		if ((value = own_option(argv, &i, "--idle", "new", err)))
			r = parse_duration_ms("--idle", value, &ret->idle_ms, err);
		else if ((value = own_option(argv, &i, "--life", "new", err)))
			r = parse_duration_ms("--life", value, &ret->life_ms, err);
		else if ((value = own_option(argv, &i, "--lang", "new", err)))
			r = take_language(value, ret, err);
		else if ((value = own_option(argv, &i, "--storage", "new", err)))
			r = take_storage(value, ret_storage, err);
		else if (strcmp(argv[i], "--mcp") == 0)
			ret->shared = true;
		else if (err->text[0])
			r = -1;
		else
			argv[kept++] = argv[i];
	}
	argv[kept] = NULL;
	*argc = kept;
	return r;
}

/* Of the command line: the configuration's is for nsbox run. */
static bool has_timeout(char **words)
{
	for (; *words && strcmp(*words, "--") != 0; words++)
		if (strcmp(*words, "--timeout") == 0 || strncmp(*words, "--timeout=", 10) == 0)
			return true;
	return false;
}

static int refuse_foreign(const struct run_options *options, char **words, struct error *err)
{
	const char *option = options->json           ? "--json"
			     : has_timeout(words)    ? "--timeout"
			     : options->print_spec   ? "--print-spec"
			     : options->tty          ? "--tty"
			     : options->no_tty       ? "--no-tty"
			     : options->spec.explain ? "--explain"
			     : options->entrypoint   ? "--entrypoint"
			     : options->output       ? "--output"
						     : NULL;

	return option ? error_set(err, 0,
				"%s says how a command is run, not what a session is; see nsbox session new --help",
				option)
		      : 0;
}

/* *ret ends with this process, unless it is claimed. */
static int make_session(struct run_options *options, char **words, const struct session_options *own,
	struct session_made *ret, struct error *err)
{
	options->spec.session = true;
	options->session_language = own->language[0] ? own->language : NULL;
	if (options->packages && !options->session_language)
		return error_set(err, 0, "--with: the language is missing, whose packages these are; add --lang NAME");
	if (refuse_foreign(options, words, err) < 0 || run_build_spec(options, err) < 0)
		return -1;
	if (session_create(&options->spec, own, ret, err) < 0)
		return -1;
	/* Without them it ends: nobody knows of it yet. */
	if (options->packages && session_install(ret->id, own->language, options->packages,
					 options->no_config ? NULL : &options->config, err) < 0)
		return -1;
	for (size_t i = 0; i < ret->walls.warnings_count; i++)
		if (i + 1 != ret->walls.limits_warning || options->limits_given)
			fprintf(stderr, "nsbox: warning: %s\n", ret->walls.warnings[i]);
	print_chosen_ports(&options->spec, &ret->walls);
	return 0;
}

static int make_and_say(struct run_options *options, char **words, const struct session_options *own, struct error *err)
{
	struct session_made made;
	int status;

	if (options->operands[1])
		return error_set(
			err, 0, "nsbox session new takes no command: nsbox session exec runs them");
	if (make_session(options, words, own, &made, err) < 0)
		return -1;
	puts(made.id);
	status = cli_finish(0);
	/* Nobody knows of one whose id could not be said: it ends. */
	if (status == 0)
		session_claim(&made);
	return status;
}

static int command_new(int argc, char **argv)
{
	cleanup_free char **words = xcalloc((size_t)argc + 3, sizeof *words);
	struct session_options own;
	enum storage_kind storage = STORAGE_DEFAULT;
	struct run_options options;
	struct error err = {0};
	int r;

	memcpy(words, argv, (size_t)argc * sizeof *words);
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return cli_print_text(new_help);
	if (take_own(&argc, words, &own, &storage, &err) < 0)
		return cli_fail(&err);
	/* What nsbox run is given has a command: its environment and folder are those that commands begin with. */
	words[argc++] = (char *)"true";
	words[argc] = NULL;
	r = run_options_parse(argc, words, &options, &err);
	options.spec.storage = storage;
	if (r == 0)
		r = make_and_say(&options, words, &own, &err);
	run_options_free(&options);
	return r < 0 ? cli_fail(&err) : r;
}

/* --- install --- */

static int install(const char *id, const char *language, char *const *names, struct error *err)
{
	struct config config;
	int r = config_load(NULL, &config, err);

	if (r == 0)
		r = session_install(id, language, names, &config, err);
	config_free(&config);
	return r;
}

static int command_install(int argc, char **argv)
{
	static const struct option longs[] = {
		{"lang", required_argument, NULL, OPTION_LANG}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
	const char *language = NULL;
	struct error err = {0};
	int option;

	while ((option = getopt_long(argc, argv, ":h", longs, NULL)) != -1)
		switch (option) {
		case OPTION_LANG:
			language = optarg;
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(install_help);
		default:
			refuse_option(option, argv, "install", &err);
			return cli_fail(&err);
		}
	if (argc - optind < 2)
		error_set(&err, 0, "nsbox session install takes an id and packages; see nsbox session install --help");
	else if (install(argv[optind], language, argv + optind + 1, &err) == 0)
		return 0;
	return cli_fail(&err);
}

/* --- exec --- */

struct exec_options {
	struct spec spec; /* its one exec */
	bool detach, interactive, json, tty, changes;
	const char *language, *code; /* of a program; NULL: it is a command */
	const char *context;         /* that it runs in; or NULL */
	const char *results;	     /* the folder for what it shows; or NULL */
	const char *id;
	char **words; /* what stands behind the id and its options */
	json_t *program;             /* or NULL */
};

/* Of exec's options a shell has those that say how its command is run. */
static const char *const exec_letters = "+:c:dite:w:h", *const shell_letters = "+:e:w:h";

/* What is said of a command that is started means nothing for one that runs already. */
static int check_context(const struct exec_options *options, struct error *err)
{
	const struct exec_spec *exec = &options->spec.execs[0];
	const char *option = options->detach	    ? "--detach"
			     : options->interactive ? "--interactive"
			     : options->tty	    ? "--tty"
			     : exec->env	    ? "--env"
			     : exec->cwd	    ? "--workdir"
						    : NULL;

	return option ? error_set(err, 0,
				"--context and %s do not go together: the interpreter runs already; have the code itself do it",
				option)
		      : 0;
}

/* As far as they go from argv[1]; optind is what follows. Returns 1 where help is asked for. */
static int take_exec_options(int argc, char **argv, const char *command, struct exec_options *ret, struct error *err)
{
	bool shell = strcmp(command, "shell") == 0;
	static const struct option longs[] = {{"detach", no_argument, NULL, 'd'},
		{"interactive", no_argument, NULL, 'i'}, {"tty", no_argument, NULL, 't'},
		{"env", required_argument, NULL, 'e'}, {"workdir", required_argument, NULL, 'w'},
		{"timeout", required_argument, NULL, OPTION_TIMEOUT},
		{"lang", required_argument, NULL, OPTION_LANG},
		{"code", required_argument, NULL, 'c'},
		{"context", required_argument, NULL, OPTION_CONTEXT},
		{"results", required_argument, NULL, OPTION_RESULTS},
		{"json", no_argument, NULL, OPTION_JSON},
		{"changes", no_argument, NULL, OPTION_CHANGES}, {"help", no_argument, NULL, OPTION_HELP},
		{0}};
	static const struct option shell_longs[] = {{"env", required_argument, NULL, 'e'},
		{"workdir", required_argument, NULL, 'w'}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
	struct exec_spec *exec = &ret->spec.execs[0];
	int option;

	while ((option = getopt_long(argc, argv, shell ? shell_letters : exec_letters, shell ? shell_longs : longs,
			NULL)) != -1)
		switch (option) {
		case 'd':
			ret->detach = true;
			break;
		case 'i':
			ret->interactive = true;
			break;
		case 't':
			ret->tty = true;
			break;
		case 'e': {
			char *equals = strchr(optarg, '=');
			cleanup_free char *name = xmemdup(
				optarg, equals ? (size_t)(equals - optarg) : strlen(optarg));
			const char *value = equals ? equals + 1 : getenv(name);

			if (!*name)
				return error_set(err, 0,
					"--env: NAME=VALUE, or the NAME of one of yours, is needed");
			if (value)
				exec_set_env(exec, name, value);
			break;
		}
		case 'w':
			free(exec->cwd);
			exec->cwd = xstrdup(optarg);
			break;
		case OPTION_TIMEOUT:
			if (parse_duration_ms("--timeout", optarg, &exec->timeout_ms, err) < 0)
				return -1;
			break;
		case OPTION_LANG:
			ret->language = optarg;
			break;
		case 'c':
			ret->code = optarg;
			break;
		case OPTION_CONTEXT:
			ret->context = optarg;
			break;
		case OPTION_RESULTS:
			ret->results = optarg;
			break;
		case OPTION_JSON:
			ret->json = true;
			break;
		case OPTION_CHANGES:
			ret->changes = true;
			break;
		case 'h':
		case OPTION_HELP:
			return 1;
		default:
			return refuse_option(option, argv, command, err);
		}
	return 0;
}

static int check_exec(const struct exec_options *ret, struct error *err)
{
	if (ret->changes && ret->detach)
		return error_set(err, 0,
			"--changes are told at the end of a command, which --detach does not wait for; leave one of them out");
	if (ret->context && check_context(ret, err) < 0)
		return -1;
	if (ret->results && !ret->context)
		return error_set(err, 0,
			"--results saves what code in a context shows; add --context NAME, or copy files with nsbox session cp");
	if (ret->tty && (ret->detach || ret->json))
		return error_set(err, 0, "--tty and %s do not go together: a terminal is for somebody who waits, and sees it",
			ret->detach ? "--detach" : "--json");
	return 0;
}

/*
 * `command`: exec or shell. Options may stand on both sides of the id: what begins with «-» there is no command, unless
 * -- is before it. Returns 1 where help is asked for.
 */
static int parse_exec(int argc, char **argv, const char *command, struct exec_options *ret, struct error *err)
{
	int r = take_exec_options(argc, argv, command, ret, err);

	if (r != 0)
		return r;
	if (optind == argc)
		return error_set(err, 0, "nsbox session %s: in which session? See nsbox session %s --help", command,
			command);
	argc -= optind;
	argv += optind;
	ret->id = argv[0];
	optind = 0; /* anew, from argv[1] */
	r = take_exec_options(argc, argv, command, ret, err);
	if (r < 0 && strncmp(err->text, "unknown option", 14) == 0)
		error_hint(err, "-- goes before a command, or an argument, that begins with -");
	ret->words = argv + optind;
	return r != 0 ? r : check_exec(ret, err);
}

static void print_losses(const json_t *result)
{
	const json_t *warning;
	size_t i;

	json_array_foreach(json_object_get(result, "warnings"), i,
		warning) if (strstr(json_string_value(warning) ?: "", "; what came after is lost"))
		fprintf(stderr, "nsbox: warning: %s\n", json_string_value(warning));
}

/*
 * Limits but the time are those of the session; a fork can have others, of some. NULL: nothing raises it, as what is
 * kept of the output of a command in a session.
 */
static const char *advice_for(const char *option)
{
	static const char *const of_forks[] = {"cpus", "disk", "memory", "pids-limit"};

	if (strncmp(option, "timeout", 7) == 0)
		return "raise it with";
	if (strncmp(option, "output-limit", 12) == 0)
		return NULL;
	for (size_t i = 0; i < sizeof of_forks / sizeof *of_forks; i++)
		if (strncmp(option, of_forks[i], strlen(of_forks[i])) == 0)
			return "make a session, or a fork of this one, with more";
	return "make a session with more";
}

static void print_message(const char *message)
{
	static const char advice[] = "; raise it with --";
	const char *found;

	fputs("nsbox: ", stderr);
	while ((found = strstr(message, advice))) {
		const char *option = found + strlen(advice), *instead = advice_for(option);

		fprintf(stderr, "%.*s", (int)(found - message), message);
		if (instead)
			fprintf(stderr, "; %s --", instead);
		else
			option += strspn(option, "abcdefghijklmnopqrstuvwxyz-");
		message = option;
	}
	fprintf(stderr, "%s\n", message);
}

static void print_sentence(const json_t *result)
{
	const char *message = json_string_value(json_object_get(result, "message"));
	const json_t *error = json_object_get(result, "error");
	const char *text = json_string_value(json_object_get(error, "text"));
	const char *hint = json_string_value(json_object_get(error, "hint"));
	const char *signal = json_string_value(json_object_get(result, "signal")) ?: "";

	/* Somebody's wish, as with nsbox run. */
	if (strcmp(signal, "SIGPIPE") == 0 || strcmp(signal, "SIGINT") == 0)
		return;
	if (text)
		fprintf(stderr, "nsbox: %s\n", text);
	else if (message)
		print_message(message);
	if (text && hint && *hint)
		fprintf(stderr, "nsbox: %s\n", hint);
}

/* One line: what in a name is no UTF-8, or would be obeyed by a terminal, is shown as «?». */
static void print_change(char letter, const json_t *path)
{
	const json_t *encoded = json_object_get(path, "base64");
	const char *text = json_string_value(encoded ?: path) ?: "";
	void *bytes = NULL;
	size_t length;
	struct error shown;

	if (encoded && base64_decode(text, strlen(text), &bytes, &length) == 0)
		text = bytes;
	error_set(&shown, 0, "%s", text);
	fprintf(stderr, "%c %s\n", letter, shown.text);
	free(bytes);
}

static void print_changes(const json_t *changes)
{
	static const struct {
		const char *key;
		char letter;
	} kinds[] = {{"created", 'A'}, {"modified", 'M'}, {"deleted", 'D'}};
	json_int_t omitted = json_integer_value(json_object_get(changes, "omitted"));
	const char *incomplete = json_string_value(json_object_get(changes, "incomplete"));
	const json_t *change;
	size_t i;

	for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
		json_array_foreach(json_object_get(changes, kinds[kind].key), i, change)
			print_change(kinds[kind].letter, json_object_get(change, "path") ?: change);
	if (omitted > 0)
		fprintf(stderr, "nsbox: %lld more changes are not shown\n", (long long)omitted);
	if (incomplete)
		fprintf(stderr, "nsbox: warning: not all changes are known: %s\n", incomplete);
}

static int status_of(const json_t *result)
{
	const json_t *status = json_object_get(result, "status");

	return json_is_integer(status) ? (int)json_integer_value(status) : EXIT_NSBOX_FAILED;
}

static void add_caller_env(struct exec_spec *exec, const char *name)
{
	size_t length = strlen(name);

	for (char **entry = exec->env; entry && *entry; entry++)
		if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
			return;
	if (getenv(name))
		exec_set_env(exec, name, getenv(name));
}

static int run_on_terminal(const char *id, struct exec_options *options, struct error *err)
{
	struct exec_spec *exec = &options->spec.execs[0];
	int fd = session_connect(id, NULL, err), status;
	json_t *request, *result;

	if (fd < 0)
		return -1;
	add_caller_env(exec, "TERM");
	request = json_pack("{s:s, s:o, s:o, s:b}", "op", "exec", "spec", spec_to_json(&options->spec), "terminal",
		session_terminal_size(), "changes", options->changes);
	if (options->program)
		json_object_set(request, "program", options->program);
	result = session_attach(fd, request, err);
	if (!result)
		return -1;
	status = status_of(result);
	print_changes(json_object_get(result, "changes"));
	print_sentence(result);
	json_decref(result);
	return status;
}

/* ret_lost: see session_streams_finish. */
static json_t *ask_with_streams(const char *id, json_t *request, int ret_lost[3], struct error *err)
{
	cleanup_close int fd = session_connect(id, NULL, err);
	struct session_streams streams;
	json_t *result = NULL;
	int r;

	if (fd < 0 || session_streams_open(fd, &streams, err) < 0) {
		json_decref(request);
		return NULL;
	}
	r = session_send(fd, request, streams.fds, 3, err);
	session_streams_sent(&streams);
	if (r == 0)
		result = session_receive(fd, NULL, err);
	session_streams_finish(&streams, ret_lost);
	return result;
}

/* Whether something was. */
static bool print_lost(const int errnums[3])
{
	for (int i = 1; i < 3; i++)
		if (errnums[i])
			fprintf(stderr, "nsbox: warning: writing to standard %s failed: %s; what came after is lost\n",
				i == 1 ? "output" : "error", strerror(errnums[i]));
	return errnums[1] || errnums[2];
}

static int run_exec(const char *id, struct exec_options *options, struct error *err)
{
	/* Somebody who waits has it carried anyway. */
	json_t *request = json_pack("{s:s, s:o, s:b, s:b, s:b}", "op", "exec", "spec", spec_to_json(&options->spec),
		"background", options->detach, "stdin_open", options->detach && options->interactive, "changes",
		options->changes);
	json_t *result;
	int lost[3] = {0}, status;

	if (options->program)
		json_object_set(request, "program", options->program);
	result = options->detach || options->json ? ask(id, request, NULL, err)
						  : ask_with_streams(id, request, lost, err);
	if (!result)
		return -1;
	if (options->detach) {
		printf("%lld\n", (long long)json_integer_value(json_object_get(result, "process")));
		json_decref(result);
		return cli_finish(0);
	}
	status = status_of(result);
	if (options->json)
		return cli_print_json(result) ? EXIT_NSBOX_FAILED : status;
	print_losses(result);
	if (print_lost(lost))
		status = EXIT_NSBOX_FAILED;
	print_changes(json_object_get(result, "changes"));
	print_sentence(result);
	json_decref(result);
	return status;
}

static int print_context_json(json_t *result, int status)
{
	json_dumpf(result, stdout, JSON_INDENT(2)); /* not rounded: values may be numbers */
	putchar('\n');
	json_decref(result);
	return cli_finish(status);
}

/* What it has shown is printed also where it cannot be saved. */
static int finish_in_context(const struct exec_options *options, const struct results *results, json_t *result)
{
	int status = status_of(result);
	struct error err = {0};

	if (options->results && results_save(results, result, &err) < 0)
		status = cli_fail(&err);
	if (options->json)
		return print_context_json(result, status);
	session_context_print(result, options->results);
	print_changes(json_object_get(result, "changes"));
	print_sentence(result);
	session_context_print_note(result);
	json_decref(result);
	return cli_finish(status);
}

/* In an interpreter that is kept. */
static int run_in_context(const char *id, struct exec_options *options, struct error *err)
{
	struct results results = {.fd = -1};
	json_t *request, *result;
	int status;

	if (options->results && results_open(options->results, &results, err) < 0)
		return -1;

	options->spec.execs[0].stdin_kind = STDIN_NULL;
	request = json_pack("{s:s, s:s, s:s, s:O, s:o, s:b}", "op", "context", "action", "run", "context", options->context,
		"code", json_object_get(options->program, "code"), "spec", spec_to_json(&options->spec), "changes",
		options->changes);
	if (options->language)
		json_object_set_new(request, "language", json_string(options->language));
	result = ask(id, request, NULL, err);
	status = result ? finish_in_context(options, &results, result) : -1;
	results_close(&results, !result);
	return status;
}

static void init_exec(struct exec_options *ret)
{
	*ret = (struct exec_options){.detach = false};
	spec_init(&ret->spec);
	ret->spec.execs_count = 1;
	ret->spec.execs[0].stdin_kind = STDIN_INHERIT;
	ret->spec.execs[0].phase = "run";
}

/* The program of --lang and --code; options->words are its arguments then. */
static int take_program(struct exec_options *options, struct error *err)
{
	cleanup_free char *text = NULL;
	size_t length = 0;

	if (!options->language && !options->code && !options->context)
		return 0;
	if (!options->code) {
		bool from_stdin = strcmp(*options->words, "-") == 0;

		if (run_read_code(*options->words, &text, &length, err) < 0)
			return -1;
		if (from_stdin)
			options->spec.execs[0].stdin_kind = STDIN_NULL;
		options->words++;
	}
	options->program = json_pack("{s:o}", "code",
		options->code ? json_string(options->code) : json_stringn(text, length));
	if (!options->program)
		return error_set(err, 0, "the program is not UTF-8");
	if (options->language)
		json_object_set_new(options->program, "language", json_string(options->language));
	return 0;
}

static int exec_in_session(struct exec_options *options, struct error *err)
{
	const char *id = options->id;

	if (!*options->words && !options->code)
		return error_set(err, 0, "nsbox session exec: which %s? See nsbox session exec --help",
			options->language || options->context ? "file" : "command");
	if (take_program(options, err) < 0)
		return -1;
	if (options->context && *options->words)
		return error_set(err, 0, "%s: code in a context takes no arguments", *options->words);
	for (char **word = options->words; *word; word++)
		exec_add_arg(&options->spec.execs[0], *word);
	if (options->context)
		return run_in_context(id, options, err);
	return options->tty ? run_on_terminal(id, options, err) : run_exec(id, options, err);
}

static int command_exec(int argc, char **argv)
{
	struct exec_options options;
	struct error err = {0};
	int status;

	init_exec(&options);
	status = parse_exec(argc, argv, "exec", &options, &err);
	if (status > 0)
		status = cli_print_text(exec_help);
	else if (status == 0)
		status = exec_in_session(&options, &err);
	spec_free(&options.spec);
	json_decref(options.program);
	return status < 0 ? cli_fail(&err) : status;
}

/* --- context --- */

static int list_contexts(const char *id, bool json, struct error *err)
{
	json_t *answer = ask(id, json_pack("{s:s, s:s}", "op", "context", "action", "list"), NULL, err), *contexts;

	if (!answer)
		return -1;
	contexts = json_incref(json_object_get(answer, "contexts"));
	json_decref(answer);
	if (json)
		return cli_print_json(contexts);
	session_context_print_list(contexts);
	json_decref(contexts);
	return cli_finish(0);
}

/* Returns the exit status, or -1. */
static int change_context(const char *id, const char *name, const char *action, struct error *err)
{
	json_t *answer = ask(
		id, json_pack("{s:s, s:s, s:s}", "op", "context", "action", action, "context", name), NULL, err);
	const json_t *obeyed = json_object_get(answer, "obeyed");
	const char *state = json_string_value(json_object_get(answer, "state")) ?: "";
	int status = 0;

	if (!answer)
		return -1;
	if (strcmp(action, "interrupt") == 0 && json_is_false(json_object_get(answer, "interrupted"))) {
		fprintf(stderr, "nsbox: the context \"%s\" runs no code: it is %s\n", name, state);
	} else if (json_is_false(obeyed)) {
		fprintf(stderr, "nsbox: the code goes on: it has not stopped yet; nsbox session context restart ends it with the context\n");
		status = 1;
	} else if (json_is_true(json_object_get(answer, "was_starting"))) {
		fprintf(stderr, "nsbox: the context \"%s\" was starting, and was ended: no code had run in it\n", name);
	}
	json_decref(answer);
	return status;
}

static int command_context(int argc, char **argv)
{
	static const char *const actions[] = {"ls", "interrupt", "restart", "end"};
	static const struct option longs[] = {
		{"json", no_argument, NULL, OPTION_JSON}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
	const char *action = argc > 1 ? argv[1] : "";
	bool json = false, known = false;
	char buffer[QUOTED_MAX];
	struct error err = {0};
	int option, r;

	if (strcmp(action, "--help") == 0 || strcmp(action, "-h") == 0)
		return cli_print_text(context_help);
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
		known |= strcmp(action, actions[i]) == 0;
	if (argc < 2) {
		error_set(&err, 0, "nsbox session context takes ls, interrupt, restart or end; see nsbox session context --help");
		return cli_fail(&err);
	}
	if (!known) {
		error_set(&err, 0, "nsbox session context: %s is none of ls, interrupt, restart and end; see nsbox session context --help",
			quoted(action, buffer));
		return cli_fail(&err);
	}
	argc--;
	argv++;
	while ((option = getopt_long(argc, argv, ":h", longs, NULL)) != -1)
		switch (option) {
		case OPTION_JSON:
			json = true;
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(context_help);
		default:
			refuse_option(option, argv, "context", &err);
			return cli_fail(&err);
		}
	if (argc - optind != (strcmp(action, "ls") == 0 ? 1 : 2))
		r = error_set(&err, 0, "nsbox session context %s takes an id%s; see nsbox session context --help", action,
			strcmp(action, "ls") == 0 ? "" : " and the name of a context");
	else if (strcmp(action, "ls") == 0)
		r = list_contexts(argv[optind], json, &err);
	else
		r = change_context(argv[optind], argv[optind + 1], action, &err);
	return r < 0 ? cli_fail(&err) : r;
}

/* --- shell --- */

/*
 * Which shells there are is known inside only. «/» is where an image's commands start that says nothing else: no place
 * to work in.
 */
static void add_shell(struct exec_spec *exec)
{
	exec_add_arg(exec, "sh");
	exec_add_arg(exec, "-c");
	exec_add_arg(exec, exec->cwd ? "command -v bash >/dev/null && exec bash; exec sh"
				     : "[ \"$PWD\" != / ] || cd /workspace; command -v bash >/dev/null && exec bash; exec sh");
}

static int command_shell(int argc, char **argv)
{
	struct exec_options options;
	struct error err = {0};
	int status;

	init_exec(&options);
	status = parse_exec(argc, argv, "shell", &options, &err);
	if (status == 0) {
		if (!*options.words)
			add_shell(&options.spec.execs[0]);
		for (char **word = options.words; *word; word++)
			exec_add_arg(&options.spec.execs[0], *word);
		status = run_on_terminal(options.id, &options, &err);
	} else if (status > 0) {
		status = cli_print_text(shell_help);
	}
	spec_free(&options.spec);
	return status < 0 ? cli_fail(&err) : status;
}

/* --- repl --- */

struct repl_options {
	const char *session; /* NULL: a new one */
	bool keep;
};

/* Takes its own options out of argv, and puts a language that stands first behind the others. */
static int take_repl(int *argc, char **argv, struct repl_options *ret, struct error *err)
{
	char *language = *argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
	int kept = 1;

	*ret = (struct repl_options){.session = NULL};
	for (int i = language ? 2 : 1; i < *argc; i++) {
		const char *value = own_option(argv, &i, "--session", "repl", err);

		if (value)
			ret->session = value;
		else if (err->text[0])
			return -1;
		else if (strcmp(argv[i], "--keep") == 0)
			ret->keep = true;
		else
			argv[kept++] = argv[i];
	}
	if (language)
		argv[kept++] = language;
	argv[kept] = NULL;
	*argc = kept;
	if (ret->session && kept != 2)
		return error_set(err, 0,
			kept < 2 ? "nsbox session repl: of which language? See nsbox session repl --help"
				 : "--session: that session is made already: the other options are for a new one");
	return 0;
}

static int run_repl(const char *id, const char *language, struct error *err)
{
	struct exec_options options;
	int status;

	init_exec(&options);
	options.program = json_pack("{s:s}", "repl", language);
	status = run_on_terminal(id, &options, err);
	json_decref(options.program);
	spec_free(&options.spec);
	return status;
}

/* In a session that ends with this process, if it does not so before. */
static int run_repl_anew(struct run_options *options, char **words, struct session_options *own, bool keep,
	struct error *err)
{
	struct session_made made;
	struct error unimportant = {0};
	int status;

	if (!options->operands[1])
		return error_set(err, 0, "nsbox session repl: of which language? See nsbox session repl --help");
	if (options->operands[2])
		return error_set(err, 0, "nsbox session repl takes one language; see nsbox session repl --help");
	if (own->language[0])
		return error_set(err, 0, "--lang: nsbox session repl has its language already");
	if (take_repl_language(options->operands[0], own, err) < 0 || make_session(options, words, own, &made, err) < 0)
		return -1;
	if (keep) {
		fprintf(stderr, "nsbox: session %s\n", made.id);
		session_claim(&made);
	}
	status = run_repl(made.id, own->language, err);
	if (!keep)
		json_decref(ask(made.id, json_pack("{s:s}", "op", "stop"), NULL, &unimportant));
	return status;
}

static int command_repl(int argc, char **argv)
{
	cleanup_free char **words = xcalloc((size_t)argc + 3, sizeof *words);
	struct session_options own;
	struct repl_options repl;
	enum storage_kind storage = STORAGE_DEFAULT;
	struct run_options options;
	struct error err = {0};
	int status;

	memcpy(words, argv, (size_t)argc * sizeof *words);
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return cli_print_text(repl_help);
	if (take_repl(&argc, words, &repl, &err) < 0)
		return cli_fail(&err);
	if (!isatty(STDIN_FILENO)) {
		error_set(&err, 0, "nsbox session repl is for a terminal, and standard input is none");
		error_hint(&err, "nsbox session exec --lang LANGUAGE ID - runs what comes from there");
		return cli_fail(&err);
	}
	if (repl.session) {
		status = take_repl_language(words[1], &own, &err) < 0 ? -1 : run_repl(repl.session, own.language, &err);
		return status < 0 ? cli_fail(&err) : status;
	}
	if (take_own(&argc, words, &own, &storage, &err) < 0)
		return cli_fail(&err);
	/* As command_new has it; the language, where there is one, is the operand before. */
	words[argc++] = (char *)"true";
	words[argc] = NULL;
	status = run_options_parse(argc, words, &options, &err);
	options.spec.storage = storage;
	if (status == 0)
		status = run_repl_anew(&options, words, &own, repl.keep, &err);
	run_options_free(&options);
	return status < 0 ? cli_fail(&err) : status;
}

/* --- ls, ps --- */

struct listing {
	bool quiet;
	json_t *list; /* --json */
	bool any, failed;
};

/* Says it where one does not. */
static bool takes_connections(const char *id, int socket)
{
	struct error err;

	if (socket >= 0)
		return true;
	error_set(&err, 0, "%s: it takes no connections: more than it can take are waiting", id);
	cli_fail(&err);
	return false;
}

/* «8080->80», the host's first, with commas between. */
static const char *ports_text(const json_t *published, char *ret, size_t size)
{
	const json_t *one;
	size_t i, used = 0;

	*ret = '\0';
	json_array_foreach((json_t *)published, i, one)
	{
		used += (size_t)snprintf(ret + used, size - used, "%s%d->%d", i ? "," : "",
			(int)json_integer_value(json_object_get(one, "host_port")),
			(int)json_integer_value(json_object_get(one, "port")));
		if (used >= size)
			break;
	}
	return ret;
}

static void list_one(void *data, const char *id, int socket)
{
	struct listing *listing = data;
	struct error err = {0};
	char ports[256], idle[32];
	const char *language;
	json_t *info;

	if (!takes_connections(id, socket)) {
		listing->failed = true;
		return;
	}
	session_set_deadline(socket, LIST_DEADLINE_S, &err);
	info = session_request(socket, json_pack("{s:s}", "op", "info"), NULL, &err);
	if (!info) {
		/* Others have ended meanwhile. */
		if (err.errnum == ETIMEDOUT) {
			error_context(&err, "%s", id);
			cli_fail(&err);
			listing->failed = true;
		}
		return;
	}
	if (listing->list) {
		json_array_append_new(listing->list, info);
		return;
	}
	language = json_string_value(json_object_get(info, "language")) ?: "";
	if (listing->quiet)
		puts(id);
	else {
		if (!listing->any)
			printf("%-32s  %-9s %-10s  %8s %8s  %9s  %-12s  %s\n", "ID", "ROOT", "LANGUAGE", "AGE",
				"IDLE", "PROCESSES", "PORTS", "IMAGE OR DIRECTORY");
		if (json_is_true(json_object_get(info, "paused")))
			strcpy(idle, "paused");
		else
			snprintf(idle, sizeof idle, "%.0fs", json_number_value(json_object_get(info, "idle_s")));
		printf("%-32s  %-9s %-10s  %7.0fs %8s  %9zu  %-12s  %s\n", id,
			json_string_value(json_object_get(info, "root")), *language ? language : "-",
			json_number_value(json_object_get(info, "age_s")), idle,
			json_array_size(json_object_get(info, "processes")),
			ports_text(json_object_get(info, "published"), ports, sizeof ports),
			json_string_value(json_object_get(info, "root_path")) ?: "");
	}
	listing->any = true;
	json_decref(info);
}

static int command_ls(int argc, char **argv)
{
	static const struct option longs[] = {{"quiet", no_argument, NULL, 'q'},
		{"json", no_argument, NULL, OPTION_JSON}, {"help", no_argument, NULL, OPTION_HELP},
		{0}};
	struct listing listing = {.quiet = false};
	struct error err = {0};
	int option, status;

	while ((option = getopt_long(argc, argv, ":qh", longs, NULL)) != -1)
		switch (option) {
		case 'q':
			listing.quiet = true;
			break;
		case OPTION_JSON:
			listing.list = listing.list ?: json_array();
			break;
		case 'h':
		case OPTION_HELP:
			json_decref(listing.list);
			return cli_print_text(ls_help);
		default:
			refuse_option(option, argv, "ls", &err);
			return cli_fail(&err);
		}
	if (optind < argc) {
		error_set(&err, 0,
			"nsbox session ls takes no arguments; see nsbox session ls --help");
		return cli_fail(&err);
	}
	if (session_list(list_one, &listing, &err) < 0) {
		json_decref(listing.list);
		return cli_fail(&err);
	}
	status = listing.failed ? EXIT_NSBOX_FAILED : 0;
	return listing.list ? cli_print_json(listing.list) ?: status : cli_finish(status);
}

static void print_process(const json_t *process)
{
	const json_t *words = json_object_get(process, "command"), *word;
	size_t i;

	const json_t *status = json_object_get(process, "status");
	char state[32];

	snprintf(state, sizeof state, "%s",
		json_is_true(json_object_get(process, "paused"))       ? "paused"
		: json_object_get(process, "context")		       ? "context"
		: json_is_true(json_object_get(process, "background")) ? "background"
								       : "running");
	if (json_is_integer(status))
		snprintf(
			state, sizeof state, "ended (%lld)", (long long)json_integer_value(status));
	printf("%7lld  %-11s  %7.0fs ",
		(long long)json_integer_value(json_object_get(process, "process")), state,
		json_number_value(json_object_get(process, "age_s")));
	json_array_foreach(words, i, word)
	{
		char buffer[QUOTED_MAX];
		const char *text = json_string_value(word);

		/* As it was given, where that cannot be taken for something else. */
		printf(" %s",
			*text && !text[strspn(text,
					 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-")]
				? text
				: quoted(text, buffer));
	}
	putchar('\n');
}

static int command_ps(int argc, char **argv)
{
	static const struct option longs[] = {{"json", no_argument, NULL, OPTION_JSON},
		{"help", no_argument, NULL, OPTION_HELP}, {0}};
	struct error err = {0};
	bool json = false;
	json_t *info, *process;
	size_t i;
	int option;

	while ((option = getopt_long(argc, argv, ":h", longs, NULL)) != -1)
		switch (option) {
		case OPTION_JSON:
			json = true;
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(ps_help);
		default:
			refuse_option(option, argv, "ps", &err);
			return cli_fail(&err);
		}
	if (argc - optind != 1) {
		error_set(&err, 0, "nsbox session ps takes one id; see nsbox session ps --help");
		return cli_fail(&err);
	}
	info = ask(argv[optind], json_pack("{s:s}", "op", "info"), NULL, &err);
	if (!info)
		return cli_fail(&err);
	if (json) {
		json_t *processes = json_incref(json_object_get(info, "processes"));

		json_decref(info);
		return cli_print_json(processes);
	}
	if (json_array_size(json_object_get(info, "processes")) > 0)
		printf("%7s  %-11s  %8s  %s\n", "PROCESS", "STATE", "AGE", "COMMAND");
	json_array_foreach(json_object_get(info, "processes"), i, process) print_process(process);
	json_decref(info);
	return cli_finish(0);
}

/* --- logs, kill --- */

/* One piece; *ret_result is set once it has ended and all was shown. */
static int show_piece(const char *id, json_int_t process, json_int_t *offset, bool wait,
	json_t **ret_result, struct error *err)
{
	json_t *piece = ask(id,
		json_pack("{s:s, s:I, s:I, s:i}", "op", "output", "process", process, "offset",
			*offset, "wait_ms", wait ? LOGS_WAIT_MS : 0),
		NULL, err);
	const char *encoded = json_string_value(json_object_get(piece, "output"));
	json_int_t first;
	void *bytes = NULL;
	size_t length = 0;
	int r = 0;

	if (!piece)
		return -1;
	first = json_integer_value(json_object_get(piece, "offset"));
	if (first > *offset)
		fprintf(stderr, "nsbox: warning: %lld bytes that were written before are not kept any more\n",
			(long long)(first - *offset));
	if (!encoded || base64_decode(encoded, strlen(encoded), &bytes, &length) < 0)
		r = error_set(err, 0, "the session's answer makes no sense");
	else if (write_whole(STDOUT_FILENO, bytes, length) < 0)
		r = error_set(err, errno, "writing to standard output");
	free(bytes);
	*offset = first + (json_int_t)length;
	if (r == 0 && length == 0 && json_is_true(json_object_get(piece, "ended")))
		*ret_result = json_incref(json_object_get(piece, "result"));
	json_decref(piece);
	return r < 0 ? -1 : length > 0;
}

static int command_logs(int argc, char **argv)
{
	static const struct option longs[] = {
		{"follow", no_argument, NULL, 'f'}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
	json_int_t process, offset = 0;
	json_t *result = NULL;
	struct error err = {0};
	bool follow = false;
	int option, r, status;

	while ((option = getopt_long(argc, argv, ":fh", longs, NULL)) != -1)
		switch (option) {
		case 'f':
			follow = true;
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(logs_help);
		default:
			refuse_option(option, argv, "logs", &err);
			return cli_fail(&err);
		}
	if (argc - optind != 2)
		r = error_set(&err, 0,
			"nsbox session logs takes an id and the number of a process; see nsbox session logs --help");
	else
		r = parse_process(argv[optind + 1], &process, &err);
	if (r < 0)
		return cli_fail(&err);
	do
		r = show_piece(argv[optind], process, &offset, follow, &result, &err);
	while (r > 0 || (r == 0 && follow && !result));
	status = follow && result ? status_of(result) : 0;
	if (follow && result)
		print_sentence(result);
	json_decref(result);
	return r < 0 ? cli_fail(&err) : status;
}

static int command_kill(int argc, char **argv)
{
	static const struct option longs[] = {{"signal", required_argument, NULL, 's'},
		{"help", no_argument, NULL, OPTION_HELP}, {0}};
	uint32_t number = SIGKILL;
	int option, r = 0;
	struct error err = {0};
	json_int_t process;
	json_t *answer = NULL;

	while ((option = getopt_long(argc, argv, ":s:h", longs, NULL)) != -1)
		switch (option) {
		case 's':
			if (parse_signal("--signal", optarg, &number, &err) < 0)
				return cli_fail(&err);
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(kill_help);
		default:
			refuse_option(option, argv, "kill", &err);
			return cli_fail(&err);
		}
	if (argc - optind != 2)
		r = error_set(&err, 0,
			"nsbox session kill takes an id and the number of a process; see nsbox session kill --help");
	else
		r = parse_process(argv[optind + 1], &process, &err);
	if (r == 0)
		answer = ask(argv[optind],
			json_pack("{s:s, s:I, s:i}", "op", "signal", "process", process, "signal",
				(int)number),
			NULL, &err);
	if (!answer)
		return cli_fail(&err);
	json_decref(answer);
	return 0;
}

/* --- input --- */

/* Returns how much the command has still to read, or -1. */
static json_int_t write_input(const char *id, json_int_t process, const void *data, size_t length, bool close,
	struct error *err)
{
	cleanup_free char *encoded = base64_encode(data, length);
	json_t *answer = ask(id,
		json_pack("{s:s, s:I, s:s, s:b}", "op", "input", "process", process, "data", encoded, "close", close),
		NULL, err);
	json_int_t pending = answer ? json_integer_value(json_object_get(answer, "pending")) : -1;

	json_decref(answer);
	return pending;
}

/* As it comes, and not faster than the command reads it. */
static int carry_input(const char *id, json_int_t process, struct error *err)
{
	char piece[INPUT_PIECE];
	json_int_t pending = 0;
	ssize_t n;

	while (pending >= 0 && (n = read(STDIN_FILENO, piece, sizeof piece)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, errno, "reading standard input");
		pending = write_input(id, process, piece, (size_t)n, false, err);
		while (pending > INPUT_PENDING_MAX) {
			usleep(INPUT_PAUSE_MS * 1000);
			pending = write_input(id, process, "", 0, false, err);
		}
	}
	return pending < 0 ? -1 : 0;
}

struct input_options {
	bool close, no_newline;
};

static int give_input(const char *id, json_int_t process, const char *text, const struct input_options *options,
	struct error *err)
{
	cleanup_free char *line = NULL;

	if (text && strcmp(text, "-") == 0) {
		if (carry_input(id, process, err) < 0)
			return -1;
		return options->close && write_input(id, process, "", 0, true, err) < 0 ? -1 : 0;
	}
	line = xasprintf("%s%s", text ?: "", text && !options->no_newline ? "\n" : "");
	return write_input(id, process, line, strlen(line), options->close, err) < 0 ? -1 : 0;
}

static int command_input(int argc, char **argv)
{
	static const struct option longs[] = {{"no-newline", no_argument, NULL, 'n'},
		{"close", no_argument, NULL, OPTION_CLOSE}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
	struct input_options options = {.close = false};
	struct error err = {0};
	json_int_t process;
	int option, r;

	while ((option = getopt_long(argc, argv, ":nh", longs, NULL)) != -1)
		switch (option) {
		case 'n':
			options.no_newline = true;
			break;
		case OPTION_CLOSE:
			options.close = true;
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(input_help);
		default:
			refuse_option(option, argv, "input", &err);
			return cli_fail(&err);
		}
	if (argc - optind != 3 && (argc - optind != 2 || !options.close))
		r = error_set(&err, 0,
			"nsbox session input takes an id, the number of a process, and a text or --close; see nsbox session input --help");
	else
		r = parse_process(argv[optind + 1], &process, &err);
	if (r == 0)
		r = give_input(argv[optind], process, argv[optind + 2], &options, &err);
	return r < 0 ? cli_fail(&err) : 0;
}

/* --- cp --- */

static int command_cp(int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, OPTION_HELP}, {0}};
	int option = getopt_long(argc, argv, ":h", longs, NULL), r;
	struct error err = {0};

	if (option == 'h' || option == OPTION_HELP)
		return cli_print_text(cp_help);
	if (option != -1)
		r = refuse_option(option, argv, "cp", &err);
	else if (argc - optind != 2)
		r = error_set(
			&err, 0, "nsbox session cp takes two places; see nsbox session cp --help");
	else if ((r = session_copy(argv[optind], argv[optind + 1], &err)) < 0)
		error_context(&err, "copying %s to %s", argv[optind], argv[optind + 1]);
	return r < 0 ? cli_fail(&err) : 0;
}

/* --- pause, resume --- */

/* One after the other; what one cannot does not keep the next from it. */
static int ask_each(int argc, char **argv, const char *command, const char *help_text)
{
	static const struct option longs[] = {{"help", no_argument, NULL, OPTION_HELP}, {0}};
	bool pause = strcmp(command, "pause") == 0;
	struct error err = {0};
	int option, status = 0;

	while ((option = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
		if (option == 'h' || option == OPTION_HELP)
			return cli_print_text(help_text);
		refuse_option(option, argv, command, &err);
		return cli_fail(&err);
	}
	if (optind == argc) {
		error_set(&err, 0, "nsbox session %s: which session? See nsbox session %s --help", command, command);
		return cli_fail(&err);
	}
	for (int i = optind; i < argc; i++) {
		json_t *answer;

		err = (struct error){0};
		answer = ask(argv[i], json_pack("{s:s}", "op", command), NULL, &err);
		if (!answer)
			status = cli_fail(&err);
		else if (json_is_true(json_object_get(answer, "already")))
			fprintf(stderr, "nsbox: %s %s\n", argv[i], pause ? "is paused already" : "is not paused");
		json_decref(answer);
	}
	return status;
}

static int command_pause(int argc, char **argv)
{
	return ask_each(argc, argv, "pause", pause_help);
}

static int command_resume(int argc, char **argv)
{
	return ask_each(argc, argv, "resume", resume_help);
}

/* --- stop --- */

/* Those that have been told to end, and are waited for together. */
struct stopping {
	int sockets[STOPPING_MAX];
	char ids[STOPPING_MAX][SESSION_ID_SIZE];
	size_t count;
	bool failed;
};

static void wait_for_stopped(struct stopping *stopping)
{
	for (size_t i = 0; i < stopping->count; i++) {
		struct error err = {0};

		/* One that ended meanwhile is stopped. */
		json_decref(session_receive(stopping->sockets[i], NULL, &err));
		if (err.errnum == ETIMEDOUT) {
			error_context(&err, "%s", stopping->ids[i]);
			cli_fail(&err);
			stopping->failed = true;
		}
		close(stopping->sockets[i]);
	}
	stopping->count = 0;
}

static void begin_stopping(void *data, const char *id, int socket)
{
	struct stopping *stopping = data;
	struct error unimportant;

	if (!takes_connections(id, socket)) {
		stopping->failed = true;
		return;
	}
	session_set_deadline(socket, STOP_DEADLINE_S, &unimportant);
	session_send(socket, json_pack("{s:s}", "op", "stop"), NULL, 0, &unimportant);
	snprintf(stopping->ids[stopping->count], SESSION_ID_SIZE, "%s", id);
	stopping->sockets[stopping->count++] = socket;
	if (stopping->count == STOPPING_MAX)
		wait_for_stopped(stopping);
}

static int command_stop(int argc, char **argv)
{
	static const struct option longs[] = {{"all", no_argument, NULL, OPTION_ALL},
		{"help", no_argument, NULL, OPTION_HELP}, {0}};
	struct stopping stopping = {.count = 0};
	struct error err = {0};
	bool all = false;
	int option, r = 0;

	while ((option = getopt_long(argc, argv, ":h", longs, NULL)) != -1)
		switch (option) {
		case OPTION_ALL:
			all = true;
			break;
		case 'h':
		case OPTION_HELP:
			return cli_print_text(stop_help);
		default:
			refuse_option(option, argv, "stop", &err);
			return cli_fail(&err);
		}
	if (all != (optind == argc))
		r = error_set(&err, 0,
			"nsbox session stop takes ids, or --all; see nsbox session stop --help");
	if (r == 0 && all)
		r = session_list(begin_stopping, &stopping, &err);
	for (int i = optind; !all && i < argc; i++) {
		int fd = session_connect(argv[i], NULL, &err);

		/* Who is there is stopped, whoever else is not. */
		if (fd < 0)
			error_print(&err);
		else
			begin_stopping(&stopping, argv[i], fd);
		stopping.failed |= fd < 0;
	}
	wait_for_stopped(&stopping);
	if (r < 0)
		return cli_fail(&err);
	return stopping.failed ? EXIT_NSBOX_FAILED : 0;
}

/* --- all of them --- */

static const struct {
	const char *name;
	int (*function)(int argc, char **argv);
} commands[] = {
	{"new", command_new},
	{"install", command_install},
	{"exec", command_exec},
	{"context", command_context},
	{"shell", command_shell},
	{"repl", command_repl},
	{"ls", command_ls},
	{"ps", command_ps},
	{"logs", command_logs},
	{"input", command_input},
	{"kill", command_kill},
	{"cp", command_cp},
	{"pause", command_pause},
	{"resume", command_resume},
	{"snapshot", command_snapshot},
	{"snapshots", command_snapshots},
	{"fork", command_fork},
	{"restore", command_restore},
	{"commit", command_commit},
	{"stop", command_stop},
};

enum { COMMANDS_COUNT = sizeof commands / sizeof *commands };

int cmd_session(int argc, char **argv)
{
	char buffer[QUOTED_MAX];

	opterr = 0;
	if (argc < 2) {
		fprintf(stderr, "nsbox: no command given; see nsbox session --help\n");
		return EXIT_NSBOX_FAILED;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cli_print_text(help);
	for (int i = 0; i < COMMANDS_COUNT; i++)
		if (strcmp(commands[i].name, argv[1]) == 0)
			return commands[i].function(argc - 1, argv + 1);
	fprintf(stderr, "nsbox: there is no command %s of nsbox session; there are: ",
		quoted(argv[1], buffer));
	for (int i = 0; i < COMMANDS_COUNT; i++)
		fprintf(stderr, "%s%s", i ? ", " : "", commands[i].name);
	fprintf(stderr, "; see nsbox session --help\n");
	return EXIT_NSBOX_FAILED;
}
