# Calls on sockets and what they say, for an unmodified program: run on the kernel's sockets and on an outboard's it prints the
# same. The first argument is the address of servers of the kernel's (echo.py), the second this host's own, both of the IP version
# that the calls are about. With a third argument each connection to the first of them has carried some messages before, so that
# it has a lease if it may.
import array, ctypes, errno, fcntl, os, select, signal, socket, struct, subprocess, sys, termios, threading, time

from steps import step

FAR, OWN, IS_USED = sys.argv[1], sys.argv[2], len(sys.argv) > 3
IS_V6 = ":" in FAR
FAMILY = socket.AF_INET6 if IS_V6 else socket.AF_INET
ECHO, SINK, FILLS, EARLY, CLOSED, TELLS = [(FAR, port, 0, 0)[:4 if IS_V6 else 2] for port in (7000, 7001, 7006, 7008, 7009, 7010)]
LOOPBACK, NOBODY, ANY = ("::1", FAR[:-1] + "77", "::") if IS_V6 else ("127.0.0.1", FAR.rpartition(".")[0] + ".77", "0.0.0.0")
# Another address that no host has, which the other steps do not use: after three seconds it is known to be unreachable.
SILENT = NOBODY[:-1] + "8"
# Options and items of ancillary data, by their numbers.
IP, IPV6 = socket.IPPROTO_IP, socket.IPPROTO_IPV6
IP_TOS, IP_TTL, IP_PKTINFO, IP_RECVTTL, IP_RECVTOS = 1, 2, 8, 12, 13
IP_MTU_DISCOVER, IP_RECVERR, IP_FREEBIND, IP_BIND_ADDRESS_NO_PORT = 10, 11, 15, 24
IPV6_MTU_DISCOVER, IPV6_RECVERR, IPV6_FREEBIND = 23, 25, 78
TCP_THIN_LINEAR_TIMEOUTS, TCP_FASTOPEN_CONNECT = 16, 30
SO_PRIORITY, SO_TIMESTAMPING, SO_COOKIE = 12, 37, 57
# What either version has, each by its own names: options, options that ask for items, items.
if IS_V6:
    LEVEL, HOPS, CLASS, MTU_DISCOVER = IPV6, socket.IPV6_UNICAST_HOPS, socket.IPV6_TCLASS, IPV6_MTU_DISCOVER
    RECV_INFO, RECV_HOPS, RECV_CLASS = socket.IPV6_RECVPKTINFO, socket.IPV6_RECVHOPLIMIT, socket.IPV6_RECVTCLASS
    INFO_ITEM, HOPS_ITEM, CLASS_ITEM = socket.IPV6_PKTINFO, socket.IPV6_HOPLIMIT, socket.IPV6_TCLASS
else:
    LEVEL, HOPS, CLASS, MTU_DISCOVER = IP, IP_TTL, IP_TOS, IP_MTU_DISCOVER
    RECV_INFO, RECV_HOPS, RECV_CLASS = IP_PKTINFO, IP_RECVTTL, IP_RECVTOS
    INFO_ITEM, HOPS_ITEM, CLASS_ITEM = IP_PKTINFO, IP_TTL, IP_TOS


def step_of_four(f):
    # Of IPv4 alone.
    return f if IS_V6 else step(f)


def name_of(e):
    return errno.errorcode.get(e, e)


def said(f, *args):
    try:
        return f(*args)
    except OSError as e:
        return name_of(e.errno)


def new(kind=socket.SOCK_STREAM):
    return socket.socket(FAMILY, kind)


def exactly(s, n):
    got = b""
    while len(got) < n:
        part = s.recv(n - len(got))
        if not part:
            break
        got += part
    return got


def tcp(to=ECHO):
    s = new()
    s.connect(to)
    for _ in range(12 if IS_USED and to in (ECHO, FILLS, EARLY) else 0):
        s.sendall(b"before")
        exactly(s, 6)
    return s


def readable(s, wanted):
    # How many bytes can be read, once they are so many.
    n = array.array("i", [0])
    for _ in range(10_000):
        fcntl.ioctl(s, termios.FIONREAD, n)
        if n[0] >= wanted:
            break
        time.sleep(0.001)
    return n[0]


@step
def fresh():
    s = new()
    return (s.type == socket.SOCK_STREAM, s.getsockname(), said(s.getpeername), said(s.recv, 1),
            said(s.send, b"x", socket.MSG_NOSIGNAL), said(s.shutdown, socket.SHUT_WR), said(s.accept))


@step
def formatted_to_nowhere():
    libc = ctypes.CDLL(None, use_errno=True)
    s = new()
    done = libc.dprintf(s.fileno(), b"%d", 7), name_of(ctypes.get_errno())
    s.connect(ECHO)
    s.sendall(b"now")
    return done, exactly(s, 3)


@step
def names():
    s = new()
    s.bind((OWN, 0))
    bound = s.getsockname()
    s.connect(ECHO)
    return bound[0] == OWN, bound[1] == s.getsockname()[1] != 0, s.getpeername() == ECHO, said(s.connect, ECHO)


@step
def vectors():
    s = tcp()
    sent = s.sendmsg([b"one ", b"", b"two ", b"three"])
    first, second = bytearray(3), bytearray(6)
    peeked = s.recv(4, socket.MSG_PEEK)
    got = exactly(s, 4)
    n, anc, flags, addr = s.recvmsg_into([first, second], 0, socket.MSG_WAITALL)
    os.writev(s.fileno(), [b"a", b"bc"])
    r = [bytearray(1), bytearray(2)]
    readable(s, 3)
    k = os.readv(s.fileno(), r)
    os.write(s.fileno(), b"raw")
    return sent, peeked, got, n, bytes(first[:n]), anc, flags, addr, k, r, os.read(s.fileno(), 3)


@step
def readable_bytes():
    s = tcp()
    s.sendall(b"x" * 1000)
    return readable(s, 1000), len(exactly(s, 1000))


@step
def bulk():
    s = tcp()
    total, got = 3_000_000, bytearray()
    data = os.urandom(total)
    t = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
    t.start()
    while part := s.recv(65536):
        got += part
    t.join()
    return bytes(got) == data, s.recv(1)


@step
def from_a_file():
    s = tcp()
    with open("/proc/self/exe", "rb") as f:
        n = os.sendfile(s.fileno(), f.fileno(), 0, 5000)
        f.seek(0)
        return n, exactly(s, n) == f.read(n)


@step
def through_a_pipe():
    s = tcp()
    r, w = os.pipe()
    os.write(w, b"spliced")
    n = os.splice(r, s.fileno(), 7)
    got = exactly(s, 7)
    s.send(b"back")
    select.select([s], [], [], 5)
    m = os.splice(s.fileno(), w, 4)
    return n, got, m, os.read(r, 4)


def polled(s, how):
    ep = select.epoll()
    ep.register(s, select.EPOLLIN | how)
    return [(fd == s.fileno(), e) for fd, e in ep.poll(2)]


@step
def by_parts():
    # What is left of a message is shown, however the first part was read: there is no end to it that is read by itself.
    out = set()
    for wait in [lambda s: bool(select.select([s], [], [], 2)[0]), lambda s: polled(s, 0), lambda s: polled(s, select.EPOLLET)]:
        s = tcp()
        for i in range(100):
            s.sendall(b"12345")
            s.setblocking(True)
            first = exactly(s, 2)
            shown = wait(s)
            s.setblocking(False)
            out.add((first, str(shown), exactly(s, 3), said(s.recv, 1), bool(select.select([s], [], [], 0)[0])))
    return sorted(out)


