"""What a program is told whose outboard is killed, and that it goes on with the next one. A thread for each way to wait."""

import errno
import faulthandler
import select
import socket
import sys
import threading
import time

# One that hangs is a failure, and says where.
faulthandler.dump_traceback_later(40, exit=True)

HERE, DEAF, SERVER = "10.9.0.2", ("10.9.0.1", 8002), ("10.9.0.1", 8000)
GONE = (errno.ENETDOWN, errno.ECONNRESET)


def connected(flags=0):
    stream = socket.create_connection(DEAF)
    stream.setblocking(not flags)
    return stream


def reads():
    connected().recv(1)


def polls():
    stream = connected(socket.SOCK_NONBLOCK)
    waits = select.poll()
    waits.register(stream, select.POLLIN)
    waits.poll()
    stream.recv(1)


def watches():
    stream = connected(socket.SOCK_NONBLOCK)
    waits = select.epoll()
    waits.register(stream, select.EPOLLIN | select.EPOLLET)
    waits.poll()
    stream.recv(1)


def writes():
    # A peer that reads nothing.
    stream = connected()
    while True:
        stream.send(bytes(65536))


def accepts():
    kept["accepts"] = server = socket.create_server((HERE, 8003))
    server.accept()


def receives():
    kept["receives"] = datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((HERE, 8004))
    datagrams.recv(10)


def asks():
    kept["asks"] = stream = connected()
    stream.recv(1)


told, kept = {}, {}


def waits(way):
    told[way.__name__] = said(way)


def said(way):
    try:
        return way() or "no error"
    except BlockingIOError:
        return "nothing yet"
    except OSError as error:
        return "gone" if error.errno in GONE else errno.errorcode[error.errno]


def of_what_is_left():
    # What the sockets say whose outboard is gone. Each was told once.
    server, datagrams, stream = [kept[name] for name in ("accepts", "receives", "asks")]
    server.setblocking(False)
    datagrams.setblocking(False)
    calls = [server.accept, lambda: datagrams.recv(10), lambda: datagrams.sendto(b"x", SERVER), lambda: stream.recv(1),
             lambda: stream.send(b"x"), server.getsockname, lambda: server.listen(5), datagrams.getsockname,
             lambda: datagrams.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > 0]
    told, shown = [said(call) for call in calls], []
    for each in server, datagrams, stream:
        waits = select.poll()
        waits.register(each, select.POLLIN | select.POLLOUT)
        shown.append([event for _, event in waits.poll(0)])
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return told, shown


threads = [threading.Thread(target=waits, args=[way]) for way in (reads, polls, watches, writes, accepts, receives, asks)]
for thread in threads:
    thread.start()
time.sleep(1)
print("ready", flush=True)
for thread in threads:
    thread.join()
print(sorted(told.items()), flush=True)
without = of_what_is_left()
CALLS = ["nothing yet", "nothing yet", "gone", "no error", "EPIPE", "gone", "gone", "gone", "gone"]
HUNG_UP = select.POLLIN | select.POLLOUT | select.POLLHUP
if without != (CALLS, [[], [], [HUNG_UP]]):
    sys.exit(f"without an outboard: {without}")
print("looked", flush=True)

while True:
    try:
        stream = socket.create_connection(SERVER)
        break
    except OSError as error:
        if error.errno != errno.ENETDOWN:
            raise
        time.sleep(0.02)
after = of_what_is_left()
if after != (["nothing yet", "nothing yet", 1, "no error", "EPIPE", (HERE, 8003), "no error", (HERE, 8004), True], [[select.POLLOUT], [select.POLLOUT], [HUNG_UP]]):
    sys.exit(f"with the next outboard: {after}")
stream.sendall(b"GET /file HTTP/1.0\r\n\r\n")
length = sum(len(part) for part in iter(lambda: stream.recv(65536), b""))
sys.exit(0 if length > 3_000_000 else f"{length} bytes of the file")
