/* Calls beside encrypted connections over XTP, from the side of C. The argument is a folder for keys. */
#define _GNU_SOURCE
#include "ends.h"
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

static int next_call(int fd) {
    int call = fw_adu_next_call(fd, LONG);
    CHECK(call >= 3);
    return call;
}

/* Answers with the request's bytes backwards, until the peer ends its stream; counts the calls. */
static atomic_int answered;

static void *answers(void *connection) {
    static char request[20000], answer[20000];
    for (;;) {
        int call = fw_adu_next_call(*(int *)connection, -1);
        if (call < 0) {
            CHECK(errno == ENODATA);
            return NULL;
        }
        ssize_t len = fw_adu_recv(call, request, sizeof request, 0);
        CHECK(len >= 0);
        for (ssize_t i = 0; i < len; i++)
            answer[i] = request[len - 1 - i];
        answered++;
        CHECK(fw_adu_send(call, answer, (size_t)len, 0) == len && fw_close(call) == 0);
    }
}

static pthread_t answering(int *server) {
    pthread_t thread;
    answered = 0;
    CHECK(pthread_create(&thread, NULL, answers, server) == 0);
    return thread;
}

static void answered_all(struct ends ends, pthread_t thread) {
    CHECK(fw_shutdown(ends.client, SHUT_WR) == 0 && pthread_join(thread, NULL) == 0);
    closed(ends);
}

/* Of one length after another, into other memory and into the same, with an ADU among them. */
static void there_and_back(void) {
    static char request[10000], answer[10000];
    size_t lens[] = {0, 1, 100, 1200, 5000, sizeof request};
    struct ends ends = connected();
    struct fw_adu_info info;
    info.size = sizeof info;
    CHECK(fw_adu_describe(ends.client, &info) == 0);
    CHECK(info.call_len_max > sizeof request && info.answer_len_max > sizeof request);
    pthread_t thread = answering(&ends.server);
    CHECK(fw_adu_send(ends.client, "an ADU among them", 17, LONG) == 17);
    for (size_t i = 0; i < sizeof request; i++)
        request[i] = (char)(i * 31 + i / 256);
    for (size_t l = 0; l < sizeof lens / sizeof *lens; l++) {
        ssize_t len = (ssize_t)lens[l];
        memset(answer, 0, sizeof answer);
        CHECK(fw_adu_call(ends.client, request, lens[l], answer, sizeof answer, LONG) == len);
        for (ssize_t i = 0; i < len; i++)
            CHECK(answer[i] == request[len - 1 - i]);
        CHECK(fw_adu_call(ends.client, answer, lens[l], answer, sizeof answer, LONG) == len);
        CHECK(memcmp(answer, request, lens[l]) == 0);
    }
    FAILS(fw_adu_call(ends.client, "long", 4, answer, 3, LONG), EMSGSIZE);
    char *longest = calloc(info.call_len_max + 1, 1);
    CHECK(longest != NULL);
    FAILS(fw_adu_call(ends.client, longest, info.call_len_max + 1, answer, 3, LONG), EMSGSIZE);
    free(longest);
    CHECK(answered == 2 * (int)(sizeof lens / sizeof *lens) + 1);
    CHECK(fw_adu_recv(ends.server, answer, sizeof answer, LONG) == 17 && memcmp(answer, "an ADU", 6) == 0);
    answered_all(ends, thread);
}

