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
    socket.create_server((HERE, 8003)).accept()


def receives():
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((HERE, 8004))
    datagrams.recv(10)


told = {}


def waits(way):
    try:
        way()
        told[way.__name__] = "no error"
    except OSError as error:
        told[way.__name__] = "gone" if error.errno in GONE else str(error)


threads = [threading.Thread(target=waits, args=[way]) for way in (reads, polls, watches, writes, accepts, receives)]
for thread in threads:
    thread.start()
time.sleep(1)
print("ready", flush=True)
for thread in threads:
    thread.join()
print(sorted(told.items()), flush=True)

while True:
    try:
        stream = socket.create_connection(SERVER)
        break
    except OSError as error:
        if error.errno != errno.ENETDOWN:
            raise
        time.sleep(0.02)
stream.sendall(b"GET /file HTTP/1.0\r\n\r\n")
length = sum(len(part) for part in iter(lambda: stream.recv(65536), b""))
sys.exit(0 if length > 3_000_000 else f"{length} bytes of the file")
