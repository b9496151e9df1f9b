/* SPDX-License-Identifier: MIT */
/* A client of registries: see registry.h. */
#define _GNU_SOURCE
#include "config.h"

#include "image/registry.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "image/auth.h"
#include "util/alloc.h"
#include "util/cleanup.h"
#include "util/error.h"

enum {
	URL_MAX = 1024,
	REDIRECTIONS_MAX = 5,
	CONNECT_TIMEOUT_S = 30,
	MIRROR_TIMEOUT_S = 10, /* to connect */
	RESOLVE_RETRIES_MAX = 2,
	BACK_OFF_MS = 500,
	BACK_OFF_MAX_MS = 16000,
	RETRY_AFTER_MAX_S = 120,
	ERROR_BODY_MAX = 4096,
	TOKEN_MAX = 64 << 10,
	PROGRESS_BYTES = 1 << 20, /* that make a failure a new one */
};

struct registry {
	struct reference reference;
	struct registry_options options;
	CURLM *multi;
	char base[URL_MAX]; /* «https://host/v2/name» */
	bool plain_allowed; /* to fall back to HTTP */
	bool verify;
	struct credentials credentials;
	bool basic;             /* the registry wants these themselves */
	char *token;            /* owned: for «Bearer», or NULL */
	char ca_file[PATH_MAX]; /* empty: the system's */
};

/* One request and what came of it. */
struct request {
	struct registry *registry;
	CURL *curl;
	struct curl_slist *headers;
	char curl_error[CURL_ERROR_SIZE];

	/* of the response */
	char challenge[1024], content_type[128], content_digest[128];
	long retry_after_s;
	uint64_t range_first; /* of Content-Range */
	bool has_range;
	char *body; /* owned: of documents, and of errors */
	size_t length, max;

