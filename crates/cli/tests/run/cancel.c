// Threads that are cancelled while they wait in a call: each is to end, to run its cleanup handler, and to leave its
// socket usable. Arguments: the address of the servers of echo.py, the port of the one that reads nothing, an own address,
// and an address that no host has.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in echo, deaf, own, nobody;
static int datagrams, sent, stream, watched, listener, full, epoll, ends[2], stuffed[2], locked;
static char bytes[1 << 16];
static _Atomic int cleaned;

static void check(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static int made(int kind, const struct sockaddr_in *peer) {
    int s = socket(AF_INET, kind, 0);
    check(s >= 0, "socket");
    if (peer) {
        check(connect(s, (const struct sockaddr *)peer, sizeof *peer) == 0, "connect");
    } else {
        check(bind(s, (const struct sockaddr *)&own, sizeof own) == 0, "bind");
    }
    return s;
}

static void there_and_back(int s) {
    char in[4];
    check(send(s, "word", 4, 0) == 4, "send");
    check(recv(s, in, 4, MSG_WAITALL) == 4 && memcmp(in, "word", 4) == 0, "receive");
}

static void clean(void *unused) {
    (void)unused;
    cleaned++;
}

static struct iovec room = {bytes, sizeof bytes};
static struct msghdr header = {.msg_iov = &room, .msg_iovlen = 1};

static void waits(const char *call) {
    struct mmsghdr several[2] = {{.msg_hdr = header}, {.msg_hdr = header}};
    struct pollfd fd = {.fd = datagrams, .events = POLLIN};
    struct epoll_event event;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(datagrams, &set);
#define IS(name) (strcmp(call, name) == 0)
    if (IS("recvfrom")) recvfrom(datagrams, bytes, 9, 0, NULL, NULL);
    if (IS("recvmsg")) recvmsg(datagrams, &header, 0);
    if (IS("recvmmsg")) recvmmsg(datagrams, several, 2, 0, NULL);
    if (IS("recvmmsg one")) recvmmsg(datagrams, several, 2, MSG_WAITFORONE, NULL);
    if (IS("read")) check(read(datagrams, bytes, 9) < 0, call);
    if (IS("readv")) readv(datagrams, &room, 1);
    if (IS("recv peek")) recv(datagrams, bytes, 9, MSG_PEEK);
    if (IS("recv all")) recv(stream, bytes, 9, MSG_WAITALL);
    if (IS("recv stream")) recv(stream, bytes, 9, 0);
    if (IS("read watched")) check(read(watched, bytes, 9) < 0, call);
    if (IS("accept")) accept(listener, NULL, NULL);
    if (IS("accept4")) accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (IS("connect")) connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&nobody, sizeof nobody);
    if (IS("write")) for (;;) check(write(full, bytes, sizeof bytes) > 0, call);
    if (IS("writev")) for (;;) check(writev(full, &room, 1) > 0, call);
    if (IS("sendto")) for (;;) sendto(sent, bytes, 100, 0, (struct sockaddr *)&echo, sizeof echo);
    if (IS("poll")) poll(&fd, 1, -1);
    if (IS("ppoll")) ppoll(&fd, 1, NULL, NULL);
    if (IS("select")) select(datagrams + 1, &set, NULL, NULL, NULL);
    if (IS("pselect")) pselect(datagrams + 1, &set, NULL, NULL, NULL, NULL);
    if (IS("epoll_wait")) epoll_wait(epoll, &event, 1, -1);
    if (IS("epoll_pwait2")) epoll_pwait2(epoll, &event, 1, NULL, NULL);
    if (IS("pipe read")) check(read(ends[0], bytes, 1) < 0, call);
    if (IS("pipe readv")) readv(ends[0], &room, 1);
    if (IS("pipe write")) check(write(stuffed[1], bytes, 1) < 0, call);
    fd.fd = ends[0];
    if (IS("pipe poll")) poll(&fd, 1, -1);
    struct flock lock = {.l_type = F_WRLCK};
    if (IS("lock")) fcntl(locked, F_OFD_SETLKW, &lock);
}