@step
def edges():
    s = tcp()
    s.setblocking(False)
    ep = select.epoll()
    ep.register(s, select.EPOLLIN | select.EPOLLET)
    out = []
    for part in [b"one", b"two", b"three"]:
        s.send(part)
        out.append((len(ep.poll(2)), s.recv(100), said(s.recv, 1), ep.poll(0)))
    ep.modify(s, select.EPOLLIN | select.EPOLLONESHOT)
    s.send(b"once")
    out.append((len(ep.poll(2)), ep.poll(0.05), s.recv(100)))
    s.send(b"again")
    out.append(ep.poll(0.2))
    ep.modify(s, select.EPOLLIN | select.EPOLLONESHOT)
    return out, len(ep.poll(2)), s.recv(100)


@step
def much_unread():
    # All that fits waits to be read, and is read at once, again and again.
    s = tcp()
    total, got = 900_000, 0
    t = threading.Thread(target=s.sendall, args=(bytes(total),))
    t.start()
    time.sleep(0.3)
    while got < total and select.select([s], [], [], 10)[0]:
        got += len(s.recv(1 << 20))
    t.join()
    return got


@step
def many_threads():
    s = tcp()
    total, got = 4 * 50_000, []
    writers = [threading.Thread(target=lambda: [s.sendall(b"x" * 50) for _ in range(1000)]) for _ in range(4)]
    readers = [threading.Thread(target=lambda: [got.append(len(part)) for part in iter(lambda: s.recv(777), b"")])
               for _ in range(3)]
    for t in writers + readers:
        t.start()
    for t in writers:
        t.join()
    s.shutdown(socket.SHUT_WR)
    for t in readers:
        t.join()
    return sum(got) == total


@step
def children_that_begin_others():
    # They close what is open to them, which is their parent's memory's.
    s = tcp()
    done = [subprocess.run(["true"], close_fds=True).returncode, os.system("true")]
    s.sendall(b"still")
    kept = exactly(s, 5)
    done.append(subprocess.run(["sh", "-c", "printf child >&0"], stdin=s).returncode)
    s.sendall(b" and its parent")
    return done, kept, exactly(s, 20)


@step
def by_a_stream_of_libc():
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = libc.fgets.restype = ctypes.c_void_p
    s = tcp()
    file = ctypes.c_void_p(libc.fdopen(os.dup(s.fileno()), b"r+"))
    s.sendall(b"a line\n")
    line = ctypes.create_string_buffer(100)
    libc.fgets(line, 100, file)
    for _ in range(12):
        s.sendall(b"more")
        exactly(s, 4)
    s.sendall(b"another\n")
    other = ctypes.create_string_buffer(100)
    libc.fgets(other, 100, file)
    return line.value, other.value, libc.fclose(file)


@step
def formatted_by_libc():
    libc = ctypes.CDLL(None)
    # Behind much of which some may wait yet, by whatever way it goes.
    s, sent = tcp(), bytes(range(250)) * 400
    s.sendall(sent)
    for n in range(30):
        libc.dprintf(s.fileno(), b"head %d %s %.2f %d %d %d %d|", n, b"of", ctypes.c_double(n + 0.25), 1, 2, 3, 4)
        s.sendall(b"body|")
        sent += b"head %d of %.2f 1 2 3 4|body|" % (n, n + 0.25)
    return exactly(s, len(sent)) == sent


@step
def refused():
    return said(tcp, CLOSED)


@step
def refused_without_waiting():
    s = new()
    s.setblocking(False)
    begun = name_of(s.connect_ex(CLOSED))
    p = select.poll()
    p.register(s, select.POLLOUT)
    shown = p.poll(5000)[0][1]
    return (begun, bool(shown & select.POLLERR), bool(shown & select.POLLHUP),
            name_of(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


@step
def again_after_a_refusal():
    s = new()
    first = name_of(s.connect_ex(CLOSED))
    s.connect(ECHO)
    s.sendall(b"now")
    return first, exactly(s, 3)


def left(s):
    # What has not arrived, after a while.
    for _ in range(200):
        n = array.array("i", [0])
        fcntl.ioctl(s, termios.TIOCOUTQ, n)
        if n[0] == 0:
            break
        time.sleep(0.005)
    return n[0]


@step
def without_waiting():
    s = new()
    s.setblocking(False)
    ep = select.epoll()
    ep.register(s, select.EPOLLOUT | select.EPOLLIN | select.EPOLLET)
    begun = name_of(s.connect_ex(ECHO))
    shown = 0
    while not shown & select.EPOLLOUT or shown & select.EPOLLHUP:
        shown = ep.poll(5)[0][1]
    ok = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    empty = said(s.recv, 1)
    s.send(b"edge")
    while not shown & select.EPOLLIN:
        shown = ep.poll(5)[0][1]
    # Until no more fits, and the peer is heard again.
    quiet, n = tcp((FAR, 7002)), 0
    quiet.setblocking(False)
    try:
        while n < 1 << 28:
            n += quiet.send(b"z" * 65536)
    except BlockingIOError:
        pass
    return begun, ok, empty, s.recv(10), 0 < n < 1 << 28, left(quiet) > 0, left(s)


@step
def half_closed():
    s = tcp(SINK)
    s.sendall(b"12345")
    s.shutdown(socket.SHUT_WR)
    end = said(s.send, b"x", socket.MSG_NOSIGNAL)
    return exactly(s, 100), s.recv(1), end


@step
def broken_pipe():
    s = tcp()
    s.shutdown(socket.SHUT_WR)
    seen = []
    signal.signal(signal.SIGPIPE, lambda *_: seen.append(1))
    e = said(s.send, b"x")
    said(s.send, b"x", socket.MSG_NOSIGNAL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return e, seen


@step
def reset():
    s = tcp((FAR, 7003))
    s.sendall(b"go")
    select.select([s], [], [], 10)
    return said(s.recv, 10), said(s.recv, 10), said(s.send, b"x", socket.MSG_NOSIGNAL)


def in_the_middle(word):
    # Much that was written has no room; "go": much is unread, "no": nothing.
    s = tcp(FILLS)
    s.sendall(word)
    s.setblocking(False)
    return s


def fill(s):
    while (e := said(s.send, bytes(65536), socket.MSG_NOSIGNAL)) != "EAGAIN":
        if isinstance(e, str):
            return e


def after_that(s):
    s.settimeout(10)
    n = 0
    while isinstance(part := said(s.recv, 65536), bytes) and part:
        n += len(part)
    return n > 0, part, said(s.recv, 1), s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), said(s.send, b"x", socket.MSG_NOSIGNAL)


@step
def reset_while_it_writes():
    out = []
    for word in b"go", b"no":
        s, e = in_the_middle(word), None
        while not e:
            select.select([], [s], [], 10)
            e = fill(s)
        out.append((e, said(s.send, b"x", socket.MSG_NOSIGNAL), s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), after_that(s)))
    return out


@step
def reset_and_asked_why():
    out = []
    for word in b"go", b"no":
        s = in_the_middle(word)
        e = fill(s)
        while not e:
            time.sleep(0.01)
            number = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            e = number and name_of(number)
        out.append((e, s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), after_that(s)))
    return out


