"""Opens so many connections to a server of HTTP and keeps all of them, asks each so many times for a file, and says how many
have had it each time. Arguments: address, port, path, file, connections, times."""

import selectors
import socket
import sys

host, port, path, file = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
connections, times = int(sys.argv[5]), int(sys.argv[6])
# Under way at once: a backlog is not to overflow.
BATCH = 256

with open(file, "rb") as content:
    body = content.read()
request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
all_of_them = []


def has_come(answer):
    """Whether an answer is whole and right."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if len(rest) < len(body):
        return False
    assert head.startswith(b"HTTP/1.1 200") and rest == body, answer
    return True


def ask(some):
    """Asks connections, and waits for all answers."""
    answers = {connection: b"" for connection in some}
    with selectors.DefaultSelector() as selector:
        for connection in some:
            connection.sendall(request)
            selector.register(connection, selectors.EVENT_READ)
        while answers:
            ready = selector.select(30)
            assert ready, f"{len(answers)} have no answer"
            for key, _ in ready:
                part = key.fileobj.recv(1 << 16)
                assert part, "closed"
                answers[key.fileobj] += part
                if has_come(answers[key.fileobj]):
                    selector.unregister(key.fileobj)
                    del answers[key.fileobj]
    return len(some)


for turn in range(times):
    done = 0
    for first in range(0, connections, BATCH):
        count = min(BATCH, connections - first)
        if turn == 0:
            all_of_them += [socket.create_connection((host, port), 30) for _ in range(count)]
        done += ask(all_of_them[first : first + count])
    print(done)
