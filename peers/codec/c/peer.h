/* What the peers in C have in common: values are read from a folder, and rounds are run as the line protocol says
 * (src/main.rs). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One type in one direction. */
struct peer_case {
	const char *of, *direction;
	size_t elements, bytes;
	void (*round)(int kind);
	int kind;
};

static void peer_fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

/* A file of the folder, ended by a zero byte that does not count. */
static uint8_t *peer_read(const char *folder, const char *name, size_t *len)
{
	char path[4096];
	long end;
	uint8_t *bytes;
	FILE *file;
	if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
		peer_fail("the folder's name is too long");
	file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END) < 0 || (end = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) < 0)
		peer_fail(path);
	bytes = calloc(1, (size_t)end + 1);
	if (!bytes || fread(bytes, 1, (size_t)end, file) != (size_t)end)
		peer_fail(path);
	fclose(file);
	*len = (size_t)end;
	return bytes;
}

static uint64_t peer_big_endian(const uint8_t *bytes)
{
	uint64_t value = 0;
	for (int i = 0; i < 8; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* Says what there is, and runs what is asked for until the input ends. */
static int peer_serve(const char *codec, const struct peer_case *cases, size_t count)
{
	size_t which;
	unsigned long long rounds;
	for (size_t i = 0; i < count; i++)
		printf("%s %s %s %zu %zu\n", codec, cases[i].of, cases[i].direction, cases[i].elements, cases[i].bytes);
	printf("\n");
	fflush(stdout);
	while (scanf("%zu %llu", &which, &rounds) == 2) {
		struct timespec begin, end;
		if (which >= count)
			peer_fail("no such case");
		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (unsigned long long i = 0; i < rounds; i++)
			cases[which].round(cases[which].kind);
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + (end.tv_nsec - begin.tv_nsec));
		fflush(stdout);
	}
	return 0;
}