@step
def answered_early():
    # The peer has finished, and resets as it does not read the rest: the answer has its end, and who writes or asks is told.
    out, seen = [], []
    signal.signal(signal.SIGPIPE, lambda *_: seen.append(1))
    ask = lambda s: s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    read = lambda s: (exactly(s, 6), s.recv(1), s.recv(1))
    for first, then in (read, ask), (ask, read), (read, lambda s: said(s.send, b"x")), (lambda s: said(s.send, b"x"), read):
        s = tcp(EARLY)
        s.sendall(b"go")
        select.select([s], [], [], 10)
        s.sendall(b"the rest")
        for _ in range(2000):
            # CLOSE, once the reset has come.
            if s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0] == 7:
                break
            time.sleep(0.005)
        out.append((first(s), then(s), s.recv(1), ask(s), said(s.send, b"x"), said(s.send, b"x", socket.MSG_NOSIGNAL), seen[:]))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return out


def options_left(s):
    # Of a connection that is over.
    return (said(s.getsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY), said(s.getsockopt, socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            len(said(s.getsockopt, socket.IPPROTO_TCP, socket.TCP_INFO, 104)), said(s.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, 0))


@step
def names_after_the_end():
    s = tcp((FAR, 7003))
    name = s.getsockname()
    s.sendall(b"go")
    time.sleep(0.3)
    said(s.recv, 10)
    return (s.getsockname() == name, s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), said(s.getpeername),
            said(s.send, b"x", socket.MSG_NOSIGNAL), s.getsockname() == name,
            said(s.setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)), options_left(s))


@step
def names_after_both_ends():
    out = []
    for to in ECHO, SINK:
        s = tcp(to)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = s.getsockname()
        s.sendall(b"12345")
        s.shutdown(socket.SHUT_WR)
        out.append((exactly(s, 100), s.recv(1)))
        time.sleep(0.3)
        out.append((s.getsockname() == name, s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), said(s.getpeername), options_left(s),
                    said(s.shutdown, socket.SHUT_RDWR)))
    return out


@step
def shut_down_again():
    s = tcp((FAR, 7003))
    s.sendall(b"go")
    time.sleep(0.3)
    reset = said(s.shutdown, socket.SHUT_WR), said(s.recv, 1)
    s = tcp()
    twice = [said(s.shutdown, how) for how in (socket.SHUT_RD, socket.SHUT_RD)]
    # What goes is not ended by that, and comes back to nobody.
    return reset, twice, said(s.send, b"x"), said(new().shutdown, socket.SHUT_WR)


@step
def told_once_that_it_is_connected():
    out = []
    for asks in True, False:
        s = new()
        s.setblocking(False)
        begun = name_of(s.connect_ex(ECHO))
        select.select([], [s], [], 10)
        error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if asks else 0
        out.append((begun in ("EINPROGRESS", 0), error, name_of(s.connect_ex(ECHO)), name_of(s.connect_ex(ECHO))))
    return out, name_of(tcp().connect_ex(ECHO))


@step
def dissolved():
    # By an address of no family, once connected and before.
    libc = ctypes.CDLL(None, use_errno=True)
    s, nobody = tcp(), bytes(16)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
    done = libc.connect(s.fileno(), nobody, 16), said(s.getpeername)
    s.connect(ECHO)
    s.sendall(b"again")
    return done, exactly(s, 5), s.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), libc.connect(new().fileno(), nobody, 16)


@step
def to_where_nobody_is():
    out = [said(new().connect, (FAR, 0))]
    if IS_V6:
        return out, said(new().connect, ("fe80::1", 80)), said(new().connect, ("ff02::1", 80)), said(new(socket.SOCK_DGRAM).connect, ("fe80::1", 80))
    out += [said(new().connect, (to, 80)) for to in ("255.255.255.255", "224.0.0.1", OWN.rpartition(".")[0] + ".255")]
    s = new(socket.SOCK_DGRAM)
    all = OWN.rpartition(".")[0] + ".255", 7011
    out.append((said(s.sendto, b"x", all), said(s.connect, all)))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    return out, said(s.sendto, b"x", all)


@step
def datagrams_that_are_ended():
    s = new(socket.SOCK_DGRAM)
    zero = said(s.sendto, b"x", (FAR, 0))
    s.connect(ECHO)
    seen = []
    s.shutdown(socket.SHUT_WR)
    before = signal.signal(signal.SIGPIPE, lambda *_: seen.append(1))
    done = said(s.send, b"x"), said(s.send, b"x", socket.MSG_NOSIGNAL), said(s.sendto, b"x", ECHO)
    signal.signal(signal.SIGPIPE, before)
    return zero, done, seen


@step
def shut_down_while_it_connects():
    # Nobody is there: the connection that is waited for, or asked about, is reset, and another may be begun.
    out = []
    for how in socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR:
        s, got = new(), []
        t = threading.Thread(target=lambda: got.append(said(s.connect, (SILENT, 7))))
        t.start()
        time.sleep(0.2)
        ended = said(s.shutdown, how)
        t.join(1)
        again = said(s.connect, ECHO)
        s.sendall(b"again")
        out.append((ended, got, again, exactly(s, 5)))
        s = new()
        s.setblocking(False)
        begun = name_of(s.connect_ex((SILENT, 7)))
        ended = said(s.shutdown, how)
        p = select.poll()
        p.register(s, select.POLLOUT)
        shown = p.poll(1000)[0][1] & (select.POLLERR | select.POLLHUP)
        ask = lambda: name_of(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        out.append((begun, ended, shown, ask(), ask()))
    return out


@step
def peeks_for_all():
    s = tcp()
    s.sendall(b"abc")
    readable(s, 3)
    threading.Timer(0.2, s.sendall, (b"def",)).start()
    out = [s.recv(6, socket.MSG_PEEK | socket.MSG_WAITALL), exactly(s, 6)]
    s.sendall(b"abc")
    readable(s, 3)
    out.append(said(s.recv, 6, socket.MSG_PEEK | socket.MSG_WAITALL | socket.MSG_DONTWAIT))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100_000))
    out.append(said(s.recv, 6, socket.MSG_PEEK | socket.MSG_WAITALL))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bytes(16))
    s.shutdown(socket.SHUT_WR)
    return out, s.recv(6, socket.MSG_PEEK | socket.MSG_WAITALL), exactly(s, 6)


@step
def discards():
    # Bytes are thrown away, and the memory that is named need not be there.
    libc, room, no = ctypes.CDLL(None, use_errno=True), bytearray(b"----"), socket.MSG_DONTWAIT
    s = tcp()

    def to_nowhere(n, flags=0):
        n = libc.recv(s.fileno(), None, n, socket.MSG_TRUNC | flags)
        return n if n >= 0 else name_of(ctypes.get_errno())

    s.sendall(b"0123456789" * 2000)
    readable(s, 20_000)
    out = [s.recv_into(room, 4, socket.MSG_TRUNC), bytes(room), s.recv(3), to_nowhere(4, socket.MSG_PEEK), to_nowhere(4), s.recv(3)]
    out += [s.recvmsg_into([room], 0, socket.MSG_TRUNC)[0], bytes(room), to_nowhere(100_000, socket.MSG_PEEK), to_nowhere(19_972)]
    threading.Timer(0.2, s.sendall, (b"def",)).start()
    out += [to_nowhere(13, socket.MSG_WAITALL), to_nowhere(4, no), to_nowhere(4, no | socket.MSG_PEEK)]
    s.shutdown(socket.SHUT_WR)
    return out, to_nowhere(4), s.recv(1)


