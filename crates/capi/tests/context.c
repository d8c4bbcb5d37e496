/* Contexts of XTP, from the side of C. */
#define _GNU_SOURCE
#include "loopback.h"
#include <poll.h>
#include <pthread.h>
#include <sys/uio.h>
#include <time.h>

#define SERVICE 9293

static struct fw_context_config usual(unsigned int mechanisms) {
    struct fw_context_config config;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.mechanisms = mechanisms;
    return config;
}

/* Sends each message back, with its tag, until its peer ends. */
static void *echo(void *listener) {
    static char memory[1 << 18];
    int fd = fw_context_accept(*(int *)listener, LONG);
    CHECK(fd >= 3);
    for (;;) {
        uint64_t tag;
        struct iovec all = {memory, sizeof memory};
        ssize_t len = fw_context_recv(fd, &all, 1, &tag, LONG);
        if (len < 0) {
            CHECK(errno == ENODATA);
            break;
        }
        all.iov_len = (size_t)len;
        CHECK(fw_context_send(fd, &all, 1, &tag, 0, LONG) == len);
    }
    CHECK(fw_context_finish(fd, LONG) == 0);
    CHECK(fw_close(fd) == 0);
    return NULL;
}

static void there_and_back(unsigned int mechanisms) {
    struct fw_context_config config = usual(mechanisms);
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    int listener = fw_context_listen(&config, SERVICE, SA(at));
    CHECK(listener >= 3);
    CHECK(fw_getsockname(listener, (struct sockaddr *)&at, &len) == 0 && at.sin_port != 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, echo, &listener) == 0);
    int fd = fw_context_connect(&config, SERVICE, SA(at));
    CHECK(fd >= 3);
    static char out[100000], in[100000];
    for (size_t n = 0; n < 50; n++) {
        size_t length = 1 + n * 1999;
        uint64_t tag = 77 + n, told = 0;
        for (size_t i = 0; i < length; i++)
            out[i] = (char)(i * 31 + n);
        memset(in, 0, sizeof in);
        struct iovec pieces[3] = {{out, length / 3}, {out + length / 3, 0}, {out + length / 3, length - length / 3}};
        struct iovec places[2] = {{in, 5}, {in + 5, sizeof in - 5}};
        CHECK(fw_context_send(fd, pieces, 3, &tag, 0, LONG) == (ssize_t)length);
        CHECK(fw_context_recv(fd, places, 2, &told, LONG) == (ssize_t)length);
        CHECK(memcmp(in, out, length) == 0);
        CHECK(told == (mechanisms & FW_TAGS ? tag : 0));
    }
    struct sockaddr_in peer;
    len = sizeof peer;
    CHECK(fw_getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_port == at.sin_port);
    CHECK(fw_context_finish(fd, LONG) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(fw_close(fd) == 0 && fw_close(listener) == 0);
}

/* How long 60 messages of 1,000 bytes take to go there and come back, in milliseconds; where later is not 0 who connects wants
 * to be sent no more than that, once it is. */
