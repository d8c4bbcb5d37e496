"""A peer that speaks XTP over UDP, written from docs/xtp.md alone. It loses packets on purpose, both ways.

    peer.py examples PAGE           reads the page's hex examples, and writes each again
    peer.py connect HOST PORT …     a stream to a service: sends --bytes, reads until the other ends, closes
    peer.py listen …                one stream: sends back what comes, closes
    peer.py ask HOST PORT …         messages of --service 1, 2 or 3
    peer.py answer …                answers --count messages of any of them
    peer.py stranger HOST PORT …    what belongs to nobody, and what is wrong, and what is said of it

It says "port N" when it listens, and at the end one line of JSON. It ends with 0 if all was as the page has it.
"""

import argparse
import hashlib
import json
import random
import re
import secrets
import select
import socket
import sys
import time

import packet as x
from context import Context
from packet import Packet
from single import ACKNOWLEDGED, DATAGRAM, TRANSACTION, Request, Response, datagram

IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
IPV6_MTU_DISCOVER = 23
HALF_OPEN_MAX = 16


def content(seed, len_):
    """Bytes that both sides of a test know."""
    return bytes((i * 31 ^ seed * 101 ^ i >> 8) & 0xFF for i in range(len_))


class Peer:
    """A socket with its contexts."""

    kind = socket.SOCK_DGRAM, 0

    def __init__(self, args):
        self.sockets = []
        self.socket = self.open((args.bind, 0))
        if self.socket.family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_DO)
        else:
            self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.args = args
        self.random = random.Random(args.seed)
        self.by_key, self.by_first = {}, {}
        self.forgotten = set()  # keys of ours that nothing is said of
        self.make = None  # of a FIRST for --port: a context, or None
        self.drops, self.lost, self.diags = {}, 0, []
        self.seen = {}

    def open(self, at):
        """A socket at an address, that is listened to; a group's is not alone there."""
        opened = socket.socket(socket.AF_INET6 if ":" in at[0] else socket.AF_INET, *self.kind)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, at[1] != 0)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        opened.bind(at)
        opened.setblocking(False)
        self.sockets.append(opened)
        return opened

    def own_key(self):
        key = 0
        while key == 0 or key in self.by_key:
            key = secrets.randbits(63)
        return key

    def add(self, context):
        self.by_key[context.key] = context
        return context

    def loses(self):
        is_lost = self.random.random() < self.args.loss
        self.lost += is_lost
        return is_lost

    def send(self, packet, to):
        bytes_ = packet if isinstance(packet, bytes) else x.emit(packet)
        # What is written is what is meant.
        x.parse(bytes_)
        if not self.loses():
            try:
                self.socket.sendto(bytes_, to)
            except BlockingIOError:
                self.lost += 1

    def turn(self, longest=0.05):
        """What has come, then what leaves."""
        select.select(self.sockets, [], [], longest)
        for socket_ in self.sockets:
            self.empty(socket_)
        now = time.monotonic()
        for context in list(self.by_key.values()):
            for packet in context.pump(now):
                self.send(packet, packet.to or context.peer)

    def empty(self, socket_):
        for _ in range(64):
            try:
                bytes_, source = socket_.recvfrom(65_536)
            except (BlockingIOError, ConnectionRefusedError):
                break
            if self.loses():
                continue
            try:
                self.take(bytes_, source)
            except x.Dropped as dropped:
                self.drops[dropped.cause] = self.drops.get(dropped.cause, 0) + 1

    def take(self, bytes_, source):
        now = time.monotonic()
        try:
            p = x.parse(bytes_)
        except x.Dropped as dropped:
            if dropped.diag is not None and bytes_[11] & 31 == x.FIRST:
                self.refuse(x.Packet(int.from_bytes(bytes_[:8]) & x.KEY, False, x.FIRST), source, 1, dropped.diag)
            raise
        self.seen[p.format] = self.seen.get(p.format, 0) + 1
        if p.format == x.DIAG:
            self.diags.append((p.code, p.val, p.key, p.returned))
        if p.returned:
            context = self.by_key.get(p.key)
            if context is None:
                if p.key not in self.forgotten and p.format not in (x.DIAG, x.FIRST, x.PATH) and not p.has(x.MULTI):
                    diag = Packet(p.key, False, x.DIAG, code=3, val=0)
                    self.send(diag, source)
                raise x.Dropped("closed")
            if context.peer != source:
                raise x.Dropped("closed")
            return context.take(p, len(bytes_), now)
        if p.format == x.DIAG and p.code == 3:
            for context in self.by_key.values():
                if context.return_key == p.key and context.peer == source:
                    return context.take(p, len(bytes_), now)
        if p.format != x.FIRST:
            raise x.Dropped("closed")
        self.take_first(p, len(bytes_), source, now)

    def take_first(self, p, len_, source, now):
        service = p.traffic[0]
        context = self.by_first.get((source, p.key))
        if context is None:
            refused = self.refused(p)
            if refused is not None and service != DATAGRAM:
                return self.refuse(p, source, 1, refused)
            context = self.make(p, source, now)
            if context is None:
                return
            if p.has(x.RES):
                context.reads_cxor = context.sends_cxor = True
            context.largest = min(context.largest, 32 + (p.traffic[1][0] or 1168))
            self.by_first[(source, p.key)] = self.add(context)
        context.take(p, len_, now)

    def refused(self, p):
        if self.make is None or p.address[3] != self.args.port:
            return 1
        if p.traffic[1] is None:
            return 5
        if any(p.address[1] + p.address[2]):
            return 4
        if 0 < p.traffic[1][0] < 512:
            return 6
        return None

    def refuse(self, p, source, code, val):
        self.send(Packet(p.key, True, x.DIAG, code=code, val=val, text=b"no"), source)

    def result(self, **more):
        more.update(lost=self.lost, drops=self.drops, seen=self.seen)
        print(json.dumps(more), flush=True)

    def until(self, is_done, seconds=90.0):
        end = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > end:
                self.result(outcome="not done in time", contexts=[shown(c) for c in self.by_key.values()])
                sys.exit(1)
            self.turn()


