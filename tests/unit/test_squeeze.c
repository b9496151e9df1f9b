/* SPDX-License-Identifier: MIT */
/* What is compressed for layers: it comes out again, the same bytes always, and never out of too few. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "image/blob.h"
#include "image/squeeze.h"
#include "util/error.h"

enum { SIZE = 3 << 20, LARGE = 300 << 20, LOOKED_AT = 256 << 20 /* where an unpacker begins to look */ };

static unsigned char data[SIZE], again[SIZE];

/* Text that compresses, and then noise, which does not. */
static void fill(void)
{
	uint64_t state = 88172645463325252;

	for (size_t i = 0; i < SIZE; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		data[i] = i < SIZE / 2 ? (unsigned char)('a' + state % 3) : (unsigned char)state;
	}
}

static void check(int r, const struct error *err)
{
	if (r < 0)
		fail_msg("%s", err->text);
}

/* Squeezes it in parts of that length. Returns a file with what came out. */
static int squeeze_in(size_t part, struct squeezed *ret)
{
	int fd = memfd_create("squeezed", MFD_CLOEXEC);
	struct error err = {0};
	struct squeeze *squeeze = squeeze_new(fd, &err);

	assert_non_null(squeeze);
	for (size_t done = 0; done < SIZE; done += part)
		check(squeeze_write(squeeze, data + done, part < SIZE - done ? part : SIZE - done, &err), &err);
	assert_int_equal(squeeze_taken(squeeze), SIZE);
	check(squeeze_finish(squeeze, ret, &err), &err);
	squeeze_free(squeeze);
	return fd;
}

static void it_comes_out_again(void **state)
{
	char digest[DIGEST_SIZE];
	struct squeezed squeezed;
	struct stat st;
	gzFile file;
	int fd;

	fill();
	fd = squeeze_in(10000, &squeezed);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, squeezed.out_bytes);
	assert_true(squeezed.out_bytes < SIZE * 3 / 4);
	assert_int_equal(squeezed.in_bytes, SIZE);
	digest_of(data, SIZE, digest);
	assert_string_equal(digest, squeezed.in_digest);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	file = gzdopen(fd, "rb");
	assert_non_null(file);
	assert_int_equal(gzread(file, again, SIZE), SIZE);
	assert_memory_equal(data, again, SIZE);
	gzclose(file);
}

static void parts_make_no_difference(void **state)
{
	static const size_t parts[] = {1 << 20, 4096, 511, SIZE};
	struct squeezed first, other;

	fill();
	close(squeeze_in(7, &first));
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		close(squeeze_in(parts[i], &other));
		assert_string_equal(other.out_digest, first.out_digest);
		assert_string_equal(other.in_digest, first.in_digest);
	}
}

/* Of the beginning of what came out, as much as is there, nothing comes that would be refused. */
static void too_much_never_comes_of_too_little(void **state)
{
	int fd = memfd_create("squeezed", MFD_CLOEXEC);
	struct error err = {0};
	struct squeeze *squeeze = squeeze_new(fd, &err);
	struct squeezed squeezed;
	z_stream z = {0};
	int r = Z_OK;

	memset(data, 'x', SIZE);
	for (size_t done = 0; done < LARGE; done += SIZE)
		check(squeeze_write(squeeze, data, SIZE, &err), &err);
	check(squeeze_finish(squeeze, &squeezed, &err), &err);
	squeeze_free(squeeze);
	assert_true(squeezed.in_bytes / squeezed.out_bytes <= 100);
	assert_true(squeezed.in_bytes / squeezed.out_bytes >= 50);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	while (r == Z_OK) {
		ssize_t n = read(fd, data, 64 << 10);

		z.next_in = data;
		z.avail_in = n > 0 ? (unsigned)n : 0;
		do {
			z.next_out = again;
			z.avail_out = SIZE;
			r = inflate(&z, Z_NO_FLUSH);
			if (z.total_out > LOOKED_AT)
				assert_true(z.total_out / z.total_in <= 100);
		} while (r == Z_OK && z.avail_out == 0);
	}
	assert_int_equal(r, Z_STREAM_END);
	assert_int_equal(z.total_out, squeezed.in_bytes);
	inflateEnd(&z);
	close(fd);
}

static void a_full_disk_is_an_error(void **state)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct error err = {0};
	struct squeeze *squeeze = squeeze_new(fd, &err);
	struct squeezed squeezed;

	assert_int_equal(squeeze_write(squeeze, data, 100, &err), 0);
	assert_int_equal(squeeze_finish(squeeze, &squeezed, &err), -1);
	assert_non_null(strstr(err.text, "No space left"));
	squeeze_free(squeeze);
	close(fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_comes_out_again),
		cmocka_unit_test(parts_make_no_difference),
		cmocka_unit_test(too_much_never_comes_of_too_little),
		cmocka_unit_test(a_full_disk_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
