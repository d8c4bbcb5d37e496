/* Beside the kernel on its own address: a port is ours or the kernel's, and never both. The other host has 10.81.0.1,
 * with echoes on port 7. */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>


static struct sockaddr_in at(const char *ip, unsigned short port) {
    struct sockaddr_in addr;
    memset(&addr, 0, sizeof addr);
    addr.sin_family = AF_INET;
    addr.sin_port = htons(port);
    CHECK(inet_pton(AF_INET, ip, &addr.sin_addr) == 1);
    return addr;
}

/* The kernel's socket for this port: 0, or errno. */
static int kernel_has(int type, struct sockaddr_in addr) {
    int fd = socket(AF_INET, type, 0), error = 0;
    if (bind(fd, SA(addr)) < 0)
        error = errno;
    close(fd);
    return error;
}

/* Something to the echo of the other host and back, over the kernel's own TCP. */
static void kernel_echo(void) {
    struct sockaddr_in echo = at("10.81.0.1", 7);
    char in[6];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, SA(echo)) == 0 && write(fd, "kernel", 6) == 6);
    CHECK(recv(fd, in, sizeof in, MSG_WAITALL) == 6 && memcmp(in, "kernel", 6) == 0);
    close(fd);
}

static void ports(int type) {
    struct sockaddr_in mine = at("10.81.0.2", 700), any = at("0.0.0.0", 701), kernels = at("0.0.0.0", 0), got;
    socklen_t len = sizeof kernels;
    int kernel = socket(AF_INET, type, 0), fd, other;
    /* The kernel's are not ours, and it does not tell us to try and see. */
    CHECK(bind(kernel, SA(kernels)) == 0 && getsockname(kernel, (struct sockaddr *)&kernels, &len) == 0);
    kernels.sin_addr = mine.sin_addr;
    fd = fw_socket(AF_INET, type, 0);
    CHECK(fd >= 0);
    FAILS(fw_bind(fd, SA(kernels)), EADDRINUSE);
    /* Ours are not the kernel's until they are given back, whichever way they came to us. */
    CHECK(fw_bind(fd, SA(mine)) == 0 && kernel_has(type, mine) == EADDRINUSE);
    CHECK(fw_close(fd) == 0 && kernel_has(type, mine) == 0);
    fd = fw_socket(AF_INET, type, 0);
    CHECK(fw_bind(fd, SA(any)) == 0);
    any.sin_addr = mine.sin_addr;
    CHECK(kernel_has(type, any) == EADDRINUSE);
    other = fw_socket(AF_INET, type, 0);
    FAILS(fw_bind(other, SA(any)), EADDRINUSE);
    CHECK(fw_close(fd) == 0 && kernel_has(type, any) == 0);
    any.sin_port = 0;
    CHECK(fw_bind(other, SA(any)) == 0);
    len = sizeof got;
    CHECK(fw_getsockname(other, (struct sockaddr *)&got, &len) == 0 && got.sin_port != 0);
    got.sin_addr = mine.sin_addr;
    CHECK(kernel_has(type, got) == EADDRINUSE);
    CHECK(fw_close(other) == 0 && kernel_has(type, got) == 0);
    close(kernel);
}

/* A connection's port is held as long as the connection lives, and not only as long as its listener does. */
static void connection(void) {
    struct sockaddr_in mine = at("10.81.0.2", 702), echo = at("10.81.0.1", 7), got;
    struct linger reset = {1, 0};
    socklen_t len = sizeof got;
    char in[4];
    int fd, listener = fw_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fw_bind(listener, SA(mine)) == 0 && fw_listen(listener, 4) == 0);
    printf("connect\n");
    fflush(stdout);
    fd = fw_accept(listener, NULL, NULL);
    CHECK(fd >= 0 && fw_close(listener) == 0);
    CHECK(fw_recv(fd, in, 4, MSG_WAITALL) == 4 && fw_send(fd, in, 4, 0) == 4);
    kernel_echo();
    CHECK(fw_recv(fd, in, 4, MSG_WAITALL) == 4 && fw_send(fd, in, 4, 0) == 4);
    CHECK(kernel_has(SOCK_STREAM, mine) == EADDRINUSE);
    CHECK(fw_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0 && fw_close(fd) == 0);
    CHECK(kernel_has(SOCK_STREAM, mine) == 0);
    fd = fw_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fw_connect(fd, SA(echo)) == 0);
    CHECK(fw_getsockname(fd, (struct sockaddr *)&got, &len) == 0 && kernel_has(SOCK_STREAM, got) == EADDRINUSE);
    CHECK(fw_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0 && fw_close(fd) == 0);
    CHECK(kernel_has(SOCK_STREAM, got) == 0);
}

int main(void) {
    int first = fw_socket(AF_INET, SOCK_DGRAM, 0);
    if (first < 0) {
        char why[300];
        fw_reason(why, sizeof why);
        fprintf(stderr, "no stack: %s\n", why);
        return 1;
    }
    struct ip_mreq group = {{htonl(0xe0000001)}, {0}};
    FAILS(fw_setsockopt(first, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group), EINVAL);
    CHECK(fw_close(first) == 0);
    kernel_echo();
    ports(SOCK_DGRAM);
    ports(SOCK_STREAM);
    connection();
    kernel_echo();
    /* The test takes the address away from the kernel: who is there is told. */
    struct sockaddr_in echo = at("10.81.0.1", 7);
    char byte;
    int fd = fw_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fw_connect(fd, SA(echo)) == 0);
    printf("remove\n");
    fflush(stdout);
    FAILS(fw_recv(fd, &byte, 1, 0), EADDRNOTAVAIL);
    printf("done\n");
    return 0;
}
