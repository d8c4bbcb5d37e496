# Servers on the kernel's sockets for calls.py: 7000 echoes, by TCP and UDP; 7001 says how much came; 7002 never reads; 7003
# resets; 7004 and 7005 call back, once and 30 times, and 7005 says how many answered.
import socket, socketserver, struct, sys, threading, time

HOST, FAR = sys.argv[1], sys.argv[2]


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
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.bind((HOST, 7000))
print("ready", flush=True)
while True:
    data, who = udp.recvfrom(65536)
    udp.sendto(data, who)
