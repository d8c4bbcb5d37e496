/* What kinds.x says, by rpcgen and libtirpc: on two ports of 127.0.0.1, which it prints. */
#include "kinds.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kinds_prog_1(struct svc_req *, SVCXPRT *);
void kinds_prog_3(struct svc_req *, SVCXPRT *);

void *kinds_null_1_svc(void *argp, struct svc_req *rqstp) {
	static char nothing;
	return &nothing;
}

int *kinds_sum_1_svc(pair *argp, struct svc_req *rqstp) {
	static int sum;
	sum = argp->a + argp->b;
	return &sum;
}

everything *kinds_echo_3_svc(everything *argp, struct svc_req *rqstp) {
	return argp;
}

blob *kinds_large_3_svc(u_int *argp, struct svc_req *rqstp) {
	static blob result;
	free(result.blob_val);
	result.blob_len = *argp;
	result.blob_val = malloc(*argp + 1);
	for (u_int i = 0; i < *argp; i++)
		result.blob_val[i] = (char)(i * 31 + (i >> 8));
	return &result;
}

/* The caller's user. */
u_int *kinds_count_3_svc(void *argp, struct svc_req *rqstp) {
	static u_int uid;
	uid = 0;
	if (rqstp->rq_cred.oa_flavor == AUTH_SYS)
		uid = ((struct authunix_parms *)rqstp->rq_clntcred)->aup_uid;
	return &uid;
}

entries *kinds_reverse_3_svc(entries *argp, struct svc_req *rqstp) {
	static entries result;
	entry *reversed = NULL, *next;
	for (entry *e = *argp; e; e = next) {
		next = e->next;
		e->next = reversed;
		reversed = e;
	}
	/* What is freed afterwards is what was given. */
	*argp = reversed;
	result = reversed;
	return &result;
}

name *kinds_greet_3_svc(name *argp, struct svc_req *rqstp) {
	static char text[64];
	static name result = text;
	snprintf(text, sizeof text, "hi %.12s", *argp);
	return &result;
}

void *kinds_take_3_svc(blob *argp, struct svc_req *rqstp) {
	static char nothing;
	for (u_int i = 0; i < argp->blob_len; i++)
		if (argp->blob_val[i] != (char)(i * 31 + (i >> 8))) {
			svcerr_systemerr(rqstp->rq_xprt);
			return NULL;
		}
	return &nothing;
}

int *kinds_fail_3_svc(void *argp, struct svc_req *rqstp) {
	svcerr_systemerr(rqstp->rq_xprt);
	return NULL;
}

static int bound(int type, unsigned *port) {
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof addr;
	int fd = socket(AF_INET, type, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0 ||
	    getsockname(fd, (struct sockaddr *)&addr, &len) < 0 ||
	    (type == SOCK_STREAM && listen(fd, 16) < 0)) {
		perror("socket");
		exit(1);
	}
	*port = ntohs(addr.sin_port);
	return fd;
}

int main(void) {
	unsigned tcp_port, udp_port;
	/* Small buffers: large replies leave in many fragments. */
	SVCXPRT *tcp = svctcp_create(bound(SOCK_STREAM, &tcp_port), 3000, 3000);
	SVCXPRT *udp = svcudp_bufcreate(bound(SOCK_DGRAM, &udp_port), 65000, 65000);
	if (!tcp || !udp ||
	    !svc_register(tcp, KINDS_PROG, KINDS_FIRST, kinds_prog_1, 0) ||
	    !svc_register(tcp, KINDS_PROG, KINDS_SECOND, kinds_prog_3, 0) ||
	    !svc_register(udp, KINDS_PROG, KINDS_FIRST, kinds_prog_1, 0) ||
	    !svc_register(udp, KINDS_PROG, KINDS_SECOND, kinds_prog_3, 0)) {
		fprintf(stderr, "cannot serve\n");
		return 1;
	}
	printf("%u %u\n", tcp_port, udp_port);
	fflush(stdout);
	alarm(120);
	svc_run();
	return 1;
}