	/* of a layer */
	struct install *install; /* while something is done */
	struct layer *layer;
	uint64_t skip; /* bytes at the beginning that are there already */
	bool began;    /* a byte of content has come */
	struct error write_error;
	unsigned attempt;
	uint64_t progress_at; /* blob.written when `attempt` was last 0 */
	uint64_t not_before_ms;
	bool running, token_renewed;
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- responses --- */

static void take_header(const char *line, size_t length, const char *name, char *ret, size_t size)
{
	size_t name_length = strlen(name);

	if (length <= name_length || line[name_length] != ':' ||
		strncasecmp(line, name, name_length) != 0)
		return;
	line += name_length + 1;
	length -= name_length + 1;
	while (length > 0 && (*line == ' ' || *line == '\t')) {
		line++;
		length--;
	}
	while (length > 0 &&
		(line[length - 1] == '\r' || line[length - 1] == '\n' || line[length - 1] == ' '))
		length--;
	if (length < size) {
		memcpy(ret, line, length);
		ret[length] = '\0';
	}
}

static size_t on_header(char *line, size_t size, size_t count, void *data)
{
	struct request *request = data;
	size_t length = size * count;
	char text[128] = "";

	if (length > 5 &&
		memcmp(line, "HTTP/", 5) == 0) { /* of the next response, after a redirection */
		request->challenge[0] = request->content_type[0] = request->content_digest[0] =
			'\0';
		request->retry_after_s = 0;
		request->has_range = false;
		return length;
	}
	if (request->challenge[0]) {
		/* Several challenges are as good as one with commas. */
		char more[sizeof request->challenge] = "";
		size_t used = strlen(request->challenge);

		take_header(line, length, "www-authenticate", more, sizeof more);
		if (more[0])
			snprintf(request->challenge + used, sizeof request->challenge - used,
				", %s", more);
	} else {
		take_header(line, length, "www-authenticate", request->challenge,
			sizeof request->challenge);
	}
	take_header(
		line, length, "content-type", request->content_type, sizeof request->content_type);
	take_header(line, length, "docker-content-digest", request->content_digest,
		sizeof request->content_digest);
	take_header(line, length, "retry-after", text, sizeof text);
	if (text[0])
		request->retry_after_s =
			strtol(text, NULL, 10); /* a date counts as 0: the usual pause */
	text[0] = '\0';
	take_header(line, length, "content-range", text, sizeof text);
	if (strncasecmp(text, "bytes ", 6) == 0) {
		request->has_range = true;
		request->range_first = strtoull(text + 6, NULL, 10);
	}
	return length;
}

static size_t keep_body(struct request *request, const char *data, size_t length)
{
	if (length > request->max - request->length) {
		error_set(&request->write_error, 0, "the answer is larger than %zu bytes",
			request->max);
		return 0;
	}
	request->body = xrealloc(request->body, request->length + length + 1, 1);
	memcpy(request->body + request->length, data, length);
	request->length += length;
	request->body[request->length] = '\0';
	return length;
}

static size_t on_body(char *data, size_t size, size_t count, void *user)
{
	return keep_body(user, data, size * count);
}

/* Where the content of a layer begins: it need not be where it was asked for. */
static int begin_content(struct request *request, long status)
{
	struct layer *layer = request->layer;

	request->began = true;
	request->skip = 0;
	if (status == 206 && (!request->has_range || request->range_first != layer->blob.written))
		return error_set(&request->write_error, 0,
			"the registry sent another part of the blob than was asked for");
	/* The whole anew: a digest decides at the end whether it was the same as before. */
	if (status == 200)
		request->skip = layer->blob.written;
	return 0;
}

static size_t on_layer(char *data, size_t size, size_t count, void *user)
{
	struct request *request = user;
	size_t length = size * count, all = length;
	long status = 0;

	curl_easy_getinfo(request->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200 && status != 206) {
		if (length > request->max - request->length)
			length = request->max - request->length;
		keep_body(request, data, length);
		return all;
	}
	if (!request->began && begin_content(request, status) < 0)
		return 0;
	if (request->skip >= length) {
		request->skip -= length;
		return all;
	}
	data += request->skip;
	length -= request->skip;
	request->skip = 0;
	if (blob_write(&request->layer->blob, data, length, &request->write_error) < 0 ||
		install_arrived(request->install, request->layer, false, &request->write_error) < 0)
		return 0;
	return all;
}

/* --- requests --- */

/* certs.d of Docker and Podman, where people put the CA of a registry of their own. */
static void find_ca(struct registry *registry)
{
	static const char *const folders[] = {"/etc/containers/certs.d", "/etc/docker/certs.d"};
	const char *home = getenv("HOME");

	if (home && *home) {
		snprintf(registry->ca_file, PATH_MAX, "%s/.config/containers/certs.d/%s/ca.crt",
			home, registry->reference.registry);
		if (access(registry->ca_file, R_OK) == 0)
			return;
	}
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		snprintf(registry->ca_file, PATH_MAX, "%s/%s/ca.crt", folders[i],
			registry->reference.registry);
		if (access(registry->ca_file, R_OK) == 0)
			return;
	}
	registry->ca_file[0] = '\0';
}

static void request_free(struct request *request)
{
	if (request->running)
		curl_multi_remove_handle(request->registry->multi, request->curl);
	curl_easy_cleanup(request->curl);
	curl_slist_free_all(request->headers);
	free(request->body);
	*request = (struct request){0};
}

static void restrict_protocols(CURL *curl, bool plain)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
	curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http,https" : "https");
#else
	const long protocols = plain ? CURLPROTO_HTTP | CURLPROTO_HTTPS : CURLPROTO_HTTPS;

	curl_easy_setopt(curl, CURLOPT_PROTOCOLS, protocols);
	curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, protocols);
#endif
}

static long stall_seconds(const struct registry *registry)
{
	return registry->options.stall_s ? registry->options.stall_s : REGISTRY_STALL_DEFAULT_S;
}

static int request_make(
	struct registry *registry, const char *url, struct request *ret, struct error *err)
{
	CURL *curl = curl_easy_init();

