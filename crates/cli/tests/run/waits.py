# Who waits for many sockets at once, for an unmodified program: run on the kernel's sockets and on an outboard's it prints the
# same. The argument is the address of a server of the kernel's that echoes at port 7000. Each connection has carried messages
# before, so that it has a lease if it may, and each was read because an epoll showed it.
import os, select, signal, socket, sys, threading, time

from steps import step

ECHO = (sys.argv[1], 7000)
IN, OUT, ET, ONESHOT, RDHUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLET, select.EPOLLONESHOT, select.EPOLLRDHUP


def all_of(s, n):
    got = b""
    while len(got) < n:
        select.select([s], [], [], 10)
        try:
            got += s.recv(n - len(got))
        except BlockingIOError:
            pass
    return got


def reads(ep, sockets, n):
    # What is shown is read, until each has so much.
    got = {s.fileno(): b"" for s in sockets}
    by_number = {s.fileno(): s for s in sockets}
    while any(len(part) < n for part in got.values()):
        shown = ep.poll(10)
        assert shown, "nothing is shown"
        for number, _ in shown:
            if number in by_number:
                try:
                    got[number] += by_number[number].recv(n)
                except BlockingIOError:
                    pass
    return list(got.values())


def came(s):
    # What is shown may have been told a moment too early.
    end = time.time() + 10
    while True:
        try:
            return s.recv(9)
        except BlockingIOError:
            if time.time() > end:
                raise
            time.sleep(0.001)


def one():
    s = socket.create_connection(ECHO)
    s.setblocking(False)
    return s


def rounds(ep, sockets):
    for _ in range(12):
        for s in sockets:
            s.send(b"before")
        reads(ep, sockets, 6)


def watched(n, how=IN):
    ep = select.epoll()
    sockets = [one() for _ in range(n)]
    for s in sockets:
        ep.register(s, how)
    rounds(ep, sockets)
    return ep, sockets


def shows(ep, wanted, patience=10, most=-1):
    # What is shown, once it is so many at once.
    end = time.time() + patience
    while True:
        shown = ep.poll(0.5, most)
        if len(shown) >= wanted or time.time() > end:
            return shown
        time.sleep(0.001)


def come(sockets, what=b"come"):
    for s in sockets:
        s.send(what)


def numbers(sockets, shown):
    # Which of them, and what of each.
    which = {s.fileno(): n for n, s in enumerate(sockets)}
    return sorted((which.get(number, "other"), events) for number, events in shown)


@step
def level():
    ep, all = watched(3)
    out = [ep.poll(0)]
    come(all)
    out += [numbers(all, shows(ep, 3)), numbers(all, ep.poll(5)), all[1].recv(2), numbers(all, ep.poll(5))]
    out += [[came(s) for s in all], ep.poll(0), ep.poll(0.01)]
    return out


def quiet(ep):
    # Nothing is told again and again; once too often may be.
    return any(ep.poll(0.05) == [] for _ in range(5))


@step
def edge():
    ep, all = watched(3, IN | ET)
    out = [quiet(ep)]
    come(all)
    got = set()
    while len(got) < 3 and (shown := ep.poll(5)):
        got |= set(shown)
    out += [numbers(all, got), quiet(ep)]
    out += [[all_of(s, 4) for s in all], quiet(ep)]
    come(all[:1])
    out += [numbers(all, ep.poll(5)), quiet(ep)]
    ep.modify(all[0], IN | ET)
    return out + [numbers(all, ep.poll(5)), quiet(ep), came(all[0])]


@step
def one_shot():
    ep, all = watched(2)
    for s in all:
        ep.modify(s, IN | ONESHOT)
    come(all)
    got = []
    while len(got) < 2:
        got += ep.poll(5)
    out = [numbers(all, got), ep.poll(0.05)]
    ep.modify(all[0], IN | ONESHOT)
    out += [numbers(all, ep.poll(5)), ep.poll(0.05), [came(s) for s in all]]
    ep.modify(all[1], IN)
    come(all)
    return out + [numbers(all, ep.poll(5)), came(all[1])]


