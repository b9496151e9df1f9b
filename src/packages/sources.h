/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_PACKAGES_SOURCES_H
#define NSBOX_PACKAGES_SOURCES_H

/*
 * Where apt of a root fetches packages from: its /etc/apt/sources.list and the files *.list and *.sources of
 * /etc/apt/sources.list.d, in both formats of sources.list(5), and what these name as «mirror+file:» (apt-transport-mirror(1)).
 * What else can be configured is passed over. The root is a stranger's: it is read as image/layers.h does.
 */

#include <stdbool.h>

struct error;

/*
 * The hosts of the sources of a root whose layers are `layers` (image/layers.h), as rules of the network gate with commas
 * between (gate/policy.h), each with its port; malloc'd, and empty where there are none that are reached by http or https.
 *
 * Without `private` an address of the host's own network is left out, and so is the name of its loopback interface: whoever
 * made an image must not choose what of it can be reached. *ret_left_out (malloc'd) is the rule of the first such, else NULL.
 */
char *sources_rules(char *const *layers, bool private, char **ret_left_out);

#endif