	*ret = (struct request){.registry = registry, .curl = curl, .max = ERROR_BODY_MAX};
	if (!curl)
		return error_set(err, ENOMEM, "preparing a request");
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, ret->curl_error);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "nsbox/" PACKAGE_VERSION);
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)REDIRECTIONS_MAX);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT,
		registry->options.one_of_some ? (long)MIRROR_TIMEOUT_S : (long)CONNECT_TIMEOUT_S);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1024L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, stall_seconds(registry));
	curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
	curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	restrict_protocols(curl, strncmp(url, "http:", 5) == 0);
	if (!registry->verify) {
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (registry->ca_file[0])
		curl_easy_setopt(curl, CURLOPT_CAINFO, registry->ca_file);
	return 0;
}

/* curl keeps bearer tokens and passwords given so to the host that they are for. */
static void authorize(struct request *request)
{
	const struct registry *registry = request->registry;
	CURL *curl = request->curl;

	curl_easy_setopt(curl, CURLOPT_HEADERDATA, request);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, request);
	if (registry->token) {
		curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
		curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, registry->token);
	} else if (registry->basic && registry->credentials.user) {
		curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		curl_easy_setopt(curl, CURLOPT_USERNAME, registry->credentials.user);
		curl_easy_setopt(curl, CURLOPT_PASSWORD, registry->credentials.password);
	}
}

/*
 * Whether a name that could not be resolved may be so in a moment. libcurl does not say; so it is asked for once
 * more. On a machine without a network that is the answer, too: not as often, then, as for other reasons.
 */
static bool is_unresolved_for_now(const struct request *request)
{
	cleanup_free char *host = NULL;
	struct addrinfo *found = NULL;
	const char *url = NULL;
	CURLU *parts;
	char *part;
	int r;

	if (request->attempt >= RESOLVE_RETRIES_MAX)
		return false;
	curl_easy_getinfo(request->curl, CURLINFO_EFFECTIVE_URL, &url);
	parts = curl_url();
	if (parts && url && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
		curl_url_get(parts, CURLUPART_HOST, &part, 0) == CURLUE_OK) {
		host = xstrdup(part);
		curl_free(part);
	}
	curl_url_cleanup(parts);
	r = host ? getaddrinfo(host, NULL, NULL, &found) : EAI_NONAME;
	if (r == 0)
		freeaddrinfo(found);
	return r == 0 || r == EAI_AGAIN;
}

static bool is_worth_another_try(const struct request *request, CURLcode code, long status)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		return is_unresolved_for_now(request);
	case CURLE_OK:
		return status == 408 || status == 429 ||
		       (status >= 500 && status != 501 && status != 505);
	case CURLE_COULDNT_CONNECT:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_PARTIAL_FILE:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
		return true;
	default:
		return false;
	}
}

/* distribution-spec, «Error Codes»: {"errors": [{"code": …, "message": …}]} */
static void registry_words(const struct request *request, char *ret, size_t size)
{
	json_t *root = request->body ? json_loadb(request->body, request->length, 0, NULL) : NULL;
	const json_t *first = json_array_get(json_object_get(root, "errors"), 0);
	const char *code = json_string_value(json_object_get(first, "code"));
	const char *message = json_string_value(json_object_get(first, "message"));

	ret[0] = '\0';
	if (code)
		snprintf(ret, size, " (%.40s%s%.120s)", code, message ? ": " : "",
			message ? message : "");
	json_decref(root);
}

static int status_error(
	const struct request *request, long status, const char *what, struct error *err)
{
	const struct registry *registry = request->registry;
	const char *host = registry->reference.registry;
	char words[200];

	registry_words(request, words, sizeof words);
	switch (status) {
	case 401:
	case 403:
		error_set(err, 0, "%s: %s does not allow it%s", what, host, words);
		return registry->credentials.user || registry->credentials.identity_token
			       ? error_hint(err,
					 "the credentials that you have for it do not do; log in anew with: podman login %s",
					 host)
			       : error_hint(err,
					 "if the name is right, log in with: podman login %s (or docker login); nsbox uses "
					 "what they store",
					 host);
	case 404:
		error_set(err, 0, "%s: %s does not have it%s", what, host, words);
		return error_hint(err, "look at the spelling of name and tag");
	case 429:
		error_set(
			err, 0, "%s: %s has had too many requests from here%s", what, host, words);
		return error_hint(err,
			"wait a while, or log in, which mostly raises the limit: podman login %s",
			host);
	default:
		return error_set(
			err, 0, "%s: %s answered with status %ld%s", what, host, status, words);
	}
}

