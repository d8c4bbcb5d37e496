/* What options do, as a script that says what came of each: it is run against this library and, built with KERNEL, against the
 * kernel's sockets, and says the same. */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#ifdef KERNEL
#define fw_socket socket
#define fw_bind bind
#define fw_listen listen
#define fw_accept accept
#define fw_connect connect
#define fw_close close
#define fw_send send
#define fw_sendto sendto
#define fw_recv recv
#define fw_sendmsg sendmsg
#define fw_recvmsg recvmsg
#define fw_poll poll
#define fw_setsockopt setsockopt
#define fw_getsockopt getsockopt
#define fw_getsockname getsockname
#endif

static const char *say(int result) { return result < 0 ? strerrorname_np(errno) : "ok"; }

static int set(int fd, int level, int name, int value) {
    return fw_setsockopt(fd, level, name, &value, sizeof value);
}

static void option(int domain, int type, int level, int name, int value) {
    int fd = fw_socket(domain, type, 0), got = -1;
    int result = set(fd, level, name, value);
    socklen_t len = sizeof got;
    printf("%d/%d/%d = %d: %s", level, name, type, value, say(result));
    if (result == 0) {
        printf(", %s", say(fw_getsockopt(fd, level, name, &got, &len)));
        printf(" %d", got);
    }
    printf("\n");
    fw_close(fd);
}

static void linger(int on, int seconds) {
    struct linger value = {on, seconds}, got = {7, 7};
    socklen_t len = sizeof got;
    int fd = fw_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fw_setsockopt(fd, SOL_SOCKET, SO_LINGER, &value, sizeof value) == 0);
    CHECK(fw_getsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &len) == 0);
    printf("linger %d %d: %d %d\n", on, seconds, got.l_onoff, got.l_onoff ? got.l_linger : 0);
    fw_close(fd);
}

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static union address at(const char *ip, unsigned short port, socklen_t *len) {
    union address addr;
    memset(&addr, 0, sizeof addr);
    if (inet_pton(AF_INET, ip, &addr.v4.sin_addr) == 1) {
        addr.v4.sin_family = AF_INET;
        addr.v4.sin_port = htons(port);
        *len = sizeof addr.v4;
    } else {
        CHECK(inet_pton(AF_INET6, ip, &addr.v6.sin6_addr) == 1);
        addr.v6.sin6_family = AF_INET6;
        addr.v6.sin6_port = htons(port);
        *len = sizeof addr.v6;
    }
    return addr;
}

/* A socket of this kind, with an option, that is bound there. */
static int bound(int type, const char *ip, unsigned short port, int level, int name) {
    socklen_t len;
    union address addr = at(ip, port, &len);
    int fd = fw_socket(addr.any.sa_family, type, 0), result;
    CHECK(fd >= 0 && (name == 0 || set(fd, level, name, 1) == 0));
    result = fw_bind(fd, &addr.any, len);
    printf("bind %s %d %d: %s\n", ip, type, name, say(result));
    if (result == 0)
        return fd;
    fw_close(fd);
    return -1;
}

static int listening(const char *ip, unsigned short port, int level, int name) {
    int fd = bound(SOCK_STREAM, ip, port, level, name);
    CHECK(fw_listen(fd, 128) == 0);
    return fd;
}

static int connected(const char *ip, unsigned short port) {
    socklen_t len;
    union address addr = at(ip, port, &len);
    int fd = fw_socket(addr.any.sa_family, SOCK_STREAM, 0);
    if (fw_connect(fd, &addr.any, len) == 0)
        return fd;
    printf("connect %s: %s\n", ip, strerrorname_np(errno));
    fw_close(fd);
    return -1;
}

static int is_ready(int fd, int ms) {
    struct pollfd one = {fd, POLLIN, 0};
    return fw_poll(&one, 1, ms);
}

