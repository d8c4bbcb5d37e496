/* libfusewire: sockets over a user-level IP stack; and, below, ADUs on encrypted connections, and messages over XTP.
 *
 * The calls have the names of the kernel's with fw_ before them, the same arguments, and the meaning that POSIX
 * gives them: -1 and errno on failure. What differs is said here.
 *
 * Descriptors are small integers of the library, from 3 on, the lowest that is free. They are not the kernel's:
 * neither read, close nor poll takes them, and the numbers of the two may be the same.
 *
 * Threads: every call may be made from any thread. After fw_close those who wait on the descriptor are told EBADF.
 * After fork the child must not call the library, unless all its sockets are an outboard's and no other thread was in a call:
 * then it has its parent's sockets, and several processes may accept on one listener.
 *
 * Pointers: null is EFAULT where something is needed. What is not null points to as much memory as the call
 * says, which no other thread writes during the call. This the library cannot check.
 *
 * Signals: the library's threads block all signals, so that a signal is handled by a thread of the program, or waits until
 * one unblocks it. A write to a stream that is over is EPIPE and never SIGPIPE; no call ends with EINTR but fw_epoll_wait
 * and fw_epoll_pwait, as the kernel's do.
 *
 * A fault inside the library is EIO; it never ends the program.
 */
#ifndef FUSEWIRE_H
#define FUSEWIRE_H

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mmsghdr;
struct timespec;

/* What a stack is made of. */
struct fw_config {
    /* sizeof(struct fw_config). Here and in the other structs that begin with it another size is EINVAL: program and
     * library are of different versions, and fw_reason says so. */
    size_t size;
    /* "tap:NAME" makes or opens a TAP interface; "packet:INTERFACE" and "xdp:INTERFACE" live on one that the
     * kernel uses too ("xdp:INTERFACE/QUEUE" on one queue of it); "auto" or "auto:INTERFACE" takes the best that may be opened.
     * "outboard:PATH" attaches to the outboard whose socket lies at PATH ("outboard": where one lies by default), whose addresses,
     * routers and MTU are its own: those of this struct are null and 0. Its sockets do what others do but for this: MSG_MORE of
     * a stream's first few messages changes nothing and MSG_EOR is EOPNOTSUPP; TCP_INFO may be two milliseconds old; that a
     * datagram was refused is seen by who waits to receive, and epoll shows it as EPOLLIN alone; epoll says nothing of a stream that
     * was never connected; who waits on a descriptor that is closed goes on; closing does not wait for SO_LINGER, as the outboard
     * goes on sending; FUSEWIRE_OBSERVE is the outboard's to have; and whether a socket blocks is the same for all processes that
     * have it. */
    const char *device;
    /* "ADDRESS/PREFIX", "dhcp", "slaac", with commas between: addresses that the kernel does not have; with "loopback" among
     * them 127.0.0.0/8, ::1 and these addresses lead from the stack's sockets to its sockets, without the device. dhcp waits
     * until there is one (ETIMEDOUT), and asks with a MAC address of its own, so it is not for "xdp:". Or "kernel" alone: beside the
     * kernel on the addresses that it has on the interface, with its routes and neighbours. A port that a socket
     * here is bound to is nobody else's on the host then (EADDRINUSE, EACCES), and all others stay the kernel's;
     * groups, too. It takes CAP_NET_ADMIN. */
    const char *addresses;
    /* Routers, IPv4 or IPv6, with commas between; or null. */
    const char *gateway;
    /* Largest IP packet in bytes; 0: what the interface says. */
    unsigned int mtu;
};

/* Opens a stack; returns a descriptor, for fw_socket_on and fw_close. The first becomes the default, which
 * fw_socket uses. Without one fw_socket opens it as the environment says: FUSEWIRE_DEVICE, FUSEWIRE_ADDRESS,
 * FUSEWIRE_GATEWAY and FUSEWIRE_MTU, in the words of struct fw_config. With FUSEWIRE_OBSERVE=1 in the
 * environment other processes of the user may look at the stack: fusewire ss, top, metrics and capture. */
