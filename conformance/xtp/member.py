"""A group's receiver, from docs/xtp.md, section 16: what came goes in by `take`, what leaves is called for by `pump`, and
time is an argument. Numbers in comments are the page's sections."""

from collections import Counter

import packet as x
from context import LINGER, UNKNOWN_ALLOC, ahead
from packet import Packet
from received import Received

UNRELIABLE, RELIABLE = 5, 6
RTO_FIRST = 1.0
CTIMEOUT = 120.0


class Member(Received):
    """Of one stream of a group, which it has heard of by a FIRST."""

    def __init__(self, key, sender, first, now, *, proves=False, buffer=65_536, sync=0):
        super().__init__(first.seq)
        self.key, self.peer = key, sender
        self.stream = first.key
        self.address, self.service = first.address, first.traffic[0]
        self.proves, self.buffer = proves, buffer
        self.deaf = False  # it answers, and has nothing
        self.return_key = None
        self.delay = 0.0
        self.sync, self.their_sync = sync, None
        self.wtimer, self.rto = None, RTO_FIRST
        self.doublings = 0
        self.given = first.seq + UNKNOWN_ALLOC
        self.is_exhausted = False
        self.answer_at, self.gap_at = None, None
        self.owed = []
        self.heard_at = now
        self.outcome = None
        self.counts = Counter()
        self.state = "joining" if self.service == RELIABLE else "reading"

    # -- what comes ----------------------------------------------------------------------------------------------

    def take(self, p, _len, now):
        """A packet of the stream's, or for this receiver. Raises Dropped."""
        if self.state == "over":
            raise x.Dropped("closed")
        if p.format == x.DIAG:
            return self.take_diag(p)
        if not p.has(x.MULTI):
            raise x.Dropped("protocol")
        # Before the sender's JCNTL, whose echo proves it, its sync says nothing: anybody can send a FIRST.
        by = 0 if self.their_sync is None else ahead(p.sync, self.their_sync)
        if by >= 1 << 16 or by == -(1 << 31):
            raise x.Dropped("protocol")
        if p.format == x.JCNTL:
            self.take_join(p, now)
        elif p.format == x.DATA:
            self.look_at_data(p)
        elif p.format in x.CONTROLS:
            self.look_at_control(p)
        elif p.format != x.FIRST:
            raise x.Dropped("protocol")
        self.heard_at = now
        is_known = self.state != "joining"
        if is_known and (self.their_sync is None or by > 0):
            self.their_sync = p.sync
        if self.state in ("joining", "inactive"):
            if self.state == "inactive" and p.returned and p.options & (x.SREQ | x.WCLOSE | x.RCLOSE):
                self.owed.append(x.RCLOSE | x.END)
            return
        if by > 0 or p.has(x.SREQ):
            # Who sees a newer sync has been asked, whether the packet with SREQ came or not.
            self.is_asked(now)
        if p.format == x.DATA:
            self.take_data(p, now)
        if p.format == x.TCNTL:
            self.delay = p.reserved / 1e6
        self.take_close(p, now)

    def is_asked(self, now):
        if self.service == RELIABLE and self.answer_at is None:
            self.answer_at = now + self.delay

    def take_join(self, p, now):
        if self.state != "joining":
            # It comes again, and asks again.
            if p.xkey != self.return_key or p.seq != self.begin:
                raise x.Dropped("protocol")
            return self.is_asked(now)
        if p.echo != self.sync:
            raise x.Dropped("bad-ack")
        if not p.rseq == p.alloc == p.seq:
            raise x.Dropped("protocol")
        self.return_key, self.delay = p.xkey, p.reserved / 1e6
        self.begin = self.rseq = p.seq
        self.given = p.seq + UNKNOWN_ALLOC
        self.state, self.wtimer, self.rto = "member", None, RTO_FIRST
        # Yes is a question: the answer says that it came.
        self.is_asked(now)

    def look_at_data(self, p):
        if self.state == "joining":
            raise x.Dropped("closed")
        if p.has(x.RES) or p.has(x.NOCHECK) and not self.proves:
            raise x.Dropped("protocol")
        if p.end > (self.rseq + (1 << 31) if p.has(x.NOFLOW) else self.given):
            raise x.Dropped("out-of-window")
        if self.their_end is not None and p.end > self.their_end:
            raise x.Dropped("after-end")

    def look_at_control(self, p):
        if self.return_key is None:
            raise x.Dropped("protocol")
        if p.seq > self.given:
            raise x.Dropped("out-of-window")

    def take_data(self, p, now):
        if self.deaf:
            return
        data, seq = p.data, p.seq
        if seq < self.begin:  # below the beginning nothing is taken
            data, seq = data[self.begin - seq :], self.begin
        if p.end <= self.rseq:
            self.counts["duplicate"] += 1
            return
        highest = self.spans[-1][1] if self.spans else self.rseq
        if p.has(x.EOM):
            self.their_eoms.add(p.end)
        self.put(seq, data)
        if p.has(x.NOERR):
            self.pass_gaps()
        elif seq > highest:
            self.counts["gaps"] += 1
            if p.has(x.FASTNAK) and self.gap_at is None:
                self.gap_at = now + self.delay
        if self.rseq == self.given:
            self.is_exhausted = True

    def take_close(self, p, now):
        if p.has(x.WCLOSE) and (p.format != x.DATA or not self.deaf):
            if self.their_end is None:
                self.their_end = p.end
            elif self.their_end != p.end:
                return self.over("two ends")
            if self.service == UNRELIABLE and self.rseq < p.end:
                # The last packets were lost.
                self.passed.append((self.rseq, p.end))
                self.rseq = p.end
        if p.has(x.END):
            # All that it says is that we have all.
            return self.over("finished" if self.has_all() and p.has(x.RCLOSE) else "aborted")
        if self.has_all() and self.outcome is None:
            self.outcome = "finished"
            if self.service == UNRELIABLE:
                return self.over("finished")
            self.is_asked(now)

    def has_all(self):
        return self.their_end is not None and self.rseq >= self.their_end

    def take_diag(self, p):
        if not p.returned or p.key != self.key:
            raise x.Dropped("blind-reset")
        if p.code == 5 and self.state == "joining":
            return self.over(f"refused {p.val}")
        if p.code == 2 and self.state == "member":
            return self.over(f"dropped {p.val}", anew=True)
        raise x.Dropped("blind-reset")

    def over(self, outcome, anew=False):
        self.outcome = outcome if anew else self.outcome or outcome
        self.state, self.wtimer, self.answer_at, self.gap_at = "over", None, None, None

    # -- what the application does -------------------------------------------------------------------------------

    def leave(self, now):
        if self.state == "member":
            self.state, self.outcome, self.inactive_since = "inactive", "left", now
            self.owed.append(x.RCLOSE | x.END)
        else:  # who only asked leaves without a word
            self.over("left")

    # -- what leaves ---------------------------------------------------------------------------------------------

    def due(self):
        return min((at for at in (self.answer_at, self.gap_at, self.wtimer) if at is not None), default=None)

    def pump(self, now):
        packets = []
        if self.state == "inactive":
            packets += [self.control(bits) for bits in self.owed[:1]]
            self.owed = []
            if now - self.inactive_since > LINGER:
                self.over("left")
        elif self.state != "over" and now - self.heard_at > CTIMEOUT:
            self.over("silence")
        elif self.state == "joining" and (self.wtimer is None or now >= self.wtimer):
            self.rto = self.rto if self.wtimer is None else self.rto * 2
            self.wtimer = now + self.rto
            packets.append(self.join())
        elif self.state == "member":
            packets += self.answers(now)
        return packets

    def join(self):
        self.sync = (self.sync + 1) % (1 << 32)
        p = Packet(self.stream, True, x.JCNTL, x.MULTI | x.SREQ, sync=self.sync, rseq=0, alloc=0)
        p.echo, p.xkey, p.address = 0, self.key, self.address
        p.traffic = (self.service, (1440, 0, 0, 0, 0))
        return p

    def answers(self, now):
        is_due = self.answer_at is not None and now >= self.answer_at
        if self.gap_at is not None and now >= self.gap_at:
            # What was filled meanwhile is not reported.
            is_due |= bool(self.spans)
            self.gap_at = None
        if self.has_all() and self.wtimer is not None and now >= self.wtimer:
            is_due = True
            self.doublings += 1
            self.rto *= 2 if self.doublings <= 3 else 1
            self.wtimer = None
        room = self.rseq + self.buffer - self.given
        if self.is_exhausted and room >= self.buffer / 4:
            is_due = True
        if not is_due:
            return []
        self.answer_at = self.gap_at = None
        if self.has_all() and self.wtimer is None:
            self.wtimer = now + self.rto
        return [self.control(x.RCLOSE if self.has_all() else 0)]

    def control(self, bits):
        p = Packet(self.return_key, True, x.ECNTL if self.spans else x.CNTL, x.MULTI | bits, sync=self.sync)
        self.given = max(self.given, self.rseq + self.buffer)
        self.is_exhausted = False
        p.rseq, p.alloc, p.echo, p.spans = self.rseq, self.given, self.their_sync, self.named()
        return p