/* Several under way, answered from the last to the first; what fw_poll says of them and of the connection. */
static void several_under_way(void) {
    int ours[3], theirs[3];
    char text[20];
    struct ends ends = connected();
    CHECK(polled(ends.server, POLLPRI | POLLIN, 20) == 0);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "request %d", i);
        ours[i] = fw_adu_begin_call(ends.client, text, strlen(text), LONG);
        CHECK(ours[i] >= 3);
        CHECK(polled(ends.server, POLLPRI | POLLIN, LONG) == POLLPRI);
        theirs[i] = next_call(ends.server);
    }
    CHECK(polled(ends.server, POLLPRI | POLLIN, 20) == 0);
    FAILS(fw_adu_next_call(ends.server, 0), EAGAIN);
    FAILS(fw_adu_next_call(ends.server, 20), EAGAIN);
    for (int i = 2; i >= 0; i--) {
        CHECK(polled(ours[i], POLLIN, 0) == 0);
        FAILS(fw_adu_recv(ours[i], text, sizeof text, 0), EAGAIN);
        CHECK(polled(theirs[i], POLLIN | POLLOUT, 0) == (POLLIN | POLLOUT));
        FAILS(fw_adu_recv(theirs[i], text, 8, 0), EMSGSIZE);
        CHECK(fw_adu_recv(theirs[i], text, sizeof text, 0) == 9 && text[8] == '0' + i);
        FAILS(fw_adu_recv(theirs[i], text, sizeof text, 0), ENODATA);
        CHECK(polled(theirs[i], POLLIN | POLLOUT, 0) == POLLOUT);
        FAILS(fw_adu_send(ours[i], text, 1, 0), EPIPE);
        CHECK(fw_adu_send(theirs[i], text + 8, 1, 0) == 1);
        FAILS(fw_adu_send(theirs[i], text, 1, 0), EPIPE);
        CHECK(polled(theirs[i], POLLIN | POLLOUT, 0) == POLLHUP && fw_close(theirs[i]) == 0);
        CHECK(polled(ours[i], POLLIN, LONG) == POLLIN);
        FAILS(fw_adu_recv(ours[i], text, 0, 0), EMSGSIZE);
        CHECK(polled(ours[i], POLLIN, 0) == POLLIN);
        CHECK(fw_adu_recv(ours[i], text, sizeof text, 0) == 1 && text[0] == '0' + i);
        FAILS(fw_adu_recv(ours[i], text, sizeof text, 0), ENODATA);
        CHECK(polled(ours[i], POLLIN, 0) == (POLLIN | POLLHUP) && fw_close(ours[i]) == 0);
    }
    closed(ends);
}

/* Who does not answer, answers too much, or too late; and ends under who waits. */
static void without_an_answer(void) {
    char text[20];
    struct ends ends = connected();
    struct fw_adu_info info;
    info.size = sizeof info;
    CHECK(fw_adu_describe(ends.server, &info) == 0);
    int ours = fw_adu_begin_call(ends.client, "refuse it", 9, LONG);
    CHECK(ours >= 3 && fw_close(next_call(ends.server)) == 0);
    FAILS(fw_adu_recv(ours, text, sizeof text, LONG), ECONNREFUSED);
    says("does not answer");
    CHECK(polled(ours, POLLIN, 0) == (POLLIN | POLLHUP) && fw_close(ours) == 0);
    ours = fw_adu_begin_call(ends.client, "too much", 8, LONG);
    int theirs = next_call(ends.server);
    char *longest = calloc(info.answer_len_max + 1, 1);
    CHECK(longest != NULL);
    FAILS(fw_adu_send(theirs, longest, info.answer_len_max + 1, 0), EMSGSIZE);
    FAILS(fw_adu_send(theirs, text, 1, 0), EPIPE);
    free(longest);
    FAILS(fw_adu_recv(ours, text, sizeof text, LONG), ECONNREFUSED);
    CHECK(fw_close(ours) == 0 && fw_close(theirs) == 0);
    FAILS(fw_adu_call(ends.client, "too late", 8, text, sizeof text, 50), EAGAIN);
    theirs = next_call(ends.server);
    CHECK(fw_adu_send(theirs, "late", 4, 0) == 4 && fw_close(theirs) == 0);
    /* As many as may be under way, and one more. */
    int all[256];
    for (int i = 0; i < 256; i++)
        CHECK((all[i] = fw_adu_begin_call(ends.client, &i, sizeof i, LONG)) >= 3);
    FAILS(fw_adu_begin_call(ends.client, text, 1, 0), EAGAIN);
    FAILS(fw_adu_begin_call(ends.client, text, 1, 20), EAGAIN);
    CHECK(fw_close(all[7]) == 0 && (all[7] = fw_adu_begin_call(ends.client, text, 1, 0)) >= 3);
    theirs = next_call(ends.server);
    CHECK(fw_close(ends.client) == 0);
    FAILS(fw_adu_recv(all[0], text, sizeof text, -1), EPIPE);
    CHECK(polled(all[255], POLLIN, -1) == (POLLIN | POLLHUP));
    for (int i = 0; i < 256; i++)
        CHECK(fw_close(all[i]) == 0);
    FAILS(fw_adu_recv(ends.server, text, sizeof text, LONG), ECONNRESET);
    FAILS(fw_adu_send(theirs, "gone", 4, 0), ECONNRESET);
    FAILS(fw_adu_next_call(ends.server, LONG), ECONNRESET);
    CHECK(fw_close(theirs) == 0 && fw_close(ends.server) == 0 && fw_close(ends.listener) == 0);
}