int fw_open(const struct fw_config *config);

/* Why the call that last failed on this thread did, cut to len bytes and ended by a zero byte: a sentence where a stack could not
 * be opened or a call fw_adu_ has failed, otherwise what strerror says. Returns how long it is without being cut; 0 where
 * none has failed. */
size_t fw_reason(char *out, size_t len);

/* domain: AF_INET, AF_INET6. type and protocol: SOCK_STREAM and SOCK_DGRAM, with 0 or the protocol's number; over an outboard
 * SOCK_SEQPACKET and IPPROTO_XTP too, a context of XTP (docs/outboard.md): the port of an address is the service, a call sends or
 * receives one whole ADU of 1 to 131,072 bytes (EMSGSIZE; EBADMSG: its sender sends nothing again, and some of it was lost, as
 * it is then), and 0 is the end. With SOCK_NONBLOCK. EPROTONOSUPPORT: the stack has not got it. An IPv6 socket that is bound to
 * no address takes IPv4 too, as IPv4-mapped addresses, unless IPV6_V6ONLY is set. ENETDOWN: there is no stack, see fw_reason. */
int fw_socket(int domain, int type, int protocol);

/* XTP's number, and the level of its options, with an int each: docs/outboard.md says what they do. */
#define IPPROTO_XTP 36
#define XTP_CHECK 1
#define XTP_SORT 3
#define XTP_NOERR 4
#define XTP_OVERTAKING 5

/* The same on a stack of fw_open. */
int fw_socket_on(int stack, int domain, int type, int protocol);

/* Closes a socket, or a stack: its sockets live on, and when they are closed too it ends. */
int fw_close(int fd);

/* A TCP address is free for another socket as soon as the socket that was bound to it is closed: what is in
 * TIME-WAIT does not hold it, with SO_REUSEADDR or without. */
int fw_bind(int fd, const struct sockaddr *addr, socklen_t len);
int fw_listen(int fd, int backlog);
int fw_accept(int fd, struct sockaddr *addr, socklen_t *len);
/* flags: SOCK_NONBLOCK. */
int fw_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int fw_connect(int fd, const struct sockaddr *addr, socklen_t len);
int fw_shutdown(int fd, int how);
/* Link-local addresses of IPv6 have the number of the stack's interface as their sin6_scope_id. Another is refused: ENETUNREACH to
 * connect and to send, ENODEV to bind. */
int fw_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int fw_getpeername(int fd, struct sockaddr *addr, socklen_t *len);

/* Flags of sending: MSG_DONTWAIT, MSG_NOSIGNAL (changes nothing), MSG_MORE (of a stream, what does not fill a segment waits
 * for more, a fifth of a second at most; of datagrams, pieces until one without it are one datagram, to the first's
 * address), MSG_EOR (streams: what follows begins a segment of its own). Of receiving: MSG_DONTWAIT, MSG_PEEK,
 * MSG_WAITALL (streams), MSG_TRUNC (of a stream bytes are discarded, and no memory is needed), MSG_WAITFORONE (fw_recvmmsg). Others are EOPNOTSUPP. */
ssize_t fw_send(int fd, const void *bytes, size_t len, int flags);
ssize_t fw_sendto(int fd, const void *bytes, size_t len, int flags, const struct sockaddr *addr,
                  socklen_t addr_len);
ssize_t fw_recv(int fd, void *out, size_t len, int flags);
ssize_t fw_recvfrom(int fd, void *out, size_t len, int flags, struct sockaddr *addr, socklen_t *addr_len);

/* As the calls above without flags. */
ssize_t fw_read(int fd, void *out, size_t len);
ssize_t fw_write(int fd, const void *bytes, size_t len);
ssize_t fw_readv(int fd, const struct iovec *pieces, int count);
ssize_t fw_writev(int fd, const struct iovec *pieces, int count);

/* Sends up to count bytes of a file, a descriptor of the kernel's, from *offset, which is moved on, or from where the file is
 * read where offset is null. They are read straight into the connection's memory. */
