# Servers on the kernel's sockets for calls.py: 7000 echoes, by TCP and UDP; 7001 says how much came; 7002 never reads; 7003
# resets; 7004 and 7005 call back, once and 30 times, and 7005 says how many answered; 7006 echoes until it
# hears "go", and sends as much as goes, or "no", takes nothing, and resets; 7008 echoes until it
# hears "go", answers, finishes, and resets when something has come that it does not read. By UDP 7010 says who sent, and the hops
# and type of service (of IPv6: traffic class) of what came.
import array, fcntl, socket, socketserver, struct, sys, termios, threading, time

HOST, FAR = sys.argv[1], sys.argv[2]
FAMILY = socket.AF_INET6 if ":" in HOST else socket.AF_INET


def exactly(s, n):
    got = b""
    while len(got) < n:
        part = s.recv(n - len(got))
        if not part:
            break
        got += part
    return got


def echo(s):
    while part := s.recv(65536):
        s.sendall(part)


def sink(s):
    n = 0
    while part := s.recv(65536):
        n += len(part)
    s.sendall(b"%d bytes" % n)


def silent(s):
    time.sleep(60)


def resets(s):
    s.recv(2)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def fills(s):
    while (part := s.recv(2)) not in (b"go", b"no"):
        s.sendall(part)
    s.setblocking(False)
    sent, came, before = 0, array.array("i", [0]), None
    # It resets when nothing more goes, nor comes.
    while before != (sent, came[0]):
        before = sent, came[0]
        try:
            while part == b"go":
                sent += s.send(bytes(65536))
        except BlockingIOError:
            pass
        time.sleep(0.3)
        fcntl.ioctl(s, termios.FIONREAD, came)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def answers_early(s):
    while (part := s.recv(2)) != b"go":
        s.sendall(part)
    s.sendall(b"answer")
    s.shutdown(socket.SHUT_WR)
    came = array.array("i", [0])
    while not came[0]:
        time.sleep(0.01)
        fcntl.ioctl(s, termios.FIONREAD, came)
    s.close()


def back(s):
    c = socket.create_connection((FAR, int(s.makefile().readline())))
    c.sendall(b"hello")
    c.recv(1)


def many(s):
    port, ok = int(s.makefile().readline()), 0
    for i in range(30):
        c = socket.create_connection((FAR, port))
        c.sendall(b"%5d" % i)
        ok += exactly(c, 6) == b"%5d!" % i
        c.close()
    s.sendall(b"%6d" % ok)


class Server(socketserver.ThreadingTCPServer):
    address_family = FAMILY
    allow_reuse_address = True
    daemon_threads = True


for port, serve in (7000, echo), (7001, sink), (7002, silent), (7003, resets), (7004, back), (7005, many), (7006, fills), \
        (7008, answers_early):
    class Handler(socketserver.BaseRequestHandler):
        serve = staticmethod(serve)

        def handle(self):
            try:
                self.serve(self.request)
            except OSError:
                pass

    threading.Thread(target=Server((HOST, port), Handler).serve_forever, daemon=True).start()


def tells():
    s = socket.socket(FAMILY, socket.SOCK_DGRAM)
    of_six = socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, socket.IPV6_RECVTCLASS, socket.IPV6_HOPLIMIT, socket.IPV6_TCLASS
    level, *wanted, hops, service = of_six if FAMILY == socket.AF_INET6 else (socket.IPPROTO_IP, 12, 13, 2, 1)
    for option in wanted:
        s.setsockopt(level, option, 1)
    s.bind((HOST, 7010))
    while True:
        data, items, _, who = s.recvmsg(65536, 256)
        told = {kind: int.from_bytes(value, "little") for _, kind, value in items}
        s.sendto(b"%s from %s: %d hops, class %d" % (data, who[0].encode(), told[hops], told[service]), who)


threading.Thread(target=tells, daemon=True).start()
udp = socket.socket(FAMILY, socket.SOCK_DGRAM)
udp.bind((HOST, 7000))
print("ready", flush=True)
while True:
    data, who = udp.recvfrom(65536)
    udp.sendto(data, who)
