"""A group's sender, from docs/xtp.md, section 16: what came goes in by `take`, what leaves is called for by `pump`, and
time is an argument. All that it sends is held whole. Numbers in comments are the page's sections."""

from collections import Counter

import packet as x
from context import FLIGHT, LINGER, UNKNOWN_ALLOC, Segment, ahead
from packet import Packet

UNRELIABLE, RELIABLE = 5, 6
SLOT = 20e-6
ASKED_AGAIN_LEAST, ASKED_AT_ONCE = 32, 16
DENIED, NO_GROUP, TRAFFIC, SERVICE, NO_RESOURCE, WRONG_STATE = 13, 1, 6, 8, 9, 12
BELOW_FLOOR, APPLICATION = 6, 0


class Listed:
    """A member, as its sender knows it."""

    def __init__(self, id_, key, addr, begin, place):
        self.id, self.key, self.addr, self.begin, self.place = id_, key, addr, begin, place
        self.rseq, self.alloc, self.spans = begin, begin + UNKNOWN_ALLOC, []
        self.echo = None  # of ours, what it answered last
        self.waits_since, self.asked_again_at, self.asked_again = None, None, 0
        self.answered_at = []
        self.newest = 0  # the place of what left last of all that came to it
        self.confirmed, self.done = False, False
        # What it was a second ago.
        self.then_rseq, self.then_had, self.then_nxt, self.then_alloc = begin, begin, begin, self.alloc
        self.then_lacked, self.then_blocked = False, False

    def lacks(self, segment):
        return segment.end > max(self.rseq, self.begin) and not any(
            left <= segment.start and segment.end <= right for left, right in self.spans)

    def spacing(self):
        """Seconds from one answer to the next, of them all."""
        at = self.answered_at
        return (at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else 0

    def had(self):
        return self.rseq + sum(right - left for left, right in self.spans)

    def goes_on(self, floor):
        return self.rseq >= min(self.then_nxt, self.then_rseq + floor)

    def keeps_up(self, floor):
        # More behind a gap will do for a second, and not for two.
        fills = not self.then_lacked and self.had() >= self.then_had + floor
        lets_out = not self.then_blocked or self.alloc >= self.then_alloc + floor
        return (self.goes_on(floor) or fills) and lets_out

    def look(self, floor, nxt, is_late, is_blocked):
        self.then_lacked, self.then_blocked = not is_late and not self.goes_on(floor), is_blocked
        self.then_rseq, self.then_had, self.then_nxt, self.then_alloc = self.rseq, self.had(), nxt, self.alloc


class Cast:
    """One stream to a group."""

    def __init__(self, key, group, address, now, own_key, *, service=RELIABLE, begin=0, sync=0, rate=4_000_000,
                 burst=65_536, floor=65_536, silence=2.0, members_max=256, largest=1472, proves=False):
        self.key, self.peer, self.own_key, self.service = key, group, own_key, service
        self.address, self.begin, self.largest = address, begin, largest
        self.floor, self.silence = (floor, silence) if service == RELIABLE else (0, 0)
        self.rate, self.burst, self.tokens, self.tokens_at = rate, burst, burst, now
        self.members_max, self.proves = members_max, proves
        self.members, self.gone = [], {}  # gone: S' to (R, address, val) of who was dropped
        self.denies = lambda p, source: None  # a val of DIAG 5, or None
        self.out, self.eoms = bytearray(), []
        self.nxt, self.flight = begin, []
        self.sync, self.asked = sync, {}  # asked: sync to (time, place)
        self.left = 0  # packets: each has a place in the order in which they left
        self.asked_at, self.asked_to, self.srtt = 0.0, begin, 0.0
        self.first_at, self.look_at, self.finishing = now, now + 1.0, False
        self.owed = []  # packets to one
        self.ended_at, self.outcome, self.return_key = None, None, None
        self.counts = Counter()

    # -- what the application does -------------------------------------------------------------------------------

    def send(self, message):
        self.out += message
        self.eoms.append(self.begin + len(self.out))

    def finish(self):
        self.finishing = True

    def drop(self, member, val):
        self.members.remove(member)
        self.gone[member.key] = member.id, member.addr, val
        self.tell_gone(member.key)
        self.forget_what_all_have()

    def delay(self, member, delay_us):
        """Another delay, from now on."""
        p = Packet(member.id, True, x.TCNTL, x.MULTI, sync=self.sync, seq=self.nxt, to=member.addr)
        p.rseq = p.alloc = p.echo = 0
        p.reserved, p.xkey, p.traffic = delay_us, member.key, self.traffic()
        self.owed.append(p)

    def tell_gone(self, key):
        id_, addr, val = self.gone[key]
        self.owed.append(self.diag(id_, addr, 2, val))

    # -- what comes ----------------------------------------------------------------------------------------------

    def find(self, key):
        return next((m for m in self.members if m.key == key), None)

    def take_join(self, p, source, now):
        """A JCNTL, with our key."""
        if p.traffic[1] is not None and 0 < p.traffic[1][0] < 512:
            return self.refuse(p, source, TRAFFIC)
        if p.address[3] != self.address[3]:
            return self.refuse(p, source, NO_GROUP)
        if p.traffic[0] != self.service or self.service == UNRELIABLE:
            return self.refuse(p, source, SERVICE)
        member = next((m for m in self.members if m.id == p.xkey), None)
        if member is not None and member.addr != source:
            return self.refuse(p, source, DENIED)
        if member is None:
            val = self.denies(p, source)
            if val is None and self.ended_at is not None:
                val = WRONG_STATE
            if val is None and len(self.members) >= self.members_max:
                val = NO_RESOURCE
            if val is not None:
                return self.refuse(p, source, val)
            place = next(n for n in range(len(self.members) + 1) if n not in {m.place for m in self.members})
            member = Listed(p.xkey, self.own_key(), source, self.next_message(), place)
            # Yes is a question.
            member.waits_since = member.asked_again_at = now
            self.members.append(member)
        answer = Packet(member.id, True, x.JCNTL, x.MULTI, sync=self.sync, seq=member.begin, to=source)
        answer.rseq = answer.alloc = member.begin
        answer.echo, answer.reserved, answer.xkey = p.sync, round(member.place * SLOT * 1e6), member.key
        answer.address, answer.traffic = self.address, self.traffic()
        self.owed.append(answer)

    def refuse(self, p, source, val):
        self.counts["refused"] += 1
        self.owed.append(self.diag(p.xkey, source, 5, val))

    def diag(self, key, to, code, val):
        return Packet(key, True, x.DIAG, code=code, val=val, to=to)

    def take(self, p, member, now):
        """A control of a member's. Raises Dropped."""
        if p.format not in (x.CNTL, x.ECNTL) or not p.has(x.MULTI):
            raise x.Dropped("protocol")
        if not -(1 << 16) < ahead(p.echo, self.sync) <= 0:
            raise x.Dropped("bad-ack")
        sent = max(self.nxt, member.begin)
        if not member.begin <= p.rseq <= sent or any(right > sent for _, right in p.spans):
            raise x.Dropped("bad-ack")
        self.counts["joined"] += not member.confirmed
        member.confirmed = True
        if p.has(x.END):
            self.members.remove(member)
            self.counts["left"] += 1
            return self.forget_what_all_have()
        member.answered_at.append(now)
        self.take_echo(p, member, now)
        self.take_report(p, member)
        if p.has(x.RCLOSE) and p.rseq == self.end() and self.finishing:
            member.done = True
            bye = Packet(member.id, True, x.CNTL, x.MULTI | x.RCLOSE | x.WCLOSE | x.END, sync=self.sync, to=member.addr)
            bye.seq, bye.rseq, bye.alloc, bye.echo = self.nxt, 0, 0, p.sync
            self.owed.append(bye)

    def take_echo(self, p, member, now):
        if p.echo in self.asked and p.echo != member.echo:
            asked_at, place = self.asked[p.echo]
            member.newest = max(member.newest, place)
            # The slowest of them, and slowly forgotten; where it was asked again, nobody knows which question it answers.
            if not member.asked_again:
                self.srtt = max(now - asked_at, self.srtt * 0.9)
        member.echo = p.echo
        if p.echo == self.sync:
            member.waits_since, member.asked_again = None, 0

    def take_report(self, p, member):
        if p.rseq >= member.rseq:
            member.rseq, member.spans = p.rseq, p.spans
        member.alloc = max(member.alloc, p.alloc)
        for segment in self.flight:
            # What has gone twice may be reported for its first time.
            if segment.end > member.begin and not member.lacks(segment) and not segment.again:
                member.newest = max(member.newest, segment.place)
        # 10: of many gaps not all that came is named.
        sure = p.spans[-2][1] if len(p.spans) >= 16 else None
        for segment in self.flight:
            if sure is not None and segment.end > sure:
                break
            # An echo may be of the question that was asked again, alone: of what had left with it first, too.
            if segment.start >= member.begin and member.lacks(segment) and segment.place <= member.newest:
                segment.is_lost = True
        self.forget_what_all_have()

    def forget_what_all_have(self):
        una = min((m.rseq for m in self.members if not m.done), default=self.nxt)
        self.flight = [s for s in self.flight if s.end > una]

    # -- what leaves ---------------------------------------------------------------------------------------------

    def end(self):
        return self.begin + len(self.out)

    def next_message(self):
        """Where the next message begins of which nothing was sent."""
        if self.nxt == self.begin:
            return self.begin
        return next((e for e in self.eoms if e >= self.nxt), self.nxt)

    def traffic(self):
        return (self.service, (self.largest - 32, self.floor, round(self.silence * 1000), self.rate, self.burst))

    def due(self):
        return None

    def pump(self, now):
        packets, self.owed = self.owed, []
        if self.outcome is not None:
            return packets
        if self.ended_at is not None:
            if now - self.ended_at > LINGER:
                self.outcome = "ended"
        else:
            if self.service == RELIABLE:
                self.look_at_floor(now)
            packets += self.data(now)
            packets += self.asks_alone(now)
            has_left = self.nxt == self.end() or self.service == RELIABLE and not self.members
            if self.finishing and has_left and all(m.done for m in self.members):
                self.ended_at = now
        if now >= self.first_at and (self.ended_at is None or self.service == UNRELIABLE):
            self.first_at = now + 1.0
            packets.append(self.announce(0))
        return packets

    def announce(self, bits):
        p = Packet(self.key, False, x.FIRST, x.MULTI | bits | self.closing(self.nxt), sync=self.sync)
        p.seq, p.address, p.traffic = self.next_message(), self.address, self.traffic()
        return p

    def closing(self, end):
        return x.WCLOSE if self.finishing and end == self.end() else 0

    def ask(self, now):
        self.sync = (self.sync + 1) % (1 << 32)
        self.asked[self.sync], self.asked_at = (now, self.left), now
        self.asked_to = self.nxt
        for old in list(self.asked)[:-1000]:
            del self.asked[old]
        for member in self.members:
            if member.waits_since is None:
                member.waits_since = member.asked_again_at = now
        return x.SREQ

    def window_end(self):
        if self.service == UNRELIABLE:
            return self.end()
        return min([m.alloc for m in self.members if not m.done] + [self.end()])

    def may(self, len_, now):
        """Rate: whole packets count."""
        self.tokens = min(self.burst, self.tokens + (now - self.tokens_at) * self.rate)
        self.tokens_at = now
        if self.tokens <= 0:
            return False
        self.tokens -= len_
        return True

    def data(self, now):
        packets, room = [], self.largest - 32
        if self.service == RELIABLE and not self.members:
            return packets  # there is nobody to send to
        again = False
        for segment in self.flight:
            if segment.is_lost and self.may(32 + segment.end - segment.start, now):
                self.counts["again"] += 1
                segment.is_lost, segment.place, segment.again, again = False, self.place(), True, True
                packets.append(self.dated(segment.start, segment.end))
        window = self.window_end()
        in_flight = sum(s.end - s.start for s in self.flight)
        while self.nxt < window and in_flight < FLIGHT and self.may(self.largest, now):
            end = min([self.nxt + room, window] + [e for e in self.eoms if e > self.nxt][:1])
            packets.append(self.dated(self.nxt, end))
            if self.service == RELIABLE:
                segment = Segment(self.nxt, end, end in self.eoms)
                segment.place, segment.again = self.place(), False
                self.flight.append(segment)
            in_flight += end - self.nxt
            self.nxt = end
        if self.service != RELIABLE:
            return packets
        # Never more answers than half of the packets; but the last of what is to be sent asks.
        waits = now - self.asked_at < len(self.members) * SLOT + self.srtt
        is_last = self.nxt == window or in_flight >= FLIGHT
        if packets and (again or is_last or not waits and self.nxt - self.asked_to > FLIGHT / 8):
            packets[-1].options |= self.ask(now)
            packets[-1].sync = self.sync
        elif self.finishing and self.nxt == self.end() and not packets and self.asked_to == self.nxt:
            if not self.counts["told the end"]:
                self.counts["told the end"] = 1
                self.place()
                packets.append(self.announce(self.ask(now)))
                packets[-1].sync = self.sync
        return packets

    def place(self):
        self.left += 1
        return self.left

    def dated(self, start, end):
        p = Packet(self.key, False, x.DATA, x.MULTI, sync=self.sync, seq=start)
        p.options |= x.FASTNAK if self.service == RELIABLE else x.NOERR | x.NOFLOW
        p.options |= x.EOM if end in self.eoms else 0
        p.options |= (x.NOCHECK if self.proves else 0) | self.closing(end)
        p.data = bytes(self.out[start - self.begin : end - self.begin])
        return p

    def asks_alone(self, now):
        """Who has not answered is asked by CNTL, with the latest sync: at least 32 times before it counts as silent."""
        every = max(self.silence / (2 * ASKED_AGAIN_LEAST), len(self.members) * SLOT + 1.5 * self.srtt)
        packets = []
        for member in self.members:
            if member.waits_since is None or member.done or len(packets) == ASKED_AT_ONCE:
                continue
            if now - member.asked_again_at >= every:
                member.asked_again_at, member.asked_again = now, member.asked_again + 1
                p = Packet(member.id, True, x.CNTL, x.MULTI | x.SREQ | self.closing(self.nxt), sync=self.sync)
                p.seq, p.rseq, p.alloc, p.echo, p.to = self.nxt, 0, 0, 0, member.addr
                packets.append(p)
        return packets

    def look_at_floor(self, now):
        for member in list(self.members):
            waits = member.waits_since is not None and member.asked_again >= ASKED_AGAIN_LEAST
            if waits and now - member.waits_since >= self.silence and not member.done:
                self.drop(member, BELOW_FLOOR)
        if now < self.look_at:
            return
        # Who looks late was not there itself.
        is_late, self.look_at = now - self.look_at >= 1.0, now + 1.0
        slow = [m for m in self.members if not m.keeps_up(self.floor)]
        if not is_late and len(slow) < len(self.members):  # who holds nobody is held by nobody
            for member in slow:
                self.drop(member, BELOW_FLOOR)
        for member in self.members:
            member.look(self.floor, self.nxt, is_late, member.alloc <= self.nxt < self.end())
