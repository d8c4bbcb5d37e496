/* Contexts of XTP over outboards as sockets of SOCK_SEQPACKET. The arguments are the devices of two hosts, whose addresses are
 * 10.81.0.2 and 10.81.0.3, and that of one inline. */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

enum { LONGEST = 131072, SERVICE = 4700 };
static const size_t lengths[] = {1, 2, 100, 1400, 9000, 70000, LONGEST - 1, LONGEST};
static unsigned char out[LONGEST + 1], in[LONGEST + 1];

static int stack(const char *device, const char *address) {
    struct fw_config config = {sizeof config, device, address, NULL, 0};
    int opened = fw_open(&config);
    CHECK(opened >= 0);
    return opened;
}

static struct sockaddr_in at(const char *ip) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(SERVICE)};
    CHECK(inet_pton(AF_INET, ip, &in.sin_addr) == 1);
    return in;
}

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t len = sizeof value;
    CHECK(fw_getsockopt(fd, level, name, &value, &len) == 0 && len == sizeof value);
    return value;
}

int main(int count, char **words) {
    CHECK(count == 4);
    int here = stack(words[1], NULL), there = stack(words[2], NULL), on = 1, unread = -1;
    struct sockaddr_in service = at("10.81.0.3"), peer;
    socklen_t len = sizeof peer;
    struct pollfd waits;

    /* What there is of it elsewhere is refused, and so is what there is nowhere. */
    FAILS(fw_socket_on(stack(words[3], "10.82.0.2/24"), AF_INET, SOCK_SEQPACKET, IPPROTO_XTP), EPROTONOSUPPORT);
    FAILS(fw_socket_on(here, AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP), EPROTONOSUPPORT);
    FAILS(fw_socket_on(here, AF_INET, SOCK_STREAM, IPPROTO_XTP), EPROTONOSUPPORT);

    int listener = fw_socket_on(there, AF_INET, SOCK_SEQPACKET, IPPROTO_XTP);
    int client = fw_socket_on(here, AF_INET, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    CHECK(listener >= 0 && client >= 0);
    CHECK(option(client, SOL_SOCKET, SO_TYPE) == SOCK_SEQPACKET && option(client, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_XTP);
    FAILS(fw_send(client, out, 1, 0), ENOTCONN);
    CHECK(fw_setsockopt(listener, IPPROTO_XTP, XTP_CHECK, &on, sizeof on) == 0);
    CHECK(fw_setsockopt(client, IPPROTO_XTP, XTP_CHECK, &on, sizeof on) == 0);
    CHECK(fw_bind(listener, SA(service)) == 0 && fw_listen(listener, 4) == 0);

    /* It can be sent to as soon as it has called. */
    for (int i = 0; i < LONGEST; i++)
        out[i] = (unsigned char)(i * 7 + i / 251);
    CHECK(fw_connect(client, SA(service)) == 0 && fw_send(client, out, 5, 0) == 5);
    int server = fw_accept(listener, (struct sockaddr *)&peer, &len);
    CHECK(server >= 0 && peer.sin_addr.s_addr == at("10.81.0.2").sin_addr.s_addr);
    CHECK(fw_recv(server, in, sizeof in, MSG_PEEK) == 5 && fw_ioctl(server, FIONREAD, &unread) == 0 && unread == 5);
    CHECK(fw_recv(server, in, sizeof in, 0) == 5 && memcmp(in, out, 5) == 0);

    /* Each whole, whatever its length, gathered and scattered; of one that is longer than its room the rest is lost. */
    FAILS(fw_recv(client, in, sizeof in, 0), EAGAIN);
    for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        size_t size = lengths[at];
        struct iovec pieces[2] = {{out, size / 3}, {out + size / 3, size - size / 3}};
        struct iovec room[2] = {{in, 7}, {in + 7, LONGEST - 7}};
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2}, got = {.msg_iov = room, .msg_iovlen = 2};
        CHECK(fw_sendmsg(server, &message, MSG_EOR) == (ssize_t)size);
        waits = (struct pollfd){client, POLLIN, 0};
        CHECK(fw_poll(&waits, 1, 10000) == 1 && waits.revents == POLLIN);
        CHECK(fw_recvmsg(client, &got, 0) == (ssize_t)size && memcmp(in, out, size) == 0 && !(got.msg_flags & MSG_TRUNC));
    }
    /* Both know it once each has heard of the other. */
    CHECK(option(client, IPPROTO_XTP, XTP_CHECK) == 1 && option(server, IPPROTO_XTP, XTP_CHECK) == 1);
    FAILS(fw_send(server, out, LONGEST + 1, 0), EMSGSIZE);
    FAILS(fw_send(server, out, 0, 0), EINVAL);
    CHECK(fw_send(server, out, 100, 0) == 100 && fw_send(server, "next", 4, 0) == 4);
    waits.revents = 0;
    CHECK(fw_poll(&waits, 1, 10000) == 1 && fw_recv(client, in, 10, MSG_TRUNC) == 100 && memcmp(in, out, 10) == 0);
    CHECK(fw_poll(&waits, 1, 10000) == 1 && fw_recv(client, in, 10, 0) == 4 && memcmp(in, "next", 4) == 0);
    CHECK(fw_ioctl(client, FIONREAD, &unread) == 0 && unread == 0);
    FAILS(fw_ioctl(client, TIOCOUTQ, &unread), EOPNOTSUPP);

    /* Both ends, in turn. */
    CHECK(fw_shutdown(client, SHUT_WR) == 0 && fw_recv(server, in, sizeof in, 0) == 0);
    CHECK(fw_send(server, "last", 4, 0) == 4 && fw_close(server) == 0);
    CHECK(fw_poll(&waits, 1, 10000) == 1 && fw_recv(client, in, 10, 0) == 4);
    CHECK(fw_poll(&waits, 1, 10000) == 1 && fw_recv(client, in, 10, 0) == 0);
    CHECK(fw_close(client) == 0 && fw_close(listener) == 0);

    /* Nobody offers it any more. */
    client = fw_socket_on(here, AF_INET, SOCK_SEQPACKET, IPPROTO_XTP);
    CHECK(fw_connect(client, SA(service)) == 0);
    FAILS(fw_recv(client, in, 1, 0), ECONNREFUSED);
    return 0;
}