@step
def polled_when_fresh():
    s = new()
    out = []
    for wanted in select.POLLIN, select.POLLIN | select.POLLOUT:
        p = select.poll()
        p.register(s, wanted)
        out.append([shown for _, shown in p.poll(1000)])
    s.connect(ECHO)
    return out, [shown for _, shown in p.poll(1000)], [shown for _, shown in select.poll().poll(0)]


@step_of_four
def to_all_once_connected():
    out = []
    for to in (OWN.rpartition(".")[0] + ".255", 7011), ECHO:
        s = new(socket.SOCK_DGRAM)
        s.connect(ECHO)
        out.append((said(s.connect, to), s.getpeername() == ECHO))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        out.append((said(s.connect, to), s.getpeername() == to))
    return out


@step
def a_file_in_a_datagram():
    s, out = new(socket.SOCK_DGRAM), []
    with open(sys.argv[0], "rb", buffering=0) as f:
        whole = f.read(3000)
        f.seek(100)
        out.append(said(os.sendfile, s.fileno(), f.fileno(), 0, 10))
        s.connect(ECHO)
        out += [os.sendfile(s.fileno(), f.fileno(), 7, 1200), s.recv(2000) == whole[7:1207], f.tell()]
        libc = ctypes.CDLL(None)
        out += [libc.sendfile(s.fileno(), f.fileno(), None, ctypes.c_size_t(50)), s.recv(2000) == whole[100:150], f.tell()]
        os.lseek(f.fileno(), 0, os.SEEK_END)
        out.append(libc.sendfile(s.fileno(), f.fileno(), None, ctypes.c_size_t(50)))
    return out


@step
def datagrams_before_the_end():
    out = []
    for count in 12, 1, 0:
        s = new(socket.SOCK_DGRAM)
        s.connect(ECHO)
        for n in range(count):
            s.send(b"%d" % n)
        time.sleep(0.2)
        said(s.shutdown, socket.SHUT_RD)
        p = select.poll()
        p.register(s, select.POLLIN | select.POLLRDHUP)
        before = bool(p.poll(1000))
        out.append((before, [s.recv(10) for _ in range(count + 2)], [shown for _, shown in p.poll(1000)]))
    return out


@step
def nothing_asked():
    # By the names of files it is had at once; by those of sockets it waits for something, which stays.
    libc, room = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(8)
    s, no = tcp(), socket.MSG_DONTWAIT

    def done(f, *args):
        n = f(s.fileno(), *args)
        return n if n >= 0 else name_of(ctypes.get_errno())

    def all():
        return (done(libc.read, room, 0), done(libc.read, None, 0), done(libc.readv, None, 0), os.readv(s.fileno(), [bytearray()] * 3),
                done(libc.write, room, 0), done(libc.recv, room, 0, no), done(libc.recv, None, 0, no | socket.MSG_PEEK),
                said(lambda: s.recvmsg(0, 0, no)[0]))

    empty = all()
    s.sendall(b"there")
    readable(s, 5)
    return empty, all(), exactly(s, 5)


@step
def more_follows():
    s = tcp()
    for _ in range(12):
        s.sendall(b"before")
        exactly(s, 6)
    s.sendall(b"ab", socket.MSG_MORE)
    early = select.select([s], [], [], 0.05)[0] == [s]
    s.sendall(b"cd")
    both, took = exactly(s, 4), []
    # What is not followed by more does not wait with what is.
    for _ in range(4):
        begun = time.monotonic()
        s.sendall(b"AB")
        s.sendall(b"cd", socket.MSG_MORE)
        both += exactly(s, 2)
        took.append(time.monotonic() - begun)
        both += exactly(s, 2)
    return early, both, min(took) < 0.15


@step
def timeouts():
    s = tcp()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100_000))
    got = said(s.recv, 1)
    s.settimeout(0.1)
    try:
        s.recv(1)
    except TimeoutError:
        return got, "timed out"


@step
def a_connection_that_takes_long():
    # Nobody is there, which takes seconds to find out.
    s = new()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 200_000))
    begun = time.monotonic()
    first = said(s.connect, (NOBODY, 7)), time.monotonic() - begun < 1
    n = array.array("i", [7])
    fcntl.ioctl(s, termios.TIOCOUTQ, n)
    begun = time.monotonic()
    return first, n[0], said(s.send, b"x"), time.monotonic() - begun < 1


@step
def interrupted():
    s = tcp()
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: (seen.append(1), s.send(b"from a handler")))
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    return s.recv(100), seen


@step
def options():
    s = tcp()
    out = []
    for level, name, value in [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77),
        (LEVEL, HOPS, 33), (LEVEL, CLASS, 16),
    ]:
        out.append((said(s.setsockopt, level, name, value), said(s.getsockopt, level, name)))
    for name in [socket.SO_TYPE, socket.SO_DOMAIN, socket.SO_PROTOCOL, socket.SO_ERROR, socket.SO_ACCEPTCONN]:
        out.append(s.getsockopt(socket.SOL_SOCKET, name))
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    out += [info[0], said(s.getsockopt, socket.IPPROTO_TCP, 250), said(s.setsockopt, socket.IPPROTO_TCP, 250, 1)]
    out.append(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 2) == info[:2])
    cookies = [one.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8) for one in (s, s.dup(), new())]
    out.append((len(cookies[0]), cookies[0] == cookies[1], cookies[0] == cookies[2]))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return out


@step
def buffers():
    # What is told of them once they were set, also of one that the kernel has afterwards.
    out = []
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        s = new(kind)
        for name in socket.SO_RCVBUF, socket.SO_SNDBUF:
            s.setsockopt(socket.SOL_SOCKET, name, 20_000)
            out.append(s.getsockopt(socket.SOL_SOCKET, name))
        s.bind((LOOPBACK, 0))
        out += [s.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_RCVBUF, socket.SO_SNDBUF)]
    return out


def interface():
    # The number of the interface with this host's address, or of the outboard's.
    return socket.if_nametoindex("k0" if OWN in ("10.8.0.2", "fd07::2") else "v0")


def set_anew(family, kind, *all):
    # What each option is at first, and once it was set.
    out = []
    for level, name, value in all:
        s = socket.socket(family, kind)
        out.append((name, said(s.getsockopt, level, name), said(s.setsockopt, level, name, value),
                    said(s.getsockopt, level, name)))
    return out


