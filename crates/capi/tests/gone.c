/* A message of which some is lost and not sent again, over outboards: each call tells of it that comes to it, and
 * why a context is over is told. The arguments are the devices of two hosts, whose addresses are 10.81.0.2 and 10.81.0.3; the
 * first loses the first packet with a mark in it. */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>

static int stack(const char *device) {
    struct fw_config config = {sizeof config, device, NULL, NULL, 0};
    int opened = fw_open(&config);
    CHECK(opened >= 0);
    return opened;
}

int main(int count, char **words) {
    static char long_one[6000], in[3][8000];
    struct sockaddr_in service = {.sin_family = AF_INET, .sin_port = htons(4700)};
    struct iovec room[3];
    struct mmsghdr all[3];
    int on = 1;

    CHECK(count == 3 && inet_pton(AF_INET, "10.81.0.3", &service.sin_addr) == 1);
    int listener = fw_socket_on(stack(words[2]), AF_INET, SOCK_SEQPACKET, IPPROTO_XTP);
    int client = fw_socket_on(stack(words[1]), AF_INET, SOCK_SEQPACKET, IPPROTO_XTP);
    CHECK(listener >= 0 && client >= 0);
    CHECK(fw_setsockopt(client, IPPROTO_XTP, XTP_NOERR, &on, sizeof on) == 0);
    CHECK(fw_bind(listener, SA(service)) == 0 && fw_listen(listener, 4) == 0);
    CHECK(fw_connect(client, SA(service)) == 0 && fw_send(client, "first", 5, 0) == 5);
    int server = fw_accept(listener, NULL, NULL);
    memset(long_one + 3000, 'L', 500);
    CHECK(server >= 0 && fw_send(client, long_one, sizeof long_one, 0) == (ssize_t)sizeof long_one);
    CHECK(fw_send(client, "third", 5, 0) == 5);

    memset(all, 0, sizeof all);
    for (int i = 0; i < 3; i++) {
        room[i] = (struct iovec){in[i], sizeof in[i]};
        all[i].msg_hdr = (struct msghdr){.msg_iov = &room[i], .msg_iovlen = 1};
    }
    CHECK(fw_recvmmsg(server, all, 3, 0, NULL) == 1 && all[0].msg_len == 5 && memcmp(in[0], "first", 5) == 0);
    /* Until it is told it lies where it lay, and nothing has failed: the kernel shows it to who waits. */
    struct pollfd quiet = {server, 0, 0};
    CHECK(fw_poll(&quiet, 1, 0) == 0);
    FAILS(fw_recvmmsg(server, all, 3, 0, NULL), EBADMSG);
    CHECK(fw_recvmmsg(server, all, 1, 0, NULL) == 1 && all[0].msg_len == 5 && memcmp(in[0], "third", 5) == 0);

    /* Of what cannot be sent behind another too, and the other is gone. */
    _Alignas(struct cmsghdr) char ttl[CMSG_SPACE(sizeof on)] = {0};
    *(struct cmsghdr *)ttl = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof on), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_TTL};
    memcpy(CMSG_DATA((struct cmsghdr *)ttl), &on, sizeof on);
    struct iovec piece = {"plain", 5};
    struct mmsghdr two[2] = {{.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}}};
    two[1] = two[0];
    two[1].msg_hdr.msg_control = ttl, two[1].msg_hdr.msg_controllen = sizeof ttl;
    CHECK(fw_sendmmsg(client, two, 2, 0) == 1);
    FAILS(fw_sendmmsg(client, two + 1, 1, 0), EOPNOTSUPP);

    /* And so is why there will be no others. */
    struct pollfd end = {server, 0, 0}, unread = {client, POLLIN, 0};
    CHECK(fw_send(server, "unread", 6, 0) == 6 && fw_poll(&unread, 1, 10000) == 1);
    CHECK(fw_close(client) == 0 && fw_poll(&end, 1, 10000) == 1 && (end.revents & POLLHUP));
    CHECK(fw_recvmmsg(server, all, 3, 0, NULL) == 1 && all[0].msg_len == 5 && memcmp(in[0], "plain", 5) == 0);
    end.events = POLLIN;
    CHECK(fw_poll(&end, 1, 0) == 1 && (end.revents & POLLERR));
    FAILS(fw_recvmmsg(server, all, 3, 0, NULL), ECONNRESET);
    CHECK(fw_recvmmsg(server, all, 3, 0, NULL) == 0);
    return 0;
}
