/* What each test in C says when something is wrong: where, errno, and the library's own reason. */
#ifndef CHECK_H
#define CHECK_H

#include <dirent.h>
#include <errno.h>
#include <fusewire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what)                                                                                            \
    do {                                                                                                       \
        if (!(what)) {                                                                                         \
            char why[300];                                                                                     \
            int error = errno;                                                                                 \
            fw_reason(why, sizeof why);                                                                        \
            fprintf(stderr, "%s:%d: %s (errno %d: %s; %s)\n", __FILE__, __LINE__, #what, error, strerror(error), \
                    why);                                                                                      \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)
/* The library has so many threads at least, and each of them blocks SIGTERM. */
static inline void threads_block_signals(int least) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    char program[64];
    int own = 0;
    FILE *comm = fopen("/proc/self/comm", "r");
    CHECK(tasks && comm && fgets(program, sizeof program, comm));
    fclose(comm);
    while ((task = readdir(tasks))) {
        char path[300], line[300];
        unsigned long long blocked = 0;
        FILE *status;
        int ours = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        if (task->d_name[0] == '.' || atoi(task->d_name) == getpid() || !(status = fopen(path, "r")))
            continue;
        while (fgets(line, sizeof line, status)) {
            /* The program's own threads have its name. */
            ours |= strncmp(line, "Name:\t", 6) == 0 && strcmp(line + 6, program) != 0;
            sscanf(line, "SigBlk: %llx", &blocked);
        }
        fclose(status);
        CHECK(!ours || (blocked >> (SIGTERM - 1) & 1));
        own += ours;
    }
    closedir(tasks);
    CHECK(own >= least);
}

/* Sockets are those of an outboard, in which some calls mean less: fusewire.h says which. */
static inline int over_outboard(void) {
    const char *device = getenv("FUSEWIRE_DEVICE");
    return device && strncmp(device, "outboard", 8) == 0;
}

/* The call fails with this errno. */
#define FAILS(call, error)       \
    do {                         \
        errno = 0;               \
        CHECK((call) == -1);     \
        CHECK(errno == (error)); \
    } while (0)
/* An address, as calls take it. */
#define SA(in) ((struct sockaddr *)&(in)), sizeof(in)

/* The reason of the last failure has these words. */
static inline void says(const char *what) {
    char why[300];
    CHECK(fw_reason(why, sizeof why) > 0);
    if (!strstr(why, what)) {
        fprintf(stderr, "%s: does not say %s\n", why, what);
        exit(1);
    }
}

#endif
