/* What each test in C says when something is wrong: where, errno, and the library's own reason. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <fusewire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