@step
def modified_shows_what_lies_there():
    ep, all = watched(2)
    ep.modify(all[0], 0)
    come(all)
    out = [numbers(all, shows(ep, 1)), all_of(all[1], 4), ep.poll(0.05)]
    ep.modify(all[0], IN)
    out += [numbers(all, ep.poll(5))]
    ep.modify(all[0], IN | OUT)
    out += [numbers(all, ep.poll(5)), came(all[0]), numbers(all, ep.poll(5))]
    ep.modify(all[0], OUT | ET)
    return out + [numbers(all, ep.poll(5)), ep.poll(0.05)]


@step
def removed_and_added():
    ep, all = watched(2)
    ep.unregister(all[0])
    come(all)
    out = [numbers(all, shows(ep, 1)), all_of(all[1], 4), all_of(all[0], 2), ep.poll(0.05)]
    ep.register(all[0], IN)
    return out + [numbers(all, ep.poll(5)), came(all[0]), ep.poll(0.05)]


@step
def two_sets():
    ep, all = watched(2)
    other = select.epoll()
    other.register(all[0], IN)
    come(all)
    out = [numbers(all, shows(ep, 2)), numbers(all, other.poll(5)), [came(s) for s in all], ep.poll(0), other.poll(0)]
    rounds(ep, all)
    come(all)
    out += [numbers(all, other.poll(5)), numbers(all, shows(ep, 2)), [all_of(s, 4) for s in all]]
    ep.unregister(all[0])
    come(all)
    return out + [numbers(all, other.poll(5)), numbers(all, ep.poll(5)), [all_of(s, 4) for s in all]]


@step
def polled_and_selected():
    ep, all = watched(2)
    come(all)
    p = select.poll()
    p.register(all[0], select.POLLIN)
    out = [[e for _, e in p.poll(5000)], select.select([all[1]], [], [], 5)[0] == [all[1]], numbers(all, shows(ep, 2))]
    out += [[came(s) for s in all], p.poll(0), select.select([all[1]], [], [], 0)[0], ep.poll(0)]
    rounds(ep, all)
    come(all)
    return out + [[e for _, e in p.poll(5000)], numbers(all, shows(ep, 2)), [came(s) for s in all]]


@step
def within_another():
    ep, all = watched(2)
    outer = select.epoll()
    outer.register(ep.fileno(), IN)
    come(all)
    out = [[e for _, e in outer.poll(5)], numbers(all, shows(ep, 2)), [came(s) for s in all], outer.poll(0)]
    rounds(ep, all)
    come(all[:1])
    out += [[e for _, e in outer.poll(5)], numbers(all, ep.poll(5)), came(all[0])]
    ep, all = watched(1)
    come(all)
    out += [select.select([ep], [], [], 5)[0] == [ep], came(all[0]), select.select([ep], [], [], 0)[0]]
    rounds(ep, all)
    come(all)
    return out + [select.select([ep], [], [], 5)[0] == [ep], came(all[0])]


@step
def by_a_duplicate():
    ep, all = watched(2)
    other = select.epoll.fromfd(os.dup(ep.fileno()))
    come(all)
    out = [numbers(all, shows(other, 2)), [came(s) for s in all], other.poll(0)]
    rounds(ep, all)
    come(all)
    out += [numbers(all, shows(other, 2)), [came(s) for s in all]]
    ep, all = watched(1)
    again = all[0].dup()
    come(all)
    out += [numbers(all, shows(ep, 1)), came(again), ep.poll(0.05)]
    come(all)
    return out + [numbers(all, shows(ep, 1)), came(all[0])]


