# Servers on the kernel's sockets for calls.py: 7000 echoes, by TCP and UDP; 7001 says how much came; 7002 never reads; 7003
# resets; 7004 and 7005 call back, once and 30 times, and 7005 says how many answered. By UDP 7010 says who sent, and the hops
# and type of service (of IPv6: traffic class) of what came.
import socket, socketserver, struct, sys, threading, time

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


for port, serve in (7000, echo), (7001, sink), (7002, silent), (7003, resets), (7004, back), (7005, many):
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
