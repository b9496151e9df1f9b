/* SPDX-License-Identifier: MIT */
/* Replies of a context's driver: see replies.h. */
#define _GNU_SOURCE
#include "session/replies.h"

#include <stdlib.h>
#include <string.h>

enum {
	WORDS_MAX = 7,
	PAYLOAD_FIRST = 4 << 10,
	PAYLOAD_KEPT = 64 << 10 /* bytes of memory between replies */
};

static const char *const statuses[] = {
	[CELL_OK] = "ok", [CELL_ERROR] = "error", [CELL_INTERRUPTED] = "interrupted"};

void replies_init(struct replies *ret)
{
	memset(ret, 0, sizeof *ret);
}

void replies_free(struct replies *replies)
{
	free(replies->payload);
	replies_init(replies);
}

void replies_begin(struct replies *replies, uint32_t cell)
{
	replies->cell = cell;
	replies->left = REPLIES_CELL_MAX;
	replies->value = 0;
	replies->mimes_count = 0;
	replies->has_result = replies->has_error = false;
}

static int wrong(struct replies *replies, const char *fault)
{
	replies->fault = fault;
	return -1;
}

/* --- headers --- */

/* Parts of a line between single spaces. Returns how many; 0: an empty part, or too many. */
static size_t split(char *line, char *words[WORDS_MAX])
{
	size_t count = 0;

	for (char *next = line; next;) {
		char *space = strchr(next, ' ');

		if (space)
			*space = '\0';
		if (!*next || count == WORDS_MAX)
			return 0;
		words[count++] = next;
		next = space ? space + 1 : NULL;
	}
	return count;
}

/* Digits only, no more of them than needed. */
static bool read_number(const char *word, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (word[0] == '0' && word[1])
		return false;
	for (; *word; word++) {
		if (*word < '0' || *word > '9' || value > max / 10)
			return false;
		value = value * 10 + (uint64_t)(*word - '0');
	}
	*ret = value;
	return value <= max;
}

/* type/subtype of RFC 6838. */
static bool is_mime(const char *word)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&^_.+-";
	size_t type = strspn(word, letters), subtype;

	if (type == 0 || word[type] != '/')
		return false;
	subtype = strspn(word + type + 1, letters);
	return subtype > 0 && !word[type + 1 + subtype] && strlen(word) <= REPLIES_MIME_MAX;
}

static int check_cell(struct replies *replies, const char *word)
{
	uint64_t cell;

	if (replies->cell == 0)
		return wrong(replies, "it speaks though no code runs");
	if (!read_number(word, UINT32_MAX, &cell) || cell != replies->cell)
		return wrong(replies, "it speaks of code that does not run");
	return 0;
}

static bool has_mime(const struct replies *replies, const char *mime)
{
	for (size_t i = 0; i < replies->mimes_count; i++)
		if (strcmp(replies->mimes[i], mime) == 0)
			return true;
	return false;
}

/* The value of a part: the last one again, or the next. */
static int take_value(struct replies *replies, uint64_t value, bool is_result)
{
	if (value == replies->value && value > 0)
		return is_result == replies->value_is_result
			       ? 0
			       : wrong(replies, "a value is of two kinds");
	if (value != replies->value + 1ULL || value > REPLIES_VALUES_MAX)
		return wrong(replies, "its values are not counted up, or too many");
	if (is_result && replies->has_result)
		return wrong(replies, "there are two results");
	replies->has_result |= is_result;
	replies->value = (uint32_t)value;
	replies->value_is_result = is_result;
	replies->mimes_count = 0;
	return 0;
}

/* What comes before the length of a part, or of what was left out. */
static int take_representation(struct replies *replies, char *const *words, struct reply *ret)
{
	uint64_t value;

	ret->is_result = strcmp(words[3], "result") == 0;
	if (!ret->is_result && strcmp(words[3], "display") != 0)
		return wrong(replies, "a value is neither result nor display");
	if (!is_mime(words[4]))
		return wrong(replies, "a MIME type is none");
	if (!read_number(words[2], UINT32_MAX, &value) ||
		take_value(replies, value, ret->is_result) < 0)
		return replies->fault ? -1 : wrong(replies, "the number of a value is none");
	if (has_mime(replies, words[4]) || replies->mimes_count == REPLIES_PARTS_MAX)
		return wrong(replies, "a value has a representation twice, or too many");
	strcpy(replies->mimes[replies->mimes_count++], words[4]);
	strcpy(ret->mime, words[4]);
	ret->value = (uint32_t)value;
	return 0;
}

static int take_part(struct replies *replies, char *const *words, struct reply *ret)
{
	uint64_t length;

	if (take_representation(replies, words, ret) < 0)
		return -1;
	if (!read_number(words[5], REPLIES_CELL_MAX, &length) || length > replies->left)
		return wrong(replies, "it says more than 32 MiB of one cell");
	replies->wanted = (size_t)length;
	return 0;
}

static int take_cut(struct replies *replies, char *const *words, struct reply *ret)
{
	if (take_representation(replies, words, ret) < 0)
		return -1;
	return read_number(words[5], INT64_MAX, &ret->cut_length)
		       ? 0
		       : wrong(replies, "a length is none");
}

