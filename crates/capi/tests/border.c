/* The border of libfusewire, from the side of C: what goes wrong, and what goes right against a kernel that the
 * test (c/main.rs) has put at the other end of a TAP. The environment names the stack: 10.81.0.2/24; the kernel's end is
 * 10.81.0.1, with a TCP echo on port 7, a UDP echo on 7, a counter of datagrams on 9, and nobody on 99. */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>


/* XDP leaves ICMP to the kernel. */
static int hears_icmp = 1;

static struct sockaddr_in at(const char *ip, int port) {
    struct sockaddr_in in;
    memset(&in, 0, sizeof in);
    in.sin_family = AF_INET;
    in.sin_port = htons((uint16_t)port);
    CHECK(inet_pton(AF_INET, ip, &in.sin_addr) == 1);
    return in;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int error_of(int fd) {
    int error = 0;
    socklen_t len = sizeof error;
    CHECK(fw_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0);
    return error;
}

static void bad_descriptors(void) {
    char byte = 0;
    struct sockaddr_in peer = at("10.81.0.1", 7);
    socklen_t len = sizeof peer;
    struct pollfd fd = {1234, POLLIN, 0};
    int value = 1, bad[] = {-1, 0, 2, 1234, 1 << 30};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(fw_bind(bad[i], SA(peer)), EBADF);
        FAILS(fw_connect(bad[i], SA(peer)), EBADF);
        FAILS(fw_listen(bad[i], 1), EBADF);
        FAILS(fw_accept(bad[i], NULL, NULL), EBADF);
        FAILS(fw_send(bad[i], &byte, 1, 0), EBADF);
        FAILS(fw_recv(bad[i], &byte, 1, 0), EBADF);
        FAILS(fw_sendmmsg(bad[i], NULL, 0, 0), EBADF);
        FAILS(fw_recvmmsg(bad[i], NULL, 0, 0, NULL), EBADF);
        FAILS(fw_shutdown(bad[i], SHUT_WR), EBADF);
        FAILS(fw_getsockname(bad[i], (struct sockaddr *)&peer, &len), EBADF);
        FAILS(fw_setsockopt(bad[i], SOL_SOCKET, SO_REUSEADDR, &value, sizeof value), EBADF);
        FAILS(fw_fcntl(bad[i], F_GETFL, 0), EBADF);
        FAILS(fw_close(bad[i]), EBADF);
    }
    CHECK(fw_poll(&fd, 1, -1) == 1 && fd.revents == POLLNVAL);
}

static void null_pointers(void) {
    struct sockaddr_in peer = at("10.81.0.1", 7);
    struct msghdr message;
    int tcp = fw_socket(AF_INET, SOCK_STREAM, 0), udp = fw_socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(tcp >= 3 && udp > tcp);
    FAILS(fw_open(NULL), EFAULT);
    FAILS(fw_bind(udp, NULL, 16), EFAULT);
    FAILS(fw_bind(udp, (struct sockaddr *)&peer, 3), EINVAL);
    FAILS(fw_bind(udp, (struct sockaddr *)&peer, 1 << 20), EINVAL);
    FAILS(fw_connect(tcp, NULL, 0), EFAULT);
    FAILS(fw_sendto(udp, NULL, 5, 0, SA(peer)), EFAULT);
    FAILS(fw_recvfrom(udp, NULL, 5, MSG_DONTWAIT, NULL, NULL), EFAULT);
    FAILS(fw_recvfrom(udp, &message, 5, MSG_DONTWAIT, (struct sockaddr *)&peer, NULL), EFAULT);
    FAILS(fw_sendmsg(udp, NULL, 0), EFAULT);
    FAILS(fw_recvmsg(udp, NULL, 0), EFAULT);
    FAILS(fw_sendmmsg(udp, NULL, 3, 0), EFAULT);
    FAILS(fw_recvmmsg(udp, NULL, 3, 0, NULL), EFAULT);
    FAILS(fw_getsockname(udp, NULL, NULL), EFAULT);
    FAILS(fw_getsockopt(tcp, SOL_SOCKET, SO_TYPE, NULL, NULL), EFAULT);
    FAILS(fw_setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, NULL, 4), EFAULT);
    FAILS(fw_setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &peer, 3), EINVAL);
    FAILS(fw_poll(NULL, 3, 0), EFAULT);
    memset(&message, 0, sizeof message);
    message.msg_iovlen = 2;
    FAILS(fw_sendmsg(udp, &message, 0), EFAULT);
    message.msg_iovlen = 5000;
    FAILS(fw_sendmsg(udp, &message, 0), EMSGSIZE);
    CHECK(fw_close(tcp) == 0 && fw_close(udp) == 0);
}

