"""XTP's packets, read and written as docs/xtp.md has them (sections 1 to 4 and 6), and by nothing else: a second
implementation, which shares no line with the first. Standard library alone."""

import struct
from dataclasses import dataclass, field

RTN = 1 << 63
KEY = RTN - 1
OFFSET_MAX = RTN - 1
HEADER = 32
PROTOCOL = 36
CASTS = (5, 6)

NOCHECK, EDGE, NOERR, MULTI = 0x40000000, 0x20000000, 0x10000000, 0x08000000
RES, SORT, NOFLOW, FASTNAK = 0x04000000, 0x02000000, 0x01000000, 0x00800000
SREQ, DREQ, RCLOSE, WCLOSE = 0x00400000, 0x00200000, 0x00100000, 0x00080000
EOM, END, BTAG = 0x00040000, 0x00020000, 0x00010000

DATA, CNTL, FIRST, ECNTL, TCNTL, JCNTL, DIAG, PATH = 0, 1, 2, 3, 5, 7, 8, 16
CONTROLS = (CNTL, ECNTL, TCNTL)

# Section 1: which option is on which format. Anything else is ignored.
ON_ALL = NOCHECK | MULTI | SORT
ON_ASKING = SREQ | DREQ | RCLOSE | WCLOSE
ON_DATA = ON_ALL | ON_ASKING | EDGE | NOERR | NOFLOW | FASTNAK | EOM | END | BTAG
ON_CONTROL = ON_ALL | ON_ASKING | NOERR | NOFLOW | FASTNAK | END
MEANT = {
    DATA: ON_DATA | RES,
    FIRST: ON_DATA | RES,
    CNTL: ON_CONTROL,
    ECNTL: ON_CONTROL,
    TCNTL: ON_CONTROL | RES,
    JCNTL: ON_ALL | ON_ASKING | END,
    DIAG: ON_ALL | END,
    PATH: ON_ALL,
}


class Dropped(Exception):
    """A packet that is not taken, under the name that section 17 counts it by."""

    def __init__(self, cause, diag=None):
        super().__init__(cause)
        self.cause = cause
        # What a FIRST is refused with: a val of code 1; a JCNTL, of code 5.
        self.diag = diag


@dataclass
class Packet:
    """One packet. What its format has not is None."""

    key: int
    returned: bool
    format: int
    options: int = 0
    sort: int = 0
    sync: int = 0
    seq: int = 0
    data: bytes = b""
    btag: int = None
    rseq: int = None
    alloc: int = None
    echo: int = None
    spans: list = field(default_factory=list)
    reserved: int = 0
    xkey: int = None
    address: tuple = None  # (format, dsthost, srchost, dstport, srcport)
    traffic: tuple = None  # (service, None or (maxdata, inrate, inburst, outrate, outburst))
    code: int = None
    val: int = None
    text: bytes = b""
    to: tuple = None  # for whom it is, where that is not the context's peer

    def has(self, option):
        return bool(self.options & option)

    @property
    def end(self):
        """The offset behind what it carries, or what its sender has sent."""
        return self.seq + len(self.data)