def shown(c):
    """What may tell why something does not end."""
    bulky = ("got", "out", "their_eoms", "eoms", "their_tags", "tags", "flight", "asked")
    return {k: str(v) for k, v in vars(c).items() if k not in bulky} | {"now": time.monotonic()}


def options(args):
    bits = 0 if args.no_fastnak else x.FASTNAK
    return bits | (x.NOERR if args.noerr else 0)


def digest(messages):
    return hashlib.sha256(b"".join(b for *_, b in messages)).hexdigest()


def finished(peer, context, **more):
    # The other may not have heard the last word.
    last = time.monotonic() + (3.0 if peer.args.loss else 0.2)
    peer.until(lambda: context.state in ("inactive", "quiescent"))
    peer.until(lambda: context.state == "quiescent" or time.monotonic() > last)
    peer.result(outcome=context.outcome, again=context.counts["again"], cxor=context.sends_cxor,
                cookie=context.cookie is not None, sizes=context.path.sizes, asked=context.path.asked,
                missing=context.missing(), **more)
    return 0 if context.outcome == "in order" else 1


def ask_path(peer, context):
    """The sizes are asked for, and questions that do not count beside them; the peer's are waited for."""
    args, path = peer.args, context.path
    peer.until(lambda: context.state == "open")
    bad = []
    for size in args.ask_path:
        for spoil in ("key", "tag"):
            bad.append(path.ask(context.return_key, context.peer, size, spoil))
        path.ask(context.return_key, context.peer, size)
    peer.until(lambda: len(path.sizes) >= len(args.ask_path))
    peer.until(lambda: max(path.asked, default=0) >= args.asked_at_least)
    if any(nonce not in path.waits for nonce in bad):
        peer.result(outcome="a question that does not count was answered")
        sys.exit(1)


