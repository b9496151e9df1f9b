/* SPDX-License-Identifier: MIT */
/* The host's certificate authorities inside: see authorities.h. */
#define _GNU_SOURCE
#include "sandbox/authorities.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/create.h"
#include "sandbox/spec.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { BUNDLE_MAX = 8 << 20 /* bytes; some hundred authorities are 200 KiB */ };

/*
 * OpenSSL and what is made with it, Go, Ruby, Rust's; requests of Python; curl; node; git; pip; cargo. Of each place a line
 * for each, as the strings are literals.
 */
#define VARIABLES(path)                                                                            \
	{                                                                                          \
		"SSL_CERT_FILE=" path, "REQUESTS_CA_BUNDLE=" path, "CURL_CA_BUNDLE=" path,         \
			"NODE_EXTRA_CA_CERTS=" path, "GIT_SSL_CAINFO=" path, "PIP_CERT=" path,     \
			"CARGO_HTTP_CAINFO=" path                                                  \
	}

enum { VARIABLES_COUNT = 7 };

static const struct place {
	const char *path;
	const char *variables[VARIABLES_COUNT];
} places[] = {
#define PLACE(path)                                                                                \
	{                                                                                          \
		path, VARIABLES(path)                                                              \
	}
	PLACE(AUTHORITIES_PATH),
	PLACE("/etc/ssl/certs/ca-certificates.crt"), /* Debian, Arch, Alpine, Gentoo, NixOS */
	PLACE("/etc/pki/tls/certs/ca-bundle.crt"),   /* Fedora, RHEL */
	PLACE("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"), /* newer of these */
	PLACE("/var/lib/ca-certificates/ca-bundle.pem"),            /* openSUSE */
	PLACE("/etc/ssl/cert.pem"),
#undef PLACE
};

enum { PLACES = sizeof places / sizeof *places };

/* A regular file that can be read. */
static int open_bundle(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode) || st.st_size > BUNDLE_MAX) {
		errno = S_ISREG(st.st_mode) ? EFBIG : EINVAL;
		return -1;
	}
	return move_fd(&fd);
}

/* Whether it is no bundle for us, rather than that something has failed. */
static bool is_absent(int errnum)
{
	static const int absent[] = {ENOENT, ENOTDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG, EINVAL, EFBIG};

	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
		if (absent[i] == errnum)
			return true;
	return false;
}

/*
 * Whether a sandbox with the host's own files shows it (hostroot.c), the link that it may be included. Returns -1 with
 * errno.
 */
static int is_shown(const char *path)
{
	static const char *const shown[] = {"/etc/ssl/certs/", "/etc/ssl/cert.pem", "/etc/pki/tls/",
		"/etc/pki/ca-trust/extracted/", "/etc/ca-certificates/extracted/", "/usr/"};
	cleanup_free char *real = realpath(path, NULL);
	bool link = false, target = false;

	if (!real)
		return -1;
	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
		link |= strncmp(path, shown[i], strlen(shown[i])) == 0;
		target |= strncmp(real, shown[i], strlen(shown[i])) == 0;
	}
	return link && target;
}

static int find_usual(const struct spec *spec, struct authorities *ret, struct error *err)
{
	for (size_t i = 1; i < PLACES; i++) {
		cleanup_close int fd = open_bundle(places[i].path);
		int shown = fd < 0 || spec->root != ROOT_HOST ? 0 : is_shown(places[i].path);

		if (fd < 0 && is_absent(errno) && errno != EACCES && errno != EPERM)
			continue;
		if (fd < 0 || shown < 0) {
			error_set(err, errno, "the certificate authorities in %s", places[i].path);
			return error_hint(err, "name others with SSL_CERT_FILE");
		}
		if (shown)
			ret->path = places[i].path;
		else
			*ret = (struct authorities){.fd = move_fd(&fd), .path = AUTHORITIES_PATH};
		return 0;
	}
	return 0;
}

static bool is_usual(const char *path)
{
	for (size_t i = 1; i < PLACES; i++)
		if (strcmp(places[i].path, path) == 0)
			return true;
	return false;
}

int authorities_find(
	const struct spec *spec, struct authorities *ret, struct run_result *result, struct error *err)
{
	const char *own = getenv("SSL_CERT_FILE");

	*ret = AUTHORITIES_NONE;
	if (spec->network == NETWORK_NONE)
		return 0;
	if (!own || !*own || is_usual(own))
		return find_usual(spec, ret, err);
	ret->fd = open_bundle(own);
	if (ret->fd >= 0) {
		ret->path = AUTHORITIES_PATH;
		return 0;
	}
	if (!is_absent(errno))
		return error_set(err, errno, "%s, which SSL_CERT_FILE names", own);
	add_warning(result,
		"SSL_CERT_FILE is %s, which cannot be read (%s): the distribution's certificate authorities are used inside",
		own, strerror(errno));
	return find_usual(spec, ret, err);
}

int authorities_show(const struct authorities *authorities, int etc, struct error *err)
{
	static const char name[] = AUTHORITIES_PATH;
	cleanup_close int fd = -1;
	cleanup_free char *text = NULL;
	size_t length;

	if (authorities->fd < 0)
		return 0;
	if (read_fd_whole(authorities->fd, BUNDLE_MAX, &text, &length) < 0)
		return error_set(err, errno, "reading the host's certificate authorities");
	fd = openat(etc, strrchr(name, '/') + 1,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd >= 0 && write_whole(fd, text, length) == 0)
		return 0;
	error_set(err, errno, "writing %s inside", AUTHORITIES_PATH);
	return err->errnum == ENOSPC ? error_hint(err, "give it more writable space with --disk")
				     : -1;
}

static size_t name_length(const char *entry)
{
	return strcspn(entry, "=");
}

static bool has(char *const *env, const char *entry)
{
	size_t length = name_length(entry);

	for (; env && *env; env++)
		if (name_length(*env) == length && strncmp(*env, entry, length) == 0)
			return true;
	return false;
}

char **authorities_environment(const struct authorities *authorities, char *const *env)
{
	size_t count = 0, used;
	char **all;

	while (env && env[count])
		count++;
	all = calloc(count + VARIABLES_COUNT + 1, sizeof *all);
	if (!all)
		return NULL;
	memcpy(all, env ?: (char *[]){NULL}, count * sizeof *all);
	used = count;
	for (size_t i = 0; authorities->path && i < PLACES; i++)
		for (size_t j = 0;
			strcmp(places[i].path, authorities->path) == 0 && j < VARIABLES_COUNT; j++)
			if (!has(env, places[i].variables[j]))
				all[used++] = (char *)places[i].variables[j];
	return all;
}
