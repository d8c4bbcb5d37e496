/* XDR by libtirpc: arrays as rpcgen writes their filters. */
#include <rpc/rpc.h>
#include <stdint.h>
#include <stdlib.h>

static xdrproc_t filter(int kind)
{
	return kind == 0 ? (xdrproc_t)xdr_int : kind == 1 ? (xdrproc_t)xdr_wrapstring : (xdrproc_t)xdr_double;
}

static u_int size(int kind)
{
	return kind == 0 ? sizeof(int) : kind == 1 ? sizeof(char *) : sizeof(double);
}

size_t peer_tirpc_encode(int kind, void *array, unsigned count, uint8_t *room, size_t len)
{
	XDR xdrs;
	char *at = array;
	xdrmem_create(&xdrs, (char *)room, len, XDR_ENCODE);
	if (!xdr_array(&xdrs, &at, &count, 1 << 20, size(kind), filter(kind)))
		return 0;
	return xdr_getpos(&xdrs);
}

size_t peer_tirpc_decode(int kind, uint8_t *bytes, size_t len)
{
	XDR xdrs;
	char *at = 0;
	unsigned count = 0;
	xdrmem_create(&xdrs, (char *)bytes, len, XDR_DECODE);
	if (!xdr_array(&xdrs, &at, &count, 1 << 20, size(kind), filter(kind)))
		return 0;
	xdrs.x_op = XDR_FREE;
	xdr_array(&xdrs, &at, &count, 1 << 20, size(kind), filter(kind));
	return count;
}