static void wrong_states(void) {
    struct sockaddr_in mine = at("10.81.0.2", 700), theirs = at("10.81.0.1", 700), got;
    struct sockaddr_in6 six;
    socklen_t len = sizeof got;
    char byte = 0;
    int tcp, udp, other, value;
    FAILS(fw_socket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    FAILS(fw_socket(AF_INET, SOCK_RAW, 0), EPROTOTYPE);
    FAILS(fw_socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
    tcp = fw_socket(AF_INET, SOCK_STREAM, 0);
    udp = fw_socket(AF_INET, SOCK_DGRAM, 0);
    FAILS(fw_socket_on(tcp, AF_INET, SOCK_STREAM, 0), EINVAL);
    FAILS(fw_accept(tcp, NULL, NULL), EINVAL);
    FAILS(fw_send(tcp, &byte, 1, 0), ENOTCONN);
    FAILS(fw_recv(tcp, &byte, 1, 0), ENOTCONN);
    FAILS(fw_shutdown(tcp, SHUT_RDWR), ENOTCONN);
    FAILS(fw_shutdown(tcp, 77), EINVAL);
    FAILS(fw_getpeername(tcp, (struct sockaddr *)&got, &len), ENOTCONN);
    FAILS(fw_send(udp, &byte, 1, 0), EDESTADDRREQ);
    FAILS(fw_listen(udp, 1), EOPNOTSUPP);
    FAILS(fw_bind(tcp, SA(theirs)), EADDRNOTAVAIL);
    memset(&six, 0, sizeof six);
    six.sin6_family = AF_INET6;
    FAILS(fw_bind(tcp, SA(six)), EAFNOSUPPORT);
    CHECK(fw_bind(tcp, SA(mine)) == 0);
    FAILS(fw_bind(tcp, SA(mine)), EINVAL);
    other = fw_socket(AF_INET, SOCK_STREAM, 0);
    FAILS(fw_bind(other, SA(mine)), EADDRINUSE);
    CHECK(fw_listen(tcp, 1) == 0 && fw_listen(tcp, 2) == 0);
    FAILS(fw_connect(tcp, SA(theirs)), EISCONN);
    CHECK(fw_fcntl(tcp, F_SETFL, O_NONBLOCK) == 0 && (fw_fcntl(tcp, F_GETFL, 0) & O_NONBLOCK));
    FAILS(fw_accept(tcp, NULL, NULL), EAGAIN);
    len = sizeof value;
    CHECK(fw_getsockopt(tcp, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value == 1 && len == 4);
    FAILS(fw_setsockopt(tcp, SOL_SOCKET, 12345, &value, sizeof value), ENOPROTOOPT);
    FAILS(fw_getsockopt(udp, IPPROTO_TCP, TCP_NODELAY, &value, &len), EOPNOTSUPP);
    FAILS(fw_recv(udp, &byte, 1, MSG_OOB), EOPNOTSUPP);
    len = sizeof got;
    CHECK(fw_getsockname(tcp, (struct sockaddr *)&got, &len) == 0 && len == 16);
    CHECK(memcmp(&got, &mine, 8) == 0);
    /* Closed, it is free at once, and its number is the next. */
    CHECK(fw_close(tcp) == 0);
    while (over_outboard() && fw_bind(other, SA(mine)) != 0)
        CHECK(errno == EADDRINUSE && usleep(1000) == 0);
    CHECK(over_outboard() || fw_bind(other, SA(mine)) == 0);
    CHECK(fw_socket(AF_INET, SOCK_STREAM, 0) == tcp);
    CHECK(fw_close(tcp) == 0 && fw_close(other) == 0 && fw_close(udp) == 0);
}

static void stream(void) {
    static char out[300000], in[300000];
    struct sockaddr_in echo = at("10.81.0.1", 7), got;
    struct tcp_info info;
    struct timeval time = {0, 200000};
    socklen_t len = sizeof got;
    size_t sent = 0, received = 0;
    int value = 1, fd = fw_socket(AF_INET, SOCK_STREAM, 0);
    double begin;
    char control[16];
    CHECK(fw_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value) == 0);
    FAILS(fw_setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "vegas", 5), ENOENT);
    CHECK(fw_setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3) == 0);
    CHECK(fw_connect(fd, SA(echo)) == 0);
    CHECK(fw_setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 5) == 0);
    CHECK(fw_setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "bbr", 4) == 0);
    len = sizeof control;
    CHECK(fw_getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &len) == 0 && strcmp(control, "bbr") == 0);
    len = sizeof got;
    FAILS(fw_connect(fd, SA(echo)), EISCONN);
    CHECK(fw_getpeername(fd, (struct sockaddr *)&got, &len) == 0 && memcmp(&got, &echo, 8) == 0);
    CHECK(fw_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    begin = seconds();
    FAILS(fw_recv(fd, in, 1, 0), EAGAIN);
    CHECK(seconds() - begin > 0.15 && seconds() - begin < 5);
    FAILS(fw_recv(fd, in, 1, MSG_DONTWAIT), EAGAIN);
    time.tv_sec = 10;
    CHECK(fw_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (char)(i * 7 + i / 251);
    while (received < sizeof in) {
        if (sent < sizeof out) {
            ssize_t n = fw_send(fd, out + sent, sizeof out - sent < 9000 ? sizeof out - sent : 9000, 0);
            CHECK(n > 0);
            sent += (size_t)n;
        }
        if (sent == sizeof out) {
            CHECK(fw_recv(fd, in + received, 1, MSG_PEEK) == 1);
            CHECK(fw_recv(fd, in + received, sizeof in - received, MSG_WAITALL) ==
                  (ssize_t)(sizeof in - received));
            received = sizeof in;
        } else {
            ssize_t n = fw_recv(fd, in + received, sizeof in - received, MSG_DONTWAIT);
            CHECK(n > 0 || errno == EAGAIN);
            received += n > 0 ? (size_t)n : 0;
        }
    }
    CHECK(memcmp(in, out, sizeof in) == 0);
    memset(&info, 0, sizeof info);
    /* An outboard's may be a millisecond old. */
    for (int tries = 0; tries < 100 && info.tcpi_bytes_received != sizeof in; tries++) {
        len = sizeof info;
        CHECK(usleep(over_outboard() ? 1000 : 0) == 0);
        CHECK(fw_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && len > 100);
    }
    CHECK(info.tcpi_state == 1 && info.tcpi_bytes_received == sizeof in && info.tcpi_rtt > 0);
    CHECK(info.tcpi_snd_mss > 500 && info.tcpi_segs_out > 3);
    CHECK(fw_shutdown(fd, SHUT_WR) == 0);
    FAILS(fw_send(fd, out, 1, 0), EPIPE);
    CHECK(fw_recv(fd, in, 1, 0) == 0);
    CHECK(fw_close(fd) == 0);
    /* Nobody there. */
    echo.sin_port = htons(99);
    fd = fw_socket(AF_INET, SOCK_STREAM, 0);
    FAILS(fw_connect(fd, SA(echo)), ECONNREFUSED);
    CHECK(fw_close(fd) == 0);
}

static void nonblocking_connect(void) {
    struct sockaddr_in echo = at("10.81.0.1", 7), nobody = at("10.81.0.1", 99);
    struct pollfd fd;
    socklen_t len = sizeof(int);
    int error = -1;
    fd.fd = fw_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    fd.events = POLLOUT;
    FAILS(fw_connect(fd.fd, SA(nobody)), EINPROGRESS);
    CHECK(fw_poll(&fd, 1, 10000) == 1 && (fd.revents & POLLERR));
    CHECK(fw_getsockopt(fd.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == ECONNREFUSED);
    CHECK(fw_getsockopt(fd.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    FAILS(fw_connect(fd.fd, SA(echo)), EINPROGRESS);
    CHECK(fw_poll(&fd, 1, 10000) == 1 && fd.revents == POLLOUT);
    CHECK(fw_getsockopt(fd.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    CHECK(fw_connect(fd.fd, SA(echo)) == 0);
    FAILS(fw_connect(fd.fd, SA(echo)), EISCONN);
    CHECK(fw_send(fd.fd, "ping", 4, 0) == 4);
    fd.events = POLLIN;
    CHECK(fw_poll(&fd, 1, 10000) == 1 && fd.revents == POLLIN);
    char in[8];
    CHECK(fw_recv(fd.fd, in, sizeof in, 0) == 4 && memcmp(in, "ping", 4) == 0);
    CHECK(fw_poll(&fd, 1, 0) == 0);
    CHECK(fw_close(fd.fd) == 0);
}

/* What is marked as not the end waits for what follows, and leaves with it. */
static void more(void) {
    struct sockaddr_in echo = at("10.81.0.1", 7);
    struct tcp_info before, after;
    struct timeval time = {5, 0};
    socklen_t len = sizeof before;
    char in[8], big[60000];
    int fd = fw_socket(AF_INET, SOCK_STREAM, 0);
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    memset(big, 0, sizeof big);
    CHECK(fw_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    CHECK(fw_connect(fd, SA(echo)) == 0);
    CHECK(fw_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &before, &len) == 0);
    CHECK(fw_send(fd, "ab", 2, MSG_MORE) == 2 && fw_send(fd, "cd", 2, MSG_MORE) == 2);
    len = sizeof after;
    CHECK(fw_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &after, &len) == 0);
    CHECK(over_outboard() || after.tcpi_segs_out == before.tcpi_segs_out);
    CHECK(fw_send(fd, "ef", 2, 0) == 2);
    CHECK(fw_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &after, &len) == 0);
    CHECK(over_outboard() || after.tcpi_segs_out == before.tcpi_segs_out + 1);
    CHECK(fw_recv(fd, in, 6, MSG_WAITALL) == 6 && memcmp(in, "abcdef", 6) == 0);
    /* Not for ever, though nothing follows. */
    CHECK(fw_send(fd, "gh", 2, MSG_MORE) == 2);
    CHECK(fw_recv(fd, in, 2, MSG_WAITALL) == 2 && memcmp(in, "gh", 2) == 0);
    CHECK(fw_send(fd, "ij", 2, over_outboard() ? 0 : MSG_EOR) == 2 && fw_recv(fd, in, 2, MSG_WAITALL) == 2);
    CHECK(fw_close(fd) == 0);
    fd = fw_socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fw_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    CHECK(fw_sendto(fd, "ab", 2, MSG_MORE, SA(echo)) == 2 && fw_sendto(fd, "cd", 2, MSG_MORE, SA(echo)) == 2);
    CHECK(fw_sendto(fd, "ef", 2, 0, SA(echo)) == 2);
    CHECK(fw_recv(fd, in, sizeof in, 0) == 6 && memcmp(in, "abcdef", 6) == 0);
    CHECK(fw_sendto(fd, big, sizeof big, MSG_MORE, SA(echo)) == sizeof big);
    FAILS(fw_sendto(fd, big, sizeof big, 0, SA(echo)), EMSGSIZE);
    CHECK(fw_sendto(fd, "ij", 2, 0, SA(echo)) == 2 && fw_recv(fd, in, sizeof in, 0) == 2);
    CHECK(fw_close(fd) == 0);
}

/* Differentiated services and hops, set before and while a socket is in use. */
static void marks(void) {
    struct sockaddr_in echo = at("10.81.0.1", 7), far = at("192.0.2.1", 7);
    int types[2] = {SOCK_STREAM, SOCK_DGRAM}, value;
    socklen_t len = sizeof value;
    for (int i = 0; i < 2; i++) {
        int fd = fw_socket(AF_INET, types[i], 0);
        CHECK(fw_getsockopt(fd, IPPROTO_IP, IP_TTL, &value, &len) == 0 && value == 64);
        value = 0xb8;
        CHECK(fw_setsockopt(fd, IPPROTO_IP, IP_TOS, &value, sizeof value) == 0);
        CHECK(fw_connect(fd, SA(echo)) == 0);
        value = 7;
        CHECK(fw_setsockopt(fd, IPPROTO_IP, IP_TTL, &value, sizeof value) == 0);
        CHECK(fw_send(fd, "marked", 6, 0) == 6);
        char in[6];
        CHECK(fw_recv(fd, in, sizeof in, MSG_WAITALL) == 6);
        CHECK(fw_getsockopt(fd, IPPROTO_IP, IP_TOS, &value, &len) == 0 && value == 0xb8);
        CHECK(fw_getsockopt(fd, IPPROTO_IP, IP_TTL, &value, &len) == 0 && value == 7);
        value = 0;
        FAILS(fw_setsockopt(fd, IPPROTO_IP, IP_TTL, &value, sizeof value), EINVAL);
        value = 256;
        FAILS(fw_setsockopt(fd, IPPROTO_IP, IP_TOS, &value, sizeof value), EINVAL);
        CHECK(fw_close(fd) == 0);
        /* No route leads there. */
        fd = fw_socket(AF_INET, types[i], 0);
        FAILS(fw_connect(fd, SA(far)), ENETUNREACH);
        CHECK(fw_close(fd) == 0);
    }
}

#define MANY 200
#define EACH 40000

static char byte_of(int number, size_t at) {
    return (char)(number * 31 + (int)(at * 7 + at / 251));
}

/* Many sockets under load: what poll says of a socket is so, and nobody is forgotten. */
static void many(void) {
    static size_t sent[MANY], got[MANY];
    static struct pollfd fds[MANY];
    struct sockaddr_in echo = at("10.81.0.1", 7);
    int left = MANY;
    for (int i = 0; i < MANY; i++) {
        fds[i].fd = fw_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        FAILS(fw_connect(fds[i].fd, SA(echo)), EINPROGRESS);
    }
    while (left > 0) {
        char bytes[3000];
        int ready, named = 0;
        for (int i = 0; i < MANY; i++)
            fds[i].events = (short)(POLLIN | (sent[i] < EACH ? POLLOUT : 0));
        ready = fw_poll(fds, MANY, 20000);
        CHECK(ready > 0);
        for (int i = 0; i < MANY; i++) {
            if (fds[i].revents == 0)
                continue;
            named++;
            CHECK(fds[i].fd >= 0);
            errno = fds[i].revents & POLLERR ? error_of(fds[i].fd) : 0;
            CHECK((fds[i].revents & ~(POLLIN | POLLOUT)) == 0);
            if (fds[i].revents & POLLOUT) {
                size_t want = (size_t)(i * 13) % 2000 + 1000;
                want = want < EACH - sent[i] ? want : EACH - sent[i];
                for (size_t k = 0; k < want; k++)
                    bytes[k] = byte_of(i, sent[i] + k);
                ssize_t n = fw_send(fds[i].fd, bytes, want, 0);
                CHECK(n > 0);
                sent[i] += (size_t)n;
            }
            if (fds[i].revents & POLLIN) {
                ssize_t n = fw_recv(fds[i].fd, bytes, sizeof bytes, 0);
                CHECK(n > 0);
                for (ssize_t k = 0; k < n; k++)
                    CHECK(bytes[k] == byte_of(i, got[i] + (size_t)k));
                got[i] += (size_t)n;
                if (got[i] == EACH) {
                    CHECK(fw_close(fds[i].fd) == 0);
                    fds[i].fd = -1;
                    left--;
                }
            }
        }
        CHECK(named == ready);
    }
}

#define MESSAGES 200

static void datagrams(void) {
    static char out[MESSAGES][64], in[MESSAGES][64];
    struct mmsghdr messages[MESSAGES];
    struct iovec pieces[MESSAGES][2];
    struct sockaddr_in echo = at("10.81.0.1", 7), counter = at("10.81.0.1", 9), from[MESSAGES];
    struct timespec time = {0, 100000000};
    socklen_t len = sizeof from[0];
    char big[70000], text[16];
    int fd = fw_socket(AF_INET, SOCK_DGRAM, 0), got = 0, sent = 0;
    /* A message that is peeked at, cut, and then gone. */
    CHECK(fw_sendto(fd, "hello", 5, 0, SA(echo)) == 5);
    CHECK(fw_recvfrom(fd, text, 3, MSG_PEEK | MSG_TRUNC, (struct sockaddr *)&from[0], &len) == 5);
    CHECK(len == 16 && memcmp(&from[0], &echo, 8) == 0);
    CHECK(fw_recv(fd, text, 3, 0) == 3 && memcmp(text, "hel", 3) == 0);
    FAILS(fw_recv(fd, text, 3, MSG_DONTWAIT), EAGAIN);
    FAILS(fw_sendto(fd, big, sizeof big, 0, SA(echo)), EMSGSIZE);
    /* Many at once, of two pieces each, the last shorter, to a connected peer that counts and says how many. */
    CHECK(fw_connect(fd, SA(counter)) == 0);
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < MESSAGES; i++) {
        memset(out[i], i, sizeof out[i]);
        pieces[i][0].iov_base = out[i];
        pieces[i][0].iov_len = 10;
        pieces[i][1].iov_base = out[i] + 10;
        pieces[i][1].iov_len = i == MESSAGES - 1 ? 20 : 54;
        messages[i].msg_hdr.msg_iov = pieces[i];
        messages[i].msg_hdr.msg_iovlen = 2;
    }
    while (sent < MESSAGES) {
        int n = fw_sendmmsg(fd, messages + sent, (unsigned)(MESSAGES - sent), 0);
        CHECK(n > 0);
        sent += n;
    }
    CHECK(messages[0].msg_len == 64 && messages[MESSAGES - 1].msg_len == 30);
    memset(text, 0, sizeof text);
    CHECK(fw_recv(fd, text, sizeof text - 1, 0) > 0 && atoi(text) == MESSAGES);
    /* From one peer only: an answer of the other is not seen. */
    CHECK(fw_sendto(fd, "hello", 5, 0, SA(echo)) == 5);
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < MESSAGES; i++) {
        pieces[i][0].iov_base = in[i];
        pieces[i][0].iov_len = sizeof in[i];
        messages[i].msg_hdr.msg_iov = pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_name = &from[i];
        messages[i].msg_hdr.msg_namelen = sizeof from[i];
    }
    FAILS(fw_recvmmsg(fd, messages, 2, 0, &time), EAGAIN);
    /* To a port of nobody: the router's word arrives as an error, where ICMP comes to us. */
    counter.sin_port = htons(99);
    CHECK(fw_connect(fd, SA(counter)) == 0);
    CHECK(fw_send(fd, "x", 1, 0) == 1);
    struct timeval wait = {5, 0};
    CHECK(fw_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0);
    FAILS(fw_recv(fd, text, 1, 0), hears_icmp ? ECONNREFUSED : EAGAIN);
    /* It is the next call's, whatever goes beside the datagram of that. */
    if (hears_icmp) {
        _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {0};
        struct cmsghdr *ttl = (struct cmsghdr *)room;
        struct iovec piece = {"x", 1};
        struct msghdr beside = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        *ttl = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_TTL};
        CMSG_DATA(ttl)[0] = 9;
        CHECK(fw_sendmsg(fd, &beside, 0) == 1);
        /* Over an outboard it is seen where datagrams come. */
        struct pollfd error = {fd, over_outboard() ? POLLIN : 0, 0};
        CHECK(fw_poll(&error, 1, 5000) == 1 && (error.revents & POLLERR));
        FAILS(fw_sendmsg(fd, &beside, 0), ECONNREFUSED);
        CHECK(fw_send(fd, "x", 1, 0) == 1);
        error.events = POLLIN;
        CHECK(fw_poll(&error, 1, 5000) == 1 && (error.revents & POLLERR) && (error.revents & POLLIN));
        CHECK(error_of(fd) == ECONNREFUSED && fw_poll(&error, 1, 0) == 0);
    }
    /* Nobody in particular again; echoes of many, received many at a time. */
    struct sockaddr nobody = {AF_UNSPEC, {0}};
    CHECK(fw_connect(fd, SA(nobody)) == 0);
    for (int i = 0; i < MESSAGES; i += 10) {
        for (int k = i; k < i + 10; k++)
            CHECK(fw_sendto(fd, out[k], 64, 0, SA(echo)) == 64);
        for (got = 0; got < 10;) {
            int n = fw_recvmmsg(fd, messages + got, (unsigned)(10 - got), MSG_WAITFORONE, NULL);
            CHECK(n > 0);
            got += n;
        }
        for (int k = 0; k < 10; k++)
            CHECK(messages[k].msg_len == 64 && memcmp(in[k], out[i + k], 64) == 0 &&
                  memcmp(&from[k], &echo, 8) == 0 && messages[k].msg_hdr.msg_namelen == 16);
    }
    CHECK(fw_close(fd) == 0);
}

/* Groups of any source, of some, and of any but some; a bridge that learns of them is stack/tests/ip/kernel.rs's. */
static void groups(void) {
    struct group_source_req request;
    struct ip_mreq_source source;
    struct sockaddr_in group = at("232.1.2.3", 0), sender = at("10.81.0.1", 0);
    int fd = fw_socket(AF_INET, SOCK_DGRAM, 0);
    memset(&request, 0, sizeof request);
    memcpy(&request.gsr_group, &group, sizeof group);
    memcpy(&request.gsr_source, &sender, sizeof sender);
    memset(&source, 0, sizeof source);
    source.imr_multiaddr = group.sin_addr;
    source.imr_sourceaddr = sender.sin_addr;
    CHECK(fw_setsockopt(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &request, sizeof request) == 0);
    FAILS(fw_setsockopt(fd, IPPROTO_IP, MCAST_BLOCK_SOURCE, &request, sizeof request), EINVAL);
    CHECK(fw_setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &source, sizeof source) == 0);
    CHECK(fw_setsockopt(fd, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &source, sizeof source) == 0);
    CHECK(fw_setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &request, sizeof(struct group_req)) == 0);
    CHECK(fw_setsockopt(fd, IPPROTO_IP, IP_BLOCK_SOURCE, &source, sizeof source) == 0);
    FAILS(fw_setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &source, sizeof source), EINVAL);
    FAILS(fw_setsockopt(fd, IPPROTO_IP, MCAST_UNBLOCK_SOURCE, &request, sizeof request - 1), EINVAL);
    CHECK(fw_setsockopt(fd, IPPROTO_IP, MCAST_UNBLOCK_SOURCE, &request, sizeof request) == 0);
    CHECK(fw_setsockopt(fd, IPPROTO_IP, MCAST_LEAVE_GROUP, &request, sizeof(struct group_req)) == 0);
    CHECK(fw_close(fd) == 0);
}

