/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_PACKAGES_SESSION_H
#define NSBOX_PACKAGES_SESSION_H

/*
 * Packages that are installed for a session while it lives.
 *
 * The session has a folder on the host for them (image/storage.h), which its sandbox sees read-only at
 * /opt/nsbox/packages: for every language that has packages there is a directory in it from the beginning, so that what
 * an install puts there is seen by what runs already. It is done by a process of whoever wants it, one at a time: the
 * session's supervisor goes on meanwhile.
 *
 * The first packages of a language come from a layer of the store (packages.h), which is made where it is not there yet: its
 * tree is copied (take.h). All further ones are installed over these, in a sandbox of their own, which can write the one
 * directory; so are the first where no store can be written to, or the layer is none that can be copied. The network of an
 * install is no concern of the session, whose code has none by it.
 *
 *     FOLDER/             at /opt/nsbox/packages
 *     FOLDER/python/      of that language
 *     FOLDER/.python      there once an install has succeeded: the language's commands are those of its packages from then on
 *     FOLDER/../lock      locked, exclusively, by an install
 *     FOLDER/../work/     of an install
 *
 * When an install fails over what is there, that is no longer what it was, unlike layers: it is as the manager leaves it. All
 * of it goes with the session.
 */

#include "packages/packages.h"

struct storage;

/* Makes the directories in the folder of a new session, and adds the mounts to *spec. */
int session_packages_add(const struct storage *storage, struct spec *spec, struct error *err);

/*
 * Installs `names` of the language in the session with that `folder`, whose root *spec has: both as the session's
 * answer to the request "packages" has them. As packages_install otherwise: nothing ran where the store had them. The
 * install ends, too, when the session does.
 */
int packages_install_into(const char *folder, const struct language *language, const struct spec *spec,
	char *const *names, const struct packages_options *options, const struct run_control *control,
	struct packages_report *ret, struct error *err);

#endif