static int curl_failed(
	const struct request *request, CURLcode code, const char *what, struct error *err)
{
	const struct registry *registry = request->registry;
	const char *text = request->curl_error[0] ? request->curl_error : curl_easy_strerror(code);

	if (request->write_error.text[0]) {
		*err = request->write_error;
		return -1;
	}
	error_set(err, 0, "%s: %s: %s", what, registry->reference.registry, text);
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		return error_hint(err,
			"is the name of the registry right, and is there a network? With a proxy, set https_proxy");
	case CURLE_PEER_FAILED_VERIFICATION:
		return error_hint(err,
			"if the registry is your own, put its CA into /etc/containers/certs.d/%s/ca.crt, or use --insecure",
			registry->reference.registry);
	case CURLE_SSL_CONNECT_ERROR:
		return error_hint(err, "a registry that speaks plain HTTP needs --insecure");
	case CURLE_TOO_MANY_REDIRECTS:
		return error_hint(
			err, "the registry redirects more than %d times", REDIRECTIONS_MAX);
	case CURLE_OPERATION_TIMEDOUT:
		return error_hint(
			err, "less than 1 KiB a second came for %ld s", stall_seconds(registry));
	default:
		return -1;
	}
}

static uint64_t pause_ms(const struct request *request, long status)
{
	uint64_t pause = (uint64_t)BACK_OFF_MS << (request->attempt < 10 ? request->attempt : 10);

	if ((status == 429 || status == 503) && request->retry_after_s > 0)
		return 1000 * (uint64_t)(request->retry_after_s < RETRY_AFTER_MAX_S
						 ? request->retry_after_s
						 : RETRY_AFTER_MAX_S);
	return pause < BACK_OFF_MAX_MS ? pause : BACK_OFF_MAX_MS;
}

/* --- tokens --- */

/* It becomes part of a header. */
static bool is_token(const char *text)
{
	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c > '~')
			return false;
	return *text;
}

static int take_token(struct registry *registry, const struct request *request, struct error *err)
{
	json_t *root = json_loadb(request->body ? request->body : "", request->length, 0, NULL);
	const char *token = json_string_value(json_object_get(root, "token"));

	if (!token || !*token)
		token = json_string_value(json_object_get(root, "access_token"));
	free(registry->token);
	registry->token = token && is_token(token) ? xstrdup(token) : NULL;
	json_decref(root);
	return registry->token ? 0
			       : error_set(err, 0, "the token server of %s gave no token",
					 registry->reference.registry);
}

/* Docker's token authentication, or OAuth2 with an identity token. */
static int prepare_token_request(struct registry *registry, const struct challenge *challenge,
	struct request *request, struct error *err)
{
	cleanup_free char *url = NULL, *fields = NULL;
	char scope[CHALLENGE_VALUE_MAX];
	CURL *escaper = curl_easy_init();
	char *service = curl_easy_escape(escaper, challenge->service, 0), *escaped_scope, *token;
	int r;

	snprintf(scope, sizeof scope, "repository:%.255s:pull", registry->reference.repository);
	escaped_scope =
		curl_easy_escape(escaper, challenge->scope[0] ? challenge->scope : scope, 0);
	if (registry->credentials.identity_token) {
		token = curl_easy_escape(escaper, registry->credentials.identity_token, 0);
		fields = xasprintf(
			"grant_type=refresh_token&client_id=nsbox&service=%s&scope=%s&refresh_token=%s",
			service, escaped_scope, token);
		curl_free(token);
		url = xstrdup(challenge->realm);
	} else {
		url = xasprintf("%s%cservice=%s&scope=%s", challenge->realm,
			strchr(challenge->realm, '?') ? '&' : '?', service, escaped_scope);
	}
	curl_free(service);
	curl_free(escaped_scope);
	curl_easy_cleanup(escaper);
	r = request_make(registry, url, request, err);
	if (r == 0 && fields)
		curl_easy_setopt(request->curl, CURLOPT_COPYPOSTFIELDS, fields);
	return r;
}

