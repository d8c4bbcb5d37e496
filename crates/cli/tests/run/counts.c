// Calls that move data, of a program that counts what is asked of its allocator and of libc's locks meanwhile: these functions of
// libc's are this program's own, for whatever else is loaded, too. (Locks of Rust's standard library are futexes, and not counted.) Arguments: the address of the servers of echo.py, and how
// many messages of each kind go there and back.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

static _Atomic long counted;
static int (*lock)(pthread_mutex_t *);
static int (*read_lock)(pthread_rwlock_t *), (*write_lock)(pthread_rwlock_t *);

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *malloc(size_t len) {
    counted++;
    return __libc_malloc(len);
}

void *calloc(size_t count, size_t len) {
    counted++;
    return __libc_calloc(count, len);
}

void *realloc(void *at, size_t len) {
    counted++;
    return __libc_realloc(at, len);
}

int posix_memalign(void **at, size_t align, size_t len) {
    counted++;
    *at = __libc_memalign(align, len);
    return *at ? 0 : ENOMEM;
}

void free(void *at) {
    counted += at != NULL;
    __libc_free(at);
}

// Whoever locks before `main` does so before there is a second thread.
int pthread_mutex_lock(pthread_mutex_t *mutex) {
    counted++;
    return lock ? lock(mutex) : 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t *rwlock) {
    counted++;
    return read_lock ? read_lock(rwlock) : 0;
}

int pthread_rwlock_wrlock(pthread_rwlock_t *rwlock) {
    counted++;
    return write_lock ? write_lock(rwlock) : 0;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void check(int holds, const char *what) {
    if (!holds) {
        fail(what);
    }
}

// Sends a message in one of the ways, and receives the echo of it in one.
static void there_and_back(int s, int is_stream, unsigned round) {
    char out[100], in[100] = {0};
    memset(out, 'a' + round % 26, sizeof out);
    size_t len = 1 + round % sizeof out, half = len / 2, got = 0;
    struct iovec from[] = {{out, half}, {out + half, len - half}};
    struct msghdr header = {.msg_iov = from, .msg_iovlen = 2};
    struct mmsghdr several = {.msg_hdr = header};
    ssize_t sent = -1;
    switch (round % 6) {
    case 0: sent = write(s, out, len); break;
    case 1: sent = send(s, out, len, MSG_NOSIGNAL); break;
    case 2: sent = writev(s, from, 2); break;
    case 3: sent = sendmsg(s, &header, 0); break;
    case 4: sent = sendto(s, out, len, 0, NULL, 0); break;
    case 5: sent = sendmmsg(s, &several, 1, 0) == 1 ? (ssize_t)several.msg_len : -1; break;
    }
    check(sent == (ssize_t)len, "send");
    do {
        half = (len - got) / 2;
        struct iovec to[] = {{in + got, half}, {in + got + half, len - got - half}};
        struct msghdr room = {.msg_iov = to, .msg_iovlen = 2};
        struct mmsghdr more = {.msg_hdr = room};
        ssize_t part = -1;
        switch (round % 5) {
        case 0: part = read(s, in + got, len - got); break;
        case 1: part = recv(s, in + got, len - got, 0); break;
        case 2: part = readv(s, to, 2); break;
        case 3: part = recvmsg(s, &room, 0); break;
        case 4: part = recvmmsg(s, &more, 1, 0, NULL) == 1 ? (ssize_t)more.msg_len : -1; break;
        }
        check(part > 0, "receive");
        got += part;
    } while (is_stream && got < len);
    check(got == len && memcmp(in, out, len) == 0, "what came back");
}

int main(int argc, char **argv) {
    check(argc == 3, "arguments");
    lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    read_lock = dlsym(RTLD_NEXT, "pthread_rwlock_rdlock");
    write_lock = dlsym(RTLD_NEXT, "pthread_rwlock_wrlock");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7000)};
    check(inet_pton(AF_INET, argv[1], &to.sin_addr) == 1, "address");
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        int s = socket(AF_INET, is_stream ? SOCK_STREAM : SOCK_DGRAM, 0);
        struct timeval patience = {.tv_sec = 10};
        check(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0, "setsockopt");
        check(connect(s, (struct sockaddr *)&to, sizeof to) == 0, "connect");
        for (unsigned round = 0; round < 40; round++) {
            there_and_back(s, is_stream, round);
        }
        long before = counted;
        for (int round = 0; round < atoi(argv[2]); round++) {
            there_and_back(s, is_stream, round);
        }
        long during = counted - before;
        printf("%s: %ld\n", is_stream ? "stream" : "datagrams", during);
        close(s);
    }
    // It does count.
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    long before = counted;
    char *volatile memory = malloc(1);
    free(memory);
    pthread_mutex_lock(&own);
    long during = counted - before;
    printf("counted: %ld\n", during);
    return 0;
}
