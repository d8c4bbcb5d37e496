"""PATH packets of a context without a session: docs/xtp.md, section 14, and docs/encapsulation.md, section 4."""

import hashlib
import hmac
import ipaddress
import secrets
import struct

import packet as x
from packet import Packet

QUESTION, ANSWER = 1, 2
SIZE = 1
KINDS = (1, 2, 3)
TAG = 16
QUESTION_LEN = 2 + 18 + TAG


def key_of(own, others):
    """The key of what the end says whose own key is the first."""
    return struct.pack(">QQ", own, others) + bytes(16)


def tag(key, says, kind, nonce, address):
    message = bytes([says, kind]) + struct.pack(">Q", nonce) + address
    return hmac.new(key, message, hashlib.sha256).digest()[:TAG]


def mapped(address):
    host, port = address
    ip = ipaddress.ip_address(host)
    ip = ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed
    return ip + struct.pack(">H", port)


class Path:
    """What one context asks and is asked."""

    def __init__(self, own):
        self.own = own
        self.waits = {}  # nonces: kind, address and size of the packet
        self.sizes, self.asked = [], []  # of ours that were answered; of the peer's, as packets
        self.owed = []

    def ask(self, others, to, size, spoil=None):
        """A question as a packet of `size` bytes. `spoil` makes it one that does not count."""
        nonce, address = secrets.randbits(64), mapped(to)
        key = key_of(self.own, others) if spoil != "key" else key_of(others, self.own)
        mark = tag(key, QUESTION, SIZE, nonce, address)
        if spoil == "tag":
            mark = bytes([mark[0] ^ 1]) + mark[1:]
        p = Packet(others, True, x.PATH, sync=QUESTION, seq=nonce)
        p.data = bytes([SIZE, 0]) + address + mark
        p.data += bytes(size - x.HEADER - len(p.data))
        self.waits[nonce] = SIZE, address, size
        self.owed.append(p)
        return nonce

    def take(self, p, others):
        kind = p.data[0] if p.data else 0
        if kind not in KINDS:
            raise x.Dropped("transport-stray")
        if p.sync == QUESTION and len(p.data) >= QUESTION_LEN:
            address, mark = p.data[2:20], p.data[20:36]
            if not hmac.compare_digest(mark, tag(key_of(others, self.own), QUESTION, kind, p.seq, address)):
                raise x.Dropped("transport-stray")
            self.asked.append(x.HEADER + len(p.data))
            answer = Packet(others, True, x.PATH, sync=ANSWER, seq=p.seq)
            answer.data = bytes([kind, 0]) + tag(key_of(self.own, others), ANSWER, kind, p.seq, address)
            self.owed.append(answer)
        elif p.sync == ANSWER and len(p.data) == 2 + TAG and p.seq in self.waits:
            asked, address, size = self.waits[p.seq]
            right = tag(key_of(others, self.own), ANSWER, kind, p.seq, address)
            if kind != asked or not hmac.compare_digest(p.data[2:], right):
                raise x.Dropped("transport-stray")
            del self.waits[p.seq]
            self.sizes.append(size)
        else:
            raise x.Dropped("transport-stray")