static int fetch_token(
	struct registry *registry, const struct challenge *challenge, struct error *err)
{
	struct request request;
	CURLcode code;
	long status = 0;
	int r;

	if (strncmp(challenge->realm, "https://", 8) != 0 &&
		strncmp(registry->base, "https:", 6) == 0)
		return error_set(err, 0, "%s sends credentials to %.200s, which is not HTTPS",
			registry->reference.registry, challenge->realm);
	if (prepare_token_request(registry, challenge, &request, err) < 0)
		return -1;
	request.max = TOKEN_MAX;
	curl_easy_setopt(request.curl, CURLOPT_HEADERDATA, &request);
	curl_easy_setopt(request.curl, CURLOPT_WRITEDATA, &request);
	curl_easy_setopt(request.curl, CURLOPT_TIMEOUT, 2 * stall_seconds(registry));
	if (registry->credentials.user) {
		curl_easy_setopt(request.curl, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		curl_easy_setopt(request.curl, CURLOPT_USERNAME, registry->credentials.user);
		curl_easy_setopt(request.curl, CURLOPT_PASSWORD, registry->credentials.password);
	}
	code = curl_easy_perform(request.curl);
	curl_easy_getinfo(request.curl, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK)
		r = curl_failed(&request, code, "asking for a token", err);
	else if (status != 200)
		r = status_error(&request, status, "asking for a token", err);
	else
		r = take_token(registry, &request, err);
	request_free(&request);
	return r;
}

/* Answers a 401. Returns 1 when there is nothing to answer it with. */
static int answer_challenge(
	struct registry *registry, const struct request *request, struct error *err)
{
	struct challenge challenge = {0};
	const char *header = request->challenge;
	long redirections = 0;

	/* Who the registry has sent us to has nothing to ask for: credentials are the registry's. */
	curl_easy_getinfo(request->curl, CURLINFO_REDIRECT_COUNT, &redirections);
	if (redirections > 0)
		return 1;

