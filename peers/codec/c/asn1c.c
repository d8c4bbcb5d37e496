/* What asn1c's own code does for each type: DER out, BER in. */
#include "peer.h"
#include <Ints.h>
#include <Reals.h>
#include <Strings.h>
#include <asn_SEQUENCE_OF.h>

#define KINDS 3
#define ROOM (1 << 20)

static void *values[KINDS];
static uint8_t *bytes[KINDS], *room[KINDS];
static size_t lens[KINDS];

static asn_TYPE_descriptor_t *type_of(int kind)
{
	return kind == 0 ? &asn_DEF_Ints : kind == 1 ? &asn_DEF_Strings : &asn_DEF_Reals;
}

static void encode(int kind)
{
	asn_enc_rval_t result = der_encode_to_buffer(type_of(kind), values[kind], room[kind], lens[kind]);
	if (result.encoded != (ssize_t)lens[kind])
		peer_fail("asn1c does not encode");
}

static void decode(int kind)
{
	void *value = 0;
	asn_TYPE_descriptor_t *type = type_of(kind);
	asn_dec_rval_t result = ber_decode(0, type, &value, bytes[kind], lens[kind]);
	if (result.code != RC_OK)
		peer_fail("asn1c does not decode");
	type->free_struct(type, value, 0);
}

static uint8_t *made(int kind, uint8_t *given, size_t *len)
{
	asn_TYPE_descriptor_t *type = type_of(kind);
	void *value = 0;
	uint8_t *out = malloc(ROOM);
	asn_enc_rval_t result;
	if (given) {
		asn_dec_rval_t read = ber_decode(0, type, &value, given, *len);
		if (read.code != RC_OK || read.consumed != *len) {
			type->free_struct(type, value, 0);
			free(out);
			return 0;
		}
	}
	result = der_encode_to_buffer(type, given ? value : values[kind], out, ROOM);
	if (result.encoded <= 0)
		peer_fail("asn1c does not encode");
	if (given)
		type->free_struct(type, value, 0);
	*len = (size_t)result.encoded;
	return out;
}

static Ints_t *ints(const char *folder)
{
	size_t len;
	uint8_t *file = peer_read(folder, "ints", &len);
	Ints_t *all = calloc(1, sizeof *all);
	for (size_t at = 0; at + 8 <= len; at += 8) {
		long *one = malloc(sizeof *one);
		*one = (long)peer_big_endian(file + at);
		ASN_SEQUENCE_ADD(&all->list, one);
	}
	return all;
}

static Reals_t *reals(const char *folder)
{
	size_t len;
	uint8_t *file = peer_read(folder, "reals", &len);
	Reals_t *all = calloc(1, sizeof *all);
	for (size_t at = 0; at + 8 <= len; at += 8) {
		uint64_t bits = peer_big_endian(file + at);
		double *one = malloc(sizeof *one);
		memcpy(one, &bits, sizeof bits);
		ASN_SEQUENCE_ADD(&all->list, one);
	}
	return all;
}

static Strings_t *strings(const char *folder)
{
	size_t len;
	char *file = (char *)peer_read(folder, "strings", &len);
	Strings_t *all = calloc(1, sizeof *all);
	for (char *line; (line = peer_line(&file));) {
		PrintableString_t *one = calloc(1, sizeof *one);
		OCTET_STRING_fromBuf(one, line, (int)strlen(line));
		ASN_SEQUENCE_ADD(&all->list, one);
	}
	return all;
}

int main(int argc, char **argv)
{
	static const char *const names[KINDS] = {"ints", "strings", "reals"};
	struct peer_case cases[2 * KINDS];
	if (argc < 2)
		peer_fail("which folder has the values?");
	values[0] = ints(argv[1]);
	values[1] = strings(argv[1]);
	values[2] = reals(argv[1]);
	for (int kind = 0; kind < KINDS; kind++) {
		/* All of them are lists of pointers. */
		size_t count = (size_t)((A_SEQUENCE_OF(void) *)values[kind])->count;
		asn_enc_rval_t result;
		bytes[kind] = malloc(ROOM);
		room[kind] = malloc(ROOM);
		result = der_encode_to_buffer(type_of(kind), values[kind], bytes[kind], ROOM);
		if (result.encoded <= 0)
			peer_fail("asn1c does not encode");
		lens[kind] = (size_t)result.encoded;
		cases[2 * kind] = (struct peer_case){names[kind], "encode", count, lens[kind], encode, kind, made};
		cases[2 * kind + 1] = (struct peer_case){names[kind], "decode", count, lens[kind], decode, kind, made};
	}
	return peer_serve("asn1c", argv[1], cases, 2 * KINDS);
}
