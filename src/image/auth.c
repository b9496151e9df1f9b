/* SPDX-License-Identifier: MIT */
/* Credentials for registries, from where other tools keep them: see auth.h. */
#define _GNU_SOURCE
#include "image/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/start.h"
#include "util/alloc.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/error.h"
#include "util/file.h"

enum { FILE_MAX = 1 << 20, HELPER_OUTPUT_MAX = 64 << 10, KEY_MAX = 1100 };

/* What Docker calls its Hub. */
static const char docker_hub[] = "docker.io", docker_hub_key[] = "https://index.docker.io/v1/";

static void free_secret(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

void credentials_free(struct credentials *credentials)
{
	free_secret(credentials->user);
	free_secret(credentials->password);
	free_secret(credentials->identity_token);
	*credentials = (struct credentials){0};
}

/* --- helpers --- */

/* Runs docker-credential-NAME get, with the registry on its standard input. */
static int run_helper(const char *name, const char *server, char **ret, struct error *err)
{
	cleanup_free char *program = xasprintf("docker-credential-%s", name);
	/* A file, not a pipe: one that does not read it breaks nothing. */
	cleanup_close int in = memfd_create("server", MFD_CLOEXEC);
	int out[2], status;
	size_t length;
	pid_t pid;

	if (in < 0 || write_whole(in, server, strlen(server)) < 0 || lseek(in, 0, SEEK_SET) < 0 ||
		pipe2(out, O_CLOEXEC) < 0)
		return error_set(err, errno, "preparing to run %s", program);
	pid = start_credential_helper(name, in, out[1], err);
	close(out[1]);
	if (pid < 0) {
		close(out[0]);
		return -1;
	}
	if (read_fd_whole(out[0], HELPER_OUTPUT_MAX, ret, &length) < 0)
		*ret = NULL;
	close(out[0]);
	if (waitpid(pid, &status, 0) < 0)
		return error_set(err, errno, "running %s", program);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
		error_set(err, 0, "%s, which keeps the credentials for %s, is not in PATH", program,
			server);
		return error_hint(err,
			"install it, or take \"credsStore\" or \"credHelpers\" out of the configuration of Docker or Podman");
	}
	return status == 0 && *ret ? 0 : 1; /* it has none for this registry */
}

static int ask_helper(
	const char *name, const char *server, struct credentials *ret, struct error *err)
{
	cleanup_free char *text = NULL;
	const char *user, *secret;
	json_t *root;
	int r;

	if (!helper_name_valid(name))
		return error_set(err, 0, "\"%.60s\" is no name of a credential helper", name);
	r = run_helper(name, server, &text, err);
	if (r != 0)
		return r;
	root = json_loads(text, 0, NULL);
	user = json_string_value(json_object_get(root, "Username"));
	secret = json_string_value(json_object_get(root, "Secret"));
	if (user && secret && strcmp(user, "<token>") == 0)
		ret->identity_token = xstrdup(secret);
	else if (user && secret) {
		ret->user = xstrdup(user);
		ret->password = xstrdup(secret);
	}
	explicit_bzero(text, strlen(text));
	json_decref(root);
	return user && secret
		       ? 0
		       : error_set(err, 0,
				 "docker-credential-%s says nothing that could be understood",
				 name);
}

/* --- files --- */

static int decode_auth(
	const char *file, const char *text, struct credentials *ret, struct error *err)
{
	void *decoded;
	size_t length;
	char *colon;

	if (base64_decode(text, strlen(text), &decoded, &length) < 0)
		return error_set(err, 0, "%s: an \"auth\" is not base64", file);
	colon = memchr(decoded, ':', length);
	if (colon) {
		*colon = '\0';
		ret->user = xstrdup(decoded);
		ret->password = xstrdup(colon + 1);
	}
	explicit_bzero(decoded, length);
	free(decoded);
	return colon ? 0
		     : error_set(err, 0, "%s: an \"auth\" has no colon between user and password",
			       file);
}

static int take_entry(
	const char *file, const json_t *entry, struct credentials *ret, struct error *err)
{
	const char *token = json_string_value(json_object_get(entry, "identitytoken"));
	const char *auth = json_string_value(json_object_get(entry, "auth"));
	const char *user = json_string_value(json_object_get(entry, "username"));
	const char *password = json_string_value(json_object_get(entry, "password"));

	if (token && *token) {
		ret->identity_token = xstrdup(token);
		return 0;
	}
	if (auth && *auth)
		return decode_auth(file, auth, ret, err);
	if (user && password) {
		ret->user = xstrdup(user);
		ret->password = xstrdup(password);
		return 0;
	}
	return 1; /* an empty one stands for a helper */
}

/* In keys of these files the registry may be a URL, with a path of Docker's first version. */
static const json_t *find_key(const json_t *object, const char *name)
{
	cleanup_free char *with_scheme = NULL;
	const json_t *entry = json_object_get(object, name);

	if (entry)
		return entry;
	with_scheme = xasprintf("https://%s", name);
	return json_object_get(object, with_scheme);
}

/* The entry of the longest path: host/a/b, host/a, host. *ret_key: what it is called. */
static const json_t *find_longest(
	const json_t *object, const struct reference *reference, char ret_key[KEY_MAX])
{
	const json_t *entry;
	char *slash;

	snprintf(ret_key, KEY_MAX, "%s/%s", reference->registry, reference->repository);
	for (;;) {
		entry = find_key(object, ret_key);
		slash = strrchr(ret_key, '/');
		if (entry || !slash)
			break;
		*slash = '\0';
	}
	if (entry || strcmp(reference->registry, docker_hub) != 0)
		return entry;
	strcpy(ret_key, docker_hub_key);
	return json_object_get(object, docker_hub_key);
}

