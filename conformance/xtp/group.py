"""Both sides of a group over UDP or, with --raw, as protocol 36 of IP, written from docs/xtp.md alone. They lose packets
on purpose, both ways.

    group.py receive GROUP PORT …   joins the first stream that it hears, and takes all, or leaves
    group.py send GROUP PORT …      a stream to --members members
    group.py stranger GROUP PORT …  what may not join, and what is said of it

The byte at offset o of a stream is (31 o ÷ 8) mod 256. Who receives says "hears" when it reads what
comes. At the end each says one line of JSON, and ends with 0 if all was as the page has it.
"""

import argparse
import secrets
import socket
import struct
import sys
import time

import packet as x
from cast import DENIED, UNRELIABLE, Cast
from member import RELIABLE, Member
from packet import Packet
from peer import Peer

PERIOD = 2048
PATTERN = bytes((o * 31 >> 3) & 0xFF for o in range(PERIOD))


def content(offset, len_):
    """What lies there in any stream."""
    at = offset % PERIOD
    return (PATTERN * (len_ // PERIOD + 2))[at : at + len_]


class Group(Peer):
    """A socket of one's own, and for who receives one that hears the group."""

    def __init__(self, args, hears):
        self.is_raw, self.version = args.raw, 6 if ":" in args.group else 4
        if self.is_raw:
            self.kind = socket.SOCK_RAW, x.PROTOCOL
        super().__init__(args)
        index = socket.if_nametoindex(args.interface)
        # Protocol 36 has no ports.
        self.group = (args.group, 0 if self.is_raw else args.to)
        if self.version == 6:
            self.group += (0, index)
            level, at = socket.IPPROTO_IPV6, socket.inet_pton(socket.AF_INET6, args.group) + struct.pack("@I", index)
            joins, through, interface = socket.IPV6_JOIN_GROUP, socket.IPV6_MULTICAST_IF, struct.pack("@I", index)
        else:
            level, at = socket.IPPROTO_IP, struct.pack("4s4si", socket.inet_aton(args.group), bytes(4), index)
            joins, through, interface = socket.IP_ADD_MEMBERSHIP, socket.IP_MULTICAST_IF, bytes(8) + at[8:]
        if hears:
            self.open(self.group).setsockopt(level, joins, at)
        self.socket.setsockopt(level, through, interface)
        # On a link of 1500 bytes.
        self.largest = 1500 - (20 if self.version == 4 else 40) - (0 if self.is_raw else 8)
        self.address = x.in_ip(self.version, args.to) if self.is_raw else x.in_udp(args.to)
        self.member, self.cast, self.heard, self.answers = None, None, {}, []

    def turn(self, longest=0.05):
        due = [c.due() for c in self.by_key.values()]
        due = [at - time.monotonic() for at in due if at is not None]
        super().turn(max(0.0, min([longest, *due])))

    def take(self, bytes_, source):
        now = time.monotonic()
        if self.is_raw and self.version == 4:
            # IPv4's header comes, too.
            bytes_ = bytes_[(bytes_[0] & 15) * 4 :]
        try:
            p = x.parse(bytes_)
        except x.Dropped as dropped:
            self.refuse_join(bytes_, source, dropped)
            raise
        self.seen[p.format] = self.seen.get(p.format, 0) + 1
        if p.format == x.DIAG:
            self.diags.append((p.code, p.val, p.key, p.returned))
        if self.cast is not None:
            return self.take_for_sender(p, source, now)
        if not p.returned and p.format == x.FIRST and p.has(x.MULTI):
            self.heard.setdefault((source, p.key), p)
        if p.format == x.JCNTL:
            self.answers.append(p)
        member = self.member
        if member is None:
            raise x.Dropped("closed")
        # FIRST and DATA are found by source address and key, all else by our own.
        if source != member.peer or p.key != (member.key if p.returned else member.stream):
            raise x.Dropped("closed")
        if p.returned == (p.format in (x.FIRST, x.DATA)):
            raise x.Dropped("protocol")
        member.take(p, len(bytes_), now)

    def refuse_join(self, bytes_, source, dropped):
        """What is wrong in a JCNTL's form is told to its xkey."""
        if self.cast is None or dropped.diag is None or bytes_[11] & 31 != x.JCNTL:
            return
        xkey = int.from_bytes(bytes_[56:64])
        self.send(self.cast.diag(xkey, source, 5, dropped.diag), source)

    def take_for_sender(self, p, source, now):
        cast = self.cast
        if p.format == x.JCNTL:
            if p.key != cast.key:
                raise x.Dropped("closed")
            return cast.take_join(p, source, now)
        member = cast.find(p.key)
        if p.key in cast.gone and cast.gone[p.key][1] == source and p.format in x.CONTROLS and not p.has(x.END):
            return cast.tell_gone(p.key)
        if member is None or member.addr != source:
            raise x.Dropped("closed")
        cast.take(p, member, now)


def receive(args):
    group = Group(args, True)
    group.until(lambda: group.heard)
    (source, key), first = next(iter(group.heard.items()))
    assert first.key == key
    now = time.monotonic()
    member = Member(group.own_key(), source, first, now, proves=args.nocheck, buffer=args.buffer,
                    sync=(1 << 32) - 2)
    member.deaf = args.deaf
    group.member = group.add(member)
    print("hears", flush=True)
    if args.leave_after:
        group.until(lambda: member.rseq - member.begin >= args.leave_after or member.outcome)
        member.leave(time.monotonic())
    if args.silent_after:
        group.until(lambda: member.rseq - member.begin >= args.silent_after or member.outcome)
        del group.by_key[member.key]
    group.until(lambda: member.outcome)
    # Who has left stays there for a minute, to say so again.
    last = time.monotonic() + (1.0 if args.leave_after else 6.0)
    group.until(lambda: member.state == "over" or time.monotonic() > last)
    came = list(member.messages(proves=args.nocheck))
    wrong = sum(bytes_ != content(start, len(bytes_)) for _, start, bytes_ in came)
    group.result(outcome=member.outcome, state=member.state, begin=member.begin, end=member.rseq, messages=len(came),
                 bytes=sum(len(b) for *_, b in came), wrong=wrong,
                 missing=member.missing(),
                 gaps=member.counts["gaps"], delay=round(member.delay * 1e6))
    return 1 if wrong else 0


def send(args):
    group = Group(args, False)
    begin = secrets.randbits(40)
    now = time.monotonic()
    cast = Cast(group.own_key(), group.group, group.address, now, group.own_key, begin=begin,
                sync=(1 << 32) - 2, service=UNRELIABLE if args.unanswered else RELIABLE, proves=args.nocheck,
                largest=group.largest, members_max=args.members_max, rate=args.rate, floor=args.floor,
                silence=args.silence)
    asked = []

    def denies(p, _source):
        if p.xkey not in asked:
            asked.append(p.xkey)
        return DENIED if args.deny and asked.index(p.xkey) == args.deny - 1 else None

    cast.denies = denies
    group.cast = group.add(cast)
    if args.unanswered:
        start = time.monotonic() + 2.0
        group.until(lambda: time.monotonic() > start)
    group.until(lambda: cast.counts["joined"] >= args.members)
    at, dropped = begin, 0
    for n in range(args.messages):
        len_ = 1 + n * 7919 % args.longest
        cast.send(content(at, len_))
        at += len_
        if n == args.messages // 2 and args.members_late:
            group.until(lambda: cast.counts["joined"] >= args.members + args.members_late)
        if n == args.messages // 2 and args.delay_us:
            group.until(lambda: all(m.rseq == at and m.waits_since is None for m in cast.members))
            for member in cast.members:
                member.answered_at.clear()
            cast.delay(cast.members[0], args.delay_us)
        if n == args.messages // 2 and args.drop:
            cast.drop(cast.members[-1], 0)
            dropped += 1
        group.until(lambda: at - cast.nxt < 200_000)
    cast.finish()
    group.until(lambda: cast.ended_at is not None)
    last = time.monotonic() + args.linger
    group.until(lambda: time.monotonic() > last)
    group.result(begin=begin, end=cast.end(), again=cast.counts["again"], left=cast.counts["left"],
                 refused=cast.counts["refused"], answers=[len(m.answered_at) for m in cast.members],
                 spacing_us=round(cast.members[0].spacing() * 1e6) if cast.members else 0, gone=sorted(val for *_, val in cast.gone.values()),
                 done=sum(m.done for m in cast.members))
    return 0


def stranger(args):
    """JCNTLs, and what is said of each: nothing, or a DIAG 5."""
    group, wrong = Group(args, True), []
    group.until(lambda: group.heard)
    (to, key), first = next(iter(group.heard.items()))
    r, taken = 0x2222222222222222, 0x2323232323232323

    def join(**more):
        p = Packet(key, True, x.JCNTL, x.MULTI | x.SREQ, sync=7, rseq=0, alloc=0, echo=0, xkey=r)
        p.address, p.traffic = first.address, (RELIABLE, (1440, 0, 0, 0, 0))
        for name, value in more.items():
            setattr(p, name, value)
        return x.emit(p)

    control = Packet(0x2424242424242424, True, x.CNTL, x.MULTI, rseq=0, alloc=0, echo=0)
    cases = {
        "another port": (join(address=x.in_udp(args.to + 1)), 1),
        "without MULTI": (x.patched(join(), 8, b"\x00\x40"), 2),
        "a service there is not": (join(traffic=(UNRELIABLE, (1440, 0, 0, 0, 0))), 8),
        "one of streams": (x.patched(join(), 82, b"\x04"), 2),
        "a format of address there is not": (x.patched(join(), 67, b"\x02"), 3),
        "a domain": (x.patched(join(), 66, b"\x01"), 3),
        "an address of another length": (x.patched(join(), 64, b"\x00\x14"), 4),
        "a format of traffic there is not": (x.patched(join(), 83, b"\x02"), 5),
        "traffic of another length": (x.patched(join(), 80, b"\x00\x1c"), 7),
        "a small maxdata": (join(traffic=(RELIABLE, (511, 0, 0, 0, 0))), 6),
        "who joins": (join(xkey=taken), "joined"),
        "a wrong sum": (x.patched(join(), 40, b"\x01", False), None),
        "another stream's key": (join(key=key ^ 1), None),
        "RTN clear": (x.patched(join(), 0, bytes([key >> 56])), None),
        "NOCHECK": (join(options=x.MULTI | x.SREQ | x.NOCHECK), None),
        "nobody's CNTL": (x.emit(control), None),
        "a DIAG": (x.emit(Packet(key, True, x.DIAG, code=2, val=0)), None),
    }
    for name, (bytes_, wanted) in cases.items():
        group.diags.clear()
        group.answers.clear()
        group.socket.sendto(bytes_, to)
        end = time.monotonic() + (2.0 if wanted is not None else 0.1)
        while time.monotonic() < end and not group.diags and not group.answers:
            group.turn(0.01)
        came = group.diags[0] if group.diags else "joined" if group.answers else None
        if came != ((5, wanted, r, True) if isinstance(wanted, int) else wanted):
            wrong.append(f"{name}: {came}, wanted {wanted}")
    # What is a member's from elsewhere.
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.settimeout(2.0)
    other.sendto(join(xkey=taken), to)
    came = x.parse(other.recv(65_536))
    if (came.format, came.key, came.code, came.val) != (x.DIAG, taken, 5, DENIED):
        wrong.append(f"a member's key from elsewhere: {came}")
    group.result(wrong=wrong, cases=len(cases) + 1)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("receive", "send", "stranger"))
    parser.add_argument("group")
    parser.add_argument("to", type=int, help="UDP port")
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--interface", default="lo")
    parser.add_argument("--raw", action="store_true", help="protocol 36 of IP; the port tells streams from each other")
    parser.add_argument("--buffer", type=int, default=65_536)
    parser.add_argument("--leave-after", type=int, default=0, help="bytes after which a receiver leaves")
    parser.add_argument("--silent-after", type=int, default=0, help="bytes after which a receiver says nothing more")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--members-late", type=int, default=0, help="that join in the middle")
    parser.add_argument("--members-max", type=int, default=256)
    parser.add_argument("--delay-us", type=int, default=0, help="what the first member is told in the middle")
    parser.add_argument("--deny", type=int, default=0, help="who asks as so many-th is denied")
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--longest", type=int, default=20_000)
    parser.add_argument("--rate", type=int, default=4_000_000)
    parser.add_argument("--floor", type=int, default=65_536, help="bytes a second below which a member is dropped")
    parser.add_argument("--silence", type=float, default=2.0, help="seconds after which a silent member is")
    parser.add_argument("--linger", type=float, default=1.0)
    for name in ("nocheck", "deaf", "drop", "unanswered"):
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    return globals()[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
