/* SPDX-License-Identifier: MIT */
/* Names in Java source: see typenames.h. */
#define _GNU_SOURCE
#include "language/typenames.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/cleanup.h"

struct token {
	const char *text;
	size_t length;
};

struct scanner {
	const char *next, *end;
	int depth;                          /* of braces */
	bool is_public, is_static, is_void; /* modifiers since the last «;», «{» or «}» */
	char *package;
	char *type;          /* the type at the top that we are in or in front of */
	char *instance_main; /* a type whose main is not static, as Java 25 allows */
};

static bool is_word_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool starts_with(const struct scanner *scanner, const char *text)
{
	size_t length = strlen(text);

	return (size_t)(scanner->end - scanner->next) >= length &&
	       memcmp(scanner->next, text, length) == 0;
}

/* Goes on behind the next `closing`, or to the end. A backslash takes the byte after it along. */
static void skip_to(struct scanner *scanner, const char *closing, bool escapes)
{
	while (scanner->next < scanner->end) {
		if (starts_with(scanner, closing)) {
			scanner->next += strlen(closing);
			return;
		}
		scanner->next +=
			escapes && *scanner->next == '\\' && scanner->end - scanner->next > 1 ? 2
											      : 1;
	}
}

/* Skips one comment or literal. Returns false where none begins. */
static bool skip_one(struct scanner *scanner)
{
	static const struct {
		const char *opening, *closing;
		bool escapes;
	} spans[] = {{"//", "\n", false}, {"/*", "*/", false}, {"\"\"\"", "\"\"\"", true},
		{"\"", "\"", true}, {"'", "'", true}};

	for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
		if (starts_with(scanner, spans[i].opening)) {
			scanner->next += strlen(spans[i].opening);
			skip_to(scanner, spans[i].closing, spans[i].escapes);
			return true;
		}
	return false;
}

/* The next word or punctuation byte; false at the end. */
static bool next_token(struct scanner *scanner, struct token *ret)
{
	while (scanner->next < scanner->end) {
		const char *start = scanner->next;

		if (isspace((unsigned char)*start)) {
			scanner->next++;
			continue;
		}
		if (skip_one(scanner))
			continue;
		while (scanner->next < scanner->end && is_word_byte(*scanner->next))
			scanner->next++;
		if (scanner->next == start)
			scanner->next++;
		*ret = (struct token){start, (size_t)(scanner->next - start)};
		return true;
	}
	return false;
}

static bool is(const struct token *token, const char *text)
{
	return token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

static void set_string(char **string, char *value)
{
	free(*string);
	*string = value;
}

static char *qualified(const struct scanner *scanner)
{
	return scanner->package ? xasprintf("%s.%s", scanner->package, scanner->type)
				: xstrdup(scanner->type);
}

static void read_package(struct scanner *scanner)
{
	cleanup_free char *name = xstrdup("");
	struct token token;

	while (next_token(scanner, &token) && !is(&token, ";"))
		set_string(&name, xasprintf("%s%.*s", name, (int)token.length, token.text));
	set_string(&scanner->package, xstrdup(name));
}

/* A word at the top: a modifier, or what introduces a type. */
static void read_at_top(struct scanner *scanner, const struct token *token, struct typenames *ret)
{
	struct token name;

	if (is(token, "package")) {
		read_package(scanner);
	} else if (is(token, "public")) {
		scanner->is_public = true;
	} else if (is(token, "class") || is(token, "interface") || is(token, "enum") ||
		   is(token, "record")) {
		if (!next_token(scanner, &name) || !is_word_byte(name.text[0]))
			return;
		set_string(&scanner->type, xasprintf("%.*s", (int)name.length, name.text));
		if (scanner->is_public && !ret->public_type)
			ret->public_type = xstrdup(scanner->type);
	}
}

/* A word in a type at the top: is it «main» of «static void main(»? */
static void read_in_type(struct scanner *scanner, const struct token *token, struct typenames *ret)
{
	scanner->is_static |= is(token, "static");
	scanner->is_void |= is(token, "void");
	if (!is(token, "main") || !scanner->is_void || !scanner->type)
		return;
	if (scanner->is_static && !ret->main_type)
		ret->main_type = qualified(scanner);
	else if (!scanner->is_static && !scanner->instance_main)
		scanner->instance_main = qualified(scanner);
}

void typenames_read(const char *source, size_t length, struct typenames *ret)
{
	struct scanner scanner = {.next = source, .end = source + length};
	struct token token;

	*ret = (struct typenames){NULL, NULL};
	while (next_token(&scanner, &token)) {
		if (scanner.depth == 0)
			read_at_top(&scanner, &token, ret);
		else if (scanner.depth == 1)
			read_in_type(&scanner, &token, ret);
		if (!is(&token, "{") && !is(&token, "}") && !is(&token, ";"))
			continue;
		scanner.depth += is(&token, "{") - is(&token, "}");
		scanner.is_public = scanner.is_static = scanner.is_void = false;
	}
	if (!ret->main_type) {
		ret->main_type = scanner.instance_main;
		scanner.instance_main = NULL;
	}
	free(scanner.package);
	free(scanner.type);
	free(scanner.instance_main);
}

void typenames_free(struct typenames *names)
{
	free(names->public_type);
	free(names->main_type);
}
