/* ADUs on encrypted connections, from the side of C. The argument is a folder for keys. */
#define _GNU_SOURCE
#include "ends.h"
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

/* Another key. */
static char other[4096];

/* Sends everything back until its peer ends. */
static void *echo(void *listener) {
    static char adu[1 << 18];
    int fd = fw_adu_accept(*(int *)listener, LONG);
    CHECK(fd >= 3);
    for (;;) {
        ssize_t len = fw_adu_recv(fd, adu, sizeof adu, -1);
        if (len < 0) {
            CHECK(errno == ENODATA);
            break;
        }
        CHECK(fw_adu_send(fd, adu, (size_t)len, -1) == len);
    }
    CHECK(fw_adu_finish(fd, LONG) == 0);
    CHECK(fw_close(fd) == 0);
    return NULL;
}

static void ready(int fd) {
    struct fw_adu_info info;
    memset(&info, 0, sizeof info);
    FAILS(fw_adu_describe(fd, &info), EINVAL);
    info.size = sizeof info + 1;
    FAILS(fw_adu_describe(fd, &info), EINVAL);
    says("size: expected");
    FAILS(fw_adu_describe(fd, NULL), EFAULT);
    info.size = sizeof info;
    CHECK(fw_adu_describe(fd, &info) == 0);
    CHECK(info.adu_len > 500 && info.adu_len_max >= info.adu_len);
}

/* Both ways, with every choice. */
static void choices(void) {
    static char out[200000], in[200000];
    const char *ciphers[] = {NULL, "chacha20-poly1305", "aes-128-gcm", "aegis-128l, aegis-256", "safer-k64:2", "none"};
    unsigned int elements[] = {0, 2, 4, 8};
    unsigned int protections[] = {0, 1, 256};
    size_t lens[] = {0, 1, 100, 1400, 20000, 200000};
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (char)(i * 31 + i / 256);
    for (int i = 0; i < 6; i++) {
        struct sockaddr_in at;
        struct fw_adu_info info;
        struct fw_adu_config config = usual();
        config.ciphers = ciphers[i];
        config.execution = i % 3;
        config.max_adu = 1 << 18;
        int listener = listening(&config, &at);
        config.execution = (i + 1) % 3;
        config.element = elements[i % 4];
        config.header_protection = i < 4 ? protections[i % 3] : 0;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, echo, &listener) == 0);
        int fd = fw_adu_connect(&config, SA(at));
        CHECK(fd >= 3);
        ready(fd);
        info.size = sizeof info;
        CHECK(fw_adu_describe(fd, &info) == 0);
        char print[57];
        CHECK(fw_adu_identity(own, print, sizeof print) == 0 && strcmp(print, info.peer) == 0);
        CHECK(strncmp(info.cipher, ciphers[i] ? ciphers[i] : "aes-256-gcm", strcspn(info.cipher, ",")) == 0);
        CHECK(info.execution == config.execution && info.element == config.element);
        CHECK(info.header_protection == config.header_protection);
        CHECK(info.carrier == carrier);
        /* A quarter of a ring has the record's header, too. */
        CHECK(carrier == FW_SHM ? info.adu_len_max >= sizeof out : info.adu_len_max == 1 << 18);
        for (size_t l = 0; l < sizeof lens / sizeof *lens; l++) {
            CHECK(fw_adu_send(fd, out, lens[l], LONG) == (ssize_t)lens[l]);
            memset(in, 0, sizeof in);
            CHECK(fw_adu_recv(fd, in, sizeof in, LONG) == (ssize_t)lens[l]);
            CHECK(memcmp(in, out, lens[l]) == 0);
        }
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        CHECK(fw_getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_port == at.sin_port);
        FAILS(fw_adu_recv(fd, in, sizeof in, 0), EAGAIN);
        FAILS(fw_adu_recv(fd, in, sizeof in, 20), EAGAIN);
        CHECK(fw_shutdown(fd, SHUT_WR) == 0);
        FAILS(fw_adu_send(fd, out, 1, LONG), EPIPE);
        FAILS(fw_adu_recv(fd, in, sizeof in, LONG), ENODATA);
        CHECK(fw_adu_finish(fd, LONG) == 0);
        CHECK(fw_close(fd) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(fw_close(listener) == 0);
    }
}

