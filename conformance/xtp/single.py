"""Services 1 to 3 of docs/xtp.md, section 15: a message in FIRSTs, and what answers it."""

import packet as x
from context import Context, ahead
from packet import Packet

DATAGRAM, ACKNOWLEDGED, TRANSACTION = 1, 2, 3
MESSAGE_MAX = 16_384


def datagram(key, port, message, sync):
    """Service 1: the one packet there is."""
    p = Packet(key, False, x.FIRST, x.NOERR | x.NOFLOW | x.RCLOSE | x.WCLOSE | x.EOM | x.END, sync=sync)
    p.address, p.traffic, p.data = x.in_udp(port), (DATAGRAM, (1356, 0, 0, 0, 0)), message
    return p


class Request(Context):
    """The initiator of service 2 or 3."""

    def is_single(self):
        return True

    def firsts(self, now):
        packets = super().firsts(now)
        if packets:
            # Each time sync is raised and WTIMER runs, also for DREQ.
            self.ask(now)
            asks = x.SREQ if self.service == ACKNOWLEDGED else x.DREQ
            for p in packets:
                p.options |= asks if p is packets[-1] else 0
                p.sync = self.sync
        return packets

    def take(self, p, len_, now):
        if self.return_key is not None or p.format in (x.TCNTL, x.DIAG):
            return super().take(p, len_, now)
        self.look_at_sync(p)
        whole = x.RCLOSE | x.WCLOSE
        if p.format == x.CNTL and p.has(x.END):
            self.look_at_end(p)
            if not p.has(x.RCLOSE):
                return self.over("given up")
            if self.service == ACKNOWLEDGED and p.options & whole == whole and p.rseq == len(self.out):
                return self.over("answered")
        if self.service == TRANSACTION and p.format == x.DATA:
            if p.options & (whole | x.EOM) == whole | x.EOM and p.seq == 0:
                self.look_at_data(p, now)
                self.put(0, p.data)
                self.their_eoms.add(p.end)
                return self.over("answered")
        raise x.Dropped("protocol")

    def look_at_end(self, p):
        if not -(1 << 16) < ahead(p.echo, self.sync) <= 0 or p.rseq > len(self.out):
            raise x.Dropped("bad-ack")

    def look_at_control(self, p):
        # Its FIRSTs go again from the beginning: all of it has been sent once.
        self.nxt = max(self.nxt, len(self.out)) if self.return_key is None else self.nxt
        super().look_at_control(p)


class Response(Context):
    """The responder of service 2 or 3: says nothing to a part, gives what is whole to `answer`, and the same again to
    who asks again."""

    def __init__(self, *args, answer, late=0.0, **more):
        super().__init__(*args, **more)
        self.answer, self.handed, self.due, self.late = answer, 0, None, late
        self.is_stream, self.was_told = False, False

    def take(self, p, len_, now):
        if self.is_stream:
            return super().take(p, len_, now)
        if p.format != x.FIRST:
            raise x.Dropped("protocol")
        self.look_at_sync(p)
        self.look_at_data(p, now)
        self.bytes_in += len_
        if self.their_sync is None or ahead(p.sync, self.their_sync) > 0:
            self.their_sync = p.sync
        self.heard_at = now
        if p.data:
            self.put(p.seq, p.data)
        if p.has(x.WCLOSE):
            self.their_end = p.end
            self.their_eoms.add(p.end)
        if self.their_end is not None and self.rseq == self.their_end:
            self.read = "done"
            if self.handed == 0:
                self.handed, self.due = 1, now + self.late
            elif p.has(x.SREQ | x.DREQ):
                self.owe("again")

    def pump(self, now):
        if self.is_stream:
            return super().pump(now)
        if self.due is not None and now >= self.due:
            self.due = None
            self.owed = ["again"]
            if self.service == TRANSACTION:
                self.send(self.answer(bytes(self.got[: self.their_end])))
                self.finish()
            else:
                self.answer(bytes(self.got[: self.their_end]))
        if "again" not in self.owed:
            return []
        self.owed = []
        if self.service == ACKNOWLEDGED:
            if self.due is not None:
                return []
            p = self.control(now, x.RCLOSE | x.WCLOSE | x.END)
            return [p]
        if self.due is None and not self.was_told:
            p = Packet(self.return_key, True, x.DATA, x.RCLOSE | x.WCLOSE | x.EOM, sync=self.sync)
            p.data = bytes(self.out)
            len_ = len(x.emit(p))
            if len_ <= min(self.largest, self.bytes_in - self.bytes_out, MESSAGE_MAX):
                self.bytes_out += len_
                return [p]
            self.is_stream = True
        # Longer, or not there yet.
        self.was_told, self.is_stream = True, True
        self.state = "half-open"
        return self.tcntl(now, 0)

    def timers(self, now):
        if self.due is not None and now >= self.due:
            self.due = None
            self.send(self.answer(bytes(self.got[: self.their_end])))
            self.finish()
        self.began = max(self.began, self.heard_at - 20)  # 30 s instead of 10
        super().timers(now)