static int take_error(struct replies *replies, char *const *words, struct reply *ret)
{
	uint64_t line, lengths[3], sum = 0;

	if (replies->has_error)
		return wrong(replies, "there are two errors");
	if (!read_number(words[2], INT32_MAX, &line))
		return wrong(replies, "a line is no number");
	for (size_t i = 0; i < 3; i++) {
		if (!read_number(words[3 + i], REPLIES_CELL_MAX, &lengths[i]))
			return wrong(replies, "it says more than 32 MiB of one cell");
		sum += lengths[i];
	}
	if (sum > replies->left)
		return wrong(replies, "it says more than 32 MiB of one cell");
	ret->line = (uint32_t)line;
	ret->name_length = (size_t)lengths[0];
	ret->message_length = (size_t)lengths[1];
	ret->trace_length = (size_t)lengths[2];
	replies->has_error = true;
	replies->wanted = (size_t)sum;
	return 0;
}

static int take_end(struct replies *replies, char *const *words, struct reply *ret)
{
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		if (strcmp(words[2], statuses[i]) == 0) {
			if (i == CELL_OK && replies->has_error)
				return wrong(replies, "code with an error ended well");
			ret->status = (enum cell_status)i;
			replies->cell = 0;
			return 0;
		}
	return wrong(replies, "a status is none");
}

static const struct {
	const char *name;
	size_t words;
	enum reply_kind kind;
	int (*take)(struct replies *replies, char *const *words, struct reply *ret);
} kinds[] = {
	{"part", 6, REPLY_PART, take_part},
	{"cut", 6, REPLY_CUT, take_cut},
	{"error", 6, REPLY_ERROR, take_error},
	{"end", 3, REPLY_END, take_end},
};

/* A whole line, of which the newline is a NUL. */
static int read_header(struct replies *replies)
{
	struct reply *coming = &replies->coming;
	char *words[WORDS_MAX];
	size_t count = split(replies->header, words);

	memset(coming, 0, sizeof *coming);
	replies->wanted = 0;
	if (!replies->ready) {
		if (count != 1 || strcmp(words[0], "ready") != 0)
			return wrong(replies, "it does not begin with «ready»");
		replies->ready = true;
		coming->kind = REPLY_READY;
		return 0;
	}
	for (size_t i = 0; count > 0 && i < sizeof kinds / sizeof *kinds; i++) {
		if (strcmp(words[0], kinds[i].name) != 0)
			continue;
		coming->kind = kinds[i].kind;
		if (count != kinds[i].words)
			return wrong(replies, "a header has too many words, or too few");
		if (check_cell(replies, words[1]) < 0)
			return -1;
		return kinds[i].take(replies, words, coming);
	}
	return wrong(replies, "a header is none");
}

/* Takes bytes up to the end of the line. Returns 1 once it is whole, 0 where more is needed. */
static int fill_header(struct replies *replies, const uint8_t **data, size_t *length)
{
	while (*length > 0) {
		uint8_t byte = **data;

		(*data)++;
		(*length)--;
		if (replies->ready && replies->cell == 0)
			return wrong(replies, "it speaks though no code runs");
		if (replies->ready && replies->left-- == 0)
			return wrong(replies, "it says more than 32 MiB of one cell");
		if (byte == '\n') {
			replies->header[replies->header_length] = '\0';
			replies->header_length = 0;
			return 1;
		}
		if (byte < 0x20 || byte > 0x7e)
			return wrong(replies,
				"a header has other characters than those of ASCII that are shown");
		if (replies->header_length == REPLIES_HEADER_MAX - 1)
			return wrong(replies, "a header is too long");
		replies->header[replies->header_length++] = (char)byte;
	}
	return 0;
}

/* --- what follows them --- */

/* For `more` bytes behind those that are there: no more than have come, or twice that. */
static int make_room(struct replies *replies, size_t more)
{
	size_t size = replies->payload_size ? replies->payload_size : PAYLOAD_FIRST;
	uint8_t *grown;

	while (size - replies->payload_length < more)
		size *= 2;
	if (size == replies->payload_size)
		return 0;
	grown = realloc(replies->payload, size);
	if (!grown)
		return wrong(replies, "there is no memory for what it says");
	replies->payload = grown;
	replies->payload_size = size;
	return 0;
}

static int fill_payload(struct replies *replies, const uint8_t **data, size_t *length)
{
	size_t missing = replies->wanted - replies->payload_length,
	       part = missing < *length ? missing : *length;

	if (part > 0) {
		if (make_room(replies, part) < 0)
			return -1;
		memcpy(replies->payload + replies->payload_length, *data, part);
		replies->payload_length += part;
		replies->left -= part;
		*data += part;
		*length -= part;
	}
	return replies->payload_length == replies->wanted;
}

static void drop_payload(struct replies *replies)
{
	replies->payload_length = 0;
	if (replies->payload_size <= PAYLOAD_KEPT)
		return;
	free(replies->payload);
	replies->payload = NULL;
	replies->payload_size = 0;
}

enum replies_found replies_take(
	struct replies *replies, const uint8_t **data, size_t *length, struct reply *ret)
{
	int r;

	if (replies->fault)
		return REPLIES_NONSENSE;
	if (!replies->has_header) {
		drop_payload(replies);
		r = fill_header(replies, data, length);
		if (r > 0)
			r = read_header(replies) < 0 ? -1 : 1;
		if (r <= 0)
			return r < 0 ? REPLIES_NONSENSE : REPLIES_MORE;
		replies->has_header = true;
	}
	r = fill_payload(replies, data, length);
	if (r <= 0)
		return r < 0 ? REPLIES_NONSENSE : REPLIES_MORE;
	replies->has_header = false;
	*ret = replies->coming;
	ret->data = replies->payload ? replies->payload : (const uint8_t *)"";
	ret->length = replies->wanted;
	return REPLIES_ONE;
}