@step_of_four
def options_without_effect():
    TCP, SOL = socket.IPPROTO_TCP, socket.SOL_SOCKET
    of_any = [(SOL, SO_PRIORITY, 5), (SOL, socket.SO_OOBINLINE, 7), (SOL, socket.SO_OOBINLINE, b"1"),
              *[(IP, IP_MTU_DISCOVER, value) for value in (0, 1, 5)], (IP, IP_MTU_DISCOVER, b"\0"), (IP, IP_RECVERR, 3),
              (IP, IP_FREEBIND, 1), (IP, IP_BIND_ADDRESS_NO_PORT, 1)]
    of_tcp = [(TCP, socket.TCP_NOTSENT_LOWAT, 16384), (TCP, socket.TCP_FASTOPEN, 5), (TCP, TCP_FASTOPEN_CONNECT, 1),
              (TCP, TCP_FASTOPEN_CONNECT, 2), (TCP, socket.TCP_WINDOW_CLAMP, 100_000), (TCP, TCP_THIN_LINEAR_TIMEOUTS, 1),
              *[(TCP, socket.TCP_LINGER2, value) for value in (7, 500, -5)]]
    of_udp = [(IP, socket.IP_MULTICAST_LOOP, 0), (IP, socket.IP_MULTICAST_LOOP, b"\0")]
    of_v6 = [(IPV6, IPV6_MTU_DISCOVER, 0), (IPV6, IPV6_RECVERR, 1), (IPV6, IPV6_FREEBIND, 1),
             *[(IPV6, socket.IPV6_MULTICAST_LOOP, value) for value in (0, 2, b"\0")]]
    own = socket.inet_aton(OWN)
    ways = []
    for value in own, socket.inet_aton("239.1.1.1") + own, bytes(4) + own + struct.pack("=i", interface()), b"no":
        s = new(socket.SOCK_DGRAM)
        ways.append((said(s.setsockopt, IP, socket.IP_MULTICAST_IF, value), s.getsockopt(IP, socket.IP_MULTICAST_IF, 4) == own))
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(IPV6, socket.IPV6_MULTICAST_IF, interface())
    return (set_anew(socket.AF_INET, socket.SOCK_STREAM, *of_any, *of_tcp), set_anew(socket.AF_INET, socket.SOCK_DGRAM, *of_any, *of_udp),
            set_anew(socket.AF_INET6, socket.SOCK_DGRAM, *of_v6), ways, s.getsockopt(IPV6, socket.IPV6_MULTICAST_IF) == interface())


@step
def options_before_it_is_known_whose():
    # Whatever is set is judged when the socket is bound: here it becomes the kernel's.
    TCP, SOL = socket.IPPROTO_TCP, socket.SOL_SOCKET
    TIMESTAMP, MARK, RCVBUFFORCE, BUSY_POLL, TIMESTAMPNS = 29, 36, 33, 46, 35
    of_ip = [(IPV6, 24, 1280), (IPV6, 24, 1279), (IPV6, 24, 0), (IPV6, 62, 1), (IPV6, 73, 255), (IPV6, 73, 256), (IPV6, 75, 1)] \
        if IS_V6 else [(IP, 21, 255), (IP, 21, 256), (IP, 21, b"\7"), (IP, 19, 1)]
    out = []
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        out.append(set_anew(FAMILY, kind, (SOL, TIMESTAMP, 1), (SOL, TIMESTAMPNS, 1), (SOL, MARK, 7), (SOL, BUSY_POLL, 50),
                            (SOL, BUSY_POLL, -1), (SOL, SO_TIMESTAMPING, 8), *of_ip))
        s = new(kind)
        s.setsockopt(SOL, RCVBUFFORCE, 30_000)
        s.setsockopt(SOL, MARK, 7)
        s.setsockopt(SOL, socket.SO_BINDTODEVICE, b"lo")
        s.bind((LOOPBACK, 0))
        out.append([s.getsockopt(SOL, name, size) for name, size in
                    ((socket.SO_RCVBUF, 4), (MARK, 4), (socket.SO_BINDTODEVICE, 16), (SO_TIMESTAMPING, 8))])
    return out


@step
def what_the_path_takes():
    level, mtu = (IPV6, 24) if IS_V6 else (IP, 14)
    out = [said(new().getsockopt, level, mtu), said(new(socket.SOCK_DGRAM).getsockopt, level, mtu), tcp().getsockopt(level, mtu)]
    s = new(socket.SOCK_DGRAM)
    s.connect(ECHO)
    return out, s.getsockopt(level, mtu)


@step
def what_comes_from_far():
    # The peer's packets have 64 hops.
    option = (IPV6, 73) if IS_V6 else (IP, 21)
    s = tcp()
    s.setsockopt(*option, 65)
    s.sendall(b"far")
    came = bool(select.select([s], [], [], 0.5)[0])
    s.setsockopt(*option, 64)
    return came, exactly(s, 3)


@step
def groups_joined_twice():
    level, join, leave, request = (IPV6, socket.IPV6_JOIN_GROUP, socket.IPV6_LEAVE_GROUP, socket.inet_pton(FAMILY, "ff02::1234") +
                                   struct.pack("=I", interface())) if IS_V6 else \
        (IP, socket.IP_ADD_MEMBERSHIP, socket.IP_DROP_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton(OWN))
    s = new(socket.SOCK_DGRAM)
    return [said(s.setsockopt, level, option, request) for option in (join, join, leave, join)]


@step
def copies():
    s = tcp()
    d = s.dup()
    e = socket.socket(fileno=os.dup2(s.fileno(), 50))
    f = socket.socket(fileno=fcntl.fcntl(s.fileno(), fcntl.F_DUPFD_CLOEXEC, 60))
    name = s.getsockname()
    s.close()
    d.close()
    e.send(b"copy")
    return exactly(f, 4), e.getsockname() == name == f.getsockname(), f.getpeername() == ECHO, e.type == socket.SOCK_STREAM


@step
def a_number_again():
    s = tcp()
    n = s.fileno()
    s.close()
    with open("/dev/null", "rb", buffering=0) as f:
        same, end = f.fileno() == n, f.read(10)
    r, w = os.pipe()
    os.write(w, b"pipe")
    got = os.read(r, 4)
    os.closerange(r, w + 1)
    return same, end, got, said(os.read, n, 1)


@step
def by_other_names():
    # Some of libc's functions have two.
    libc = ctypes.CDLL(None, use_errno=True)
    s, t = tcp(), tcp()
    done = getattr(libc, "__dup2")(s.fileno(), t.fileno()) == t.fileno()
    t.sendall(b"by either")
    got, number = exactly(s, 9), s.detach()
    copy = getattr(libc, "__fcntl")(t.fileno(), fcntl.F_DUPFD_CLOEXEC, 70)
    done = done, copy >= 70, getattr(libc, "__close")(number)
    with open("/dev/null", "rb", buffering=0) as f:
        same, end = f.fileno() == number, f.read(10)
    t.sendall(b"by a copy")
    return done, got, same, end, exactly(socket.socket(fileno=copy), 9)


@step
def children():
    s = tcp()
    r, w = os.pipe()
    if os.fork() == 0:
        name = s.getpeername()
        s.send(b"child ")
        os.write(w, b"1" if name == ECHO else b"0")
        os._exit(0)
    child = os.read(r, 1)
    os.wait()
    s.send(b"parent")
    return child, exactly(s, 12)


@step
def another_program():
    s = tcp()
    os.set_inheritable(s.fileno(), True)
    code = ("import os, socket; s = socket.socket(fileno=%d); s.sendall(b'heir'); os.write(1, b'');"
            "import sys; sys.exit(0 if s.getpeername()[1] == 7000 and s.type == socket.SOCK_STREAM else 1)" % s.fileno())
    # Without an environment at all.
    pid = os.fork()
    if pid == 0:
        os.execve(sys.executable, ["python3", "-c", code], {})
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, exactly(s, 4)


@step
def sent_over_a_unix_socket():
    a, b = socket.socketpair()
    s = tcp()
    socket.send_fds(a, [b"fd"], [s.fileno()])
    s.close()
    _, fds, _, _ = socket.recv_fds(b, 10, 1)
    t = socket.socket(fileno=fds[0])
    t.sendall(b"passed")
    return exactly(t, 6), t.getpeername() == ECHO