def connect(args):
    peer = Peer(args)
    now = time.monotonic()
    # Near the end of its numbers: it wraps.
    context = Context(peer.own_key(), (args.host, args.to), args.port, 4, now, options=options(args),
                      largest=args.largest, sync=(1 << 32) - 5)
    context.reads_cxor = args.cxor
    peer.add(context)
    for _ in range(args.before):
        # Somebody who opens and forgets it: half-open for the other.
        other = Packet(peer.own_key(), False, x.FIRST, x.SREQ, address=x.in_udp(args.port))
        other.traffic, other.data = (4, (1356, 0, 0, 0, 0)), b"never more"
        peer.forgotten.add(other.key)
        peer.socket.sendto(x.emit(other), context.peer)
    for n in range(max(1, args.bytes // args.message)):
        context.send(content(n, args.message), n if args.tags else None)
    ask_path(peer, context)
    if not args.late:
        context.finish()
    else:
        # The other ends first.
        peer.until(lambda: context.read == "done")
        context.finish()
    peer.until(lambda: context.read == "done" or context.outcome)
    came = list(context.messages())
    return finished(peer, context, messages=len(came), digest=digest(came), tags=[t for t, *_ in came][:3])


def listen(args):
    peer, made = Peer(args), []

    def make(p, source, now):
        context = Context(peer.own_key(), source, args.port, 4, now, options=options(args), first=p,
                          largest=args.largest, sync=(1 << 32) - 5)
        made.append(context)
        return context if p.traffic[0] in (0, 4) and len(made) <= HALF_OPEN_MAX else None

    peer.make = make
    print("port", peer.socket.getsockname()[1], flush=True)
    peer.until(lambda: made)
    context, back = made[0], 0
    ask_path(peer, context)
    while context.read != "done" and not context.outcome:
        peer.until(lambda: context.read == "done" or context.outcome or len(list(context.messages())) > back)
        for tag, _, message in list(context.messages())[back:]:
            context.send(message, tag)
            back += 1
    context.finish()
    came = list(context.messages())
    return finished(peer, context, messages=len(came), digest=digest(came), tags=[t for t, *_ in came][:3])


def ask(args):
    peer, answers = Peer(args), []
    for n in range(args.count):
        message, now = content(n, args.message), time.monotonic()
        if args.service == DATAGRAM:
            peer.send(datagram(peer.own_key(), args.port, message, secrets.randbits(32)), (args.host, args.to))
            answers.append("sent")
            continue
        request = Request(peer.own_key(), (args.host, args.to), args.port, args.service, now,
                          sync=(1 << 32) - 2)
        request.send(message)
        request.finish()
        peer.add(request)
        peer.until(lambda: request.outcome)
        came = b"".join(b for *_, b in request.messages())
        right = request.outcome in ("answered", "in order")
        right &= args.service == ACKNOWLEDGED or came == (args.answer and content(n, args.answer) or message)
        answers.append("right" if right else f"{request.outcome}, {len(came)} bytes")
        # Where the other has not heard the end, it asks.
        last = time.monotonic() + (1.0 if args.loss else 0.0)
        peer.until(lambda: request.state == "quiescent" or time.monotonic() > last)
    peer.result(answers=answers)
    return 0 if set(answers) <= {"right", "sent"} else 1


def answer(args):
    peer, handed = Peer(args), []

    def hand(message):
        handed.append(hashlib.sha256(message).hexdigest())
        return content(len(handed) - 1, args.answer) if args.answer else message

    def make(p, source, now):
        if p.traffic[0] == DATAGRAM:
            hand(p.data)
            return None
        return Response(peer.own_key(), source, args.port, p.traffic[0], now, first=p, answer=hand,
                        late=args.late_by, sync=secrets.randbits(32))

    peer.make = make
    print("port", peer.socket.getsockname()[1], flush=True)
    peer.until(lambda: len(handed) >= args.count)
    last = time.monotonic() + args.linger
    peer.until(lambda: time.monotonic() > last)
    peer.result(handed=handed)
    return 0 if len(handed) == args.count else 1


def stranger(args):
    """What is nobody's, and what is wrong: each with what is to be said of it, or nothing."""
    peer, to, wrong = Peer(args), (args.host, args.to), []
    limits = (1356, 0, 0, 0, 0)

    def first(**more):
        p = Packet(0x1122334455667788, False, x.FIRST, x.SREQ, address=x.in_udp(args.port), traffic=(4, limits))
        for name, value in more.items():
            setattr(p, name, value)
        return x.emit(p)

    key = 0x0FEDCBA987654321
    nobody = Packet(key, True, x.DATA, seq=5, data=b"anybody?")
    short = Packet(key, True, x.DATA, seq=5, data=b"shorter")
    control = Packet(key, True, x.CNTL, rseq=0, alloc=0, echo=0)
    a = 0x1122334455667788
    cases = {
        "DATA of nobody": (x.emit(nobody), (3, 0, key, False)),
        "DATA of nobody, shorter than a DIAG": (x.emit(short), None),
        "CNTL of nobody": (x.emit(control), (3, 0, key, False)),
        "no listener": (first(address=x.in_udp(args.port + 1)), (1, 1, a, True)),
        "maxdata under 512": (first(traffic=(4, (511, 0, 0, 0, 0))), (1, 6, a, True)),
        "a service there is not": (first(traffic=(9, limits)), (1, 8, a, True)),
        "a format of address there is not": (x.patched(first(), 35, b"\x02"), (1, 3, a, True)),
        "an address of another length": (x.patched(first(), 32, b"\x00\x14"), (1, 4, a, True)),
        "a domain": (x.patched(first(), 34, b"\x01"), (1, 3, a, True)),
        "a format of traffic there is not": (x.patched(first(), 51, b"\x02"), (1, 5, a, True)),
        "traffic without limits": (first(traffic=(4, None)), (1, 5, a, True)),
        "a null address": (first(address=x.NULL), (1, 3, a, True)),
        "an address of IPv6": (first(address=(6, bytes(16), bytes(16), args.port, 0)), (1, 3, a, True)),
        "a host in UDP": (x.patched(first(), 36, b"\x7f\x00\x00\x01"), (1, 4, a, True)),
        "traffic of another length": (x.patched(first(), 48, b"\x00\x1c"), (1, 7, a, True)),
        "MULTI with a stream": (x.patched(first(), 8, b"\x08\x40"), None),
        "a group without MULTI": (first(traffic=(6, limits)), (1, 2, a, True)),
        "another service": (first(traffic=(2, limits)), (1, 8, a, True)),
        "no listener, a wrong sum": (x.patched(first(address=x.in_udp(args.port + 1)), 17, b"\x01", False), None),
        "DATA of nobody, a wrong sum": (x.patched(x.emit(nobody), 36, b"!", False), None),
        "DATA with MULTI": (x.patched(x.emit(nobody), 8, b"\x08"), None),
        "a DIAG of nobody": (x.emit(Packet(key, True, x.DIAG, code=3, val=0)), None),
        "another version": (x.patched(x.emit(nobody), 11, b"\x40"), None),
        "a format there is not": (x.patched(x.emit(nobody), 11, b"\x24"), None),
        "CNTL that returns no key": (x.patched(x.emit(control), 0, b"\x0f"), None),
        "key 0": (x.patched(x.emit(nobody), 0, b"\x80" + bytes(7)), None),
        "dlen one too long": (x.patched(x.emit(nobody), 15, b"\x09"), None),
        "alloc under rseq": (x.emit(Packet(key, True, x.CNTL, rseq=9, alloc=8, echo=0)), None),
        "a datagram nobody listens for": (
            x.emit(datagram(a, args.port + 1, b"hello", 1)), None),
        "a datagram to a service of streams": (
            x.emit(datagram(a, args.port, b"hello", 1)), None),
    }
    for name, (bytes_, wanted) in cases.items():
        peer.diags.clear()
        before = sum(peer.seen.values())
        peer.socket.sendto(bytes_, to)
        end = time.monotonic() + (2.0 if wanted else 0.03)
        while time.monotonic() < end and sum(peer.seen.values()) == before:
            peer.turn(0.01)
        came = peer.diags[0] if peer.diags else None
        others = sum(peer.seen.values()) - before - len(peer.diags)
        if came != wanted or others:
            wrong.append(f"{name}: {came}, wanted {wanted}; {others} others")
    peer.result(wrong=wrong, cases=len(cases))
    return 1 if wrong else 0


def examples(args):
    """Each example is read, and what was read is written: the same bytes."""
    with open(args.page, encoding="utf-8") as page:
        found = re.findall(r"<!-- example: (\w+) -->\n```\n([0-9a-f \n]+)```", page.read())
    wrong = []
    for name, text in found:
        bytes_ = bytes.fromhex(text)
        try:
            if x.emit(x.parse(bytes_)) != bytes_:
                wrong.append(f"{name}: written otherwise")
        except x.Dropped as dropped:
            wrong.append(f"{name}: {dropped.cause}")
    print(json.dumps({"examples": len(found), "wrong": wrong}))
    return 1 if wrong or not found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("examples", "connect", "listen", "ask", "answer", "stranger"))
    parser.add_argument("host", nargs="?", help="or the page")
    parser.add_argument("to", nargs="?", type=int, help="UDP port")
    parser.add_argument("--port", type=int, default=7, help="the service's port")
    parser.add_argument("--service", type=int, default=TRANSACTION)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--message", type=int, default=16_384, help="bytes of a message")
    parser.add_argument("--answer", type=int, default=0, help="bytes of an answer; 0: the message again")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--late-by", type=float, default=0.0, help="seconds until a message is answered")
    parser.add_argument("--linger", type=float, default=1.0, help="seconds that it listens after the last answer")
    parser.add_argument("--before", type=int, default=0, help="contexts that are opened and forgotten first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--largest", type=int, default=1388, help="bytes of a packet that it takes and sends")
    parser.add_argument("--ask-path", type=int, nargs="*", default=[], help="sizes of packets")
    parser.add_argument("--asked-at-least", type=int, default=0, help="a size that it waits to be asked for by PATH")
    for name in ("cxor", "tags", "noerr", "no-fastnak", "late"):
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    args.page = args.host
    return globals()[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