static void who_binds_where(int type) {
    int a, b;
    printf("--- %d\n", type);
    a = bound(type, "::", 700, IPPROTO_IPV6, IPV6_V6ONLY);
    b = bound(type, "0.0.0.0", 700, 0, 0);
    bound(type, "127.0.0.1", 700, 0, 0);
    bound(type, "::1", 700, 0, 0);
    fw_close(a), fw_close(b);
    a = bound(type, "::", 701, 0, 0);
    bound(type, "0.0.0.0", 701, 0, 0);
    bound(type, "127.0.0.1", 701, 0, 0);
    fw_close(a);
    a = bound(type, "127.0.0.1", 702, SOL_SOCKET, SO_REUSEPORT);
    b = bound(type, "0.0.0.0", 702, SOL_SOCKET, SO_REUSEPORT);
    bound(type, "127.0.0.1", 702, 0, 0);
    fw_close(a), fw_close(b);
    a = bound(type, "127.0.0.1", 703, 0, 0);
    bound(type, "127.0.0.1", 703, SOL_SOCKET, SO_REUSEPORT);
    fw_close(a);
    if (type == SOCK_DGRAM) {
        a = bound(type, "127.0.0.1", 704, SOL_SOCKET, SO_REUSEADDR);
        b = bound(type, "127.0.0.1", 704, SOL_SOCKET, SO_REUSEADDR);
        bound(type, "127.0.0.1", 704, 0, 0);
        fw_close(a), fw_close(b);
    }
}

static void both_versions(void) {
    union address peer;
    socklen_t len = sizeof peer;
    char text[INET6_ADDRSTRLEN];
    int a = listening("::", 710, 0, 0), client = connected("127.0.0.1", 710), server;
    server = fw_accept(a, &peer.any, &len);
    CHECK(server >= 0 && peer.any.sa_family == AF_INET6);
    printf("peer %s\n", inet_ntop(AF_INET6, &peer.v6.sin6_addr, text, sizeof text));
    fw_close(server), fw_close(client), fw_close(a);
    a = listening("::", 711, IPPROTO_IPV6, IPV6_V6ONLY);
    CHECK(connected("127.0.0.1", 711) == -1);
    client = connected("::1", 711);
    CHECK(client >= 0);
    fw_close(client), fw_close(a);
}

static void spread(void) {
    enum { LISTENERS = 4, CLIENTS = 64 };
    int listeners[LISTENERS], clients[CLIENTS], came[LISTENERS] = {0}, sum = 0, all = 1;
    for (int i = 0; i < LISTENERS; i++)
        listeners[i] = listening("127.0.0.1", 720, SOL_SOCKET, SO_REUSEPORT);
    for (int i = 0; i < CLIENTS; i++)
        CHECK((clients[i] = connected("127.0.0.1", 720)) >= 0);
    /* Who is connected, another process may still be about to show. */
    for (int tries = 0; sum < CLIENTS && tries < 1000; tries++)
        for (int i = 0; i < LISTENERS; i++)
            while (is_ready(listeners[i], 1) == 1) {
                int fd = fw_accept(listeners[i], NULL, NULL);
                CHECK(fd >= 0);
                fw_close(fd);
                came[i]++, sum++;
            }
    for (int i = 0; i < LISTENERS; i++) {
        all &= came[i] > 0;
        fw_close(listeners[i]);
    }
    for (int i = 0; i < CLIENTS; i++)
        fw_close(clients[i]);
    printf("%d connections, each listener some: %d\n", sum, all);
}

static void spread_datagrams(void) {
    enum { SOCKETS = 4, CLIENTS = 64 };
    int sockets[SOCKETS], came[SOCKETS] = {0}, sum = 0, all = 1;
    char byte;
    socklen_t len;
    union address addr = at("127.0.0.1", 721, &len);
    for (int i = 0; i < SOCKETS; i++)
        sockets[i] = bound(SOCK_DGRAM, "127.0.0.1", 721, SOL_SOCKET, SO_REUSEPORT);
    for (int i = 0; i < CLIENTS; i++) {
        int fd = fw_socket(AF_INET, SOCK_DGRAM, 0);
        CHECK(fw_connect(fd, &addr.any, len) == 0);
        CHECK(fw_send(fd, "?", 1, 0) == 1 && fw_send(fd, "?", 1, 0) == 1);
        fw_close(fd);
    }
    for (int tries = 0; sum < 2 * CLIENTS && tries < 1000; tries++)
        for (int i = 0; i < SOCKETS; i++)
            while (is_ready(sockets[i], 1) == 1 && fw_recv(sockets[i], &byte, 1, MSG_DONTWAIT) == 1)
                came[i]++, sum++;
    for (int i = 0; i < SOCKETS; i++) {
        all &= came[i] > 0 && came[i] % 2 == 0;
        fw_close(sockets[i]);
    }
    printf("%d datagrams, those of one sender to one: %d\n", sum, all);
}