def internet(data):
    """RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def cxor(data):
    """Section 4."""
    if len(data) % 2:
        data += b"\0"
    xor = rxor = 0
    for i, word in enumerate(struct.unpack(f">{len(data) // 2}H", data)):
        turn = i % 16
        xor ^= word
        rxor ^= (word << turn | word >> (16 - turn)) & 0xFFFF
    return xor << 16 | rxor


NULL = (0, b"", b"", 0, 0)


def address_segment(address):
    aformat, dst, src, dstport, srcport = address
    body = dst + src + struct.pack(">HH", dstport, srcport)
    return struct.pack(">HBB", 4 + len(body), 0, aformat) + body


def traffic_segment(traffic):
    service, limits = traffic
    if limits is None:
        return struct.pack(">HBBI", 8, service, 0, 0)
    return struct.pack(">HBB5I", 24, service, 1, *limits)


def in_udp(port, srcport=0):
    """The address segment of all that is in UDP: format 1, hosts of zero."""
    return (1, bytes(4), bytes(4), port, srcport)


def in_ip(version, port):
    """The address segment of what is protocol 36 of IP, whose version says the format."""
    none = bytes(4 if version == 4 else 16)
    return (1 if version == 4 else 6, none, none, port, 0)


def emit(p):
    """The packet's bytes, with its check and, if it has RES on DATA, its trailer."""
    if p.format == DATA:
        body = btag_of(p) + p.data
        if p.has(RES):
            body += struct.pack(">I", cxor(body))
    elif p.format == FIRST:
        xkey = struct.pack(">Q", p.xkey) if p.returned else b""
        body = address_segment(p.address) + traffic_segment(p.traffic) + xkey + btag_of(p) + p.data
    elif p.format in (CNTL, ECNTL, TCNTL, JCNTL):
        body = struct.pack(">QQI", p.rseq, p.alloc, p.echo)
        if p.format == ECNTL:
            body += struct.pack(">I", len(p.spans))
            body += b"".join(struct.pack(">QQ", *span) for span in p.spans)
        if p.format in (TCNTL, JCNTL):
            body += struct.pack(">IQ", p.reserved, p.xkey)
            if p.format == JCNTL:
                body += address_segment(p.address)
            body += traffic_segment(p.traffic)
    elif p.format == DIAG:
        body = struct.pack(">II", p.code, p.val) + p.text[:200]
    else:
        body = p.data
    key = p.key | (RTN if p.returned else 0)
    cmd = p.options | 1 << 5 | p.format
    header = struct.pack(">QIIHHIQ", key, cmd, len(body), 0, p.sort, p.sync, p.seq)
    check = internet(header if p.has(NOCHECK) else header + body)
    return header[:16] + struct.pack(">H", check) + header[18:] + body


def patched(bytes_, at, new, and_sum=True):
    """A packet with other bytes in a place, and its check made right unless it is to be wrong."""
    bytes_ = bytes_[:at] + new + bytes_[at + len(new) :]
    if and_sum:
        bytes_ = bytes_[:16] + b"\0\0" + bytes_[18:]
        bytes_ = bytes_[:16] + internet(bytes_).to_bytes(2) + bytes_[18:]
    return bytes_


def btag_of(p):
    return struct.pack(">Q", p.btag) if p.has(BTAG) else b""


def parse(bytes_):
    """A packet from a datagram, or Dropped."""
    if len(bytes_) < HEADER:
        raise Dropped("malformed")
    key, cmd, dlen, check, sort, sync, seq = struct.unpack(">QIIHHIQ", bytes_[:HEADER])
    body = bytes_[HEADER:]
    if dlen != len(body) or cmd >> 5 & 7 != 1 or key & KEY == 0:
        raise Dropped("malformed")
    form = cmd & 31
    if form not in MEANT:
        raise Dropped("malformed")
    if form not in (DATA, FIRST) and cmd & (EOM | BTAG):
        raise Dropped("malformed")
    p = Packet(key & KEY, bool(key & RTN), form, cmd & MEANT[form], sort, sync, seq)
    if form in (CNTL, ECNTL, TCNTL, JCNTL, PATH) and not p.returned:
        raise Dropped("malformed")
    covered = bytes_[:16] + b"\0\0" + bytes_[18:HEADER] + (b"" if p.has(NOCHECK) else body)
    # Form comes before the check, but what is said of a wrong form is only said where the check is right.
    is_right = internet(covered) == check
    try:
        parse_body(p, body)
    except Dropped as wrong:
        raise wrong if is_right else Dropped(wrong.cause) from None
    if seq > OFFSET_MAX and form != PATH or p.end > OFFSET_MAX and form != PATH:
        raise Dropped("malformed")
    if not is_right:
        raise Dropped("checksum")
    if p.has(NOCHECK) and not p.data:
        raise Dropped("protocol")
    if p.has(EOM) and not p.data and not (p.seq == 0 and p.has(WCLOSE)):
        raise Dropped("protocol")
    return p


