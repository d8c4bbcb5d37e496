// Sockets in operations of an io_uring. Arguments: the address of the servers of echo.py, an own address, and how the io_uring is
// made: "syscall" or "early" before there is a socket, "late" by syscall when sockets have rings. "early" makes it by a system call
// that no library sees.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ring;
static char *rings;
static struct io_uring_params of;
static struct io_uring_sqe *entries;

static void check(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static long unseen(long number, long a, long b) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b);
#endif
}

static void make(const char *how) {
    ring = strcmp(how, "early") == 0 ? unseen(SYS_io_uring_setup, 8, (long)&of) : syscall(SYS_io_uring_setup, 8, &of);
    if (ring < 0) {
        puts("no io_uring");
        exit(0);
    }
    size_t len = of.cq_off.cqes + of.cq_entries * sizeof(struct io_uring_cqe);
    check(of.features & IORING_FEAT_SINGLE_MMAP, "one mapping");
    rings = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, of.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    check(rings != MAP_FAILED && entries != MAP_FAILED, "mmap");
}

static int done(int operation, int fd, void *at, unsigned len, unsigned long off) {
    unsigned *tail = (unsigned *)(rings + of.sq_off.tail), index = *tail & *(unsigned *)(rings + of.sq_off.ring_mask);
    entries[index] = (struct io_uring_sqe){.opcode = operation, .fd = fd, .addr = (unsigned long)at, .len = len, .off = off};
    ((unsigned *)(rings + of.sq_off.array))[index] = index;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    check(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1, "io_uring_enter");
    unsigned *head = (unsigned *)(rings + of.cq_off.head);
    unsigned at_head = *head & *(unsigned *)(rings + of.cq_off.ring_mask);
    int result = ((struct io_uring_cqe *)(rings + of.cq_off.cqes))[at_head].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

static struct sockaddr_in address(const char *ip, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    check(inet_pton(AF_INET, ip, &to.sin_addr) == 1, "address");
    return to;
}

static void there_and_back(int s) {
    char in[10];
    check(send(s, "0123456789", 10, 0) == 10 && recv(s, in, 10, MSG_WAITALL) == 10, "there and back");
}

int main(int argc, char **argv) {
    check(argc == 4, "arguments");
    // A receive that has taken something else waits for ever.
    alarm(20);
    setvbuf(stdout, NULL, _IOLBF, 0);
    int is_late = strcmp(argv[3], "late") == 0;
    struct sockaddr_in far = address(argv[1], 7000), own = address(argv[2], 0);
    if (!is_late) {
        make(argv[3]);
    }
    int s = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(s, (struct sockaddr *)&far, sizeof far) == 0, "connect");
    for (int turn = 0; turn < 50; turn++) {
        there_and_back(s);
    }
    if (is_late) {
        make(argv[3]);
    }
    for (int turn = 0; turn < 5; turn++) {
        char in[100] = {0};
        int sent = done(IORING_OP_SEND, s, "abcdefghij", 10, 0);
        // Not before all is there: the socket is a stream.
        int queued = 0;
        for (int again = 0; again < 500 && queued < 10; again++) {
            queued = recv(s, in, sizeof in, MSG_PEEK | MSG_DONTWAIT);
            usleep(10000);
        }
        int received = done(IORING_OP_RECV, s, in, sizeof in, 0);
        printf("sent %d, received %d: %.10s\n", sent, received, in);
        there_and_back(s);
    }
    int is_connected = done(IORING_OP_CONNECT, other, &far, 0, sizeof far);
    printf("connect %s\n", is_connected < 0 ? "fails" : "is done");
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&own, sizeof own) == 0 && listen(listener, 1) == 0, "listen");
    printf("accept %s\n", done(IORING_OP_ACCEPT, listener, NULL, 0, 0) < 0 ? "fails" : "is done");
    return 0;
}