static void configurations(void) {
    struct fw_adu_config config = usual(), bad;
    struct sockaddr_in any = loopback(0);
    struct sockaddr_in6 six;
    char print[57];
    FAILS(fw_adu_listen(NULL, SA(any)), EFAULT);
    FAILS(fw_adu_connect(NULL, SA(any)), EFAULT);
    FAILS(fw_adu_listen(&config, NULL, 0), EFAULT);
    FAILS(fw_adu_listen(&config, (struct sockaddr *)&any, 1), EINVAL);
    FAILS(fw_adu_listen(&config, (struct sockaddr *)&any, 7), EINVAL);
    FAILS(fw_adu_listen(&config, (struct sockaddr *)&any, 1 << 20), EINVAL);
    any.sin_family = AF_UNIX;
    FAILS(fw_adu_listen(&config, SA(any)), EAFNOSUPPORT);
    any.sin_family = AF_UNSPEC;
    FAILS(fw_adu_connect(&config, SA(any)), EAFNOSUPPORT);
    any = loopback(0);
    memset(&six, 0, sizeof six);
    six.sin6_family = AF_INET6;
    FAILS(fw_adu_listen(&config, (struct sockaddr *)&six, 20), EINVAL);
    size_t sizes[] = {0, 1, sizeof(size_t), sizeof config - 1, sizeof config + 1, sizeof config + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char expected[60];
        snprintf(expected, sizeof expected, "expected %zu bytes, found %zu", sizeof config, sizes[i]);
        bad = config, bad.size = sizes[i];
        FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
        says(expected);
        FAILS(fw_adu_connect(&bad, SA(any)), EINVAL);
        /* A failure that has no sentence of its own does not keep that one. */
        FAILS(fw_adu_finish(1234, 0), EBADF);
        says("descriptor");
        FAILS(fw_adu_listen(NULL, SA(any)), EFAULT);
        says("address");
    }
    bad = config, bad.carrier = 4;
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    says("fw_carrier");
    bad = config, bad.carrier = -1;
    FAILS(fw_adu_connect(&bad, SA(any)), EINVAL);
    bad = config, bad.identity = NULL;
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    says("a file for the key");
    bad = config, bad.identity = "/nowhere/at/all\xff";
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    bad = config, bad.ciphers = "rot13";
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    says("rot13");
    bad = config, bad.peer = "fw1:nobody";
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    FAILS(fw_adu_connect(&bad, SA(any)), EINVAL);
    says("fingerprint");
    bad = config, bad.execution = 3;
    FAILS(fw_adu_connect(&bad, SA(any)), EINVAL);
    bad = config, bad.execution = -1;
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    bad = config, bad.element = 3;
    FAILS(fw_adu_connect(&bad, SA(any)), EINVAL);
    bad = config, bad.element = 4;
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    bad = config, bad.max_adu = 0xffffffff;
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    bad = config, bad.header_protection = 100;
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    bad = config, bad.header_protection = 1, bad.ciphers = "none";
    FAILS(fw_adu_listen(&bad, SA(any)), EINVAL);
    says("authenticates");
    FAILS(fw_adu_identity(NULL, print, sizeof print), EINVAL);
    FAILS(fw_adu_identity(own, NULL, sizeof print), EFAULT);
    FAILS(fw_adu_identity(own, NULL, 0), ERANGE);
    FAILS(fw_adu_identity(own, print, sizeof print - 1), ERANGE);
    CHECK(fw_adu_identity(own, print, sizeof print) == 0 && strlen(print) == 56 && strncmp(print, "fw1:", 4) == 0);
    CHECK(chmod(own, 0644) == 0);
    FAILS(fw_adu_identity(own, print, sizeof print), EPERM);
    CHECK(chmod(own, 0600) == 0);
}