ssize_t fw_sendfile(int fd, int file, off_t *offset, size_t count);

/* Ancillary data of datagrams: IP_PKTINFO and IPV6_PKTINFO (the address to send from, and where it was sent to), IP_TTL and
 * IPV6_HOPLIMIT, IP_TOS and IPV6_TCLASS, received as far as IP_PKTINFO, IPV6_RECVPKTINFO, IP_RECVTTL, IPV6_RECVHOPLIMIT, IP_RECVTOS and
 * IPV6_RECVTCLASS are set. To send UDP_SEGMENT is EIO, others of IP's, UDP's or SOL_SOCKET's are EINVAL, and of other sockets any
 * EOPNOTSUPP. An address or an interface that is not the stack's is ENETUNREACH, which over an outboard getsockopt(SO_ERROR) tells, and of a
 * connected socket the next call. */
ssize_t fw_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t fw_recvmsg(int fd, struct msghdr *message, int flags);

/* Datagrams of one length to one peer leave together, as one super-frame where the interface takes it. At most
 * 1024 a call. */
int fw_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);
/* The time is for the whole call, and is not changed. */
int fw_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout);

/* Sockets of this library, and what carries ADUs. One stack's sockets wait asleep; with several stacks, or what carries ADUs,
 * it looks every millisecond. Of a listener for ADUs POLLIN: there is a connection to accept. Of a connection POLLIN: there is
 * an ADU, or the peer's end, or why it is over; POLLPRI: the peer calls; POLLOUT: there is room, as far as is known without an
 * ADU to send; POLLHUP: it is over. */
int fw_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* Sockets of this library alone. What poll calls POLLHUP and POLLERR is readable. */
int fw_select(int count, fd_set *read, fd_set *write, fd_set *except, struct timeval *timeout);

/* With an operation of fw_epoll_ctl: fd is a descriptor of the kernel's, which is in the set beside sockets of ours. */
#define FW_EPOLL_KERNEL 0x1000

/* Sets of sockets of this library and of the kernel's descriptors, as epoll(7) has them: level-triggered, EPOLLET, EPOLLONESHOT.
 * A wait costs what is ready, not what is in the set. Descriptors of a set are ours, for these calls and fw_close. A socket leaves
 * its sets with the last of its descriptors. Other descriptors of ours are EPERM. mask: as epoll_pwait's. */
int fw_epoll_create(int size);
int fw_epoll_create1(int flags);
int fw_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int fw_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms);
int fw_epoll_pwait(int epoll, struct epoll_event *events, int count, int timeout_ms, const sigset_t *mask);