/* Returns 1 where it has nothing for this registry. */
static int search(const char *file, const json_t *root, const struct reference *reference,
	struct credentials *ret, struct error *err)
{
	const char *server =
		strcmp(reference->registry, docker_hub) == 0 ? docker_hub_key : reference->registry;
	const char *store = json_string_value(json_object_get(root, "credsStore"));
	const json_t *helper, *entry;
	char key[KEY_MAX];
	int r = 1;

	helper = find_longest(json_object_get(root, "credHelpers"), reference, key);
	if (json_is_string(helper))
		r = ask_helper(json_string_value(helper), server, ret, err);
	if (r == 1 && store && *store)
		r = ask_helper(store, server, ret, err);
	if (r != 1)
		return r;
	entry = find_longest(json_object_get(root, "auths"), reference, key);
	return json_is_object(entry) ? take_entry(file, entry, ret, err) : 1;
}

static int search_file(const char *file, const struct reference *reference, struct credentials *ret,
	struct error *err)
{
	cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC);
	cleanup_free char *text = NULL;
	json_error_t error;
	size_t length;
	json_t *root;
	int r;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 1;
	if (fd < 0 || read_fd_whole(fd, FILE_MAX, &text, &length) < 0)
		return error_set(err, errno, "reading credentials from %s", file);
	root = json_loadb(text, length, 0, &error);
	explicit_bzero(text, length);
	if (!root)
		return error_set(err, 0, "%s:%d: %s", file, error.line, error.text);
	r = search(file, root, reference, ret, err);
	json_decref(root);
	return r;
}

int credentials_find(const struct reference *reference, struct credentials *ret, struct error *err)
{
	const char *home = getenv("HOME") ?: "", *runtime = getenv("XDG_RUNTIME_DIR"),
		   *config = getenv("XDG_CONFIG_HOME");
	const char *docker = getenv("DOCKER_CONFIG"), *own = getenv("REGISTRY_AUTH_FILE");
	char files[4][PATH_MAX] = {"", "", "", ""};

	*ret = (struct credentials){0};
	if (own && *own)
		snprintf(files[0], PATH_MAX, "%s", own);
	if (runtime && *runtime)
		snprintf(files[1], PATH_MAX, "%s/containers/auth.json", runtime);
	if (config && *config)
		snprintf(files[2], PATH_MAX, "%s/containers/auth.json", config);
	else if (*home)
		snprintf(files[2], PATH_MAX, "%s/.config/containers/auth.json", home);
	if (docker && *docker)
		snprintf(files[3], PATH_MAX, "%s/config.json", docker);
	else if (*home)
		snprintf(files[3], PATH_MAX, "%s/.docker/config.json", home);
	for (size_t i = 0; i < 4; i++) {
		int r = files[i][0] ? search_file(files[i], reference, ret, err) : 1;

		if (r <= 0)
			return r;
	}
	return 0;
}

/* --- challenges --- */

/* One «name=value» or «name="value"»; returns where it ends, or NULL. */
static const char *take_parameter(const char *text, char name[32], char value[CHALLENGE_VALUE_MAX])
{
	size_t length = strcspn(text, "= ,\t"), used = 0;

	if (length == 0 || length >= 32 || text[length] != '=')
		return NULL;
	memcpy(name, text, length);
	name[length] = '\0';
	text += length + 1;
	if (*text != '"') {
		length = strcspn(text, ", \t");
		snprintf(value, CHALLENGE_VALUE_MAX, "%.*s", (int)length, text);
		return text + length;
	}
	for (text++; *text && *text != '"'; text++) {
		if (*text == '\\' && text[1])
			text++;
		if (used + 1 < CHALLENGE_VALUE_MAX)
			value[used++] = *text;
	}
	value[used] = '\0';
	return *text ? text + 1 : text;
}

static const char *take_parameters(const char *text, struct challenge *challenge)
{
	char name[32], value[CHALLENGE_VALUE_MAX];

	for (;;) {
		const char *end;

		text += strspn(text, " \t,");
		end = take_parameter(text, name, value);
		if (!end)
			return text;
		text = end;
		if (strcasecmp(name, "realm") == 0)
			strcpy(challenge->realm, value);
		else if (strcasecmp(name, "service") == 0)
			strcpy(challenge->service, value);
		else if (strcasecmp(name, "scope") == 0)
			strcpy(challenge->scope, value);
	}
}

void challenge_parse(const char *header, struct challenge *ret)
{
	while (*header) {
		struct challenge challenge = {0};
		size_t length;

		header += strspn(header, " \t,");
		length = strcspn(header, " \t,");
		if (length == 0)
			break;
		if (length == 6 && strncasecmp(header, "Bearer", 6) == 0)
			challenge.scheme = CHALLENGE_BEARER;
		else if (length == 5 && strncasecmp(header, "Basic", 5) == 0)
			challenge.scheme = CHALLENGE_BASIC;
		header = take_parameters(header + length, &challenge);
		if (challenge.scheme > ret->scheme &&
			(challenge.scheme != CHALLENGE_BEARER || challenge.realm[0]))
			*ret = challenge;
	}
}