static void descriptors(void) {
    char byte = 0;
    struct fw_adu_config config = usual();
    struct sockaddr_in at;
    struct fw_adu_info info;
    struct pollfd asked;
    socklen_t len = sizeof at;
    int bad[] = {-1, 0, 2, 1234, 1 << 30};
    info.size = sizeof info;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(fw_adu_accept(bad[i], 0), EBADF);
        FAILS(fw_adu_send(bad[i], &byte, 1, 0), EBADF);
        FAILS(fw_adu_recv(bad[i], &byte, 1, 0), EBADF);
        FAILS(fw_adu_finish(bad[i], 0), EBADF);
        FAILS(fw_adu_give_up(bad[i], 0), EBADF);
        FAILS(fw_adu_describe(bad[i], &info), EBADF);
    }
    int listener = listening(&config, &at);
    FAILS(fw_adu_accept(listener, 0), EAGAIN);
    FAILS(fw_adu_accept(listener, 20), EAGAIN);
    FAILS(fw_adu_send(listener, &byte, 1, 0), ENOTCONN);
    FAILS(fw_adu_recv(listener, &byte, 1, 0), ENOTCONN);
    FAILS(fw_adu_finish(listener, 0), ENOTCONN);
    FAILS(fw_adu_describe(listener, &info), ENOTCONN);
    FAILS(fw_getpeername(listener, (struct sockaddr *)&at, &len), ENOTCONN);
    FAILS(fw_getsockname(listener, NULL, &len), EFAULT);
    FAILS(fw_getsockname(listener, (struct sockaddr *)&at, NULL), EFAULT);
    FAILS(fw_shutdown(listener, SHUT_WR), ENOTCONN);
    FAILS(fw_send(listener, &byte, 1, 0), ENOTSOCK);
    FAILS(fw_recv(listener, &byte, 1, 0), ENOTSOCK);
    FAILS(fw_bind(listener, SA(at)), ENOTSOCK);
    FAILS(fw_socket_on(listener, AF_INET, SOCK_STREAM, 0), EINVAL);
    asked.fd = listener, asked.events = POLLIN | POLLOUT;
    CHECK(fw_poll(&asked, 1, 0) == 0 && asked.revents == 0);
    struct fw_adu_config again = usual();
    FAILS(fw_adu_listen(&again, SA(at)), EADDRINUSE);
    CHECK(fw_close(listener) == 0);
    FAILS(fw_close(listener), EBADF);
}

/* Whom one side refuses is told. */
static void refusals(void) {
    struct sockaddr_in at;
    char mine[57], its[57], list[120];
    struct fw_adu_config config = usual(), client = usual();
    CHECK(fw_adu_identity(own, mine, sizeof mine) == 0);
    CHECK(fw_adu_identity(other, its, sizeof its) == 0);
    int listener = listening(&config, &at);
    client.identity = other;
    FAILS(fw_adu_connect(&client, SA(at)), EACCES);
    says("the server's key");
    client.peer = mine;
    FAILS(fw_adu_connect(&client, SA(at)), EACCES);
    says("not on the server's list");
    client = usual();
    client.ciphers = "none";
    FAILS(fw_adu_connect(&client, SA(at)), EACCES);
    CHECK(fw_close(listener) == 0);
    /* Headers are protected, or there is no connection. */
    config.header_protection = 64;
    snprintf(list, sizeof list, "%s, %s", mine, its);
    config.peer = list;
    listener = listening(&config, &at);
    client = usual();
    FAILS(fw_adu_connect(&client, SA(at)), EACCES);
    says("header protection");
    client.header_protection = 1, client.identity = other, client.peer = mine;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, echo, &listener) == 0);
    int fd = fw_adu_connect(&client, SA(at));
    struct fw_adu_info info;
    info.size = sizeof info;
    CHECK(fd >= 3 && fw_adu_describe(fd, &info) == 0);
    CHECK(info.header_protection == 64 && strcmp(info.peer, mine) == 0);
    CHECK(fw_shutdown(fd, SHUT_WR) == 0 && fw_adu_finish(fd, LONG) == 0 && fw_close(fd) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(fw_close(listener) == 0);
    /* Nobody is there any more. */
    client = usual();
    FAILS(fw_adu_connect(&client, SA(at)), ECONNREFUSED);
}

static int waited_on;

static void *closer(void *nothing) {
    (void)nothing;
    usleep(150000);
    CHECK(fw_close(waited_on) == 0);
    return NULL;
}

