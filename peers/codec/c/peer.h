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
	/* The bytes of the values, or, given others, those of what they are decoded to; 0 if they are not. */
	uint8_t *(*made)(int kind, uint8_t *given, size_t *len);
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

/* The next line, which may be empty, or 0. */
static char *peer_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');
	if (!end)
		return 0;
	*end = 0;
	*text = end + 1;
	return line;
}

static uint64_t peer_big_endian(const uint8_t *bytes)
{
	uint64_t value = 0;
	for (int i = 0; i < 8; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* The answer to no rounds, as src/main.rs says. */
static void peer_made(const char *folder, const struct peer_case *of)
{
	size_t len = 0;
	uint8_t *given = 0, *bytes;
	if (!strcmp(of->direction, "decode"))
		given = peer_read(folder, "given", &len);
	bytes = of->made(of->kind, given, &len);
	if (!bytes)
		printf("error it does not decode");
	for (size_t i = 0; bytes && i < len; i++)
		printf("%02x", bytes[i]);
	printf("\n");
	fflush(stdout);
	free(bytes);
	free(given);
}

/* Says what there is, and runs what is asked for until the input ends. */
static int peer_serve(const char *codec, const char *folder, const struct peer_case *cases, size_t count)
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
		if (rounds == 0) {
			peer_made(folder, &cases[which]);
			continue;
		}
		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (unsigned long long i = 0; i < rounds; i++)
			cases[which].round(cases[which].kind);
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + (end.tv_nsec - begin.tv_nsec));
		fflush(stdout);
	}
	return 0;
}
