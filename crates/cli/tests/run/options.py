# Options of sockets, for an unmodified program: run on the kernel's sockets and on an outboard's it prints the same. The arguments are
# this host's addresses of either IP version. Each option is read, set, and read again, of TCP and UDP, before a bind and after it.
import errno, socket, struct, sys

OWN = {socket.AF_INET: sys.argv[1], socket.AF_INET6: sys.argv[2]}
OF_SOCKETS = dict(
    REUSEADDR=2, TYPE=3, ERROR=4, BROADCAST=6, KEEPALIVE=9, OOBINLINE=10, PRIORITY=12, LINGER=13, REUSEPORT=15, RCVLOWAT=18, RCVTIMEO=20,
    SNDTIMEO=21, BINDTODEVICE=25, TIMESTAMP=29, ACCEPTCONN=30, SNDBUFFORCE=32, RCVBUFFORCE=33, TIMESTAMPNS=35, MARK=36, TIMESTAMPING=37,
    PROTOCOL=38, DOMAIN=39, BUSY_POLL=46, COOKIE=57, BINDTOIFINDEX=62)
OF_V4 = dict(
    TOS=1, TTL=2, PKTINFO=8, MTU_DISCOVER=10, RECVERR=11, RECVTTL=12, RECVTOS=13, MTU=14, FREEBIND=15, TRANSPARENT=19, MINTTL=21,
    BIND_ADDRESS_NO_PORT=24, MULTICAST_LOOP=34)
OF_V6 = dict(
    UNICAST_HOPS=16, MULTICAST_LOOP=19, MTU_DISCOVER=23, MTU=24, RECVERR=25, RECVPKTINFO=49, RECVHOPLIMIT=51, DONTFRAG=62, RECVTCLASS=66,
    TCLASS=67, MINHOPCOUNT=73, TRANSPARENT=75, FREEBIND=78)
OF_TCP = dict(
    NODELAY=1, MAXSEG=2, CORK=3, KEEPIDLE=4, KEEPINTVL=5, KEEPCNT=6, LINGER2=8, DEFER_ACCEPT=9, WINDOW_CLAMP=10, QUICKACK=12, THIN_LINEAR=16,
    USER_TIMEOUT=18, FASTOPEN=23, NOTSENT_LOWAT=25, FASTOPEN_CONNECT=30)
VALUES = dict(
    LINGER=struct.pack("ii", 1, 5), RCVTIMEO=struct.pack("qq", 2, 0), SNDTIMEO=struct.pack("qq", 2, 0), BINDTODEVICE=b"", TTL=9, TOS=16,
    UNICAST_HOPS=9, TCLASS=16, MTU=1280, MAXSEG=1000, KEEPIDLE=30, USER_TIMEOUT=5000, WINDOW_CLAMP=100_000, NOTSENT_LOWAT=16384,
    BINDTOIFINDEX=0, SNDBUFFORCE=50_000, RCVBUFFORCE=50_000)


def said(f, *args):
    try:
        return f(*args)
    except OSError as e:
        return errno.errorcode.get(e.errno, e.errno)


for family in socket.AF_INET, socket.AF_INET6:
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        levels = [(1, OF_SOCKETS), (0, OF_V4), (41, OF_V6)] + [(6, OF_TCP)] * (kind == socket.SOCK_STREAM)
        for level, names in levels:
            for name, option in names.items():
                for is_bound in False, True:
                    s = socket.socket(family, kind)
                    if is_bound:
                        s.bind((OWN[family], 0))
                    read = lambda: said(s.getsockopt, level, option, 64) if name != "COOKIE" else len(s.getsockopt(level, option, 64))
                    print(family, kind, level, name, is_bound, read(), said(s.setsockopt, level, option, VALUES.get(name, 1)), read())
