/* SPDX-License-Identifier: MIT */
/* Heads of HTTP/1: see request.h. */
#define _GNU_SOURCE
#include "gate/request.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A piece of the head. */
struct piece {
	const char *data;
	size_t length;
};

/* RFC 9110: what methods and names of headers are made of. */
static bool is_token(const struct piece *piece)
{
	for (size_t i = 0; i < piece->length; i++)
		if (!isalnum((unsigned char)piece->data[i]) &&
			(!piece->data[i] || !strchr("!#$%&'*+-.^_`|~", piece->data[i])))
			return false;
	return piece->length > 0;
}

static bool begins(const struct piece *piece, const char *with)
{
	return piece->length >= strlen(with) && strncasecmp(piece->data, with, strlen(with)) == 0;
}

static bool is_word(const struct piece *piece, const char *word)
{
	return piece->length == strlen(word) && strncasecmp(piece->data, word, piece->length) == 0;
}

/* «HOST» or «HOST:PORT», with an address too. */
static enum request_result read_host(struct piece text, struct request_host *ret)
{
	const char *end = text.data + text.length, *colon = end;
	char host[POLICY_NAME_MAX + 2];
	size_t length;

	*ret = (struct request_host){.port = 0};
	while (colon > text.data && isdigit((unsigned char)colon[-1]))
		colon--;
	if (colon > text.data && colon[-1] == ':') {
		unsigned long port = 0;

		for (const char *digit = colon; digit < end && port <= UINT16_MAX; digit++)
			port = 10 * port + (unsigned long)(*digit - '0');
		if (port == 0 || port > UINT16_MAX)
			return REQUEST_INVALID;
		ret->port = (uint16_t)port;
		colon--;
	} else {
		colon = end;
	}
	length = (size_t)(colon - text.data);
	if (length == 0 || length >= sizeof host)
		return REQUEST_INVALID;
	memcpy(host, text.data, length);
	host[length] = '\0';
	if (memchr(host, '\0', length))
		return REQUEST_INVALID;
	/* An IPv6 address has brackets here. */
	if ((host[0] == '[' || !strchr(host, ':')) && address_parse(host, &ret->address))
		return REQUEST_ADDRESS;
	return policy_normalize(host, length, ret->name) ? REQUEST_NAME : REQUEST_INVALID;
}

static bool same_host(const struct request_host *one, const struct request_host *other)
{
	return strcmp(one->name, other->name) == 0 && one->port == other->port &&
	       (one->name[0] || address_equal(&one->address, &other->address));
}

/* Up to the next space, which is taken off as well. */
static struct piece take_word(struct piece *line)
{
	const char *space = memchr(line->data, ' ', line->length);
	struct piece word = {line->data, space ? (size_t)(space - line->data) : line->length};
	size_t taken = word.length + (space != NULL);

	line->data += taken;
	line->length -= taken;
	return word;
}

/* The request line. *ret is the host of a target in absolute form, and *ret_absolute that it has one. */
static bool read_line(struct piece line, struct request_host *ret, bool *ret_absolute)
{
	struct piece method = take_word(&line), target = take_word(&line), version = line;

	*ret_absolute = begins(&target, "http://");
	if (!is_token(&method) || is_word(&method, "CONNECT") || target.length == 0 ||
		!(is_word(&version, "HTTP/1.1") || is_word(&version, "HTTP/1.0")))
		return false;
	if (!*ret_absolute)
		return target.data[0] == '/' || (target.length == 1 && target.data[0] == '*');
	target.data += strlen("http://");
	target.length -= strlen("http://");
	for (size_t i = 0; i < target.length; i++)
		if (strchr("/?#", target.data[i]) && target.data[i]) {
			target.length = i;
			break;
		}
	return read_host(target, ret) != REQUEST_INVALID;
}

static struct piece trimmed(struct piece text)
{
	while (text.length > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
		text.data++;
		text.length--;
	}
	while (text.length > 0 &&
		(text.data[text.length - 1] == ' ' || text.data[text.length - 1] == '\t'))
		text.length--;
	return text;
}

/* Whether it is a header; *ret_host is set where it is that of the host. */
static bool read_header(struct piece line, struct piece *ret_host)
{
	const char *colon = memchr(line.data, ':', line.length);
	struct piece name = {line.data, colon ? (size_t)(colon - line.data) : 0};

	if (!colon || !is_token(&name))
		return false;
	if (is_word(&name, "Host")) {
		if (ret_host->data)
			return false; /* a second one */
		*ret_host = trimmed((struct piece){colon + 1, line.length - name.length - 1});
	}
	return true;
}

/* The next line, which is taken off. False: it has not come whole. */
static bool take_line(struct piece *head, struct piece *ret)
{
	const char *end = memmem(head->data, head->length, "\r\n", 2);

	if (!end)
		return false;
	*ret = (struct piece){head->data, (size_t)(end - head->data)};
	head->length -= ret->length + 2;
	head->data = end + 2;
	return true;
}

/* A line that ends otherwise, which others may take for an end. */
static bool has_bare_end(const struct piece *rest)
{
	return memchr(rest->data, '\n', rest->length) != NULL;
}

/* No line has a CR, LF or NUL inside. */
static bool is_clean(const struct piece *line)
{
	return !memchr(line->data, '\r', line->length) && !memchr(line->data, '\n', line->length) &&
	       !memchr(line->data, '\0', line->length);
}

enum request_result request_read(const void *data, size_t length, struct request_host *ret)
{
	struct piece head = {data, length}, line, host = {NULL, 0};
	struct request_host absolute;
	enum request_result result;
	bool is_absolute;

	*ret = (struct request_host){.port = 0};
	/* No method begins with what other protocols begin with. */
	if (length > 0 && !isalpha(((const unsigned char *)data)[0]))
		return REQUEST_INVALID;
	if (!take_line(&head, &line))
		return length < REQUEST_MAX && !has_bare_end(&head) ? REQUEST_MORE : REQUEST_INVALID;
	if (!is_clean(&line) || !read_line(line, &absolute, &is_absolute))
		return REQUEST_INVALID;
	for (;;) {
		if (!take_line(&head, &line))
			return length < REQUEST_MAX && !has_bare_end(&head) ? REQUEST_MORE : REQUEST_INVALID;
		if (line.length == 0)
			break;
		if (!is_clean(&line) || !read_header(line, &host))
			return REQUEST_INVALID;
	}
	if (!host.data)
		return REQUEST_INVALID;
	result = read_host(host, ret);
	if (result != REQUEST_INVALID && is_absolute && !same_host(ret, &absolute))
		return REQUEST_INVALID;
	return result;
}
