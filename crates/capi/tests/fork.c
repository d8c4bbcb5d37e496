/* Workers that are forked accept on their parent's listener over an outboard, each serves connections of its own, and one
 * connection goes on in a child while it has a lease in the parent. Its peer is the program itself. */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, ROUNDS = 40 };

static struct sockaddr_in at(unsigned short port) {
    struct sockaddr_in in;
    memset(&in, 0, sizeof in);
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons(port);
    return in;
}

/* Answers each byte with its number, one connection after the other. */
static void work(int listener, char number) {
    for (;;) {
        char byte;
        int fd = fw_accept(listener, NULL, NULL);
        if (fd < 0)
            exit(0);
        while (fw_recv(fd, &byte, 1, 0) == 1)
            CHECK(fw_send(fd, &number, 1, 0) == 1);
        fw_close(fd);
    }
}

static char asked(int fd) {
    struct pollfd one = {fd, POLLIN, 0};
    char number = -1;
    CHECK(fw_send(fd, "?", 1, 0) == 1 && fw_poll(&one, 1, 20000) == 1);
    CHECK(fw_recv(fd, &number, 1, 0) == 1);
    return number;
}

int main(void) {
    struct sockaddr_in here = at(9000);
    int listener = fw_socket(AF_INET, SOCK_STREAM, 0), streams[WORKERS], seen = 0, status;
    pid_t workers[WORKERS], child;
    CHECK(listener >= 0 && fw_bind(listener, SA(here)) == 0 && fw_listen(listener, 16) == 0);
    for (int i = 0; i < WORKERS; i++) {
        CHECK((workers[i] = fork()) >= 0);
        if (workers[i] == 0)
            work(listener, (char)i);
    }
    CHECK(fw_close(listener) == 0);
    for (int i = 0; i < WORKERS; i++) {
        streams[i] = fw_socket(AF_INET, SOCK_STREAM, 0);
        CHECK(fw_connect(streams[i], SA(here)) == 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        char by = asked(streams[i]);
        CHECK(by >= 0 && by < WORKERS);
        seen |= 1 << by;
        /* Often enough for a lease. */
        for (int round = 0; round < ROUNDS; round++)
            CHECK(asked(streams[i]) == by);
    }
    CHECK(seen == (1 << WORKERS) - 1);
    /* The child goes on where the parent was, and the parent behind it. */
    CHECK((child = fork()) >= 0);
    if (child == 0) {
        char by = asked(streams[0]);
        for (int round = 0; round < ROUNDS; round++)
            CHECK(asked(streams[0]) == by);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(asked(streams[0]) == asked(streams[0]));
    for (int i = 0; i < WORKERS; i++) {
        CHECK(fw_close(streams[i]) == 0 && kill(workers[i], SIGKILL) == 0);
        CHECK(waitpid(workers[i], NULL, 0) == workers[i]);
    }
    return 0;
}