/* An answer that has come is received after the connection is over, too. */
static void answered_before_the_end(void) {
    char text[20];
    struct ends ends = connected();
    int ours = fw_adu_begin_call(ends.client, "one", 3, LONG);
    int theirs = next_call(ends.server);
    CHECK(ours >= 3 && fw_adu_send(theirs, "the answer", 10, 0) == 10);
    CHECK(fw_close(theirs) == 0 && fw_close(ends.server) == 0);
    FAILS(fw_adu_recv(ends.client, text, sizeof text, LONG), ECONNRESET);
    CHECK(fw_adu_recv(ours, text, sizeof text, LONG) == 10 && memcmp(text, "the answer", 10) == 0);
    FAILS(fw_adu_begin_call(ends.client, text, 1, LONG), ECONNRESET);
    FAILS(fw_adu_call(ends.client, text, 1, text, sizeof text, LONG), ECONNRESET);
    CHECK(fw_close(ours) == 0 && fw_close(ends.client) == 0 && fw_close(ends.listener) == 0);
}

/* What is called with what it is not for. */
static void descriptors(void) {
    char text[20];
    struct sockaddr_in at;
    struct fw_adu_config config = usual();
    int listener = listening(&config, &at);
    FAILS(fw_adu_call(listener, text, 1, text, 1, 0), ENOTCONN);
    FAILS(fw_adu_begin_call(listener, text, 1, 0), ENOTCONN);
    FAILS(fw_adu_next_call(listener, 0), ENOTCONN);
    FAILS(fw_adu_call(1234, text, 1, text, 1, 0), EBADF);
    FAILS(fw_adu_begin_call(1234, text, 1, 0), EBADF);
    FAILS(fw_adu_next_call(1234, 0), EBADF);
    CHECK(fw_close(listener) == 0);
    struct fw_context_config block;
    memset(&block, 0, sizeof block);
    block.size = sizeof block;
    int context = fw_context_listen(&block, 7, SA(at));
    CHECK(context >= 3);
    FAILS(fw_adu_next_call(context, 0), ENOTSOCK);
    CHECK(fw_close(context) == 0);
    struct ends ends = connected();
    FAILS(fw_adu_call(ends.client, NULL, 1, text, 1, 0), EFAULT);
    FAILS(fw_adu_call(ends.client, text, 1, NULL, 1, 0), EFAULT);
    FAILS(fw_adu_begin_call(ends.client, NULL, 1, 0), EFAULT);
    int ours = fw_adu_begin_call(ends.client, NULL, 0, 0);
    CHECK(ours >= 3);
    FAILS(fw_adu_finish(ours, 0), ENOTCONN);
    FAILS(fw_adu_accept(ours, 0), EINVAL);
    FAILS(fw_adu_next_call(ours, 0), ENOTCONN);
    CHECK(fw_close(ours) == 0 && polled(ours, POLLIN, 0) == POLLNVAL);
    closed(ends);
}

/* Over what has no calls. */
static void elsewhere(const char *ciphers, const char *why) {
    char text[20];
    struct sockaddr_in at;
    struct fw_adu_info info;
    struct fw_adu_config config = usual();
    config.ciphers = ciphers;
    int listener = listening(&config, &at);
    int client = fw_adu_connect(&config, SA(at));
    int server = fw_adu_accept(listener, LONG);
    CHECK(client >= 3 && server >= 3);
    info.size = sizeof info;
    CHECK(fw_adu_describe(client, &info) == 0 && info.call_len_max == 0 && info.answer_len_max == 0);
    FAILS(fw_adu_call(client, text, 1, text, sizeof text, -1), EOPNOTSUPP);
    says(why);
    FAILS(fw_adu_begin_call(client, text, 1, -1), EOPNOTSUPP);
    FAILS(fw_adu_next_call(server, -1), EOPNOTSUPP);
    CHECK(fw_close(client) == 0 && fw_close(server) == 0 && fw_close(listener) == 0);
}

