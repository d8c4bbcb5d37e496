/* An echo server over a stack of its own, for TCP and UDP on one port, with one thread.
 *
 * Build it in the folder of the repository:
 *
 *   cargo build --release -p fusewire-capi
 *   cc -I crates/capi/include crates/capi/examples/echo.c -L target/release -lfusewire -Wl,-rpath,$PWD/target/release -o echo
 *
 * or with the static library, which needs no libfusewire.so to run:
 *
 *   cc -I crates/capi/include crates/capi/examples/echo.c target/release/libfusewire.a -lm -lpthread -ldl -o echo
 *
 * Run it with the rights that the device needs, for a TAP CAP_NET_ADMIN:
 *
 *   FUSEWIRE_DEVICE=tap:fw0 FUSEWIRE_ADDRESS=10.9.0.2/24 ./echo 7
 *
 * Then, on the same host:
 *
 *   ip addr add 10.9.0.1/24 dev fw0
 *   nc 10.9.0.2 7
 */
#include <errno.h>
#include <fusewire.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS 64

static void fail(const char *what) {
    char why[200];
    int error = errno;
    fw_reason(why, sizeof why);
    fprintf(stderr, "%s: %s %s\n", what, strerror(error), why);
    exit(1);
}

static int bound(int type, unsigned short port) {
    struct sockaddr_in at;
    int fd = fw_socket(AF_INET, type, 0);
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    if (fd < 0 || fw_bind(fd, (struct sockaddr *)&at, sizeof at) < 0)
        fail("bind");
    return fd;
}

/* Sends back what has come; 0 when the stream is over. */
static int echo_stream(int fd) {
    static char bytes[65536];
    ssize_t got = fw_recv(fd, bytes, sizeof bytes, 0);
    return got > 0 && fw_send(fd, bytes, (size_t)got, 0) == got;
}

static void echo_datagram(int fd) {
    static char bytes[65536];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    ssize_t got = fw_recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &len);
    if (got >= 0 && fw_sendto(fd, bytes, (size_t)got, 0, (struct sockaddr *)&from, len) < 0)
        perror("sendto");
}

int main(int argc, char **argv) {
    unsigned short port = (unsigned short)(argc > 1 ? atoi(argv[1]) : 7);
    struct pollfd fds[2 + CLIENTS];
    nfds_t count = 2, i;
    fds[0].fd = bound(SOCK_STREAM, port);
    fds[1].fd = bound(SOCK_DGRAM, port);
    fds[0].events = fds[1].events = POLLIN;
    if (fw_listen(fds[0].fd, 16) < 0)
        fail("listen");
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        if (fw_poll(fds, count, -1) < 0)
            fail("poll");
        for (i = 2; i < count; i++)
            if (fds[i].revents && !echo_stream(fds[i].fd)) {
                fw_close(fds[i].fd);
                fds[i--] = fds[--count];
            }
        if (fds[1].revents)
            echo_datagram(fds[1].fd);
        if (fds[0].revents) {
            int client = fw_accept(fds[0].fd, NULL, NULL);
            if (client < 0) {
                perror("accept");
            } else if (count == 2 + CLIENTS) {
                fw_close(client);
            } else {
                fds[count].fd = client;
                fds[count].events = POLLIN;
                fds[count++].revents = 0;
            }
        }
    }
}
