"""Which answers a trace of iotrace.c shows, and whether what they acknowledge was durable when they left.

The server's half of each HTTP/2 connection is read frame by frame; every message of a gRPC answer to a write begins
with field 1, the header, whose field 3 is the revision.
"""
import bisect

DATA, FRAME_HEAD, MESSAGE_HEAD = 0, 9, 5


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(message):
    """(number, value) of a protobuf message; bytes for what has a length."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            value, at = varint(message, at)
        elif key & 7 == 2:
            size, at = varint(message, at)
            value, at = message[at:at + size], at + size
        else:
            value, at = None, at + (8 if key & 7 == 1 else 4)
        yield key >> 3, value


def revision_of(message):
    header = dict(fields(message)).get(1)
    return dict(fields(header)).get(3, 0) if isinstance(header, bytes) else 0


class Connection:
    def __init__(self):
        self.bytes = b""
        self.streams = {}

    def feed(self, data):
        """The payloads of gRPC messages that are whole with `data`."""
        self.bytes += data
        while len(self.bytes) >= FRAME_HEAD:
            size = int.from_bytes(self.bytes[:3], "big")
            if len(self.bytes) < FRAME_HEAD + size:
                return
            kind, stream = self.bytes[3], int.from_bytes(self.bytes[5:9], "big")
            payload = self.bytes[FRAME_HEAD:FRAME_HEAD + size]
            self.bytes = self.bytes[FRAME_HEAD + size:]
            if kind == DATA:
                yield from self.messages(stream, payload)

    def messages(self, stream, payload):
        got = self.streams.pop(stream, b"") + payload
        while len(got) >= MESSAGE_HEAD:
            size = int.from_bytes(got[1:MESSAGE_HEAD], "big")
            if len(got) < MESSAGE_HEAD + size:
                break
            yield got[MESSAGE_HEAD:MESSAGE_HEAD + size]
            got = got[MESSAGE_HEAD + size:]
        if got:
            self.streams[stream] = got


def replies(records):
    """(seq of the SEND, revision) of every answer, in order."""
    connections, found = {}, []
    for r in records:
        if r.kind == "SEND":
            for message in connections.setdefault(r.path, Connection()).feed(r.data):
                found.append((r.seq, revision_of(message)))
    return found


class LogBytes:
    """What was written to the log's files, and from when on each part was durable."""

    def __init__(self, world):
        self.files = []  # (content, [(off, end, durable at or None)])
        for path, inode in world.names.items():
            writes = [c for c in inode.changes if c.what[0] == "write"]
            if not path.endswith(".wal") or not writes:
                continue
            content = bytearray(max(c.what[1] + len(c.what[2]) for c in writes))
            spans = []
            for c in writes:
                _, off, data = c.what
                content[off:off + len(data)] = data
                spans.append((off, off + len(data), c.durable_at))
            self.files.append((bytes(content), spans))

    def durable_at(self, value):
        """The record from which on the whole of `value` is on disk; None: never; raises when it is nowhere."""
        for content, spans in self.files:
            at = content.find(value)
            if at >= 0:
                return self.covered(spans, at, at + len(value))
        raise AssertionError(f"{value[:20]} is not in the log")

    @staticmethod
    def covered(spans, start, end):
        over = sorted(s for s in spans if s[0] < end and s[1] > start and s[2] is not None)
        for when in sorted(s[2] for s in over):
            at = start
            for off, stop, durable in over:
                if durable <= when and off <= at:
                    at = max(at, stop)
            if at >= end:
                return when
        return None


def early_replies(records, world, journal):
    """(op, seq of its reply, when it was durable) of every acknowledged put whose reply left too early; and how many
    were compared."""
    sent = {}
    for seq, revision in replies(records):
        sent.setdefault(revision, seq)
    log, early, compared = LogBytes(world), [], 0
    for op in journal.acked():
        value = next((p[2] for p in op.parts if p[0] == "p"), None)
        if value is None:
            continue
        durable = log.durable_at(value.encode())
        compared += 1
        if durable is None or durable > sent[op.revision]:
            early.append((op, sent[op.revision], durable))
    return early, compared


class Acknowledged:
    """How much had been acknowledged when a trace was so long."""

    def __init__(self, records):
        self.seqs, self.highest = [], []
        top = 0
        for seq, revision in replies(records):
            top = max(top, revision)
            self.seqs.append(seq)
            self.highest.append(top)

    def at(self, prefix):
        n = bisect.bisect_right(self.seqs, prefix)
        return self.highest[n - 1] if n else 1