def take(body, len_):
    if len(body) < len_:
        raise Dropped("malformed")
    return body[:len_], body[len_:]


def parse_body(p, body):
    if p.format == DATA:
        if p.has(RES):
            parse_trailer(p, body)
            body = body[:-4]
        body = parse_btag(p, body)
        p.data = body
        if p.has(RES) and not p.data:
            raise Dropped("malformed")
    elif p.format == FIRST:
        p.address, body = parse_address(body)
        p.traffic, body = parse_traffic(body)
        if p.has(MULTI) != (p.traffic[0] in CASTS):
            raise Dropped("malformed", None if p.has(MULTI) else 2)
        if p.returned:
            xkey, body = take(body, 8)
            p.xkey = right_xkey(xkey)
        p.data = parse_btag(p, body)
    elif p.format in (CNTL, ECNTL, TCNTL, JCNTL):
        parse_control(p, body)
    elif p.format == DIAG:
        head, p.text = take(body, 8)
        p.code, p.val = struct.unpack(">II", head)
    else:
        p.data = body


def parse_trailer(p, body):
    if not p.has(NOCHECK) or len(body) < 4:
        raise Dropped("malformed")
    if struct.unpack(">I", body[-4:])[0] != cxor(body[:-4]):
        raise Dropped("checksum")


def parse_btag(p, body):
    if p.has(BTAG):
        btag, body = take(body, 8)
        p.btag = struct.unpack(">Q", btag)[0]
    return body


def right_xkey(bytes_):
    xkey = struct.unpack(">Q", bytes_)[0]
    if xkey == 0 or xkey & RTN:
        raise Dropped("malformed")
    return xkey


def parse_control(p, body):
    head, rest = take(body, 20)
    p.rseq, p.alloc, p.echo = struct.unpack(">QQI", head)
    if p.alloc < p.rseq or p.alloc > OFFSET_MAX:
        raise Dropped("malformed")
    if p.format == ECNTL:
        nspan, rest = take(rest, 4)
        nspan = struct.unpack(">I", nspan)[0]
        if len(rest) != 16 * nspan:
            raise Dropped("malformed")
        p.spans = [struct.unpack(">QQ", rest[i : i + 16]) for i in range(0, len(rest), 16)]
        rest, last = b"", p.rseq
        for left, right in p.spans:
            if not last < left < right <= OFFSET_MAX:
                raise Dropped("malformed")
            last = right
    if p.format in (TCNTL, JCNTL):
        more, rest = take(rest, 12)
        p.reserved, p.xkey = struct.unpack(">I", more[:4])[0], right_xkey(more[4:])
        if p.format == JCNTL:
            p.address, rest = parse_address(rest)
        p.traffic, rest = parse_traffic(rest)
        if p.format == JCNTL and not (p.has(MULTI) and p.traffic[0] in CASTS):
            raise Dropped("malformed", 2)
    if rest:
        raise Dropped("malformed")


def parse_address(body):
    head, _ = take(body, 4)
    alen, adomain, aformat = struct.unpack(">HBB", head)
    if aformat not in (1, 6) or adomain != 0:
        raise Dropped("malformed", 3)
    host = 4 if aformat == 1 else 16
    if alen != 8 + 2 * host or len(body) < alen:
        raise Dropped("malformed", 4)
    segment, rest = take(body, alen)
    ports = struct.unpack(">HH", segment[-4:])
    return (aformat, segment[4 : 4 + host], segment[4 + host : 4 + 2 * host], *ports), rest


def parse_traffic(body):
    head, _ = take(body, 4)
    tlen, service, tformat = struct.unpack(">HBB", head)
    if tformat not in (0, 1):
        raise Dropped("malformed", 5)
    if tlen != (8, 24)[tformat] or len(body) < tlen:
        raise Dropped("malformed", 7)
    segment, rest = take(body, tlen)
    limits = struct.unpack(">5I", segment[4:]) if tformat == 1 else None
    return (service, limits), rest
