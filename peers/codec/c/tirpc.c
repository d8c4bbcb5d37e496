/* XDR by libtirpc: arrays as rpcgen writes their filters. */
#include "peer.h"
#include <rpc/rpc.h>

#define KINDS 3
#define ROOM (1 << 20)

/* As rpcgen does for `string<>`; xdr_wrapstring takes no long ones. */
static bool_t xdr_text(XDR *xdrs, char **text)
{
	return xdr_string(xdrs, text, ~0u);
}

static const xdrproc_t filters[KINDS] = {(xdrproc_t)xdr_int, (xdrproc_t)xdr_text, (xdrproc_t)xdr_double};
static const u_int sizes[KINDS] = {sizeof(int), sizeof(char *), sizeof(double)};
static char *arrays[KINDS];
static u_int counts[KINDS];
static uint8_t bytes[KINDS][ROOM], room[ROOM];
static size_t lens[KINDS];

static size_t encode_array(int kind, char **array, u_int *count, uint8_t *out)
{
	XDR xdrs;
	xdrmem_create(&xdrs, (char *)out, ROOM, XDR_ENCODE);
	if (!xdr_array(&xdrs, array, count, 1 << 20, sizes[kind], filters[kind]))
		peer_fail("libtirpc does not encode");
	return xdr_getpos(&xdrs);
}

static size_t encode_into(int kind, uint8_t *out)
{
	return encode_array(kind, &arrays[kind], &counts[kind], out);
}

static void encode(int kind)
{
	if (encode_into(kind, room) != lens[kind])
		peer_fail("libtirpc does not encode the same");
}

static void decode(int kind)
{
	XDR xdrs;
	char *at = 0;
	u_int count = 0;
	xdrmem_create(&xdrs, (char *)bytes[kind], (u_int)lens[kind], XDR_DECODE);
	if (!xdr_array(&xdrs, &at, &count, 1 << 20, sizes[kind], filters[kind]) || count != counts[kind])
		peer_fail("libtirpc does not decode");
	xdrs.x_op = XDR_FREE;
	xdr_array(&xdrs, &at, &count, 1 << 20, sizes[kind], filters[kind]);
}

static uint8_t *made(int kind, uint8_t *given, size_t *len)
{
	XDR xdrs;
	char *at = 0;
	u_int count = 0;
	uint8_t *out = malloc(ROOM);
	if (!given) {
		*len = encode_into(kind, out);
		return out;
	}
	xdrmem_create(&xdrs, (char *)given, (u_int)*len, XDR_DECODE);
	if (!xdr_array(&xdrs, &at, &count, 1 << 20, sizes[kind], filters[kind]) || xdr_getpos(&xdrs) != *len) {
		free(out);
		return 0;
	}
	*len = encode_array(kind, &at, &count, out);
	xdrs.x_op = XDR_FREE;
	xdr_array(&xdrs, &at, &count, 1 << 20, sizes[kind], filters[kind]);
	return out;
}

static void load(const char *folder)
{
	size_t len;
	uint8_t *file = peer_read(folder, "ints", &len);
	int *ints = calloc(len / 8 + 1, sizeof *ints);
	double *reals;
	char **strings, *text;
	counts[0] = (u_int)(len / 8);
	for (u_int i = 0; i < counts[0]; i++)
		ints[i] = (int)peer_big_endian(file + 8 * i);
	file = peer_read(folder, "reals", &len);
	reals = calloc(len / 8 + 1, sizeof *reals);
	counts[2] = (u_int)(len / 8);
	for (u_int i = 0; i < counts[2]; i++) {
		uint64_t bits = peer_big_endian(file + 8 * i);
		memcpy(&reals[i], &bits, sizeof bits);
	}
	text = (char *)peer_read(folder, "strings", &len);
	strings = calloc(len + 1, sizeof *strings);
	for (char *line; (line = peer_line(&text));)
		strings[counts[1]++] = line;
	arrays[0] = (char *)ints;
	arrays[1] = (char *)strings;
	arrays[2] = (char *)reals;
}

int main(int argc, char **argv)
{
	static const char *const names[KINDS] = {"ints32", "strings", "reals"};
	struct peer_case cases[2 * KINDS];
	if (argc < 2)
		peer_fail("which folder has the values?");
	load(argv[1]);
	for (int kind = 0; kind < KINDS; kind++) {
		lens[kind] = encode_into(kind, bytes[kind]);
		cases[2 * kind] = (struct peer_case){names[kind], "encode", counts[kind], lens[kind], encode, kind, made};
		cases[2 * kind + 1] = (struct peer_case){names[kind], "decode", counts[kind], lens[kind], decode, kind, made};
	}
	return peer_serve("libtirpc XDR", argv[1], cases, 2 * KINDS);
}
