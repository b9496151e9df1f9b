/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_RUN_OPTIONS_H
#define NSBOX_CLI_RUN_OPTIONS_H

/*
 * The options of `nsbox run`: one table, from which the parser and --help are made (the manual page is
 * compared with it by a test).
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/config.h"
#include "packages/packages.h"
#include "sandbox/spec.h"

struct error;

struct run_options {
	struct spec spec; /* what options and configuration decide; its execs are not made yet */
	struct config config;	 /* for the environment of the execs */
	const char *config_file; /* of argv */
	bool no_config;
	bool help;
	bool json;
	bool print_spec;
	bool tty, no_tty;
	bool timeout_given;
	uint64_t timeout_ms;
	bool output_limit_given;
	bool limits_given;	   /* a limit was given that is weaker where there is no cgroup */
	const char *language;	   /* of argv, as are the next two */
	const char *session_language; /* of a session's code; or NULL */
	const char *code;	   /* -c */
	char **system_packages; /* --with apt:…, without what they begin with; as `packages` */
	char **packages; /* --with; owned, NULL-terminated; NULL: none */
	struct packages_report install; /* of these, where they had to be installed */
	char **operands;	   /* what follows the options, NULL-terminated */
	char *workdir;		   /* owned */
	char *workspace;	   /* owned, absolute and without links; NULL: the sandbox's own */
	const char *output;	   /* of argv: what is left there is copied to this directory; NULL: nowhere */
	const char *image;	   /* of argv; NULL: none is named */
	bool no_image;		   /* --image none: whatever the configuration says */
	enum image_policy image_policy; /* of --lang */
	enum { PULL_MISSING, PULL_ALWAYS, PULL_NEVER } pull;
	const char *entrypoint; /* of argv; empty: none, whatever the image says */
	bool user_given, pull_given;
	struct exec_spec file_env; /* only its env: of --env-file */
	struct exec_spec env;	   /* only its env: of --env, which goes on top */
};

/*
 * Parses argv (argv[0] is «run»). *ret is always initialized, also on failure, and is freed with
 * run_options_free; on failure ret->json says whether --json had been seen. Options that contradict
 * each other are refused. Reads the configuration, which the options go over, and the file of --env-file,
 * looks up the caller's variables for --env NAME, and makes paths of the host absolute; nothing else is read.
 */
int run_options_parse(int argc, char **argv, struct run_options *ret, struct error *err);

/*
 * What depends on how nsbox is called: `terminal` says whether standard input and output are one. Sets
 * the spec's tty and returns the time limit of the command in ms (0: none).
 */
uint64_t run_options_settle(struct run_options *options, bool terminal);

void run_options_free(struct run_options *options);

void run_options_print_help(FILE *file);

#endif
