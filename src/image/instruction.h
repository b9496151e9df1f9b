/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_INSTRUCTION_H
#define NSBOX_IMAGE_INSTRUCTION_H

/*
 * Instructions of a Dockerfile that change how an image is run, as `docker commit --change` takes them:
 *
 *     CMD ["WORD", …] | COMMAND        ENTRYPOINT ["WORD", …] | COMMAND        (a command is for /bin/sh -c)
 *     ENV NAME=VALUE …                 LABEL KEY=VALUE …
 *     EXPOSE PORT[/tcp|udp|sctp] …     USER USER[:GROUP]
 *     VOLUME ["PATH", …] | PATH …      WORKDIR PATH
 *
 * Values are quoted as in a Dockerfile. Variables are not replaced: a dollar sign that is to be one is quoted. Other
 * than there a list that is no JSON is refused, and not taken for a command.
 */

#include <jansson.h>
#include <stdbool.h>

struct error;

/* What was said by those before; {0} for the first one. */
struct instructions {
	bool command; /* a CMD, which an ENTRYPOINT does not take away then */
};

/* Does what `text` says to the object «config» of an image's configuration (image-spec, config.md). */
int instruction_apply(const char *text, struct instructions *before, json_t *config, struct error *err);

/* Whether it could be done. */
int instruction_check(const char *text, struct error *err);

#endif
