/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_RUN_PACKAGES_H
#define NSBOX_CLI_RUN_PACKAGES_H

struct error;
struct language;
struct run_options;

/*
 * Has options->system_packages installed in the root that options->spec has by now, where they are not there yet, and
 * lays them over it. As run_packages_prepare, and before it.
 */
int run_packages_prepare_system(struct run_options *options, struct error *err);

/* --with: adds the packages that `argument` names, with commas between, to the options. */
int run_packages_parse(struct run_options *options, const char *what, const char *argument, struct error *err);

/*
 * Has options->packages installed for code in `language`, in the root that options->spec has by now, where they are not
 * there yet, and adds them to the spec. Says on standard error what it does where that takes long, and, but for --json,
 * what the manager wrote where it failed; options->install has it. The layer stays locked, against removal, as long as
 * the process lives. A signal that ends programs ends the install, and then this process.
 */
int run_packages_prepare(struct run_options *options, const struct language *language, struct error *err);

#endif
