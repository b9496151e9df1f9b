/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_CLI_IMAGE_ROOT_H
#define NSBOX_CLI_IMAGE_ROOT_H

#include <stdint.h>

struct error;
struct language;
struct run_options;

/*
 * --image: the image's layers, user, home, environment and command into options->spec, where no option says otherwise.
 * Fetches the image where that is wanted. The layers stay locked, against removal, as long as the process lives.
 * `timeout_ms` is the command's.
 */
int image_root_prepare(struct run_options *options, uint64_t timeout_ms, struct error *err);

/*
 * --lang: the root that the language's code runs in, by --image, --pull and the configuration, into options->spec. Of an
 * image only that: its command is not the language's. Fetches and locks as above.
 */
int image_root_for_language(const struct language *language, struct run_options *options, struct error *err);

#endif