#define CALLERS 4
#define EACH 100

static void *caller(void *connection) {
    char text[20], answer[20];
    for (int i = 0; i < EACH; i++) {
        int len = snprintf(text, sizeof text, "%d", i + 10000);
        CHECK(fw_adu_call(*(int *)connection, text, (size_t)len, answer, sizeof answer, LONG) == len);
        for (int c = 0; c < len; c++)
            CHECK(answer[c] == text[len - 1 - c]);
    }
    return NULL;
}

/* A way between two ends that loses. */
static struct {
    struct sockaddr_in servers[2], client;
    int near, far;
    /* Which server it leads to. */
    atomic_int to;
    /* One datagram of so many is lost; 0: all are. */
    atomic_int each, lost;
} way;

static void pass(int from, int to, const struct sockaddr_in *peer, struct sockaddr_in *sender) {
    static char datagram[65536];
    static int count;
    socklen_t from_len = sizeof *sender;
    ssize_t len = recvfrom(from, datagram, sizeof datagram, MSG_DONTWAIT, (struct sockaddr *)sender, &from_len);
    if (len < 0)
        return;
    if (way.each == 0 || ++count % way.each == 0)
        way.lost++;
    else
        sendto(to, datagram, (size_t)len, 0, (const struct sockaddr *)peer, sizeof *peer);
}

static void *loses(void *nothing) {
    (void)nothing;
    struct sockaddr_in from;
    for (;;) {
        struct pollfd both[] = {{way.near, POLLIN, 0}, {way.far, POLLIN, 0}};
        CHECK(poll(both, 2, -1) > 0);
        if (both[0].revents)
            pass(way.near, way.far, &way.servers[way.to], &way.client);
        if (both[1].revents)
            pass(way.far, way.near, &way.client, &from);
    }
}

/* Calls from several threads over a way that loses each fifth datagram come once each; nobody answers when it loses all. */
static void over_a_bad_way(void) {
    char text[20];
    struct sockaddr_in at = loopback(0), any = loopback(0);
    struct fw_adu_config config = usual(), soon_over = usual();
    soon_over.idle_ms = 1500;
    struct ends ends;
    ends.listener = listening(&config, &way.servers[0]);
    int other = listening(&soon_over, &way.servers[1]);
    way.near = socket(AF_INET, SOCK_DGRAM, 0), way.far = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t len = sizeof at;
    CHECK(bind(way.near, SA(at)) == 0 && bind(way.far, SA(any)) == 0);
    CHECK(getsockname(way.near, (struct sockaddr *)&at, &len) == 0);
    pthread_t thread, callers[CALLERS];
    way.each = 5;
    CHECK(pthread_create(&thread, NULL, loses, NULL) == 0);
    ends.client = fw_adu_connect(&config, SA(at));
    ends.server = fw_adu_accept(ends.listener, LONG);
    CHECK(ends.client >= 3 && ends.server >= 3);
    thread = answering(&ends.server);
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&callers[i], NULL, caller, &ends.client) == 0);
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_join(callers[i], NULL) == 0);
    CHECK(answered == CALLERS * EACH && way.lost >= CALLERS * EACH / 10);
    answered_all(ends, thread);
    way.each = INT_MAX;
    way.to = 1;
    ends.listener = other;
    ends.client = fw_adu_connect(&soon_over, SA(at));
    ends.server = fw_adu_accept(ends.listener, LONG);
    CHECK(ends.client >= 3 && ends.server >= 3);
    way.each = 0;
    FAILS(fw_adu_call(ends.client, text, 1, text, sizeof text, LONG), ETIMEDOUT);
    FAILS(fw_adu_next_call(ends.server, LONG), ETIMEDOUT);
    closed(ends);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    snprintf(own, sizeof own, "%s/own", argv[1]);
    for (carrier = FW_UDP; carrier < FW_XTP; carrier++)
        elsewhere(NULL, "XTP");
    elsewhere("none", "authenticates");
    descriptors();
    there_and_back();
    several_under_way();
    without_an_answer();
    answered_before_the_end();
    over_a_bad_way();
    printf("done\n");
    return 0;
}