@step
def forked():
    ep, all = watched(2)
    come(all[:1])
    shows(ep, 1)
    r, w = os.pipe()
    if os.fork() == 0:
        signal.alarm(20)
        first = numbers(all, ep.poll(5))
        got = came(all[0])
        come(all[1:])
        os.write(w, repr((first, got, numbers(all, ep.poll(5)), came(all[1]), ep.poll(0.05))).encode())
        os._exit(0)
    os.close(w)
    out = [os.read(r, 999), os.wait()[1]]
    rounds(ep, all)
    come(all)
    out += [numbers(all, shows(ep, 2)), [came(s) for s in all]]
    # One that has nothing to do with them.
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    rounds(ep, all)
    return out


@step
def added_while_another_waits():
    ep, all = watched(1)
    out = []
    more, late = one(), one()

    def waits():
        for _ in range(3):
            shown = ep.poll(10)
            out.append(numbers(all + [more, late], shown))
            for number, _ in shown:
                (all + [more, late])[[s.fileno() for s in all + [more, late]].index(number)].recv(9)

    t = threading.Thread(target=waits)
    t.start()
    time.sleep(0.1)
    ep.register(more, IN)
    come([more])
    while len(out) < 1:
        time.sleep(0.001)
    come([late])
    # What lies there is shown to who sleeps already.
    select.select([late], [], [], 5)
    ep.register(late, IN)
    while len(out) < 2:
        time.sleep(0.001)
    come(all)
    t.join()
    return out


@step
def modified_while_another_waits():
    ep, all = watched(1)
    ep.modify(all[0], 0)
    come(all)
    out = []
    t = threading.Thread(target=lambda: out.append(numbers(all, ep.poll(10))))
    t.start()
    time.sleep(0.2)
    ep.modify(all[0], IN)
    t.join()
    return out, came(all[0])


@step
def paused_while_it_sleeps():
    ep, all = watched(2)
    ep.modify(all[0], 0)

    def comes():
        for s in all:
            time.sleep(0.1)
            come([s])

    t = threading.Thread(target=comes)
    t.start()
    out = [numbers(all, ep.poll(5)), came(all[1])]
    t.join()
    return out, all_of(all[0], 4)


@step
def others_read_and_close_while_it_sleeps():
    is_over, all_read = [], []

    def shown_late(ep, s):
        while shown := ep.poll(5):
            if s.fileno() in [number for number, _ in shown]:
                return False
        return True

    def busy(s):
        # What comes for the one is read by whoever is first.
        while not is_over:
            try:
                all_read.append(s.recv(9))
            except BlockingIOError:
                pass

    ep, all = watched(2)
    t = threading.Thread(target=busy, args=all[:1])
    t.start()
    late = 0
    for _ in range(200):
        come(all)
        late += shown_late(ep, all[1])
        all_of(all[1], 4)
    is_over.append(1)
    t.join()
    for _ in range(15):
        ep, all = watched(2)
        t = threading.Thread(target=lambda: (come(all), all[0].close()))
        t.start()
        late += shown_late(ep, all[1])
        t.join()
    return late


@step
def two_wait():
    ep, all = watched(2)
    out = []

    def waits(s):
        while not out:
            for number, _ in ep.poll(10):
                try:
                    out.append([s.recv(9) for s in all if s.fileno() == number])
                except BlockingIOError:
                    pass

    both = [threading.Thread(target=waits, args=(s,)) for s in all]
    for t in both:
        t.start()
    time.sleep(0.1)
    come(all)
    for t in both:
        t.join()
    return sorted(out)[0], len(out) <= 3


@step
def another_reads():
    ep, all = watched(1)
    all[0].setblocking(True)
    out = []
    t = threading.Thread(target=lambda: out.append(came(all[0])))
    t.start()
    time.sleep(0.1)
    come(all)
    t.join()
    out.append(ep.poll(0.05))
    come(all)
    return out + [numbers(all, ep.poll(5)), came(all[0])]