/* SOL_SOCKET: SO_ERROR, SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, SO_RCVTIMEO, SO_SNDTIMEO, SO_RCVBUF, SO_SNDBUF
 * (the last two before fw_connect and fw_listen), SO_KEEPALIVE, SO_LINGER (zero seconds reset; otherwise
 * fw_close waits so long for the peer to have everything), SO_REUSEPORT (connections and peers are spread over those who share a port),
 * SO_REUSEADDR (of datagrams, the same for all who say it, and the last gets what is for one alone; of TCP kept, and without
 * effect), SO_BROADCAST (kept, and without effect), SO_BINDTOIFINDEX (the stack's own interface; others are ENODEV).
 * IPPROTO_TCP: TCP_NODELAY, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT, TCP_CONGESTION
 * (an unknown name is ENOENT), TCP_CORK, TCP_QUICKACK, TCP_DEFER_ACCEPT, TCP_SYNCNT, TCP_MAXSEG, and TCP_INFO, which is Linux's struct tcp_info; what is not known is 0.
 * IPPROTO_IP and IPPROTO_IPV6: IP_TOS and IPV6_TCLASS, IP_TTL and IPV6_UNICAST_HOPS, each pair one thing whichever
 * version is spoken; IP_MULTICAST_TTL and IPV6_MULTICAST_HOPS; IPV6_V6ONLY; what fw_recvmsg is told by. To join and leave groups, of any source (IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP and IPv6's, MCAST_JOIN_GROUP,
 * MCAST_LEAVE_GROUP), of any but some (IP_BLOCK_SOURCE, IP_UNBLOCK_SOURCE, MCAST_BLOCK_SOURCE, MCAST_UNBLOCK_SOURCE) or of some alone
 * (IP_ADD_SOURCE_MEMBERSHIP, IP_DROP_SOURCE_MEMBERSHIP, MCAST_JOIN_SOURCE_GROUP, MCAST_LEAVE_SOURCE_GROUP), at most 16 each; the
 * interface in the request is not looked at; to join a group twice is EADDRINUSE. IP_MINTTL and IPV6_MINHOPCOUNT drop segments
 * of TCP; IPV6_DONTFRAG refuses datagrams that are longer than the path takes; IP_MTU and IPV6_MTU return what that is (ENOTCONN
 * without a peer).
 * Kept, and without effect: SO_PRIORITY, SO_OOBINLINE, IP_MTU_DISCOVER and IPV6_MTU_DISCOVER (but IP_PMTUDISC_DO and PROBE,
 * ENOPROTOOPT), IP_RECVERR, IP_FREEBIND, IP_MULTICAST_IF, IP_MULTICAST_LOOP (what goes to a group does not come back) and IPv6's,
 * IP_BIND_ADDRESS_NO_PORT, TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_NOTSENT_LOWAT, TCP_WINDOW_CLAMP, TCP_LINGER2,
 * TCP_THIN_LINEAR_TIMEOUTS, SO_BUSY_POLL, SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING (no time is given), IPV6_MTU when it is set.
 * SO_RCVBUFFORCE and SO_SNDBUFFORCE are as without FORCE, SO_MARK and IP_TRANSPARENT are kept; all four are EPERM unless root asks. Others are ENOPROTOOPT. */
int fw_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int fw_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

/* F_GETFL and F_SETFL with O_NONBLOCK; F_DUPFD; F_GETFD, which is FD_CLOEXEC. */
int fw_fcntl(int fd, int command, int argument);

/* Another descriptor of the same socket. */
int fw_dup(int fd);

/* FIONREAD, SIOCOUTQ (TIOCOUTQ), FIONBIO; others are ENOTTY. */
int fw_ioctl(int fd, unsigned long request, int *argument);

/* ADUs on an encrypted connection: messages of the application's, each whole, in order, once, and authentic before a
 * byte of it is shown, and swapped, enciphered, summed and stored in one loop. They travel over the library's own TCP in UDP
 * datagrams of the kernel's sockets, over the kernel's TCP, or over memory that two processes of one host share; no stack is
 * needed. Both ends prove who they are by a key; a fingerprint names it.
 *
 * Descriptors are of the same numbers as sockets'. fw_close, fw_shutdown (SHUT_WR: our side has ended, and the peer may
 * go on), fw_getsockname, fw_getpeername and fw_poll take them; the calls for bytes and the options do not (ENOTSOCK).
 * One thread may send while another receives.
 *
 * timeout_ms is poll's: below 0 it waits as long as it takes, 0 does not wait, and when time is up it is EAGAIN.
 *
 * errno: EINVAL the configuration, EACCES one side refused the other (its key, cipher or options), ECONNREFUSED nobody listens,
 * ETIMEDOUT no answer, or silence, ECONNRESET the peer is gone without having ended, EHOSTUNREACH it shares no memory, EPROTO something came that is not the peer's, ECONNABORTED the peer gave up,
 * EPIPE our side has ended or given up, EPERM the file of the key is open to others. fw_reason says it in words. */
enum fw_execution {
    FW_INTEGRATED = 0, /* one loop */
    FW_BLOCKED = 1,    /* each stage over strips that stay in the first-level cache */
    FW_SEQUENTIAL = 2  /* each stage over the whole message */
};

enum fw_carrier {
    FW_UDP = 0,        /* the library's own TCP, in UDP datagrams */
    FW_KERNEL_TCP = 1, /* the kernel's TCP, for where UDP is blocked */
    FW_SHM = 2,        /* shared memory, between processes of one host; the session begins over UDP, at the same address */
    FW_XTP = 3         /* the library's own XTP (docs/xtp.md), in UDP datagrams: connects in one round trip less */
};