static void *thread(void *call) {
    pthread_cleanup_push(clean, NULL);
    waits(call);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel(const char *call) {
    pthread_t of;
    struct timespec until;
    void *result = NULL;
    int before = cleaned;
    check(pthread_create(&of, NULL, thread, (void *)call) == 0, "pthread_create");
    usleep(100000);
    pthread_cancel(of);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    int late = pthread_timedjoin_np(of, &result, &until);
    const char *end = late ? "still waits" : result != PTHREAD_CANCELED ? "returned" : "was cancelled";
    printf("%s: %s, %d cleaned\n", call, end, cleaned - before);
    if (late) {
        _exit(0);
    }
}

static struct sockaddr_in address(const char *ip, int port) {
    struct sockaddr_in of = {.sin_family = AF_INET, .sin_port = htons(port)};
    check(inet_pton(AF_INET, ip, &of.sin_addr) == 1, "address");
    return of;
}

int main(int argc, char **argv) {
    check(argc == 5, "arguments");
    setvbuf(stdout, NULL, _IOLBF, 0);
    echo = address(argv[1], 7000);
    deaf = address(argv[1], atoi(argv[2]));
    own = address(argv[3], 0);
    nobody = address(argv[4], 7000);
    datagrams = made(SOCK_DGRAM, NULL);
    sent = made(SOCK_DGRAM, NULL);
    stream = made(SOCK_STREAM, &echo);
    watched = made(SOCK_STREAM, &echo);
    full = made(SOCK_STREAM, &deaf);
    listener = made(SOCK_STREAM, NULL);
    check(listen(listener, 4) == 0, "listen");
    epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, watched, &event) == 0, "epoll_ctl");
    // What has carried some messages has rings.
    for (int turn = 0; turn < 20; turn++) {
        there_and_back(stream);
        check(send(watched, "word", 4, 0) == 4 && epoll_wait(epoll, &event, 1, 5000) == 1, "epoll_wait");
        check(recv(watched, bytes, 4, 0) == 4, "receive");
    }
    check(pipe(ends) == 0 && pipe2(stuffed, O_NONBLOCK) == 0, "pipe");
    while (write(stuffed[1], bytes, sizeof bytes) > 0) {}
    while (write(stuffed[1], bytes, 1) > 0) {}
    check(fcntl(stuffed[1], F_SETFL, 0) == 0, "fcntl");
    char name[] = "/tmp/fusewire-lock-XXXXXX";
    struct flock lock = {.l_type = F_WRLCK};
    check((locked = mkstemp(name)) >= 0, "mkstemp");
    int other = open(name, O_RDWR);
    check(fcntl(other, F_OFD_SETLK, &lock) == 0 && unlink(name) == 0, "lock");

    const char *calls[] = {
        "recvfrom", "recvmsg", "recvmmsg", "recvmmsg one", "read", "readv", "recv peek", "recv all", "recv stream",
        "read watched", "accept", "accept4", "connect", "write", "writev", "sendto", "poll", "ppoll", "select", "pselect",
        "epoll_wait", "epoll_pwait2", "pipe read", "pipe readv", "pipe write", "pipe poll", "lock",
    };
    for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) {
        cancel(calls[at]);
    }
    // A cancelled thread has left nothing behind: others go on.
    for (int turn = 0; turn < 20; turn++) {
        there_and_back(stream);
        there_and_back(watched);
        check(sendto(datagrams, "word", 4, 0, (struct sockaddr *)&echo, sizeof echo) == 4, "sendto");
        struct timeval patience = {.tv_sec = 5};
        check(setsockopt(datagrams, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0, "setsockopt");
        check(recv(datagrams, bytes, 100, 0) > 0, "receive a datagram");
    }
    check(send(watched, "word", 4, 0) == 4 && epoll_wait(epoll, &event, 1, 5000) == 1, "epoll_wait at last");
    puts("goes on");
    fflush(stdout);
    _exit(0);
}
