/* Calls what kinds.x says of a server at 127.0.0.1: client PROTOCOL PORT. Ends with 0 when all is right. */
#include "kinds.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static struct sockaddr_in server = { .sin_family = AF_INET };
static int is_udp;

static CLIENT *client(rpcprog_t prog, rpcvers_t vers) {
	int fd = RPC_ANYSOCK;
	struct timeval wait = { 1, 0 };
	/* Small buffers: large calls leave in many fragments. */
	CLIENT *c = is_udp ? clntudp_bufcreate(&server, prog, vers, wait, &fd, 65000, 65000)
	                   : clnttcp_create(&server, prog, vers, &fd, 2000, 2000);
	if (!c) {
		clnt_pcreateerror("client");
		exit(1);
	}
	return c;
}

static enum clnt_stat call(CLIENT *c, rpcproc_t proc, xdrproc_t args, void *arg, xdrproc_t res, void *result) {
	struct timeval wait = { 10, 0 };
	return clnt_call(c, proc, args, arg, res, result, wait);
}

static u_int bytes_of(everything *value, char *into, u_int room) {
	XDR xdrs;
	xdrmem_create(&xdrs, into, room, XDR_ENCODE);
	CHECK(xdr_everything(&xdrs, value));
	return xdr_getpos(&xdrs);
}

static scalars some(int n) {
	return (scalars){ n, 4000000000u, -5000000000ll - n, 18000000000000000000ull, 1.5f * n, -2.25, TRUE, BLUE };
}

static void echo(CLIENT *c) {
	static char before[65000], after[65000];
	static everything v, back;
	static scalars several[3];
	static entry chain[5];
	static tree trees[3];
	static shape shapes[3];
	static outcome outcomes[3];
	static step steps[3];
	v.s = some(-7);
	memcpy(v.o.fixed, "\1\2\3\4\5", 5);
	v.o.variable.variable_val = "abcdefg";
	v.o.variable.variable_len = 7;
	v.o.text = "text \303\244";
	memset(v.o.sum, 0xaa, 16);
	v.o.called = "sixteen letters!";
	memset(v.o.large, 'x', 5000);
	for (int i = 0; i < 3; i++) {
		v.l.triple[i] = i - 1;
		several[i] = some(i);
	}
	quad_t quads[8] = { 1, -1, 1ll << 62, 4, 5, 6, 7, 8 };
	v.l.some.some_val = quads;
	v.l.some.some_len = 8;
	v.l.pair[0] = some(1);
	v.l.pair[1] = some(2);
	v.l.several.several_val = several;
	v.l.several.several_len = 3;
	name names[2] = { "one", "" };
	v.l.names.names_val = names;
	v.l.names.names_len = 2;
	v.l.two[0] = "a";
	v.l.two[1] = "bcd";
	int numbers_of[3] = { 7, 8, 9 };
	numbers rows[2] = { { 3, numbers_of }, { 0, NULL } };
	v.l.rows.rows_val = rows;
	v.l.rows.rows_len = 2;
	double ds[2] = { 0.1, -1e300 };
	v.l.ds.ds_val = ds;
	v.l.ds.ds_len = 2;
	colour colours[3] = { RED, GREEN, BLUE };
	v.l.colours.colours_val = colours;
	v.l.colours.colours_len = 3;
	v.m.one = &several[1];
	for (int i = 0; i < 5; i++)
		chain[i] = (entry){ i, "link", i < 4 ? &chain[i + 1] : NULL };
	v.m.chain = chain;
	trees[0] = (tree){ 1, &trees[1], &trees[2] };
	trees[1] = (tree){ 2, NULL, NULL };
	trees[2] = (tree){ 3, NULL, NULL };
	v.m.root = trees;
	shapes[0].kind = RED;
	shapes[0].shape_u.number = 5;
	shapes[1].kind = GREEN;
	shapes[1].shape_u.text = "green";
	shapes[2].kind = BLUE;
	shapes[2].shape_u.text = "blue";
	v.shapes.shapes_val = shapes;
	v.shapes.shapes_len = 3;
	outcomes[0].status = 0;
	outcomes[0].outcome_u.data.data_val = "data";
	outcomes[0].outcome_u.data.data_len = 4;
	outcomes[1].status = -1;
	outcomes[2].status = 77;
	outcomes[2].outcome_u.code = -77;
	v.outcomes.outcomes_val = outcomes;
	v.outcomes.outcomes_len = 3;
	v.choices[0].there = TRUE;
	v.choices[0].choice_u.value = some(3);
	v.choices[1].there = FALSE;
	steps[0].n = 1;
	steps[0].step_u.some = rows[0];
	steps[1].n = 0x80000000;
	steps[1].step_u.inner = shapes[1];
	steps[2].n = 12;
	v.steps.steps_val = steps;
	v.steps.steps_len = 3;
	u_int len = bytes_of(&v, before, sizeof before);
	CHECK(call(c, KINDS_ECHO, (xdrproc_t)xdr_everything, &v, (xdrproc_t)xdr_everything, &back) == RPC_SUCCESS);
	CHECK(bytes_of(&back, after, sizeof after) == len);
	CHECK(memcmp(before, after, len) == 0);
}

