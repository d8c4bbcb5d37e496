/* A server that echoes on one set: sockets of the library, an eventfd of the kernel's that another thread writes to, and its
 * standard input, which ends it. How it waits is its argument: level, edge, once. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MOST = 200, PIECE = 4096, BELLS = 20 };

struct connection {
    int fd;
    size_t len, sent;
    char bytes[PIECE];
};

static int set, bell, ended, open_connections, all_connections;
static unsigned int how;

static void watch(int operation, int fd, unsigned int events, void *data) {
    struct epoll_event event;
    event.events = events;
    event.data.ptr = data;
    CHECK(fw_epoll_ctl(set, operation, fd, &event) == 0);
}

static void *ring(void *unused) {
    uint64_t one = 1;
    for (int i = 0; i < BELLS; i++) {
        usleep(5000);
        CHECK(write(bell, &one, sizeof one) == sizeof one);
    }
    return unused;
}

/* True when the peer has finished and has everything. */
static int echo(struct connection *c) {
    for (;;) {
        if (c->sent == c->len) {
            ssize_t got = fw_read(c->fd, c->bytes, sizeof c->bytes);
            if (got == 0)
                return 1;
            if (got < 0) {
                CHECK(errno == EAGAIN);
                if (how != EPOLLET)
                    watch(EPOLL_CTL_MOD, c->fd, EPOLLIN | how, c);
                return 0;
            }
            c->len = (size_t)got;
            c->sent = 0;
        }
        while (c->sent < c->len) {
            ssize_t put = fw_write(c->fd, c->bytes + c->sent, c->len - c->sent);
            if (put < 0) {
                CHECK(errno == EAGAIN);
                if (how != EPOLLET)
                    watch(EPOLL_CTL_MOD, c->fd, EPOLLOUT | how, c);
                return 0;
            }
            c->sent += (size_t)put;
        }
        /* With levels a piece a turn is enough: what is left is told again. */
        if (how == 0) {
            watch(EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
            return 0;
        }
    }
}

static void serve(int listener) {
    uint64_t rung = 0;
    char line[8];
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ring, NULL) == 0);
    while (!ended || open_connections > 0 || rung < BELLS) {
        struct epoll_event events[16];
        int count = fw_epoll_wait(set, events, 16, 20000);
        CHECK(count > 0 && count <= 16);
        for (int i = 0; i < count; i++) {
            void *data = events[i].data.ptr;
            if (data == &bell) {
                uint64_t got;
                CHECK(read(bell, &got, sizeof got) == sizeof got);
                rung += got;
            } else if (data == &ended) {
                CHECK(read(0, line, sizeof line) > 0);
                ended = 1;
                CHECK(fw_epoll_ctl(set, EPOLL_CTL_DEL | FW_EPOLL_KERNEL, 0, NULL) == 0);
            } else if (data == &set) {
                int fd;
                while ((fd = fw_accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    struct connection *c = calloc(1, sizeof *c);
                    CHECK(c != NULL);
                    c->fd = fd;
                    watch(EPOLL_CTL_ADD, fd, how == EPOLLET ? EPOLLIN | EPOLLOUT | EPOLLET : EPOLLIN | how, c);
                    open_connections++;
                    all_connections++;
                }
                CHECK(errno == EAGAIN);
            } else if (echo(data)) {
                struct connection *c = data;
                CHECK(fw_close(c->fd) == 0);
                free(c);
                open_connections--;
            }
        }
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

static ssize_t write_all(int file) {
    return write(file, "abcdefghijklmnopqrstuvwxyz", 26);
}

/* The calls that are as those on files, over a connection to ourselves. */
static void as_files(void) {
    struct sockaddr_in at;
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 7}};
    char in[64], name[] = "/tmp/fusewire-sendfile-XXXXXX";
    struct iovec out[2] = {{"one ", 4}, {"two", 3}}, pieces[2] = {{in, 2}, {in + 2, 60}};
    int listener = fw_socket(AF_INET, SOCK_STREAM, 0), client = fw_socket(AF_INET, SOCK_STREAM, 0);
    int server, again, unread = -1, file = mkstemp(name), own = fw_epoll_create1(EPOLL_CLOEXEC);
    off_t from = 3;
    fd_set readable, writable;
    struct timeval soon = {0, 1000}, later = {5, 0};
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(701);
    CHECK(fw_bind(listener, SA(at)) == 0 && fw_listen(listener, 4) == 0 && own >= 0);
    /* In the set before it is connected, as nginx does. */
    CHECK(fw_epoll_ctl(own, EPOLL_CTL_ADD, client, &event) == 0);
    FAILS(fw_epoll_ctl(own, EPOLL_CTL_ADD, client, &event), EEXIST);
    FAILS(fw_epoll_ctl(own, EPOLL_CTL_MOD, listener, &event), ENOENT);
    FAILS(fw_epoll_ctl(own, EPOLL_CTL_ADD, own, &event), EINVAL);
    FAILS(fw_epoll_ctl(own, EPOLL_CTL_ADD, 60000, &event), EBADF);
    FAILS(fw_epoll_ctl(own, 9, client, &event), EINVAL);
    FAILS(fw_epoll_ctl(client, EPOLL_CTL_ADD, client, &event), EINVAL);
    FAILS(fw_epoll_ctl(own, EPOLL_CTL_ADD, listener, NULL), EFAULT);
    FAILS(fw_epoll_wait(own, &event, 0, 0), EINVAL);
    FAILS(fw_epoll_create1(77), EINVAL);
    FAILS(fw_epoll_create(0), EINVAL);
    if (!over_outboard())
        CHECK(fw_epoll_wait(own, &event, 1, 0) == 1 && (event.events & EPOLLHUP));
    CHECK(fw_connect(client, SA(at)) == 0 && (server = fw_accept(listener, NULL, NULL)) >= 0);
    CHECK(fw_epoll_wait(own, &event, 1, 10) == 0);
    CHECK(fw_writev(client, out, 2) == 7 && fw_recv(server, in, 7, MSG_PEEK | MSG_WAITALL) > 0);
    CHECK(fw_ioctl(server, FIONREAD, &unread) == 0 && unread == 7);
    CHECK(fw_readv(server, pieces, 2) == 7 && memcmp(in, "one two", 7) == 0);
    for (int tries = 0; tries < 500 && unread > 0; tries++) {
        /* The peer's host may take its time to say that it has it. */
        CHECK(fw_ioctl(client, TIOCOUTQ, &unread) == 0 && unread <= 7);
        usleep(1000);
    }
    CHECK(unread == 0);
    FAILS(fw_ioctl(client, 1, &unread), ENOTTY);
    /* The socket is there as long as a descriptor of it. */
    again = fw_dup(server);
    CHECK(again >= 0 && fw_close(server) == 0 && fw_write(again, "still", 5) == 5);
    CHECK(fw_epoll_wait(own, &event, 1, 5000) == 1 && event.events == EPOLLIN && event.data.u64 == 7);
    CHECK(fw_epoll_wait(own, &event, 1, 0) == 1);
    CHECK(fw_read(client, in, sizeof in) == 5 && fw_epoll_wait(own, &event, 1, 0) == 0);
    server = fw_fcntl(again, F_DUPFD, 50);
    CHECK(server >= 50 && fw_close(again) == 0);
    /* A file, from a place and from where it is. */
    CHECK(file >= 0 && unlink(name) == 0 && write_all(file) == 26 && lseek(file, 20, SEEK_SET) == 20);
    CHECK(fw_sendfile(client, file, &from, 5) == 5 && from == 8);
    CHECK(fw_recv(server, in, 5, MSG_WAITALL) == 5 && memcmp(in, "defgh", 5) == 0);
    CHECK(fw_sendfile(client, file, NULL, 100) == 6 && lseek(file, 0, SEEK_CUR) == 26);
    CHECK(fw_recv(server, in, 6, MSG_WAITALL) == 6 && memcmp(in, "uvwxyz", 6) == 0);
    FAILS(fw_sendfile(client, -1, NULL, 1), EBADF);
    close(file);
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_SET(server, &readable);
    CHECK(fw_select(server + 1, &readable, NULL, NULL, &soon) == 0 && !FD_ISSET(server, &readable));
    FD_SET(server, &readable);
    FD_SET(client, &writable);
    CHECK(fw_select(server + 1, &readable, &writable, NULL, &later) == 1 && FD_ISSET(client, &writable));
    CHECK(!FD_ISSET(server, &readable) && fw_write(client, "x", 1) == 1);
    FD_SET(server, &readable);
    CHECK(fw_select(server + 1, &readable, NULL, NULL, NULL) == 1 && FD_ISSET(server, &readable));
    FD_SET(999, &readable);
    FAILS(fw_select(1000, &readable, NULL, NULL, &later), EBADF);
    FAILS(fw_select(-1, &readable, NULL, NULL, &later), EINVAL);
    CHECK(fw_close(server) == 0 && fw_close(listener) == 0);
    CHECK(fw_close(client) == 0 && fw_epoll_wait(own, &event, 1, 10) == 0);
    CHECK(fw_close(own) == 0);
}

int main(int argc, char **argv) {
    struct sockaddr_in at;
    int listener = fw_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(argc == 2 && listener >= 0);
    how = strcmp(argv[1], "edge") == 0 ? EPOLLET : strcmp(argv[1], "once") == 0 ? EPOLLONESHOT : 0;
    as_files();
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_port = htons(700);
    CHECK(fw_bind(listener, SA(at)) == 0 && fw_listen(listener, MOST) == 0);
    CHECK((set = fw_epoll_create(1)) >= 0 && (bell = eventfd(0, EFD_NONBLOCK)) >= 0);
    watch(EPOLL_CTL_ADD, listener, EPOLLIN, &set);
    watch(EPOLL_CTL_ADD | FW_EPOLL_KERNEL, bell, EPOLLIN, &bell);
    watch(EPOLL_CTL_ADD | FW_EPOLL_KERNEL, 0, EPOLLIN, &ended);
    puts("ready");
    fflush(stdout);
    serve(listener);
    printf("%d connections\n", all_connections);
    return 0;
}