/* What a listener or a connection is made of. Zeros are the usual choice. */
struct fw_adu_config {
    /* sizeof(struct fw_adu_config). */
    size_t size;
    /* The file of this side's key, which is made there when it is not. */
    const char *identity;
    /* Connecting: the fingerprint of the server. Listening: those of the clients that may connect, with commas between, or
     * "any". Null or empty: who has the same key. */
    const char *peer;
    /* Ciphers, best first, with commas between: those of docs/records.md. The client's order decides. Null or empty:
     * aes-256-gcm, chacha20-poly1305, aes-128-gcm. What is insecure must be named on both sides. */
    const char *ciphers;
    /* enum fw_execution; each side chooses for itself, and the bytes are the same. */
    int execution;
    /* Bytes of the elements that an ADU is a row of: 2, 4 or 8, swapped to network byte order and back; 0: octets. The
     * client says it for both. */
    unsigned int element;
    /* The longest ADU that this side takes, in bytes, up to 16777216; 0: 262080, or less if its memory allows no more.
     * Both sides need it for longer ones: the sender's memory is sized by it, too. */
    unsigned int max_adu;
    /* A connection of which nothing is heard for so long is over (ETIMEDOUT); the smaller of both sides' counts. 0: 30 s. */
    unsigned int idle_ms;
    /* 0: headers of records are in the clear, unless the client asks. 1: they are enciphered. More, a power of two up to 1024: and
     * ADUs are filled up to multiples of so many bytes, so that datagrams do not tell their lengths. Who asks does
     * without a peer that does not agree. */
    unsigned int header_protection;
    /* enum fw_carrier, the same on both sides. */
    int carrier;
};

/* Writes the fingerprint of the key in a file, which is made there when it is not, with a zero behind it: 57 bytes in
 * all, or ERANGE. */
int fw_adu_identity(const char *identity, char *out, size_t len);

/* Listens at an address, of which 0 lets the kernel choose the port. Returns a descriptor for fw_adu_accept. */
int fw_adu_listen(const struct fw_adu_config *config, const struct sockaddr *addr, socklen_t len);

/* The next connection, whose peer has proven its key and may connect. */
int fw_adu_accept(int fd, int timeout_ms);

/* Connects, and waits until both ends have proven their keys. */
int fw_adu_connect(const struct fw_adu_config *config, const struct sockaddr *addr, socklen_t len);

/* Sends one ADU, all of it or nothing; returns its length. The memory is free again then. EMSGSIZE: longer than fw_adu_info's
 * adu_len_max. EAGAIN: there is no room yet. */
ssize_t fw_adu_send(int fd, const void *adu, size_t len, int timeout_ms);

/* Receives the next ADU; returns its length, which may be 0. ENODATA: the peer has ended, and that was all. EMSGSIZE: it is
 * longer than len; it is lost, and the next call has the one behind it. */
ssize_t fw_adu_recv(int fd, void *out, size_t len, int timeout_ms);

/* Calls beside the ADUs of a connection over FW_XTP, whose cipher has a tag; otherwise they are EOPNOTSUPP. Each is a request and
 * its answer, encrypted, in a packet each way where they fit one. What is lost of ADUs does not hold a call up, nor the other
 * way round, and calls overtake each other. Either end may call, from any number of threads. Who is called gets a request once, or
 * never; when the caller is told of no answer it may have got it. fw_adu_info has the longest request and answer.
 *
 * Calls the peer's application, and receives what it answers; returns the answer's length. The two may be the same memory.
 * ECONNREFUSED: the peer's application does not answer; ETIMEDOUT: nobody does; EAGAIN: the time is up, or too many calls are
 * under way; EMSGSIZE: the request is longer than call_len_max, or the answer than len: it is lost. */
ssize_t fw_adu_call(int fd, const void *request, size_t request_len, void *answer, size_t len, int timeout_ms);

