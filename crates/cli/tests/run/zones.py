# Link-local addresses and their zones (RFC 4007), for an unmodified program: run on the kernel's sockets and on an outboard's it
# prints the same. The arguments are the address of servers of the kernel's (echo.py), this host's own, and its interface.
import socket, sys

from steps import step

FAR, OWN, ZONE = sys.argv[1], sys.argv[2], socket.if_nametoindex(sys.argv[3])
STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM


def said(f, *args):
    try:
        return f(*args)
    except OSError as e:
        return type(e).__name__, e.errno


def new(kind):
    s = socket.socket(socket.AF_INET6, kind)
    s.settimeout(10)
    return s


def is_here(address):
    # All of an address but for its port and this interface's number.
    return address[0], address[2], address[3] == ZONE


@step
def connects():
    out = []
    for kind in STREAM, DATAGRAM:
        out += [said(new(kind).connect, (FAR, 7000, 0, zone)) for zone in (0, 9999)]
        s = new(kind)
        s.connect((FAR, 7000, 0, ZONE))
        s.send(b"hello")
        out.append((s.recv(9), is_here(s.getpeername()), s.getsockname()[2], s.getsockname()[3] == ZONE))
    return out


@step
def binds():
    out = []
    for kind in STREAM, DATAGRAM:
        out += [said(new(kind).bind, (OWN, 0, 0, zone)) for zone in (0, 9999)]
        s = new(kind)
        s.bind((OWN, 0, 0, ZONE))
        out.append(s.getsockname()[2:] == (0, ZONE))
    return out


@step
def sends():
    out = []
    # The first goes through the placeholder, the last by rings.
    s = new(DATAGRAM)
    for _ in range(20):
        s.sendto(b"q", (FAR, 7000, 0, ZONE))
        data, who = s.recvfrom(9)
        out.append((data, is_here(who)))
    return set(out)


@step
def is_called():
    listener = new(STREAM)
    listener.bind(("::", 0))
    listener.listen()
    s = new(STREAM)
    s.connect((FAR, 7004, 0, ZONE))
    s.sendall(b"%d\n" % listener.getsockname()[1])
    called, who = listener.accept()
    return is_here(who), is_here(called.getpeername()), is_here(called.getsockname())[2], called.recv(9), listener.getsockname()[3]