@step
def datagrams():
    s = new(socket.SOCK_DGRAM)
    first = said(s.send, b"x")
    s.settimeout(5)
    s.sendto(b"one", ECHO)
    got, who = s.recvfrom(100)
    s.sendmsg([b"t", b"wo"], [], 0, ECHO)
    n, anc, flags, addr = s.recvmsg_into([bytearray(2)])
    s.sendto(b"", ECHO)
    empty = s.recv(10)
    s.connect(ECHO)
    s.send(b"three")
    select.select([s], [], [], 5)
    s.setblocking(False)
    size = array.array("i", [0])
    fcntl.ioctl(s, termios.FIONREAD, size)
    length = s.recv_into(bytearray(1), 1, socket.MSG_PEEK | socket.MSG_TRUNC)
    return (first, got, who == ECHO, n, flags == socket.MSG_TRUNC, addr == ECHO, empty, s.getpeername() == ECHO,
            size[0], length, s.recv(10), said(s.recv, 10))


@step
def large_datagrams():
    s = new(socket.SOCK_DGRAM)
    s.settimeout(5)
    data = os.urandom(5000)
    s.sendto(data, ECHO)
    return s.recv(65536) == data, said(s.sendto, bytes(65528 if IS_V6 else 65508), ECHO)


class Iov(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]


class Msg(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Iov)),
                ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int), ("pad", ctypes.c_int), ("len", ctypes.c_uint)]


@step
def many_datagrams():
    libc = ctypes.CDLL(None, use_errno=True)
    s = new(socket.SOCK_DGRAM)
    s.connect(ECHO)
    n = 8
    iov = (Iov * n)(*[Iov(b"%d" % i, 1) for i in range(n)])
    msgs = (Msg * n)(*[Msg(None, 0, ctypes.pointer(iov[i]), 1) for i in range(n)])
    sent = libc.sendmmsg(s.fileno(), msgs, n, 0)
    out = [ctypes.create_string_buffer(4) for _ in range(n)]
    iov2 = (Iov * n)(*[Iov(ctypes.cast(b, ctypes.c_char_p), 4) for b in out])
    msgs2 = (Msg * n)(*[Msg(None, 0, ctypes.pointer(iov2[i]), 1) for i in range(n)])
    got = 0
    while got < n:
        got += libc.recvmmsg(s.fileno(), ctypes.byref(msgs2, got * ctypes.sizeof(Msg)), n - got, 0x10000, None)
    raw = libc.syscall(1, s.fileno(), b"raw", 3)
    return sent, got, [m.len for m in msgs2], sorted(b.value for b in out), raw, s.recv(10)


@step
def many_messages_of_a_stream():
    # One that is sent in part is the last of its call: its rest comes before the next.
    libc = ctypes.CDLL(None, use_errno=True)
    s, whole, back, main = tcp(), os.urandom(24 << 20), [], threading.get_ident()
    was = signal.signal(signal.SIGUSR1, lambda *_: None)

    def interrupts_and_reads():
        # The first is stuck by then, as nobody reads what comes back.
        time.sleep(0.5)
        signal.pthread_kill(main, signal.SIGUSR1)
        time.sleep(0.2)
        back.append(exactly(s, len(whole)))
    reader = threading.Thread(target=interrupts_and_reads)
    reader.start()
    at, in_order = 0, True
    while at < len(whole):
        rest = whole[at:]
        parts = [part for part in (rest[:-1000], rest[-1000:]) if part]
        n = len(parts)
        iov = (Iov * n)(*[Iov(part, len(part)) for part in parts])
        msgs = (Msg * n)(*[Msg(None, 0, ctypes.pointer(iov[i]), 1) for i in range(n)])
        sent = libc.sendmmsg(s.fileno(), msgs, n, 0)
        in_order &= all(msgs[i].len == iov[i].len for i in range(sent - 1))
        at += sum(msgs[i].len for i in range(sent))
    reader.join()
    signal.signal(signal.SIGUSR1, was)
    return in_order, back[0] == whole


def used_datagrams(is_mapped=False):
    s = socket.socket(socket.AF_INET6 if is_mapped else FAMILY, socket.SOCK_DGRAM)
    s.settimeout(5)
    echo, tells = [("::ffff:" + FAR, to[1]) if is_mapped else to for to in (ECHO, TELLS)]
    for _ in range(12 if IS_USED else 0):
        s.sendto(b"before", echo)
        s.recv(10)
    return s, echo, tells


@step
def nobody_there():
    (s, echo, _), (t, _, _) = used_datagrams(), used_datagrams()
    s.settimeout(None)
    t.settimeout(None)
    s.connect(CLOSED)
    watch = select.poll()
    watch.register(s, select.POLLIN)
    out = []
    for told in (s.recv, 10), (s.recv, 10, socket.MSG_PEEK), (s.send, b"x"), (s.sendmsg, [b"x"]):
        s.send(b"x")
        shown = [bool(events & (select.POLLIN | select.POLLERR)) for _, events in watch.poll(5000)]
        out.append((shown, said(*told), said(s.recv, 10, socket.MSG_DONTWAIT), watch.poll(0)))
    s.send(b"x")
    watch.poll(5000)
    out.append((name_of(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), watch.poll(0)))
    # Who is not connected hears nothing; and all is as it was.
    t.sendto(b"x", CLOSED)
    time.sleep(0.1)
    s.connect(echo)
    s.send(b"there")
    return out, said(t.recv, 10, socket.MSG_DONTWAIT), s.recv(10)


def addresses(info):
    if IS_V6:
        to, index = struct.unpack("=16sI", info)
        return index == interface(), socket.inet_ntop(FAMILY, to) == OWN
    index, own, to = struct.unpack("=I4s4s", info)
    return index == interface(), socket.inet_ntoa(own) == OWN, socket.inet_ntoa(to) == OWN


@step
def beside_what_came():
    s, echo, _ = used_datagrams()
    all = RECV_INFO, RECV_HOPS, RECV_CLASS
    was = [s.getsockopt(LEVEL, option) for option in all]
    s.sendto(b"none", echo)
    none = s.recvmsg(10, 256)[:3]
    for option in all:
        s.setsockopt(LEVEL, option, 1)
    s.sendto(b"some", echo)
    peeked = s.recvmsg(10, 256, socket.MSG_PEEK)
    data, items, flags, who = s.recvmsg(10, 256)
    told = [(level, kind, addresses(value) if kind == INFO_ITEM else value) for level, kind, value in items]
    s.sendto(b"cut", echo)
    cut = s.recvmsg(10, 20)
    s.sendto(b"cut", echo)
    no_room = s.recvmsg(10)[2]
    s.setsockopt(LEVEL, RECV_INFO, 0)
    s.setsockopt(LEVEL, RECV_HOPS, 0 if IS_V6 else b"\0")
    s.sendto(b"one", echo)
    one = s.recvmsg(10, 256)[:2]
    return (was, [s.getsockopt(LEVEL, option) for option in all], none, peeked == (data, items, flags, who), flags, told,
            cut[:1], [len(value) for _, _, value in cut[1]], cut[2], no_room, one)