static void large(CLIENT *c) {
	blob got = { 0 };
	u_int len = is_udp ? 60000 : 700001;
	CHECK(call(c, KINDS_LARGE, (xdrproc_t)xdr_u_int, &len, (xdrproc_t)xdr_blob, &got) == RPC_SUCCESS);
	CHECK(got.blob_len == len);
	for (u_int i = 0; i < len; i++)
		CHECK(got.blob_val[i] == (char)(i * 31 + (i >> 8)));
	CHECK(call(c, KINDS_TAKE, (xdrproc_t)xdr_blob, &got, (xdrproc_t)xdr_void, NULL) == RPC_SUCCESS);
	got.blob_val[len - 1] ^= 1;
	CHECK(call(c, KINDS_TAKE, (xdrproc_t)xdr_blob, &got, (xdrproc_t)xdr_void, NULL) == RPC_SYSTEMERROR);
}

static void refused(CLIENT *c, enum clnt_stat expected, rpcproc_t proc, u_long low, u_long high) {
	struct rpc_err why;
	CHECK(call(c, proc, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL) == expected);
	clnt_geterr(c, &why);
	if (expected == RPC_PROGVERSMISMATCH)
		CHECK(why.re_vers.low == low && why.re_vers.high == high);
}

int main(int argc, char **argv) {
	CHECK(argc == 3);
	is_udp = strcmp(argv[1], "udp") == 0;
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server.sin_port = htons(atoi(argv[2]));
	alarm(60);
	CLIENT *first = client(KINDS_PROG, KINDS_FIRST), *c = client(KINDS_PROG, KINDS_SECOND);
	pair two = { 40, 2 };
	int sum = 0;
	u_int uid = 1;
	CHECK(call(first, KINDS_NULL, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL) == RPC_SUCCESS);
	CHECK(call(first, KINDS_SUM, (xdrproc_t)xdr_pair, &two, (xdrproc_t)xdr_int, &sum) == RPC_SUCCESS);
	CHECK(sum == 42);
	/* Procedure 0 of the version that declares none. */
	CHECK(call(c, 0, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL) == RPC_SUCCESS);
	echo(c);
	large(c);
	char *greeted = NULL, *who = "tirpc";
	CHECK(call(c, KINDS_GREET, (xdrproc_t)xdr_name, &who, (xdrproc_t)xdr_name, &greeted) == RPC_SUCCESS);
	CHECK(strcmp(greeted, "hi tirpc") == 0);
	entry chain[3] = { { 1, "a", &chain[1] }, { 2, "b", &chain[2] }, { 3, "c", NULL } };
	entries list = chain, reversed = NULL;
	CHECK(call(c, KINDS_REVERSE, (xdrproc_t)xdr_entries, &list, (xdrproc_t)xdr_entries, &reversed) == RPC_SUCCESS);
	CHECK(reversed->value == 3 && reversed->next->value == 2 && reversed->next->next->value == 1);
	CHECK(!reversed->next->next->next);
	CHECK(call(c, KINDS_COUNT, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_u_int, &uid) == RPC_SUCCESS && uid == 0);
	gid_t gids[2] = { 5, 6 };
	auth_destroy(c->cl_auth);
	c->cl_auth = authunix_create("machine", 4711, 100, 2, gids);
	CHECK(call(c, KINDS_COUNT, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_u_int, &uid) == RPC_SUCCESS && uid == 4711);
	refused(c, RPC_SYSTEMERROR, KINDS_FAIL, 0, 0);
	refused(c, RPC_PROCUNAVAIL, 99, 0, 0);
	refused(c, RPC_CANTDECODEARGS, KINDS_ECHO, 0, 0);
	refused(client(KINDS_PROG, 2), RPC_PROGVERSMISMATCH, 0, KINDS_FIRST, KINDS_SECOND);
	refused(client(KINDS_PROG + 1, 1), RPC_PROGUNAVAIL, 0, 0, 0);
	printf("right\n");
	return 0;
}
