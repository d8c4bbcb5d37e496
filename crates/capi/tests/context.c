/* Contexts of XTP, from the side of C. */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/uio.h>

/* As long as it takes, on a machine that has much to do. */
#define LONG 60000
#define SERVICE 9293

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in in;
    memset(&in, 0, sizeof in);
    in.sin_family = AF_INET;
    in.sin_port = htons((uint16_t)port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
}

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
    config.send_bytes = 1 << 15;
    int listener = fw_context_listen(&config, SERVICE, SA(any));
    CHECK(listener >= 3);
    socklen_t len = sizeof any;
    CHECK(fw_getsockname(listener, (struct sockaddr *)&any, &len) == 0);
    FAILS(fw_context_accept(listener, 0), EAGAIN);
    FAILS(fw_context_recv(listener, &one, 1, NULL, 0), ENOTCONN);
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
    what_goes_wrong();
    return 0;
}