	challenge_parse(header, &challenge);
	if (challenge.scheme == CHALLENGE_BEARER)
		return fetch_token(registry, &challenge, err);
	if (challenge.scheme != CHALLENGE_BASIC || registry->basic || !registry->credentials.user)
		return 1;
	registry->basic = true;
	return 0;
}

/* --- documents --- */

static int fetch_once(struct registry *registry, const char *url, const char *const *accept,
	size_t max, struct request *request, CURLcode *ret_code, long *ret_status,
	struct error *err)
{
	if (request_make(registry, url, request, err) < 0)
		return -1;
	request->max = max;
	for (; accept && *accept; accept++)
		request->headers = curl_slist_append(request->headers, *accept);
	curl_easy_setopt(request->curl, CURLOPT_HTTPHEADER, request->headers);
	authorize(request);
	*ret_code = curl_easy_perform(request->curl);
	*ret_status = 0;
	curl_easy_getinfo(request->curl, CURLINFO_RESPONSE_CODE, ret_status);
	return 0;
}

/* The registry of a developer's own machine mostly has no certificate. */
static bool falls_back_to_plain(struct registry *registry, CURLcode code, char url[URL_MAX])
{
	char plain[URL_MAX];

	if (!registry->plain_allowed || strncmp(url, "https://", 8) != 0 ||
		(code != CURLE_SSL_CONNECT_ERROR && code != CURLE_COULDNT_CONNECT))
		return false;
	snprintf(plain, sizeof plain, "http://%s", url + 8);
	strcpy(url, plain);
	snprintf(plain, sizeof plain, "http://%s", registry->base + 8);
	strcpy(registry->base, plain);
	return true;
}

static void say_again(const struct registry *registry, const struct error *err, uint64_t pause)
{
	if (!registry->options.quiet)
		fprintf(stderr, "nsbox: %s; trying again in %.1f s\n", err->text,
			(double)pause / 1000);
}

static void sleep_ms(uint64_t ms)
{
	struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		;
}

static int fetch(struct registry *registry, const char *path, const char *const *accept, size_t max,
	const char *what, struct registry_document *ret, struct error *err)
{
	char url[URL_MAX];
	bool answered = false;

	snprintf(url, sizeof url, "%.700s%s", registry->base, path);
	for (unsigned attempt = 0;;) {
		struct request request = {0};
		CURLcode code;
		long status;
		int r = fetch_once(registry, url, accept, max, &request, &code, &status, err);

		if (r < 0)
			return -1;
		if (code == CURLE_OK && status == 200) {
			*ret = (struct registry_document){
				.text = request.body ? request.body : xstrdup(""),
				.length = request.length};
			snprintf(ret->content_type, sizeof ret->content_type, "%s",
				request.content_type);
			digest_of(ret->text, ret->length, ret->digest);
			request.body = NULL;
			r = request.content_digest[0] && digest_valid(request.content_digest) &&
					    strcmp(request.content_digest, ret->digest) != 0
				    ? error_set(err, 0,
					      "%s: %s says its digest is %.19s…, and it is %.19s…",
					      what, registry->reference.registry,
					      request.content_digest, ret->digest)
				    : 0;
			request_free(&request);
			if (r < 0)
				free(ret->text);
			return r;
		}
		if (code == CURLE_OK && status == 401 && !answered &&
			(r = answer_challenge(registry, &request, err)) <= 0) {
			request_free(&request);
			answered = true;
			if (r < 0)
				return -1;
			continue;
		}
		r = code != CURLE_OK ? curl_failed(&request, code, what, err)
				     : status_error(&request, status, what, err);
		request.attempt = attempt;
		if (falls_back_to_plain(registry, code, url)) {
			request_free(&request);
			continue;
		}
		if (!is_worth_another_try(&request, code, status) || request.write_error.text[0] ||
			++attempt > registry->options.retries) {
			request_free(&request);
			return -1;
		}
		say_again(registry, err, pause_ms(&request, status));
		sleep_ms(pause_ms(&request, status));
		request_free(&request);
	}
}

int registry_manifest(struct registry *registry, const char *tag_or_digest,
	struct registry_document *ret, struct error *err)
{
	static const char *const accept[] = {"Accept: application/vnd.oci.image.index.v1+json",
		"Accept: application/vnd.oci.image.manifest.v1+json",
		"Accept: application/vnd.docker.distribution.manifest.list.v2+json",
		"Accept: application/vnd.docker.distribution.manifest.v2+json", NULL};
	char path[256], name[REFERENCE_MAX + 1];

	snprintf(path, sizeof path, "/manifests/%.160s", tag_or_digest);
	if (fetch(registry, path, accept, DOCUMENT_MAX,
		    reference_format_short(&registry->reference, name), ret, err) < 0)
		return -1;
	if (!digest_valid(tag_or_digest) || strcmp(tag_or_digest, ret->digest) == 0)
		return 0;
	free(ret->text);
	return error_set(err, 0, "%s: what came for %.19s… has the digest %.19s…",
		registry->reference.registry, tag_or_digest, ret->digest);
}

int registry_blob(struct registry *registry, const struct descriptor *descriptor, size_t max,
	struct registry_document *ret, struct error *err)
{
	char path[128], what[64];