static void deferred_and_corked(void) {
    char bytes[8];
    int a = listening("127.0.0.1", 730, IPPROTO_TCP, TCP_DEFER_ACCEPT), client, server;
    CHECK(set(a, IPPROTO_TCP, TCP_DEFER_ACCEPT, 30) == 0);
    client = connected("127.0.0.1", 730);
    printf("nothing said: %d\n", is_ready(a, 50));
    CHECK(fw_send(client, "x", 1, 0) == 1);
    printf("something said: %d\n", is_ready(a, 5000));
    server = fw_accept(a, NULL, NULL);
    CHECK(fw_recv(server, bytes, 8, 0) == 1);
    CHECK(set(client, IPPROTO_TCP, TCP_CORK, 1) == 0);
    CHECK(fw_send(client, "ab", 2, 0) == 2 && fw_send(client, "cd", 2, 0) == 2);
    printf("corked: %d\n", is_ready(server, 50));
    CHECK(set(client, IPPROTO_TCP, TCP_CORK, 0) == 0);
    printf("uncorked: %d", is_ready(server, 5000));
    printf(" %zd\n", fw_recv(server, bytes, 8, 0));
    fw_close(client), fw_close(server), fw_close(a);
}

static void ended_hard(void) {
    struct linger value = {1, 0};
    char byte;
    int a = listening("127.0.0.1", 740, 0, 0), client = connected("127.0.0.1", 740), server;
    server = fw_accept(a, NULL, NULL);
    CHECK(fw_setsockopt(client, SOL_SOCKET, SO_LINGER, &value, sizeof value) == 0);
    fw_close(client);
    printf("reset: %s\n", say(fw_recv(server, &byte, 1, 0)));
    client = connected("127.0.0.1", 740);
    fw_close(server);
    server = fw_accept(a, NULL, NULL);
    value.l_linger = 5;
    CHECK(fw_setsockopt(client, SOL_SOCKET, SO_LINGER, &value, sizeof value) == 0);
    CHECK(fw_send(client, "!", 1, 0) == 1);
    fw_close(client);
    printf("lingered: %zd", fw_recv(server, &byte, 1, 0));
    printf(" %zd\n", fw_recv(server, &byte, 1, 0));
    fw_close(server), fw_close(a);
}

/* Ancillary data: what goes beside a datagram to oneself, and what comes beside it. */
static void beside(const char *ip, const int *wanted, const int *sent) {
    socklen_t len, size = sizeof(int);
    union address to = at(ip, 750, &len);
    int is_v6 = to.any.sa_family == AF_INET6, level = is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, value = 9, got = -1;
    int fd = fw_socket(to.any.sa_family, SOCK_DGRAM, 0);
    char bytes[8];
    _Alignas(struct cmsghdr) char room[256] = {0};
    struct iovec piece = {"beside", 6}, place = {bytes, sizeof bytes};
    struct msghdr message = {.msg_name = &to, .msg_namelen = len, .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room};
    CHECK(fw_bind(fd, &to.any, len) == 0);
    for (const int *name = wanted; *name; name++) {
        CHECK(set(fd, level, *name, 1) == 0 && fw_getsockopt(fd, level, *name, &got, &size) == 0);
        printf("%d: %d ", *name, got);
    }
    for (const int *name = sent; *name; name++, value *= 8) {
        struct cmsghdr *item = (struct cmsghdr *)(room + message.msg_controllen);
        *item = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof value), .cmsg_level = level, .cmsg_type = *name};
        memcpy(CMSG_DATA(item), &value, sizeof value);
        message.msg_controllen += CMSG_SPACE(sizeof value);
    }
    printf("sent %zd,", fw_sendmsg(fd, &message, 0));
    message = (struct msghdr){.msg_iov = &place, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    printf(" got %zd, flags %d", fw_recvmsg(fd, &message, 0), message.msg_flags);
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
        struct in_pktinfo four;
        struct in6_pktinfo six;
        memcpy(&four, CMSG_DATA(item), sizeof four);
        memcpy(&six, CMSG_DATA(item), sizeof six);
        printf("; %d/%d of %zu", item->cmsg_level, item->cmsg_type, (size_t)item->cmsg_len);
        if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_PKTINFO)
            printf(": %d", four.ipi_addr.s_addr == to.v4.sin_addr.s_addr && four.ipi_spec_dst.s_addr == four.ipi_addr.s_addr);
        else if (item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_PKTINFO)
            printf(": %d", memcmp(&six.ipi6_addr, &to.v6.sin6_addr, 16) == 0);
        else
            printf(": %d", CMSG_DATA(item)[0]);
    }
    message = (struct msghdr){.msg_name = &to, .msg_namelen = len, .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room};
    *(struct cmsghdr *)room = (struct cmsghdr){.cmsg_len = CMSG_LEN(1), .cmsg_level = level, .cmsg_type = 9999};
    message.msg_controllen = CMSG_SPACE(1);
    printf("; %s\n", say((int)fw_sendmsg(fd, &message, 0)));
    fw_close(fd);
}