/* Begins a call, for who has several under way; waits while 256 are, or have an answer that neither fw_poll nor fw_adu_recv has
 * seen. Returns a descriptor: fw_adu_recv has the answer, once,
 * with the errors of fw_adu_call, or ENODATA after that; what does not fit stays. fw_poll says POLLIN when it, or why there is
 * none, is there. After fw_close of the descriptor nobody waits for it; after that of the connection it is EPIPE. */
int fw_adu_begin_call(int fd, const void *request, size_t len, int timeout_ms);

/* The next call of the peer's, of which fw_poll says POLLPRI of the connection. Returns a descriptor: fw_adu_recv has the request,
 * once, and then ENODATA; what does not fit stays. fw_adu_send answers, whether it was received or not; a second time is EPIPE,
 * and so it is after fw_close of the connection.
 * EMSGSIZE: the answer is longer than answer_len_max, and the caller is refused; so he is by fw_close without an answer. ENODATA:
 * the peer has ended, and no call of his waits here; one that was lost on the way may still come. Who wants his answers has them
 * before he ends. */
int fw_adu_next_call(int fd, int timeout_ms);

/* Ends our side, and waits until the peer has everything and has ended too; what it still sends is lost. A connection that
 * is closed without is reset. After EAGAIN it may be called again. */
int fw_adu_finish(int fd, int timeout_ms);

/* Gives the connection up, with a number for the peer's application, which it is told after all that was sent before. */
int fw_adu_give_up(int fd, uint64_t code);

/* What two ends agreed on. */
struct fw_adu_info {
    /* sizeof(struct fw_adu_info), before the call. */
    size_t size;
    /* The fingerprint of the peer's key. */
    char peer[64];
    char cipher[32];
    /* enum fw_execution, of this side. */
    int execution;
    unsigned int element;
    /* As in struct fw_adu_config. */
    unsigned int header_protection;
    int carrier;
    /* The longest ADU that travels in one piece now, and the longest that can be sent. */
    size_t adu_len;
    size_t adu_len_max;
    /* The longest request of a call now, and the longest answer; 0: there are no calls beside the connection. */
    size_t call_len_max;
    size_t answer_len_max;
};

int fw_adu_describe(int fd, struct fw_adu_info *info);

/* Contexts of XTP (docs/context.md): messages of the application's, gathered from its memory and scattered to it, each whole
 * and once. There is no session: nothing is secret, and nobody is who he says. They travel in UDP datagrams of the kernel's
 * sockets.
 *
 * Descriptors are of the same numbers as sockets'. fw_close, fw_shutdown (SHUT_WR), fw_getsockname, fw_getpeername and fw_poll
 * take them; the calls for bytes and the options do not. Nothing is received, sent again or given up but while a call on a
 * context, on its listener or on another one of the same socket waits, or fw_poll with one of them: a program that waits for
 * something else between calls fw_poll again after fw_context_timeout. fw_poll tells POLLIN of a listener with a context for
 * fw_context_accept, and of a context with something for fw_context_recv, be it its end; POLLOUT of one that takes a message
 * now; POLLHUP of one that is over.
 *
 * timeout_ms is as for ADUs. errno: EINVAL the configuration, or a message without a byte, ECONNREFUSED nobody listens,
 * ETIMEDOUT no answer, ECONNRESET the peer has ended it at once, ECONNABORTED for a reason, EPIPE it is over. fw_reason says it
 * in words. */
enum fw_mechanism {
    FW_GO_BACK_N = 1 << 0,  /* everything goes again from what is missing on; otherwise what is missing alone */
    FW_NOERR = 1 << 1,      /* nothing goes again */
    FW_NOFLOW = 1 << 2,     /* the peer's window is not looked at */
    FW_EDGE = 1 << 3,       /* ask by the change of a bit, beside SREQ */
    FW_CXOR = 1 << 4,       /* CXOR in place of the Internet checksum, if the peer has it too */
    FW_TAGS = 1 << 5,       /* messages have 8 bytes of the application's */
    FW_OVERTAKING = 1 << 6, /* messages are received when they are whole, also behind a gap */
    FW_NO_FASTNAK = 1 << 7  /* the peer is not asked to tell of gaps at once: they are heard of when it is asked */
};