static int waited_on;

static void *closer(void *unused) {
    (void)unused;
    usleep(200000);
    CHECK(fw_close(waited_on) == 0);
    return NULL;
}

static void closed_under_a_waiter(void) {
    pthread_t thread;
    char byte;
    struct sockaddr_in echo = at("10.81.0.1", 7);
    for (int i = 0; i < 2; i++) {
        waited_on = fw_socket(AF_INET, i ? SOCK_STREAM : SOCK_DGRAM, 0);
        CHECK(fw_connect(waited_on, SA(echo)) == 0);
        CHECK(pthread_create(&thread, NULL, closer, NULL) == 0);
        FAILS(fw_recv(waited_on, &byte, 1, 0), EBADF);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

static void *worker(void *number) {
    struct sockaddr_in echo = at("10.81.0.1", 7);
    char out[1000], in[1000];
    int fd = fw_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fw_connect(fd, SA(echo)) == 0);
    for (int i = 0; i < 100; i++) {
        memset(out, i + *(int *)number, sizeof out);
        CHECK(fw_send(fd, out, sizeof out, 0) == sizeof out);
        CHECK(fw_recv(fd, in, sizeof in, MSG_WAITALL) == sizeof in);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    CHECK(fw_close(fd) == 0);
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    int numbers[4] = {0, 50, 100, 150};
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&all[i], NULL, worker, &numbers[i]) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

/* A socket of the stack's, and a connection that carries ADUs, in one wait. */
static void *connects_to_nobody(void *fd) {
    struct sockaddr_in nobody = at("10.81.0.77", 7);
    return (void *)(intptr_t)(fw_connect(*(int *)fd, SA(nobody)) == 0 ? 0 : errno);
}

/* Calls that few programs make do what they do on Linux. */
static void rare_calls(void) {
    static const int hows[] = {SHUT_RD, SHUT_WR, SHUT_RDWR};
    struct sockaddr_in echo = at("10.81.0.1", 7), nobody = at("10.81.0.77", 7), all = at("10.81.0.255", 7), peer;
    socklen_t len = sizeof peer;
    char bytes[64];
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        int fd = fw_socket(AF_INET, SOCK_STREAM, 0);
        struct pollfd fresh = {fd, POLLIN | POLLOUT, 0};
        struct iovec nowhere[2] = {{NULL, 1}, {NULL, 1}};
        struct msghdr discarded = {.msg_iov = nowhere, .msg_iovlen = 2};
        pthread_t thread;
        void *error;
        CHECK(fw_poll(&fresh, 1, 1000) == 1 && fresh.revents == (POLLHUP | POLLOUT));
        CHECK(pthread_create(&thread, NULL, connects_to_nobody, &fd) == 0);
        usleep(200000);
        CHECK(fw_shutdown(fd, hows[i]) == 0);
        CHECK(pthread_join(thread, &error) == 0 && (intptr_t)error == ECONNRESET);
        CHECK(fw_connect(fd, SA(echo)) == 0 && fw_send(fd, "0123456789", 10, 0) == 10);
        CHECK(fw_recv(fd, bytes, 10, MSG_PEEK | MSG_WAITALL) == 10);
        CHECK(fw_recv(fd, bytes, 60, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT) == 10);
        CHECK(fw_recv(fd, NULL, 4, MSG_TRUNC | MSG_PEEK) == 4 && fw_recv(fd, NULL, 4, MSG_TRUNC) == 4);
        CHECK(fw_recvmsg(fd, &discarded, MSG_TRUNC) == 2);
        CHECK(fw_recv(fd, bytes, 1, 0) == 1 && bytes[0] == '6' && fw_recv(fd, NULL, 60, MSG_TRUNC) == 3);
        FAILS(fw_recv(fd, NULL, 1, MSG_TRUNC | MSG_DONTWAIT), EAGAIN);
        CHECK(fw_close(fd) == 0);
        fd = fw_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        FAILS(fw_connect(fd, SA(nobody)), EINPROGRESS);
        CHECK(fw_shutdown(fd, hows[i]) == 0 && error_of(fd) == ECONNRESET && error_of(fd) == 0);
        CHECK(fw_close(fd) == 0);
    }

    /* All of a network are not reached by chance, and the peer stays. */
    int udp = fw_socket(AF_INET, SOCK_DGRAM, 0), on = 1;
    if (!over_outboard())
        FAILS(fw_sendto(udp, "x", 1, 0, SA(all)), EACCES);
    CHECK(fw_connect(udp, SA(echo)) == 0);
    FAILS(fw_connect(udp, SA(all)), EACCES);
    CHECK(fw_getpeername(udp, (struct sockaddr *)&peer, &len) == 0 && peer.sin_addr.s_addr == echo.sin_addr.s_addr);

    /* A file goes as a datagram, and one that came before the end is there after it. */
    FILE *file = tmpfile();
    off_t offset = 2;
    CHECK(file && fwrite("0123456789", 1, 10, file) == 10 && fflush(file) == 0 && lseek(fileno(file), 0, SEEK_SET) == 0);
    CHECK(fw_sendfile(udp, fileno(file), &offset, 5) == 5 && offset == 7 && lseek(fileno(file), 0, SEEK_CUR) == 0);
    CHECK(fw_recv(udp, bytes, sizeof bytes, 0) == 5 && memcmp(bytes, "23456", 5) == 0);
    CHECK(fw_sendfile(udp, fileno(file), NULL, 100) == 10 && fw_send(udp, "two", 3, 0) == 3);
    struct pollfd waits = {udp, POLLIN, 0};
    CHECK(fw_poll(&waits, 1, 10000) == 1 && lseek(fileno(file), 0, SEEK_CUR) == 10);
    usleep(200000);
    CHECK(fw_shutdown(udp, SHUT_RD) == 0);
    CHECK(fw_recv(udp, bytes, sizeof bytes, 0) == 10 && fw_recv(udp, bytes, sizeof bytes, 0) == 3);
    CHECK(fw_recv(udp, bytes, sizeof bytes, 0) == 0 && fw_poll(&waits, 1, 10000) == 1);
    CHECK(fw_setsockopt(udp, SOL_SOCKET, SO_BROADCAST, &on, sizeof on) == 0 && fw_connect(udp, SA(all)) == 0);
    CHECK(fclose(file) == 0 && fw_close(udp) == 0);
}

static void beside_adus(void) {
    char folder[] = "/tmp/fusewire-border-XXXXXX", key[64], bytes[10];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(key, sizeof key, "%s/key", folder);
    struct fw_adu_config config;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.identity = key;
    struct sockaddr_in here = at("127.0.0.1", 0), echo = at("10.81.0.1", 7);
    socklen_t len = sizeof here;
    int listener = fw_adu_listen(&config, SA(here));
    CHECK(listener >= 3 && fw_getsockname(listener, (struct sockaddr *)&here, &len) == 0);
    int client = fw_adu_connect(&config, SA(here)), server = fw_adu_accept(listener, 10000);
    int udp = fw_socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(client >= 3 && server >= 3 && udp >= 3 && fw_connect(udp, SA(echo)) == 0);
    struct pollfd fds[] = {{udp, POLLIN, 0}, {client, POLLIN, 0}};
    CHECK(fw_poll(fds, 2, 20) == 0);
    CHECK(fw_send(udp, "ping", 4, 0) == 4);
    CHECK(fw_poll(fds, 2, 10000) == 1 && fds[0].revents == POLLIN && fds[1].revents == 0);
    CHECK(fw_recv(udp, bytes, sizeof bytes, 0) == 4);
    CHECK(fw_adu_send(server, "pong", 4, 10000) == 4);
    CHECK(fw_poll(fds, 2, 10000) == 1 && fds[0].revents == 0 && fds[1].revents == POLLIN);
    CHECK(fw_send(udp, "ping", 4, 0) == 4);
    for (int both = 0; both < 2;)
        CHECK((both = fw_poll(fds, 2, 10000)) >= 1 && fds[1].revents == POLLIN);
    CHECK(fw_adu_recv(client, bytes, sizeof bytes, 0) == 4);
    CHECK(fw_close(udp) == 0 && fw_close(client) == 0 && fw_close(server) == 0 && fw_close(listener) == 0);
    CHECK(unlink(key) == 0 && rmdir(folder) == 0);
}

int main(int argc, char **argv) {
    hears_icmp = argc < 2 || strcmp(argv[1], "without-icmp") != 0;
    bad_descriptors();
    /* The first socket opens the stack that the environment names. */
    int first = fw_socket(AF_INET, SOCK_DGRAM, 0);
    if (first < 0) {
        char why[300];
        fw_reason(why, sizeof why);
        fprintf(stderr, "no stack: %s\n", why);
        return 1;
    }
    CHECK(first == 3 && fw_close(first) == 0);
    threads_block_signals(over_outboard() ? 0 : 1);
    null_pointers();
    wrong_states();
    printf("ready\n");
    fflush(stdout);
    /* The test gives the kernel's end its address, and a peer, and says so. */
    CHECK(getchar() == '\n');
    stream();
    nonblocking_connect();
    datagrams();
    /* Beside the kernel groups stay its own. */
    if (strcmp(getenv("FUSEWIRE_ADDRESS"), "kernel") != 0)
        groups();
    more();
    marks();
    if (!over_outboard())
        closed_under_a_waiter();
    threads();
    /* Addresses of the kernel are asked for by it. */
    if (strcmp(getenv("FUSEWIRE_ADDRESS"), "kernel") != 0)
        rare_calls();
    beside_adus();
    many();
    printf("done\n");
    return 0;
}