static long there_and_back_takes(const struct fw_context_config *server, const struct fw_context_config *client,
                                 unsigned int later) {
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    int listener = fw_context_listen(server, SERVICE, SA(at));
    CHECK(listener >= 3);
    CHECK(fw_getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, echo, &listener) == 0);
    int fd = fw_context_connect(client, SERVICE, SA(at));
    CHECK(fd >= 3);
    if (later > 0)
        CHECK(fw_context_set_in_rate(fd, later, 10000) == 0);
    char bytes[1000] = {1};
    struct iovec one = {bytes, sizeof bytes};
    /* Until each has told what it wants. */
    for (int n = 0; n < 5; n++)
        CHECK(fw_context_send(fd, &one, 1, NULL, 0, LONG) == sizeof bytes &&
              fw_context_recv(fd, &one, 1, NULL, LONG) == sizeof bytes);
    struct timespec begin, end;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &begin) == 0);
    for (int n = 0; n < 60; n++)
        CHECK(fw_context_send(fd, &one, 1, NULL, 0, LONG) == sizeof bytes);
    for (int n = 0; n < 60; n++)
        CHECK(fw_context_recv(fd, &one, 1, NULL, LONG) == sizeof bytes);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &end) == 0);
    CHECK(fw_context_finish(fd, LONG) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(fw_close(fd) == 0 && fw_close(listener) == 0);
    return (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
}

/* What one side sends at most, and what its peer wants at most, by each controller and without one. */
static void rates_are_kept(void) {
    struct fw_context_config free = usual(0), bounded = usual(0);
    bounded.out_rate = 200000;
    bounded.out_burst = 10000;
    bounded.congestion = "bbr";
    /* 60,000 bytes and more, of which two bursts may leave before a second RTIMER ends. */
    CHECK(there_and_back_takes(&free, &bounded, 0) >= 150);
    CHECK(there_and_back_takes(&bounded, &free, 0) >= 150);
    bounded.out_rate = bounded.out_burst = 0;
    bounded.in_rate = 200000;
    bounded.in_burst = 10000;
    bounded.congestion = "none";
    CHECK(there_and_back_takes(&bounded, &free, 0) >= 150);
    CHECK(there_and_back_takes(&free, &bounded, 0) >= 150);
    CHECK(there_and_back_takes(&free, &free, 200000) >= 150);
}

/* Takes count messages, and answers with what they say, from its end to its beginning. */
struct service {
    int listener, kind, count;
};

static void *serve(void *argument) {
    struct service *service = argument;
    for (int n = 0; n < service->count; n++) {
        static char in[20000], out[20000];
        int fd = fw_context_accept(service->listener, LONG);
        CHECK(fd >= 3);
        uint64_t tag = 0;
        struct iovec places[2] = {{in, 3}, {in + 3, sizeof in - 3}};
        ssize_t len = fw_context_recv(fd, places, 2, &tag, LONG);
        CHECK(len > 0 && tag == (uint64_t)n);
        struct iovec one = {out, (size_t)len};
        for (ssize_t i = 0; i < len; i++)
            out[i] = in[len - 1 - i];
        if (service->kind == FW_TRANSACTION)
            CHECK(fw_context_send(fd, &one, 1, NULL, 0, LONG) == len);
        else
            FAILS(fw_context_send(fd, &one, 1, NULL, 0, 0), EPIPE);
        FAILS(fw_context_recv(fd, places, 2, NULL, 0), ENODATA);
        CHECK(fw_context_finish(fd, 0) == 0);
        CHECK(fw_close(fd) == 0);
    }
    return NULL;
}

/* Services 1 to 3, all over two sockets. */
static void one_message(int kind) {
    struct fw_context_config config = usual(FW_TAGS);
    config.kind = kind;
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    int listener = fw_context_listen(&config, SERVICE, SA(at));
    CHECK(fw_getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    int first = fw_context_connect(&config, SERVICE, SA(at));
    CHECK(first >= 3);
    struct service service = {listener, kind, 20};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, serve, &service) == 0);
    static char out[20000], in[20000];
    for (int n = 0; n < service.count; n++) {
        int fd = n == 0 ? first : fw_context_beside(first, &config, SERVICE, SA(at));
        CHECK(fd >= 3);
        size_t length = 1 + (size_t)n * 499;
        uint64_t tag = (uint64_t)n;
        for (size_t i = 0; i < length; i++)
            out[i] = (char)(i * 7 + (size_t)n);
        struct iovec pieces[2] = {{out, length / 2}, {out + length / 2, length - length / 2}};
        struct iovec all = {in, sizeof in};
        CHECK(fw_context_send(fd, pieces, 2, &tag, 0, LONG) == (ssize_t)length);
        if (kind == FW_TRANSACTION) {
            CHECK(fw_context_recv(fd, &all, 1, NULL, LONG) == (ssize_t)length);
            for (size_t i = 0; i < length; i++)
                CHECK(in[i] == out[length - 1 - i]);
        }
        CHECK(fw_context_finish(fd, LONG) == 0);
        FAILS(fw_context_recv(fd, &all, 1, NULL, 0), ENODATA);
        if (n > 0)
            CHECK(fw_close(fd) == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(fw_close(first) == 0 && fw_close(listener) == 0);
}

/* One thread, no call that waits: fw_poll receives, sends again and tells. */
static void a_loop_of_its_own(void) {
    struct fw_context_config config = usual(0);
    config.kind = FW_TRANSACTION;
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    int listener = fw_context_listen(&config, SERVICE, SA(at));
    CHECK(fw_getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    int fd = fw_context_connect(&config, SERVICE, SA(at)), asked = -1;
    CHECK(fw_context_timeout(fd) == -1);
    struct pollfd fds[3] = {{fd, POLLIN | POLLOUT, 0}, {listener, POLLIN, 0}, {-1, POLLIN, 0}};
    CHECK(fw_poll(fds, 3, LONG) == 1 && fds[0].revents == POLLOUT);
    char byte = 'q';
    struct iovec one = {&byte, 1};
    CHECK(fw_context_send(fd, &one, 1, NULL, 0, 0) == 1);
    int left = fw_context_timeout(fd);
    CHECK(left > 0 && left <= 2000);
    fds[0].events = POLLIN;
    int answered = 0;
    while (!answered) {
        CHECK(fw_poll(fds, 3, LONG) > 0);
        if (fds[1].revents & POLLIN) {
            asked = fw_context_accept(listener, 0);
            CHECK(asked >= 3);
            fds[2].fd = asked;
        }
        if (asked >= 0 && fds[2].revents & POLLIN) {
            CHECK(fw_context_recv(asked, &one, 1, NULL, 0) == 1 && byte == 'q');
            byte = 'a';
            CHECK(fw_context_send(asked, &one, 1, NULL, 0, 0) == 1);
            fds[2].fd = -1;
        }
        if (fds[0].revents & POLLIN) {
            CHECK(fds[0].revents & POLLHUP);
            CHECK(fw_context_recv(fd, &one, 1, NULL, 0) == 1 && byte == 'a');
            answered = 1;
        }
    }
    CHECK(fw_close(asked) == 0 && fw_close(fd) == 0);
    /* Nobody answers: it goes again, when fw_poll is called. */
    CHECK(fw_close(listener) == 0);
    struct fw_context_config bad = config;
    bad.kind = 4;
    FAILS(fw_context_connect(&bad, SERVICE, SA(at)), EINVAL);
    says("kind");
}

/* What came before the end is there after it, however late it is asked for. */
static void what_came_before_the_end(void) {
    struct fw_context_config config = usual(0);
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    int listener = fw_context_listen(&config, SERVICE, SA(at));
    CHECK(fw_getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    int fd = fw_context_connect(&config, SERVICE, SA(at));
    char word[4] = "last", in[4];
    struct iovec one = {word, 4}, there = {in, 4};
    CHECK(fw_context_send(fd, &one, 1, NULL, 0, 0) == 4);
    CHECK(fw_shutdown(fd, SHUT_WR) == 0);
    int accepted = fw_context_accept(listener, LONG);
    CHECK(fw_shutdown(accepted, SHUT_WR) == 0);
    /* Both have ended. Whoever looks now hears of the end behind the message. */
    struct pollfd fds[2] = {{fd, 0, 0}, {accepted, 0, 0}};
    while (!(fds[0].revents & POLLHUP && fds[1].revents & POLLHUP))
        CHECK(fw_poll(fds, 2, LONG) >= 0);
    CHECK(fw_context_recv(accepted, &there, 1, NULL, 0) == 4 && memcmp(in, word, 4) == 0);
    FAILS(fw_context_recv(accepted, &there, 1, NULL, 0), ENODATA);
    CHECK(fw_close(fd) == 0 && fw_close(accepted) == 0 && fw_close(listener) == 0);
}

static void what_goes_wrong(void) {
    struct fw_context_config config = usual(0), bad = usual(1u << 20);
    struct sockaddr_in any = loopback(0);
    char byte = 0;
    struct iovec one = {&byte, 1}, none = {&byte, 0};
    FAILS(fw_context_listen(NULL, SERVICE, SA(any)), EFAULT);
    FAILS(fw_context_listen(&bad, SERVICE, SA(any)), EINVAL);
    bad = usual(0);
    bad.sort = 1 << 16;
    FAILS(fw_context_listen(&bad, SERVICE, SA(any)), EINVAL);
    bad.size = 3;
    FAILS(fw_context_listen(&bad, SERVICE, SA(any)), EINVAL);
    bad = usual(0);
    bad.congestion = "vegas";
    FAILS(fw_context_listen(&bad, SERVICE, SA(any)), EINVAL);
    config.send_bytes = 1 << 15;
    int listener = fw_context_listen(&config, SERVICE, SA(any));
    CHECK(listener >= 3);
    socklen_t len = sizeof any;
    CHECK(fw_getsockname(listener, (struct sockaddr *)&any, &len) == 0);
    FAILS(fw_context_accept(listener, 0), EAGAIN);
    FAILS(fw_context_recv(listener, &one, 1, NULL, 0), ENOTCONN);
    FAILS(fw_context_set_in_rate(listener, 1, 1), ENOTCONN);
    FAILS(fw_recv(listener, &byte, 1, 0), ENOTSOCK);
    FAILS(fw_adu_accept(listener, 0), ENOTSOCK);
    FAILS(fw_context_accept(99, 0), EBADF);
    int fd = fw_context_connect(&config, SERVICE, SA(any));
    CHECK(fd >= 3);
    FAILS(fw_context_accept(fd, 0), EINVAL);
    FAILS(fw_context_send(fd, &none, 1, NULL, 0, 0), EINVAL);
    FAILS(fw_context_send(fd, NULL, 1, NULL, 0, 0), EFAULT);
    static char longer[1 << 16];
    struct iovec much = {longer, sizeof longer};
    FAILS(fw_context_send(fd, &much, 1, NULL, 0, 0), EMSGSIZE);
    FAILS(fw_context_recv(fd, &one, 1, NULL, 0), EAGAIN);
    much.iov_len = 2;
    CHECK(fw_context_send(fd, &much, 1, NULL, 0, LONG) == 2);
    int accepted = fw_context_accept(listener, LONG);
    CHECK(accepted >= 3);
    FAILS(fw_context_recv(accepted, &one, 1, NULL, LONG), EMSGSIZE);
    /* It knows its peer now; it goes without having ended. */
    CHECK(fw_context_send(accepted, &one, 1, NULL, 0, LONG) == 1);
    CHECK(fw_context_recv(fd, &one, 1, NULL, LONG) == 1);
    CHECK(fw_close(fd) == 0);
    FAILS(fw_context_recv(accepted, &one, 1, NULL, LONG), ECONNRESET);
    says("over");
    CHECK(fw_close(accepted) == 0);
    /* A service that nobody has. */
    fd = fw_context_connect(&config, SERVICE + 1, SA(any));
    CHECK(fd >= 3);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, echo, &listener) == 0);
    CHECK(fw_context_recv(fd, &one, 1, NULL, LONG) == -1 && errno == ECONNREFUSED);
    CHECK(fw_close(fd) == 0);
    /* Who waits is let go by one that comes and ends. */
    fd = fw_context_connect(&config, SERVICE, SA(any));
    CHECK(fw_context_send(fd, &one, 1, NULL, 0, LONG) == 1);
    CHECK(fw_context_finish(fd, LONG) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(fw_close(fd) == 0 && fw_close(listener) == 0);
}

int main(void) {
    there_and_back(0);
    there_and_back(FW_TAGS);
    there_and_back(FW_CXOR | FW_TAGS | FW_EDGE | FW_OVERTAKING);
    there_and_back(FW_GO_BACK_N | FW_CXOR);
    there_and_back(FW_NO_FASTNAK | FW_EDGE);
    there_and_back(FW_NOFLOW);
    rates_are_kept();
    what_goes_wrong();
    one_message(FW_DATAGRAM);
    one_message(FW_ACKNOWLEDGED);
    one_message(FW_TRANSACTION);
    a_loop_of_its_own();
    what_came_before_the_end();
    return 0;
}
