/* An address of this host alone, for the tests in C. */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>

/* As long as it takes, on a machine that has much to do. */
#define LONG 60000

static inline struct sockaddr_in loopback(int port) {
    struct sockaddr_in in;
    memset(&in, 0, sizeof in);
    in.sin_family = AF_INET;
    in.sin_port = htons((uint16_t)port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
}

#endif