/* What a context carries. Of all but streams a context has one message of the side that opens it: at most what is told by
 * EMSGSIZE and fw_reason, 16,384 bytes or less. fw_context_finish waits until its fate is known, in place of the peer's end. */
enum fw_kind {
    FW_STREAM = 0,       /* messages either way, reliably */
    FW_DATAGRAM = 1,     /* one packet, of which nothing more is known */
    FW_ACKNOWLEDGED = 2, /* it is known when its receiver has taken it by fw_context_recv */
    FW_TRANSACTION = 3   /* who receives it answers by fw_context_send; two packets where each fits one */
};

/* The control block. Zeros are the usual choice. */
struct fw_context_config {
    /* sizeof(struct fw_context_config). */
    size_t size;
    /* Bits of enum fw_mechanism. */
    unsigned int mechanisms;
    /* 1 to 65535: its priority, the larger first; 0: none. */
    int sort;
    /* Bytes of a packet where the path is known; 0: what the device carries, or 1,200. */
    unsigned int packet;
    /* The largest buffers, in bytes; 0: 2 MiB. No message is longer. */
    unsigned int send_bytes;
    unsigned int receive_bytes;
    /* enum fw_kind. A listener takes contexts of its own kind alone. */
    int kind;
    /* The most that we send, and the most that we want to be sent: bytes a second, whole packets counted, and bytes that may
     * leave together, so many each burst / rate seconds. Rate 0: no bound; burst 0: a packet at a time. */
    unsigned int out_rate;
    unsigned int out_burst;
    unsigned int in_rate;
    unsigned int in_burst;
    /* A name that TCP_CONGESTION has; null: "cubic". "none": no congestion control, only on a path that you vouch for. */
    const char *congestion;
};

/* Listens for contexts of a service, at an address of which port 0 lets the kernel choose. */
int fw_context_listen(const struct fw_context_config *config, unsigned short service, const struct sockaddr *addr,
                      socklen_t len);

/* The next context that somebody has opened. */
int fw_context_accept(int fd, int timeout_ms);

/* Opens a context. It does not wait: what is sent at once leaves with the packet that opens it. */
int fw_context_connect(const struct fw_context_config *config, unsigned short service, const struct sockaddr *addr,
                       socklen_t len);

/* The same over the socket of fd, a context or a listener: whoever waits on one of them drives all. */
int fw_context_beside(int fd, const struct fw_context_config *config, unsigned short service, const struct sockaddr *addr,
                      socklen_t len);

/* Milliseconds until a timer of fd's socket is due, for those who sleep elsewhere: call fw_poll then; -1: none is. */
int fw_context_timeout(int fd);

/* Sends a message, all of it or nothing, of count pieces; returns its length. Their memory is free again then. tag: its 8 bytes,
 * or null. sort: its priority, or 0 for the context's. EMSGSIZE: longer than send_bytes. */
ssize_t fw_context_send(int fd, const struct iovec *pieces, size_t count, const uint64_t *tag, int sort, int timeout_ms);

/* Receives the next message to count pieces, one after the other; returns its length. tag, unless null, gets its 8 bytes, or 0.
 * ENODATA: the peer has ended, and that was all. EMSGSIZE: it is longer; EBADMSG: its sender sends nothing again (FW_NOERR),
 * and some of it was lost; either way it is gone, and the next call has the one behind. */
ssize_t fw_context_recv(int fd, const struct iovec *pieces, size_t count, uint64_t *tag, int timeout_ms);

/* Changes in_rate and in_burst of a stream that is open (FW_STREAM; otherwise EINVAL): the peer is told, and follows. */
int fw_context_set_in_rate(int fd, unsigned int rate, unsigned int burst);

/* Ends our side, and waits until the peer has everything and has ended too; what it still sends is lost. A context that is
 * closed without is ended at once. After EAGAIN it may be called again. */
int fw_context_finish(int fd, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