@step_of_four
def beside_what_came_as_ipv6():
    s, echo, _ = used_datagrams(is_mapped=True)
    for option in socket.IPV6_RECVPKTINFO, socket.IPV6_RECVHOPLIMIT, socket.IPV6_RECVTCLASS:
        s.setsockopt(IPV6, option, 1)
    s.sendto(b"six", echo)
    data, items, flags, _ = s.recvmsg(10, 256)
    mapped = [(level, kind, socket.inet_ntop(socket.AF_INET6, value[:16]) == "::ffff:" + OWN,
               struct.unpack("=I", value[16:])[0] == interface()) for level, kind, value in items]

    def came(*options):
        for level, option, on in options:
            s.setsockopt(level, option, on)
        s.sendto(b"as four", echo)
        return [(level, kind, addresses(value) if (level, kind) == (IP, IP_PKTINFO) else len(value) if level == IPV6 else value)
                for level, kind, value in s.recvmsg(10, 256)[1]]

    fields = came((IPV6, socket.IPV6_RECVPKTINFO, 0))
    of_four = came((IP, IP_RECVTTL, 1)), came((IP, IP_RECVTOS, 1)), came((IP, IP_PKTINFO, 1))
    was = [s.getsockopt(IP, IP_PKTINFO), s.getsockopt(IPV6, socket.IPV6_RECVPKTINFO)]
    return data, flags, mapped, fields, of_four, was, came((IPV6, socket.IPV6_RECVPKTINFO, 1))


@step_of_four
def too_long_of_ipv6_for_ipv4():
    s, echo, _ = used_datagrams(is_mapped=True)
    s.connect(echo)
    told = [said(s.send, bytes(n)) for n in (65508, 65527, 65507)]
    s.connect(("::ffff:" + FAR, 9))
    return told, said(s.send, bytes(65508)), said(s.sendto, bytes(65508), echo)


@step
def beside_what_goes():
    s, echo, tells = used_datagrams()

    def asked(data, *items, to=tells):
        s.sendmsg([data], [(LEVEL, kind, value) for kind, value in items], 0, to)
        return s.recv(100).replace(OWN.encode(), b"here")

    def info(own, index):
        own = socket.inet_pton(FAMILY, own)
        return INFO_ITEM, struct.pack("=16sI", own, index) if IS_V6 else struct.pack("=I4s4s", index, own, bytes(4))

    def int(value):
        return struct.pack("=i", value)

    plain = asked(b"plain")
    marked = asked(b"marked", (CLASS_ITEM, int(0x48)), (HOPS_ITEM, int(9)))
    # Of IPv6 it is no byte.
    byte = said(asked, b"byte", (CLASS_ITEM, b"\x28"))
    from_here = asked(b"source", info(OWN, interface())), asked(b"way", info(ANY, interface()))
    s.setsockopt(LEVEL, CLASS, 0x10)
    s.setsockopt(LEVEL, HOPS, 33)
    by_option = asked(b"option"), asked(b"other", (HOPS_ITEM, int(3)))
    # They keep their order, whatever goes beside them.
    for n in range(9):
        s.sendmsg([b"%d" % n], [(LEVEL, HOPS_ITEM, int(9))] if n % 3 == 1 else [], 0, echo)
    order = [s.recv(10) for _ in range(9)]
    wrong = [said(asked, b"", item) for item in ((HOPS_ITEM, int(-2 if IS_V6 else 0)), (HOPS_ITEM, int(256)), (HOPS_ITEM, b"abc"),
                                                (99, int(1)), (CLASS_ITEM, int(256)), (CLASS_ITEM, int(-2 if IS_V6 else -1)),
                                                (INFO_ITEM, bytes(11)))]
    # Those of the other version are nothing to a socket.
    s.sendmsg([b"passed"], [(IP if IS_V6 else IPV6, 9999, b"abc")], 0, echo)
    return plain, marked, byte, from_here, by_option, order, wrong, s.recv(10), asked(b"end")


@step
def groups():
    # What goes to a group comes to members on this host too, unless who sends it says no.
    member, sender = new(socket.SOCK_DGRAM), new(socket.SOCK_DGRAM)
    member.bind((ANY, 0))
    member.settimeout(5)
    if IS_V6:
        group, way, loop = "ff02::1234", struct.pack("=I", interface()), socket.IPV6_MULTICAST_LOOP
        join, leave, by = socket.IPV6_JOIN_GROUP, socket.IPV6_LEAVE_GROUP, socket.IPV6_MULTICAST_IF
    else:
        group, way, loop = "239.1.2.3", socket.inet_aton(OWN), socket.IP_MULTICAST_LOOP
        join, leave, by = socket.IP_ADD_MEMBERSHIP, socket.IP_DROP_MEMBERSHIP, socket.IP_MULTICAST_IF
    of_group = socket.inet_pton(FAMILY, group) + way
    member.setsockopt(LEVEL, join, of_group)
    sender.setsockopt(LEVEL, by, way)
    to, came = (group, member.getsockname()[1]), []
    for loops, data in (1, b"heard"), (0, b"kept"), (1, b"again"):
        sender.setsockopt(LEVEL, loop, loops)
        sender.sendto(data, to)
    for _ in range(2):
        data, who = member.recvfrom(10)
        came.append((data, who[1] == sender.getsockname()[1]))
    member.setsockopt(LEVEL, leave, of_group)
    sender.sendto(b"nobody", to)
    member.settimeout(0.1)
    return came, said(member.recv, 10)


@step
def with_control():
    # What is given beside bytes, and is no address, hops or class.
    libc = ctypes.CDLL(None, use_errno=True)
    SOL, UDP = socket.SOL_SOCKET, socket.IPPROTO_UDP
    s, echo, _ = used_datagrams()
    s.connect(echo)
    t = tcp()

    def raw(s, control):
        data, room = ctypes.create_string_buffer(b"raw", 3), ctypes.create_string_buffer(control, len(control))
        piece = (ctypes.c_size_t * 2)(ctypes.addressof(data), 3)
        header = struct.pack("PI4xPNPNi4x", 0, 0, ctypes.addressof(piece), 1, ctypes.addressof(room), len(control), 0)
        done = libc.sendmsg(s.fileno(), header, 0)
        return done if done >= 0 else name_of(ctypes.get_errno())

    def item(length, level, kind, value):
        return struct.pack("=Qii", length, level, kind) + value

    out = []
    for one in s, t:
        for control in [(SOL, 12345, bytes(4)), (SOL, socket.SCM_RIGHTS, struct.pack("=i", one.fileno())),
                        (SOL, SO_TIMESTAMPING, bytes(4)), (SOL, SO_TIMESTAMPING, bytes(2)), (UDP, 12345, bytes(4)), (12345, 1, bytes(4))]:
            out.append((control[:2], said(one.sendmsg, [b"one"], [control])))
        for control in (item(15, LEVEL, HOPS_ITEM, bytes(4)), item(21, LEVEL, HOPS_ITEM, bytes(4)), item(2 ** 64 - 1, LEVEL, HOPS_ITEM, bytes(4)),
                        item(20, 12345, 1, bytes(8)) + item(15, SOL, 1, b""), bytes(15), item(20, 12345, 1, bytes(4))):
            out.append(raw(one, control))
    # Each that was told to be sent was.
    sent = [done for done in out[:12] if done == 3 or done[-1:] == (3,)]
    return out, [s.recv(10) for _ in sent], exactly(t, 3)


