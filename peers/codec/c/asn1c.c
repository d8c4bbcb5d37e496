/* What asn1c's own code does for each type: DER out, BER in. */
#include "peer.h"
#include <Ints.h>
#include <Reals.h>
#include <Strings.h>
#include <asn_SEQUENCE_OF.h>

#define KINDS 3

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

static Strings_t *strings(const char *folder)
{
	size_t len;
	char *file = (char *)peer_read(folder, "strings", &len);
	Strings_t *all = calloc(1, sizeof *all);
	for (char *line = strtok(file, "\n"); line; line = strtok(0, "\n")) {
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
	size_t len;
	uint8_t *reals;
	if (argc < 2)
		peer_fail("which folder has the values?");
	values[0] = ints(argv[1]);
	values[1] = strings(argv[1]);
	reals = peer_read(argv[1], "reals.ber", &len);
	if (ber_decode(0, type_of(2), &values[2], reals, len).code != RC_OK)
		peer_fail("asn1c refuses reals");
	for (int kind = 0; kind < KINDS; kind++) {
		/* All of them are lists of pointers. */
		size_t count = (size_t)((A_SEQUENCE_OF(void) *)values[kind])->count, most = 64 + 64 * count;
		asn_enc_rval_t result;
		bytes[kind] = malloc(most);
		room[kind] = malloc(most);
		result = der_encode_to_buffer(type_of(kind), values[kind], bytes[kind], most);
		if (result.encoded <= 0)
			peer_fail("asn1c does not encode");
		lens[kind] = (size_t)result.encoded;
		cases[2 * kind] = (struct peer_case){names[kind], "encode", count, lens[kind], encode, kind};
		cases[2 * kind + 1] = (struct peer_case){names[kind], "decode", count, lens[kind], decode, kind};
	}
	return peer_serve("asn1c", cases, 2 * KINDS);
}
