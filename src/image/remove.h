/* SPDX-License-Identifier: MIT */
#ifndef NSBOX_IMAGE_REMOVE_H
#define NSBOX_IMAGE_REMOVE_H

struct error;

/*
 * Removes `name` in the directory `dir` and all below it, without following links. Directories that their modes close
 * are opened up first. What is gone already is no error.
 */
int remove_tree(int dir, const char *name, struct error *err);

#endif