/* Memory that is too short, a peer that gives up, a descriptor that is closed under who waits. */
static void ends(void) {
    struct sockaddr_in at;
    char byte, adu[100];
    pthread_t thread;
    struct fw_adu_config config = usual();
    config.idle_ms = 5000;
    int listener = listening(&config, &at);
    int client = fw_adu_connect(&config, SA(at));
    int server = fw_adu_accept(listener, LONG);
    CHECK(client >= 3 && server >= 3);
    struct fw_adu_info info;
    info.size = sizeof info;
    CHECK(fw_adu_describe(client, &info) == 0);
    char *longest = malloc(info.adu_len_max + 1);
    CHECK(longest != NULL);
    memset(longest, 1, info.adu_len_max + 1);
    FAILS(fw_adu_send(client, longest, info.adu_len_max + 1, 0), EMSGSIZE);
    free(longest);
    FAILS(fw_adu_send(client, NULL, 5, 0), EFAULT);
    FAILS(fw_adu_recv(client, NULL, 5, 0), EFAULT);
    FAILS(fw_adu_accept(client, 0), EINVAL);
    memset(adu, 7, sizeof adu);
    CHECK(fw_adu_send(client, adu, sizeof adu, LONG) == sizeof adu);
    CHECK(fw_adu_send(client, adu, 5, LONG) == 5);
    CHECK(fw_adu_send(client, NULL, 0, LONG) == 0);
    FAILS(fw_adu_recv(server, &byte, 1, LONG), EMSGSIZE);
    memset(adu, 0, sizeof adu);
    CHECK(fw_adu_recv(server, adu, sizeof adu, LONG) == 5 && adu[4] == 7 && adu[5] == 0);
    CHECK(fw_adu_recv(server, NULL, 0, LONG) == 0);
    waited_on = client;
    CHECK(pthread_create(&thread, NULL, closer, NULL) == 0);
    FAILS(fw_adu_recv(client, adu, sizeof adu, -1), EBADF);
    CHECK(pthread_join(thread, NULL) == 0);
    FAILS(fw_adu_recv(server, adu, sizeof adu, LONG), ECONNRESET);
    CHECK(fw_close(server) == 0);
    client = fw_adu_connect(&config, SA(at));
    server = fw_adu_accept(listener, LONG);
    CHECK(client >= 3 && server >= 3);
    CHECK(fw_adu_send(server, adu, 3, LONG) == 3 && fw_adu_give_up(server, 4711) == 0);
    CHECK(fw_adu_recv(client, adu, sizeof adu, LONG) == 3);
    FAILS(fw_adu_recv(client, adu, sizeof adu, LONG), ECONNABORTED);
    says("4711");
    FAILS(fw_adu_recv(server, adu, sizeof adu, LONG), EPIPE);
    CHECK(fw_close(client) == 0 && fw_close(server) == 0);
    waited_on = listener;
    CHECK(pthread_create(&thread, NULL, closer, NULL) == 0);
    FAILS(fw_adu_accept(listener, -1), EBADF);
    CHECK(pthread_join(thread, NULL) == 0);
}

#define MANY 20000

static void *taker(void *connection) {
    static unsigned char adu[2000];
    for (unsigned i = 0; i < MANY; i++) {
        ssize_t len = fw_adu_recv(*(int *)connection, adu, sizeof adu, LONG);
        CHECK(len == (ssize_t)(i % 1500) + 4 && memcmp(adu, &i, 4) == 0);
        for (ssize_t at = 4; at < len; at++)
            CHECK(adu[at] == (unsigned char)i);
    }
    return NULL;
}

/* One thread sends while another receives, on both ends. */
static void both_ways(void) {
    static unsigned char adu[2000];
    pthread_t echoes, takes;
    struct fw_adu_config config = usual();
    struct sockaddr_in at;
    int listener = listening(&config, &at);
    CHECK(pthread_create(&echoes, NULL, echo, &listener) == 0);
    int client = fw_adu_connect(&config, SA(at));
    CHECK(client >= 3);
    threads_block_signals(1);
    CHECK(pthread_create(&takes, NULL, taker, &client) == 0);
    for (unsigned i = 0; i < MANY; i++) {
        memset(adu, (int)(unsigned char)i, sizeof adu);
        memcpy(adu, &i, 4);
        CHECK(fw_adu_send(client, adu, i % 1500 + 4, -1) == (ssize_t)(i % 1500) + 4);
    }
    CHECK(pthread_join(takes, NULL) == 0);
    CHECK(fw_adu_finish(client, LONG) == 0 && fw_close(client) == 0);
    CHECK(pthread_join(echoes, NULL) == 0);
    CHECK(fw_close(listener) == 0);
}

static void *shutter(void *connection) {
    usleep(150000);
    CHECK(fw_shutdown(*(int *)connection, SHUT_WR) == 0);
    return NULL;
}

