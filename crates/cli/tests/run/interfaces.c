// Prints the interfaces and addresses that a program is shown, one a line, in the order of the text.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static const char *text(const struct sockaddr *of) {
    static char out[4][INET6_ADDRSTRLEN + 20];
    static int next;
    char *place = out[next++ % 4];
    strcpy(place, "none");
    if (of && of->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)of)->sin_addr, place, sizeof *out);
    } else if (of && of->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)of;
        inet_ntop(AF_INET6, &six->sin6_addr, place, sizeof *out);
        sprintf(place + strlen(place), "%%%u", six->sin6_scope_id);
    }
    return place;
}

static void ask(int s, int each) {
    static struct ifreq list[32];
    struct ifconf conf = {.ifc_len = 0, .ifc_req = NULL};
    check(ioctl(s, SIOCGIFCONF, &conf) == 0 && conf.ifc_len >= (int)sizeof *list, "SIOCGIFCONF for a length");
    conf = (struct ifconf){.ifc_len = sizeof list, .ifc_req = list};
    check(ioctl(s, SIOCGIFCONF, &conf) == 0, "SIOCGIFCONF");
    for (int at = 0; at < conf.ifc_len / (int)sizeof *list; at++) {
        struct ifreq one = list[at];
        const char *own = text(&one.ifr_addr);
        if (!each) {
            printf("list %s %s\n", one.ifr_name, own);
            continue;
        }
        check(ioctl(s, SIOCGIFADDR, &one) == 0, "SIOCGIFADDR");
        const char *again = text(&one.ifr_addr);
        check(ioctl(s, SIOCGIFNETMASK, &one) == 0, "SIOCGIFNETMASK");
        printf("ioctl %s %s %s %s\n", one.ifr_name, own, again, text(&one.ifr_netmask));
    }
    // What has no room is left out.
    conf = (struct ifconf){.ifc_len = sizeof *list, .ifc_req = list};
    check(ioctl(s, SIOCGIFCONF, &conf) == 0 && conf.ifc_len <= (int)sizeof *list, "SIOCGIFCONF of one");
}

int main(void) {
    struct ifaddrs *all;
    check(getifaddrs(&all) == 0, "getifaddrs");
    for (struct ifaddrs *one = all; one; one = one->ifa_next) {
        if (one->ifa_addr && (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6)) {
            const struct sockaddr *broadcast = one->ifa_flags & IFF_BROADCAST ? one->ifa_broadaddr : NULL;
            printf("getifaddrs %s %s %s %s%s\n", one->ifa_name, text(one->ifa_addr), text(one->ifa_netmask),
                   text(broadcast), one->ifa_flags & IFF_UP ? "" : " down");
        }
    }
    freeifaddrs(all);
    struct if_nameindex *names = if_nameindex();
    check(names != NULL, "if_nameindex");
    for (struct if_nameindex *one = names; one->if_index; one++) {
        printf("if_nameindex %s %s\n", one->if_name, if_nametoindex(one->if_name) == one->if_index ? "known" : "unknown");
    }
    if_freenameindex(names);
    ask(socket(AF_INET, SOCK_DGRAM, 0), 1);
    ask(socket(AF_INET, SOCK_STREAM, 0), 1);
    ask(socket(AF_UNIX, SOCK_DGRAM, 0), 0);
    return 0;
}