@step
def bound_to_all():
    if IS_V6:
        return "no such address"
    out = []
    for everybody in OWN.rpartition(".")[0] + ".255", "255.255.255.255":
        with socket.socket(FAMILY, socket.SOCK_DGRAM) as s, socket.socket(FAMILY, socket.SOCK_DGRAM) as t:
            s.settimeout(10)
            s.bind((everybody, 7077))
            t.bind((OWN, 0))
            t.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            t.sendto(b"all", (everybody, 7077))
            out.append((s.getsockname() == (everybody, 7077), s.recvfrom(10)[0], said(t.bind, (everybody, 7078))))
            # From there nobody sends.
            s.sendto(b"echo", ECHO)
    with socket.socket(FAMILY, socket.SOCK_STREAM) as t:
        return out, said(t.bind, (OWN.rpartition(".")[0] + ".7", 0))


@step
def many_pieces():
    s, echo, _ = used_datagrams()
    s.connect(echo)
    t = tcp()

    def pieces(count):
        return [b"%c" % (65 + n % 26) for n in range(count)]

    out = []
    for count in 15, 16, 20, 64:
        out.append((s.sendmsg(pieces(count)), s.recv(200), t.sendmsg(pieces(count)), exactly(t, count)))
        s.send(bytes(count))
        room = [bytearray(1) for _ in range(count)]
        out.append((s.recvmsg_into(room)[:3:2], b"".join(room) == bytes(count)))
    # Of more, all or nothing.
    done = said(s.sendmsg, pieces(100))
    out.append((s.send(b"".join(pieces(100))) if done == "EMSGSIZE" else done, s.recv(200)))
    s.send(b"more")
    done = said(lambda: s.recvmsg_into([bytearray(1) for _ in range(100)])[0])
    out.append(len(s.recv(10)) if done == "EMSGSIZE" else done)
    # A stream takes all of them at once.
    for count in 65, 100, 128, 1024:
        out.append((os.writev(t.fileno(), pieces(count)), exactly(t, count) == b"".join(pieces(count))))
        out.append((t.sendmsg([b""] + pieces(count - 2) + [b""]), exactly(t, count - 2)[-2:]))
    return out, said(s.sendmsg, pieces(1025)), said(t.sendmsg, pieces(1025))


@step
def of_another_level():
    out = []
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        for family in socket.AF_INET, socket.AF_INET6:
            s = socket.socket(family, kind)
            out += [(said(s.setsockopt, level, 99, 1), said(s.getsockopt, level, name))
                    for level, name in ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (IPV6, socket.IPV6_UNICAST_HOPS),
                                        (socket.IPPROTO_UDP, 99), (77, 1))
                    if (level, kind) != (socket.IPPROTO_TCP, socket.SOCK_STREAM) and (level, family) != (IPV6, socket.AF_INET6)]
    return out


@step
def refused_and_again():
    # What was set stays, and the address, for the next try.
    out = []
    for local in None, (OWN, 0), (OWN, 7321):
        s = new()
        set = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77), (LEVEL, CLASS, 8),
               (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        for level, name, value in set:
            s.setsockopt(level, name, value)
        if local:
            s.bind(local)
        out.append(said(s.connect, CLOSED))
        out.append([s.getsockopt(*one[:2]) for one in set])
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 78)
        s.connect(ECHO)
        s.sendall(b"again")
        out.append(([s.getsockopt(*one[:2]) for one in set], exactly(s, 5), s.getsockname()[0] == OWN,
                    not local or local[1] in (0, s.getsockname()[1])))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    return out


@step
def sent_behind_the_end():
    told, s = [], tcp()
    s.shutdown(socket.SHUT_WR)
    before = signal.signal(signal.SIGPIPE, lambda *_: told.append("SIGPIPE"))
    with open(__file__, "rb") as f:
        done = said(os.sendfile, s.fileno(), f.fileno(), 0, 10)
        done = done, said(os.sendfile, s.fileno(), f.fileno(), None, 10), f.tell()
    signal.signal(signal.SIGPIPE, before)
    return done, told


@step
def multipath():
    # The kernel may have been built without.
    try:
        s = socket.socket(FAMILY, proto=262)
    except OSError:
        s = new()
    s.connect(ECHO)
    s.sendall(b"paths")
    return exactly(s, 5)


@step
def to_a_device():
    s, _, tells = used_datagrams()
    name = socket.if_indextoname(interface()).encode() + b"\0"
    unbound = s.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)
    bound = s.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
    s.sendto(b"bound", tells)
    got = s.recv(100)[:5]
    wrong = said(s.setsockopt, socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"nosuch\0")
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"\0")
    t = new()
    t.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)
    t.connect(ECHO)
    t.send(b"record", socket.MSG_EOR)
    return (unbound, bound == name, got, wrong, s.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16),
            exactly(t, 6), t.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16) == name)


@step
def kernels():
    # What stays on this host is the kernel's: a socket changes hands, its options and its watchers with it.
    l = new()
    l.bind((LOOPBACK, 0))
    l.listen()
    s = new()
    set = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.IPPROTO_TCP, socket.TCP_SYNCNT, 3),
           (socket.IPPROTO_TCP, socket.TCP_LINGER2, 7), (LEVEL, MTU_DISCOVER, 0), (socket.SOL_SOCKET, socket.SO_RCVLOWAT, 5)]
    for level, name, value in set:
        s.setsockopt(level, name, value)
    s.setblocking(False)
    ep = select.epoll()
    ep.register(s, select.EPOLLIN)
    begun = name_of(s.connect_ex(l.getsockname()))
    c, _ = l.accept()
    c.sendall(b"local")
    shown = [(fd == s.fileno(), e) for fd, e in ep.poll(5)]
    u, v = [new(socket.SOCK_DGRAM) for _ in range(2)]
    u.bind((LOOPBACK, 0))
    v.sendto(b"udp", u.getsockname())
    return (begun in ("EINPROGRESS", 0), shown, s.recv(10), [s.getsockopt(*one[:2]) for one in set],
            os.get_blocking(s.fileno()), u.recv(10))


@step_of_four
def of_the_kernels_version():
    # The outboard has no address of IPv6.
    l = socket.socket(socket.AF_INET6)
    l.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    l.bind(("::", 0))
    l.listen()
    s = socket.socket(socket.AF_INET6)
    s.settimeout(5)
    s.connect(("::1", l.getsockname()[1]))
    c, _ = l.accept()
    c.sendall(b"six")
    return exactly(s, 3)


@step
def accepted():
    l = new()
    l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 9, 0))
    l.bind((OWN, 0))
    l.listen(8)
    call = tcp((FAR, 7004))
    call.sendall(b"%d\n" % l.getsockname()[1])
    c, who = l.accept()
    l.setblocking(False)
    limit = struct.pack("ll", 9, 0)
    return (who[0] == FAR, c.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16) == limit, c.getpeername() == who, c.getsockname() == l.getsockname(), exactly(c, 5),
            l.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), said(l.accept), said(c.listen))


@step
def many_accept():
    l = new()
    l.bind((OWN, 0))
    l.listen(64)
    kids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            while True:
                c, _ = l.accept()
                c.sendall(exactly(c, 5) + b"!")
                c.close()
        kids.append(pid)
    call = tcp((FAR, 7005))
    call.sendall(b"%d\n" % l.getsockname()[1])
    got = exactly(call, 6)
    for kid in kids:
        os.kill(kid, 9)
        os.wait()
    return got