/* What was sent arrives though nobody calls again; and whoever waits for room is told that our side has ended. */
static void without_room(void) {
    static char adu[60000];
    struct ends ends = connected();
    unsigned sent = 0;
    while (fw_adu_send(ends.client, adu, sizeof adu, 0) == sizeof adu)
        CHECK(++sent < 100000);
    CHECK(errno == EAGAIN && sent > 0);
    for (unsigned i = 0; i < sent; i++)
        CHECK(fw_adu_recv(ends.server, adu, sizeof adu, LONG) == sizeof adu);
    FAILS(fw_adu_recv(ends.server, adu, sizeof adu, 50), EAGAIN);
    for (int ready = 0; !ready;) {
        struct pollfd asked = {ends.client, POLLOUT, 0};
        CHECK(fw_poll(&asked, 1, LONG) == 1 && asked.revents == POLLOUT);
        ready = fw_adu_send(ends.client, adu, sizeof adu, 0) == sizeof adu;
    }
    while (fw_adu_send(ends.client, adu, sizeof adu, 300) == sizeof adu)
        continue;
    CHECK(errno == EAGAIN);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, shutter, &ends.client) == 0);
    FAILS(fw_adu_send(ends.client, adu, sizeof adu, -1), EPIPE);
    CHECK(pthread_join(thread, NULL) == 0);
    closed(ends);
}

static void *later(void *connection) {
    usleep(100000);
    CHECK(fw_adu_send(*(int *)connection, "news", 4, LONG) == 4);
    return NULL;
}

/* What fw_poll says of listeners and connections. */
static void polls(void) {
    char adu[10];
    struct sockaddr_in at;
    struct fw_adu_config config = usual();
    struct ends ends;
    ends.listener = listening(&config, &at);
    CHECK(polled(ends.listener, POLLIN, 20) == 0);
    ends.client = fw_adu_connect(&config, SA(at));
    CHECK(ends.client >= 3);
    CHECK(polled(ends.listener, POLLIN, LONG) == POLLIN);
    ends.server = fw_adu_accept(ends.listener, 0);
    CHECK(ends.server >= 3);
    CHECK(polled(ends.listener, POLLIN, 0) == 0);
    CHECK(polled(ends.client, POLLIN, 20) == 0);
    CHECK(polled(ends.client, POLLIN | POLLOUT, LONG) == POLLOUT);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, later, &ends.server) == 0);
    struct pollfd both[] = {{ends.listener, POLLIN, 0}, {ends.client, POLLIN, 0}, {-1, POLLIN, 0}};
    CHECK(fw_poll(both, 3, -1) == 1 && both[0].revents == 0 && both[1].revents == POLLIN && both[2].revents == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    /* It is there still, and found again. */
    CHECK(polled(ends.client, POLLIN, 0) == POLLIN);
    FAILS(fw_adu_recv(ends.client, adu, 3, 0), EMSGSIZE);
    CHECK(polled(ends.client, POLLIN, 0) == 0);
    CHECK(fw_adu_send(ends.server, "more", 4, LONG) == 4 && polled(ends.client, POLLIN, LONG) == POLLIN);
    CHECK(fw_adu_recv(ends.client, adu, sizeof adu, 0) == 4 && memcmp(adu, "more", 4) == 0);
    CHECK(fw_shutdown(ends.server, SHUT_WR) == 0);
    CHECK(polled(ends.client, POLLIN, LONG) == POLLIN);
    FAILS(fw_adu_recv(ends.client, adu, sizeof adu, 0), ENODATA);
    FAILS(fw_adu_recv(ends.client, adu, sizeof adu, 0), ENODATA);
    CHECK(fw_close(ends.server) == 0);
    CHECK(fw_adu_give_up(ends.client, 1) == 0);
    CHECK(polled(ends.client, POLLIN, LONG) & POLLHUP);
    CHECK(fw_close(ends.client) == 0 && fw_close(ends.listener) == 0);
    CHECK(polled(ends.client, POLLIN, LONG) == POLLNVAL);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    snprintf(own, sizeof own, "%s/own", argv[1]);
    snprintf(other, sizeof other, "%s/other", argv[1]);
    for (carrier = FW_UDP; carrier <= FW_XTP; carrier++) {
        fprintf(stderr, "carrier %d\n", carrier);
        configurations();
        descriptors();
        choices();
        refusals();
        ends();
        both_ways();
        without_room();
        polls();
    }
    printf("done\n");
    return 0;
}
