/* Two ends of an encrypted connection over loopback, for the tests in C of ADUs. */
#ifndef ENDS_H
#define ENDS_H

#include "loopback.h"

/* The file of both ends' key. */
static char own[4096];
/* What carries the ADUs. */
static int carrier;

static inline struct fw_adu_config usual(void) {
    struct fw_adu_config config;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.identity = own;
    config.carrier = carrier;
    return config;
}

static inline int listening(const struct fw_adu_config *config, struct sockaddr_in *at) {
    struct sockaddr_in any = loopback(0);
    socklen_t len = sizeof *at;
    int fd = fw_adu_listen(config, SA(any));
    CHECK(fd >= 3);
    CHECK(fw_getsockname(fd, (struct sockaddr *)at, &len) == 0 && len == sizeof *at && at->sin_port != 0);
    return fd;
}

/* A connection, and its other end. */
struct ends {
    int listener, client, server;
};

static inline struct ends connected(void) {
    struct sockaddr_in at;
    struct fw_adu_config config = usual();
    struct ends ends;
    ends.listener = listening(&config, &at);
    ends.client = fw_adu_connect(&config, SA(at));
    CHECK(ends.client >= 3);
    ends.server = fw_adu_accept(ends.listener, LONG);
    CHECK(ends.server >= 3);
    return ends;
}

static inline void closed(struct ends ends) {
    CHECK(fw_close(ends.client) == 0 && fw_close(ends.server) == 0 && fw_close(ends.listener) == 0);
}

static inline short polled(int fd, short events, int timeout_ms) {
    struct pollfd asked = {fd, events, 0};
    int ready = fw_poll(&asked, 1, timeout_ms);
    CHECK(ready == (asked.revents != 0));
    return asked.revents;
}

#endif
