"""One end of an association, from docs/xtp.md, sections 5, 7 to 11 and 13: what came goes in by `take`, what leaves is
called for by `pump`, and time is an argument. Bytes to send and bytes that came are held whole: it is a witness, not a
product. Numbers in comments are the page's sections."""

from collections import Counter

import packet as x
from packet import Packet
from path import Path
from received import Received

UNKNOWN_ALLOC = 16_384  # 7, rule 1
RTO_FIRST, RTO_MIN, RTO_MAX = 1.0, 0.2, 60.0
BUFFER = 65_536
FLIGHT = 48_000
LINGER = 60.0


def ahead(a, b):
    """How far a lies ahead of b, of two numbers of 32 bits that wrap."""
    return (a - b + (1 << 31)) % (1 << 32) - (1 << 31)


class Segment:
    """Bytes that left in one packet."""

    def __init__(self, start, end, eom):
        self.start, self.end, self.eom = start, end, eom
        self.sent, self.has_come, self.is_lost = 0.0, False, False


class Context(Received):
    def __init__(self, key, peer, port, service, now, *, options=0, first=None, largest=1388, sync=0):
        super().__init__()
        self.key, self.peer, self.port, self.service = key, peer, port, service
        self.is_initiator = first is None
        self.options = options  # x.FASTNAK, x.NOERR, x.NOFLOW: on what it sends
        self.largest = largest
        self.return_key = None if first is None else first.key
        self.their_key = None if first is None else first.key
        self.was_shown = False  # responder: B came. Initiator: B was answered by more than TCNTL
        self.cookie = None
        self.counts = Counter()
        self.began, self.heard_at = now, now
        # 4: offered in our FIRST, or agreed on with theirs
        self.reads_cxor, self.sends_cxor = False, False
        # 8
        self.sync, self.their_sync = sync, None
        self.asked = {}
        self.wtimer, self.rto, self.srtt, self.rttvar = None, RTO_FIRST, None, 0.0
        self.wtimer_sync, self.is_synchronising = 0, False
        self.probe_at = None
        # 10: when what left last of all that has come left
        self.newest = 0.0
        # What leaves
        self.out, self.eoms, self.tags = bytearray(), set(), {}
        self.una, self.nxt, self.since_asked = 0, 0, 0
        self.alloc = None
        self.flight = []
        self.write = "open"
        self.is_exhausted_told = False
        # What came
        self.given = UNKNOWN_ALLOC
        self.edge_seq, self.edge = -1, False
        self.read, self.rclose_sent = "open", False
        # The whole
        self.state = "opening" if self.is_initiator else "half-open"
        self.outcome = None
        self.owed = []
        self.bytes_in, self.bytes_out = 0, 0
        # 14
        self.path = Path(key)

    # -- what the application does -------------------------------------------------------------------------------

    def send(self, message, tag=None):
        if tag is not None:
            self.tags[len(self.out)] = tag
        self.out += message
        self.eoms.add(len(self.out))

    def finish(self):
        if self.write == "open":
            self.write = "draining"

    # -- what comes ----------------------------------------------------------------------------------------------

    def take(self, p, len_, now):
        """A packet that was found to be of this context. Raises Dropped."""
        if self.state == "quiescent":
            raise x.Dropped("closed")
        if p.format == x.DIAG:
            return self.take_diag(p)
        if p.format == x.PATH:
            if self.state != "open" or self.return_key is None:
                raise x.Dropped("transport-stray")
            return self.path.take(p, self.return_key)
        self.look_at_sync(p)
        if p.format in x.CONTROLS:
            self.look_at_control(p)
        elif p.format in (x.DATA, x.FIRST):
            self.look_at_data(p, now)
        else:
            raise x.Dropped("protocol")
        if self.their_sync is None or ahead(p.sync, self.their_sync) > 0:
            self.their_sync = p.sync
        self.heard_at = now
        if self.state == "half-open":
            self.bytes_in += len_
        if self.state == "half-open" and p.returned and p.format != x.FIRST:
            self.state, self.was_shown = "open", True
        if p.format in x.CONTROLS:
            self.take_control(p, now)
        else:
            self.take_data(p, now)
        self.take_close(p, now)
        if self.state == "inactive":
            if p.has(x.SREQ | x.WCLOSE | x.RCLOSE) or p.format == x.FIRST:
                self.owed = ["end"]
        elif p.has(x.SREQ | x.DREQ):  # here all that comes is delivered at once
            self.owe("answer")

    def owe(self, what):
        if what not in self.owed:
            self.owed.append(what)

    def look_at_sync(self, p):  # 9, rule 3
        if self.their_sync is not None:
            by = ahead(p.sync, self.their_sync)
            if by >= 1 << 16 or by == -(1 << 31):
                raise x.Dropped("protocol")

    def look_at_data(self, p, now):  # 9, rule 4
        if p.has(x.RES) and p.format == x.DATA and not self.reads_cxor:
            raise x.Dropped("protocol")
        if p.has(x.NOCHECK) and not p.has(x.RES):
            raise x.Dropped("protocol")
        limit = self.rseq + (1 << 31) if p.has(x.NOFLOW) else self.given
        if p.end > limit:
            if p.has(x.SREQ):
                self.owe("answer")
            raise x.Dropped("out-of-window")
        if self.their_end is not None and p.end > self.their_end:
            raise x.Dropped("after-end")

    def look_at_control(self, p):  # 9, rule 5
        if self.is_initiator and self.return_key is None and p.format != x.TCNTL:
            raise x.Dropped("protocol")
        if p.seq > (self.rseq + (1 << 31) if p.has(x.NOFLOW) else self.given):
            raise x.Dropped("out-of-window")
        if not -(1 << 16) < ahead(p.echo, self.sync) <= 0:
            raise x.Dropped("bad-ack")
        if p.rseq > self.nxt or any(right > self.nxt for _, right in p.spans):
            raise x.Dropped("bad-ack")
        if p.alloc - p.rseq > (1 << 32) - 1:
            raise x.Dropped("protocol")
        if p.has(x.END) and p.seq < self.rseq:
            self.owe("question")
            raise x.Dropped("blind-reset")
        if p.format == x.TCNTL and self.is_initiator and self.return_key not in (None, p.xkey):
            if self.cookie is None:
                raise x.Dropped("protocol")

    def take_data(self, p, now):
        if self.state == "open" and p.format == x.FIRST and not self.is_initiator:
            # 7, rule 7: of an open context's FIRST no data are taken.
            if now - self.began > 10.0:
                raise x.Dropped("blind-open")
            return self.owe("tcntl")
        if p.format == x.FIRST:
            self.owe("tcntl")
        if p.data and p.end <= self.rseq:
            self.counts["duplicate"] += 1
            self.owe("answer")
            return
        if p.data and p.seq > self.edge_seq:
            if p.has(x.EDGE) != self.edge:
                self.owe("answer")
            self.edge_seq, self.edge = p.seq, p.has(x.EDGE)
        highest = self.spans[-1][1] if self.spans else self.rseq
        if p.has(x.BTAG):
            self.their_tags[p.seq] = p.btag
        if p.has(x.EOM):
            self.their_eoms.add(p.end)
        if p.data:
            self.put(p.seq, p.data)
        if p.has(x.NOERR):  # 10: what is missing before it never comes
            self.pass_gaps()
        elif p.has(x.FASTNAK) and p.data and p.seq > highest:
            self.owe("answer")

    def take_control(self, p, now):
        if p.format == x.TCNTL and self.is_initiator:
            if p.alloc == 0:
                return self.take_cookie(p)
            self.take_tcntl(p)
        elif self.is_initiator:
            self.was_shown = True
        self.probe_at = None
        # A question that is answered has come, as what rseq and spans tell of.
        newest = max(self.newest, self.sample(p.echo, now))
        before = self.una
        self.una = max(self.una, p.rseq)
        if self.alloc is None or p.alloc > self.alloc:
            self.alloc = p.alloc
            self.is_exhausted_told = False
        for segment in self.flight:
            named = any(l <= segment.start and segment.end <= r for l, r in p.spans)
            if not segment.has_come and (named or segment.end <= self.una):
                segment.has_come, segment.is_lost = True, False
                newest = max(newest, segment.sent)
        self.newest = newest
        self.look_for_losses(p, newest, now)
        self.flight = [s for s in self.flight if s.end > self.una]
        if p.has(x.NOERR):
            self.rseq = max(self.rseq, p.seq)
        if self.una > before:
            self.since_asked = min(self.since_asked, self.nxt - self.una)

    def take_tcntl(self, p):  # 7, rules 3 and 8
        if p.traffic[1] is not None and p.traffic[1][0]:
            self.largest = min(self.largest, 32 + p.traffic[1][0])
        if self.return_key is None:
            self.return_key = p.xkey
            self.state = "open"
            self.sends_cxor = self.reads_cxor and p.has(x.RES)
            self.owe("show")

    def take_cookie(self, p):  # 7, rule 8: nothing was kept, so all is said again
        if self.return_key is None and self.cookie is None:
            self.cookie, self.flight, self.nxt, self.wtimer = p.xkey, [], 0, None

    def sample(self, echo, now):
        """8: an answer; its round trip, WTIMER, and the end of a handshake. Gives the time of its question."""
        asked_at = self.asked.pop(echo, None)
        if asked_at is not None:
            rtt = now - asked_at
            if self.srtt is None:
                self.srtt, self.rttvar = rtt, rtt / 2
            else:
                self.rttvar += (abs(self.srtt - rtt) - self.rttvar) / 4
                self.srtt += (rtt - self.srtt) / 8
            self.rto = max(RTO_MIN, self.srtt + 4 * self.rttvar)
        self.asked = {s: t for s, t in self.asked.items() if ahead(s, echo) > 0}
        if self.is_synchronising and echo == self.sync:
            self.is_synchronising = False
            for segment in self.flight:
                segment.is_lost = segment.end > self.una and not segment.has_come
            self.wtimer = None
        if self.wtimer is not None and ahead(echo, self.wtimer_sync) >= 0 and not self.is_synchronising:
            self.wtimer = None
            if self.asked:
                self.wtimer, self.wtimer_sync = now + self.rto, self.sync
        return asked_at or 0.0

    def look_for_losses(self, p, newest, now):
        """10: what was sent before something that has come, by more than a part of a round trip."""
        order = (self.srtt or 0.01) / 4
        # Of many gaps not all that came is named.
        sure = p.spans[-2][1] if len(p.spans) >= 16 else None
        for segment in self.flight:
            if sure is not None and segment.end > sure:
                break
            if not segment.has_come and segment.end > self.una and segment.sent + order < newest:
                segment.is_lost = True
        if newest and any(not s.has_come and s.sent <= newest for s in self.flight):
            self.probe_at = now + order

    def take_close(self, p, now):  # 13
        if self.is_initiator and self.return_key is None:
            return
        if p.has(x.WCLOSE):
            if self.their_end is None:
                self.their_end = p.end
                if self.read == "open":
                    self.read = "ending"
            elif self.their_end != p.end:
                return self.over("two ends")
        if self.read == "ending" and self.rseq >= self.their_end:
            self.read = "done"
            self.owe("answer")
        if p.has(x.RCLOSE) and self.write != "done":
            is_at_end = p.rseq == len(self.out) if p.rseq is not None else True
            if self.write == "closed" and is_at_end:
                self.write, self.una, self.flight = "done", len(self.out), []
            elif p.rseq is not None and p.rseq < len(self.out):
                self.write, self.flight = "done", []
        if p.has(x.END):
            in_order = p.has(x.RCLOSE) and self.write in ("closed", "done") and self.read == "done"
            return self.over("in order" if in_order or self.state == "inactive" else "aborted")
        if self.state == "open" and self.write == "done" and self.read == "done":
            if self.is_initiator and not self.was_shown:
                self.owe("last question")
            else:
                self.outcome, self.state = "in order", "inactive"
                self.owed = ["end"]
                self.inactive_since, self.wtimer = now, None

    def take_diag(self, p):  # 9, rule 7, and 12
        if p.code == 1 and self.state == "opening" and p.returned:
            return self.over(f"refused {p.val}")
        if p.code == 3:
            is_last = self.write in ("closed", "done") and self.una == len(self.out)
            return self.over("in order" if is_last or self.state == "inactive" else "unknown there")
        if p.code in (2, 6) and self.state == "open" and p.returned:
            return self.over(f"told {p.code} {p.val}")
        if p.code not in (4, 7):
            raise x.Dropped("blind-reset")

    def over(self, outcome):
        self.outcome = self.outcome or outcome
        self.state, self.owed, self.wtimer = "quiescent", [], None

    # -- what leaves ---------------------------------------------------------------------------------------------

    def pump(self, now):
        """Packets that leave now."""
        packets, self.path.owed = self.path.owed, []
        if self.state == "quiescent":
            return packets
        self.timers(now)
        if self.state == "inactive":
            if self.owed:
                packets.append(self.control(now, x.RCLOSE | x.END))
                self.owed = []
            return packets
        if self.is_initiator and self.return_key is None:
            packets += self.firsts(now)
        else:
            packets += self.answers(now)
            if self.state == "open" and not self.is_synchronising:
                packets += self.data(now)
        return packets

    def timers(self, now):
        if self.state == "inactive" and now - self.inactive_since > LINGER:
            self.over("in order")
        give_up = {"opening": 30.0, "half-open": 10.0}.get(self.state, 120.0)
        since = self.began if self.state == "half-open" else self.heard_at
        if self.state != "inactive" and now - since > give_up:
            return self.over("silence")
        if self.wtimer is not None and now >= self.wtimer:
            self.rto = min(self.rto * 2, RTO_MAX)
            self.wtimer = None
            if self.is_initiator and self.return_key is None:
                self.flight, self.nxt = [], 0
            else:
                self.is_synchronising = self.state == "open"
                self.owe("question")
        if self.probe_at is not None and now >= self.probe_at and not self.is_synchronising:
            self.probe_at = None
            self.owe("question")

    def ask(self, now):
        """One more question: its number."""
        self.sync = (self.sync + 1) % (1 << 32)
        self.asked[self.sync] = now
        self.since_asked = 0
        if self.wtimer is None:
            self.wtimer, self.wtimer_sync = now + self.rto, self.sync
        return x.SREQ

    def window_end(self):
        alloc = UNKNOWN_ALLOC if self.alloc is None else self.alloc
        return len(self.out) if self.options & x.NOFLOW else min(alloc, len(self.out))

    def cut(self, at, room):
        """Of what begins at `at`, a packet's: to the end of the message at most."""
        room -= 8 if at in self.tags else 0
        end = min(at + room, self.window_end())
        return min([end] + [e for e in self.eoms if at < e < end])

    def closing(self, end):
        bits = x.RCLOSE if self.read == "done" else 0
        if self.write in ("draining", "closed") and end == len(self.out):
            bits |= x.WCLOSE
        return bits

    def firsts(self, now):
        """7, rules 1 and 8: all that may be said before a return key is known."""
        if self.wtimer is not None:
            return []
        packets, at = [], 0
        shown = self.cookie is not None
        bound = min(self.window_end(), 10 * self.largest)
        while not packets or at < bound:
            room = self.largest - 32 - 16 - 24 - (8 if shown else 0)
            end = min(self.cut(at, room), bound)
            p = Packet(self.cookie if shown else self.key, shown, x.FIRST, self.options)
            p.address, p.traffic = x.in_udp(self.port), self.own_traffic()
            p.xkey = self.key if shown else None
            p.options |= x.RES if self.reads_cxor else 0
            self.dress(p, at, end)
            at = end
            if at >= bound and not self.is_single():
                p.options |= self.ask(now)
            p.sync = self.sync
            self.flight.append(self.segment(p, now))
            packets.append(p)
        self.nxt = max(self.nxt, at)
        return packets

    def is_single(self):
        return False

    def own_traffic(self):
        return (self.service, (self.largest - 32, 0, 0, 0, 0))

    def dress(self, p, at, end):
        """Data and what belongs to it."""
        p.seq, p.data = at, bytes(self.out[at:end])
        if at in self.tags:
            p.btag, p.options = self.tags[at], p.options | x.BTAG
        p.options |= x.EOM if end in self.eoms and (end > at or end == 0) else 0
        p.options |= self.closing(end)
        if p.has(x.WCLOSE) and self.write == "draining":
            self.write = "closed"

    def segment(self, p, now):
        segment = Segment(p.seq, p.end, p.has(x.EOM))
        segment.sent = now
        return segment

    def give(self):
        self.given = max(self.given, self.rseq + BUFFER)
        return self.given

    def control(self, now, bits=0, form=None):
        form = form or (x.ECNTL if self.spans else x.CNTL)
        p = Packet(self.return_key, True, form, bits | self.options & (x.NOERR | x.NOFLOW | x.FASTNAK))
        p.options |= self.closing(self.nxt)
        if p.has(x.WCLOSE) and self.write == "draining":
            self.write = "closed"
            p.options |= self.ask(now)
        p.seq, p.rseq, p.alloc = self.nxt, self.rseq, self.give()
        p.echo = self.their_sync or 0
        p.spans = self.named() if form == x.ECNTL else []
        if form == x.TCNTL:
            p.xkey, p.traffic = self.key, self.own_traffic()
            p.options |= x.RES if self.reads_cxor else 0
        p.sync = self.sync
        self.rclose_sent |= p.has(x.RCLOSE)
        return p

    def answers(self, now):
        packets, owed = [], self.owed
        self.owed = []
        for what in owed:
            bits = 0
            if what in ("question", "last question", "show"):
                if what == "show" and self.may_send():
                    continue
                bits = self.ask(now)
            if what == "last question":
                bits |= x.RCLOSE | x.WCLOSE
            if self.state == "half-open":
                packets += self.tcntl(now, bits)
            elif what == "tcntl":
                packets.append(self.control(now, bits, x.TCNTL))
            else:
                packets.append(self.control(now, bits))
        both = x.RCLOSE | x.WCLOSE
        if packets and self.write == "closed" and packets[-1].options & both == both:
            if not packets[-1].has(x.SREQ):
                packets[-1].options |= self.ask(now)
                packets[-1].sync = self.sync
        return packets

    def tcntl(self, now, bits):
        """7, rule 4: no more bytes than came, until the key was shown."""
        p = self.control(now, bits, x.TCNTL)
        if self.bytes_out + len(x.emit(p)) > self.bytes_in:
            p.traffic = (self.service, None)
        if self.bytes_out + len(x.emit(p)) > self.bytes_in:
            return []
        self.bytes_out += len(x.emit(p))
        return [p]

    def in_flight(self):
        return sum(s.end - s.start for s in self.flight if not s.has_come and not s.is_lost)

    def may_send(self):
        return any(s.is_lost for s in self.flight) or self.nxt < self.window_end()

    def data(self, now):
        packets = []
        room = self.largest - 32 - (4 if self.sends_cxor else 0)
        again = [s for s in self.flight if s.is_lost and not self.options & x.NOERR]
        for segment in again:
            if packets and self.in_flight() >= FLIGHT:
                break
            self.counts["again"] += 1
            segment.is_lost, segment.sent = False, now
            packets.append(self.dated(segment.start, segment.end))
        if packets:
            self.asks(packets[-1], now)
        while self.nxt < self.window_end() and self.in_flight() < FLIGHT:
            end = self.cut(self.nxt, room)
            p = self.dated(self.nxt, end)
            self.flight.append(self.segment(p, now))
            self.nxt = end
            self.since_asked += end - p.seq
            if self.since_asked >= FLIGHT / 8 or self.nxt == self.window_end():
                self.asks(p, now)
            packets.append(p)
        exhausted = self.nxt < len(self.out) and self.nxt == self.window_end()
        if exhausted and not self.is_exhausted_told and not self.options & x.NOFLOW:
            self.is_exhausted_told = True
            packets.append(self.control(now, x.DREQ))
            self.wtimer = self.wtimer or now + self.rto
        if self.write == "draining" and self.nxt == len(self.out):
            packets.append(self.control(now))
        return packets

    def dated(self, start, end):
        p = Packet(self.return_key, True, x.DATA, self.options, sync=self.sync)
        self.dress(p, start, end)
        if self.sends_cxor and p.data:
            p.options |= x.RES | x.NOCHECK
        return p

    def asks(self, p, now):
        if not p.has(x.SREQ):
            p.options |= self.ask(now)
            p.sync = self.sync