	snprintf(path, sizeof path, "/blobs/%s", descriptor->digest);
	snprintf(what, sizeof what, "blob %.19s", descriptor->digest);
	if (fetch(registry, path, NULL, max, what, ret, err) < 0)
		return -1;
	if (ret->length == descriptor->size && strcmp(ret->digest, descriptor->digest) == 0)
		return 0;
	free(ret->text);
	return error_set(err, 0, "%s: what came for %.19s… has the digest %.19s… and %zu bytes",
		registry->reference.registry, descriptor->digest, ret->digest, ret->length);
}

/* --- layers --- */

static int start_layer(struct registry *registry, struct request *request, struct error *err)
{
	struct layer *layer = request->layer;
	const unsigned attempt = request->attempt;
	char url[URL_MAX], range[32];
	CURL *curl;

	snprintf(url, sizeof url, "%.700s/blobs/%s", registry->base, layer->descriptor->digest);
	if (request_make(registry, url, request, err) < 0)
		return -1;
	request->layer = layer;
	curl = request->curl;
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_layer);
	curl_easy_setopt(curl, CURLOPT_PRIVATE, request);
	/* Not CURLOPT_RESUME_FROM: with it curl refuses the whole from a server that knows no ranges. */
	snprintf(range, sizeof range, "%" PRIu64 "-", layer->blob.written);
	if (layer->blob.written > 0)
		curl_easy_setopt(curl, CURLOPT_RANGE, range);
	/* What broke off may have left the connection in the middle of something. */
	curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, attempt > 0 ? 1L : 0L);
	authorize(request);
	request->running = curl_multi_add_handle(registry->multi, curl) == CURLM_OK;
	return request->running ? 0 : error_set(err, ENOMEM, "starting a transfer");
}

/* The same request once more, with what it has learnt. */
static int start_again(struct registry *registry, struct request *request, struct error *err)
{
	const struct request old = *request;
	int r;

	request_free(request);
	request->layer = old.layer;
	request->attempt = old.attempt;
	r = start_layer(registry, request, err);
	request->install = old.install;
	request->attempt = old.attempt;
	request->progress_at = old.progress_at;
	request->token_renewed = old.token_renewed;
	return r;
}

static int begin_layer(void *data, struct layer *layer, struct error *err)
{
	struct registry *registry = data;
	struct request *request = xcalloc(1, sizeof *request);

	layer->transfer = request;
	request->layer = layer;
	request->registry = registry;
	request->progress_at = layer->blob.written;
	/* All that there is of it came before, and only its end was not seen. */
	if (layer->blob.written == layer->descriptor->size)
		return 0;
	return start_layer(registry, request, err);
}

static void end_layer(void *data, struct layer *layer)
{
	struct request *request = layer->transfer;

	(void)data;
	if (request)
		request_free(request);
	free(request);
	layer->transfer = NULL;
}

static void wait_before_retry(
	struct registry *registry, struct request *request, long status, const struct error *err)
{
	uint64_t pause = pause_ms(request, status);

	say_again(registry, err, pause);
	curl_multi_remove_handle(registry->multi, request->curl);
	request->running = false;
	request->not_before_ms = now_ms() + pause;
}

static int layer_done(struct registry *registry, struct install *install, struct request *request,
	CURLcode code, struct error *err)
{
	struct layer *layer = request->layer;
	char what[48];
	long status = 0;
	int r;

	curl_easy_getinfo(request->curl, CURLINFO_RESPONSE_CODE, &status);
	snprintf(what, sizeof what, "layer %zu (%.19s)", layer->number + 1,
		layer->descriptor->digest);
	if (code == CURLE_OK && (status == 200 || status == 206)) {
		if (layer->blob.written == layer->descriptor->size)
			return install_arrived(install, layer, true, err);
		code = CURLE_PARTIAL_FILE;
	}
	if (code == CURLE_OK && status == 401 && !request->token_renewed) {
		r = answer_challenge(registry, request, err);
		if (r < 0)
			return -1;
		request->token_renewed = true;
		if (r == 0)
			return start_again(registry, request, err);
	}
	r = code != CURLE_OK ? curl_failed(request, code, what, err)
			     : status_error(request, status, what, err);
	if (layer->blob.written - request->progress_at >= PROGRESS_BYTES) {
		request->attempt = 0;
		request->progress_at = layer->blob.written;
	}
	if (!is_worth_another_try(request, code, status) || request->write_error.text[0] ||
		request->attempt >= registry->options.retries)
		return -1;
	wait_before_retry(registry, request, status, err);
	request->attempt++;
	request->token_renewed = false;
	return 0;
}

