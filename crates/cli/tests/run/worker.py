"""A worker of another user, which has inherited its sockets: its rights, and what it serves when its outboard was killed and another
has begun."""

import collections
import errno
import os
import select
import signal
import socket
import sys
import threading

# One that hangs is a failure.
signal.alarm(60)

HERE, SERVER = "10.9.0.2", ("10.9.0.1", 8000)


def bound(port):
    try:
        with socket.socket() as new:
            new.bind((HERE, port))
            return "bound"
    except OSError as error:
        return errno.errorcode[error.errno]


def makes(results):
    for _ in range(40):
        try:
            socket.socket().close()
            results["made"] += 1
        except OSError as error:
            results[errno.errorcode[error.errno]] += 1


server = socket.create_server((HERE, 80))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((HERE, 53))
datagrams.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 33)
for each in server, datagrams:
    each.setblocking(False)
parent = [bound(81), os.seteuid(1234), bound(81), os.seteuid(0), bound(81)]
if os.fork():
    # It has the same sockets, and does nothing with them.
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))

os.setgid(1234)
os.setuid(1234)
signal.alarm(60)
if sys.argv[1] == "rights":
    # Before it has used what it inherited.
    child, results = [bound(8081), bound(81)], collections.Counter()
    threads = [threading.Thread(target=makes, args=[results]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(parent, child, dict(results))
    sys.exit()

if sys.argv[1] == "used":
    server.getsockname(), datagrams.getsockname()
waits = select.epoll()
for each in server, datagrams:
    waits.register(each, select.EPOLLIN)
print("ready", flush=True)
errors, turns, served = [], 0, set()
while len(served) < 2:
    turns += 1
    for number, _ in waits.poll():
        try:
            if number == server.fileno():
                stream, _ = server.accept()
                stream.sendall(b"served")
                stream.close()
            else:
                data, peer = datagrams.recvfrom(100)
                datagrams.sendto(data, peer)
            served.add(number)
        except BlockingIOError:
            pass
        except OSError as error:
            errors.append(errno.errorcode[error.errno])
            if len(errors) == 2:
                print("told", flush=True)
ttl = datagrams.getsockopt(socket.IPPROTO_IP, socket.IP_TTL)
print(errors, turns < 20 or turns, ttl, bound(82))