/* Of IPv6's socket, for an IPv4 peer. */
static void too_long(void) {
    static char bytes[65508];
    socklen_t len;
    union address there = at("::ffff:127.0.0.1", 722, &len);
    int fd = fw_socket(AF_INET6, SOCK_DGRAM, 0);
    printf("too long: %s", say((int)fw_sendto(fd, bytes, sizeof bytes, 0, &there.any, len)));
    CHECK(fw_connect(fd, &there.any, len) == 0);
    printf(", %s", say((int)fw_send(fd, bytes, sizeof bytes, 0)));
    printf(", %s\n", say((int)fw_send(fd, bytes, sizeof bytes - 1, 0)));
    fw_close(fd);
}

int main(void) {
    static const int values[][3] = {
        {SOL_SOCKET, SO_REUSEADDR, 1},          {SOL_SOCKET, SO_REUSEPORT, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},          {SOL_SOCKET, 9999, 1},
        {IPPROTO_TCP, TCP_NODELAY, 1},          {IPPROTO_TCP, TCP_CORK, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 30},        {IPPROTO_TCP, TCP_KEEPIDLE, 40000},
        {IPPROTO_TCP, TCP_KEEPINTVL, 5},        {IPPROTO_TCP, TCP_KEEPCNT, 3},
        {IPPROTO_TCP, TCP_KEEPCNT, 0},          {IPPROTO_TCP, TCP_USER_TIMEOUT, 5000},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, -1},    {IPPROTO_TCP, TCP_SYNCNT, 3},
        {IPPROTO_TCP, TCP_SYNCNT, 0},           {IPPROTO_TCP, TCP_DEFER_ACCEPT, 0},
        {IPPROTO_TCP, 9999, 1},                 {IPPROTO_IP, IP_TOS, 0x10},
        {IPPROTO_IP, IP_TTL, 9},                {IPPROTO_IP, IP_TTL, 0},
        {IPPROTO_IP, IP_TTL, 256},              {IPPROTO_IP, 9999, 1},
        {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_OMIT},
        {IPPROTO_IP, IP_FREEBIND, 1},           {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1},
        {IPPROTO_IP, IP_RECVERR, 1},            {SOL_SOCKET, SO_PRIORITY, 3},
        {SOL_SOCKET, SO_OOBINLINE, 1},          {IPPROTO_TCP, TCP_LINGER2, 500},
        {IPPROTO_TCP, TCP_FASTOPEN, 5},         {IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 2},
        {IPPROTO_TCP, TCP_NOTSENT_LOWAT, 9000}, {12345, 1, 1},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        option(AF_INET, SOCK_STREAM, values[i][0], values[i][1], values[i][2]);
    option(AF_INET6, SOCK_STREAM, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    option(AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    option(AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_MULTICAST_TTL, 4);
    option(AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
    option(AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 2);
    option(AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DONT);
    option(AF_INET, SOCK_DGRAM, IPPROTO_TCP, TCP_NODELAY, 1);
    option(AF_INET, SOCK_DGRAM, IPPROTO_TCP, TCP_LINGER2, 7);
    linger(1, 5), linger(1, 0), linger(0, 9);
    who_binds_where(SOCK_STREAM);
    who_binds_where(SOCK_DGRAM);
    both_versions();
    spread();
    spread_datagrams();
    deferred_and_corked();
    ended_hard();
    too_long();
    beside("127.0.0.1", (int[]){IP_PKTINFO, IP_RECVTTL, IP_RECVTOS, 0}, (int[]){IP_TTL, IP_TOS, 0});
    beside("127.0.0.1", (int[]){IP_RECVTTL, 0}, (int[]){0});
    beside("::1", (int[]){IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS, 0}, (int[]){IPV6_HOPLIMIT, IPV6_TCLASS, 0});
    return 0;
}
