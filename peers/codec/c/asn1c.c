/* What asn1c's own code does for each type: DER out, BER in. */
#include <Ints.h>
#include <Reals.h>
#include <Strings.h>
#include <asn_SEQUENCE_OF.h>
#include <stdint.h>

static asn_TYPE_descriptor_t *type_of(int kind)
{
	return kind == 0 ? &asn_DEF_Ints : kind == 1 ? &asn_DEF_Strings : &asn_DEF_Reals;
}

void *peer_asn1c_decode(int kind, const uint8_t *bytes, size_t len)
{
	void *value = 0;
	asn_dec_rval_t result = ber_decode(0, type_of(kind), &value, bytes, len);
	return result.code == RC_OK ? value : 0;
}

size_t peer_asn1c_encode(int kind, void *value, uint8_t *room, size_t len)
{
	asn_enc_rval_t result = der_encode_to_buffer(type_of(kind), value, room, len);
	return result.encoded < 0 ? 0 : (size_t)result.encoded;
}

void peer_asn1c_free(int kind, void *value)
{
	asn_TYPE_descriptor_t *type = type_of(kind);
	type->free_struct(type, value, 0);
}