@step
def closed_and_the_number_again():
    ep, all = watched(2)
    come(all)
    shows(ep, 2)
    number = all[0].fileno()
    all[0].close()
    out = [numbers(all[1:], ep.poll(5)), came(all[1]), ep.poll(0.05)]
    again = one()
    out += [again.fileno() == number]
    come([again])
    out += [ep.poll(0.1)]
    ep.register(again, IN)
    out += [numbers([again], ep.poll(5)), came(again)]
    r, w = os.pipe()
    again.close()
    os.dup2(r, number)
    ep.register(number, IN)
    os.write(w, b"pipe")
    out += [ep.poll(5) == [(number, IN)], os.read(number, 9), ep.poll(0.05)]
    os.close(number)
    # Of the set itself.
    ep, all = watched(1)
    number = ep.fileno()
    come(all)
    ep.close()
    ep = select.epoll()
    out += [ep.fileno() == number, ep.poll(0.1)]
    ep.register(all[0], IN)
    return out + [numbers(all, ep.poll(5)), came(all[0])]


@step
def nobody_starves():
    ep, all = watched(2)
    r, w = os.pipe()
    ep.register(r, IN)
    come(all)
    shows(ep, 2)
    os.write(w, b"x")
    out = []
    for most in 1, 2, 3:
        seen = set()
        for _ in range(12):
            shown = ep.poll(5, most)
            seen |= {number for number, _ in shown}
            out.append(1 <= len(shown) <= most)
        out.append(len(seen))
    return out


@step
def time_is_over():
    ep, all = watched(1)
    out = []
    for patience in 0, 0.001, 0.1:
        begun = time.time()
        out.append((ep.poll(patience), time.time() - begun >= patience))
    hits = []
    signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))
    t = threading.Thread(target=lambda: (time.sleep(0.1), os.kill(os.getpid(), signal.SIGUSR1)))
    t.start()
    out.append((ep.poll(0.3), len(hits)))
    t.join()
    come(all)
    return out + [numbers(all, ep.poll()), came(all[0])]


@step
def the_end_is_shown():
    ep, all = watched(2, IN | RDHUP)
    come(all)
    for s in all:
        s.shutdown(socket.SHUT_WR)
    while [e for _, e in ep.poll(5)] != [IN | RDHUP | select.EPOLLHUP] * 2:
        pass
    return [(came(s), came(s)) for s in all], numbers(all, ep.poll(5))


@step
def sent_to_another_process():
    ep, all = watched(2)
    a, b = socket.socketpair()
    if os.fork() == 0:
        signal.alarm(20)
        for s in all:
            s.close()
        ep.close()
        a.close()
        _, fds, _, _ = socket.recv_fds(b, 1, 2)
        s = socket.socket(fileno=fds[0])
        theirs = select.epoll.fromfd(fds[1])
        b.send(repr((bool(select.select([s], [], [], 5)[0]), bool(theirs.poll(5)), came(s))).encode())
        os._exit(0)
    b.close()
    rounds(ep, all)
    socket.send_fds(a, [b"x"], [all[0].fileno(), ep.fileno()])
    come(all)
    out = [a.recv(99), os.wait()[1], all_of(all[1], 4)]
    come(all[:1])
    return out + [numbers(all, ep.poll(5)), all_of(all[0], 4)]


@step
def many():
    ep, all = watched(120)
    out = []
    for what in b"one", b"three", b"seven":
        come(all, what)
        out.append(set(reads(ep, all, len(what))))
    return out, ep.poll(0)


@step
def more_sets_than_are_known():
    out = []
    all = [watched(1) for _ in range(24)]
    for ep, sockets in all:
        come(sockets)
    for ep, sockets in all:
        out.append((numbers(sockets, ep.poll(5)), sockets[0].recv(9)))
    return set(map(str, out))


@step
def room_that_is_shown():
    # It is a third of the send buffer at least: what is shorter goes whole.
    s, ep, out = socket.create_connection((sys.argv[1], 7001)), select.epoll(), set()
    s.setblocking(False)
    ep.register(s, OUT)
    for _ in range(400):
        out.add((len(ep.poll(10)), s.send(bytes(16384))))
    s.shutdown(socket.SHUT_WR)
    return out, all_of(s, 13)