static int restart_waiting(
	struct registry *registry, struct install *install, int *timeout_ms, struct error *err)
{
	uint64_t now = now_ms();

	for (size_t i = 0; i < install->count; i++) {
		struct layer *layer = &install->layers[i];
		struct request *request = layer->transfer;

		if (layer->state != LAYER_COMING || !request)
			continue;
		request->install = install;
		if (request->running)
			continue;
		if (layer->blob.written == layer->descriptor->size) {
			if (install_arrived(install, layer, true, err) < 0)
				return -1;
			*timeout_ms = 0;
			continue;
		}
		if (request->not_before_ms <= now && start_again(registry, request, err) < 0)
			return -1;
	}
	return 0;
}

static int work_on_layers(void *data, struct install *install, const int *fds, size_t count,
	int timeout_ms, struct error *err)
{
	struct registry *registry = data;
	struct curl_waitfd waitfds[16];
	const CURLMsg *message;
	int running, left;

	if (restart_waiting(registry, install, &timeout_ms, err) < 0)
		return -1;
	if (curl_multi_perform(registry->multi, &running) != CURLM_OK)
		return error_set(err, 0, "libcurl refuses to go on");
	while ((message = curl_multi_info_read(registry->multi, &left))) {
		struct request *request = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&request);
		if (layer_done(registry, install, request, message->data.result, err) < 0)
			return -1;
		timeout_ms = 0;
	}
	for (size_t i = 0; i < count && i < 16; i++)
		waitfds[i] = (struct curl_waitfd){.fd = fds[i], .events = CURL_WAIT_POLLIN};
	if (curl_multi_poll(registry->multi, waitfds, (unsigned)count, timeout_ms, NULL) !=
		CURLM_OK)
		return error_set(err, errno, "waiting for the registry");
	return 0;
}

void registry_source(struct registry *registry, struct source *ret)
{
	*ret = (struct source){begin_layer, work_on_layers, end_layer, registry, REGISTRY_PARALLEL};
}

/* --- opening --- */

/* Not a name that only begins so: «localhost.example.org», «127.example.org». */
static bool is_loopback(const char *host)
{
	char name[INET_ADDRSTRLEN];
	size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	struct in_addr address;

	if (length >= sizeof name)
		return false;
	memcpy(name, host, length);
	name[length] = '\0';
	return strcmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0 ||
	       (inet_pton(AF_INET, name, &address) == 1 &&
		       ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET);
}

int registry_open(const struct reference *reference, const struct registry_options *options,
	struct registry **ret, struct error *err)
{
	struct registry *registry = xcalloc(1, sizeof *registry);
	const char *host = reference->registry;

	curl_global_init(CURL_GLOBAL_DEFAULT);
	registry->reference = *reference;
	registry->options = *options;
	registry->multi = curl_multi_init();
	registry->verify = !options->insecure;
	registry->plain_allowed =
		options->transport == TRANSPORT_ANY && (options->insecure || is_loopback(host));
	/* Docker Hub's API is not where its name says. */
	if (strcmp(host, "docker.io") == 0)
		host = "registry-1.docker.io";
	snprintf(registry->base, sizeof registry->base, "%s://%s/v2/%s",
		options->transport == TRANSPORT_PLAIN ? "http" : "https", host,
		reference->repository);
	if (options->ca && *options->ca)
		snprintf(registry->ca_file, sizeof registry->ca_file, "%s", options->ca);
	else
		find_ca(registry);
	*ret = registry;
	if (!registry->multi)
		return error_set(err, ENOMEM, "starting libcurl");
	return credentials_find(reference, &registry->credentials, err);
}

void registry_close(struct registry *registry)
{
	if (!registry)
		return;
	curl_multi_cleanup(registry->multi);
	credentials_free(&registry->credentials);
	free(registry->token);
	free(registry);
	curl_global_cleanup();
}
