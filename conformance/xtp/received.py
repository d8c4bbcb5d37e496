"""What has come of a stream, from docs/xtp.md, section 10: bytes from the offset `begin` on, the ranges behind gaps, and
where messages end."""


class Received:
    def __init__(self, begin=0):
        self.begin = begin
        self.got, self.spans, self.latest_span = bytearray(), [], None
        self.rseq = begin
        self.their_eoms, self.their_tags, self.their_end = set(), {}, None
        self.passed = []  # gaps that nothing fills: (left, right)

    def messages(self, proves=False):
        """The messages that have come whole, in order: (tag, where it begins, bytes). With `proves` what lies behind a gap
        counts as one (16)."""
        start = self.begin
        gaps = list(self.passed)
        for end in sorted(self.their_eoms):
            if end > self.rseq:
                break
            is_whole = True
            while gaps and gaps[0][0] < end:
                _, start = gaps.pop(0)
                is_whole = proves and start < end
            if is_whole and start < end or start == end == 0:
                yield self.their_tags.get(start), start, self.bytes(start, end)
            start = end

    def bytes(self, start, end):
        return bytes(self.got[start - self.begin : end - self.begin])

    def put(self, start, data):
        end = start + len(data)
        if len(self.got) < end - self.begin:
            self.got += bytes(end - self.begin - len(self.got))
        self.got[start - self.begin : end - self.begin] = data
        self.latest_span = start
        spans = sorted(self.spans + [(start, end)])
        merged = []
        for left, right in spans:
            if left <= self.rseq:
                self.rseq = max(self.rseq, right)
            elif merged and left <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], right))
            else:
                merged.append((left, right))
        self.spans = [(left, right) for left, right in merged if left > self.rseq]

    def pass_gaps(self):
        """NOERR: what is missing before something that has come never comes."""
        while self.spans:
            left, right = self.spans.pop(0)
            self.passed.append((self.rseq, left))
            self.rseq = right

    def missing(self):
        """Bytes that never come."""
        return sum(right - left for left, right in self.passed)

    def named(self):
        """The spans of an ECNTL."""
        if len(self.spans) <= 16:
            return list(self.spans)
        latest = next((s for s in self.spans if s[0] <= self.latest_span < s[1]), self.spans[15])
        lowest = self.spans[:16]
        return lowest if latest in lowest else self.spans[:15] + [latest]
