"""Protobuf by hand and the program `raw`: requests as bytes, answers with their exact code and text."""
import os
import subprocess

from harness import BIN

PROGRAM = os.path.join(os.environ.get("BUILD", os.path.dirname(BIN)), "test/scenario/raw")
KV, MAINTENANCE, CLUSTER = "/etcdserverpb.KV/", "/etcdserverpb.Maintenance/", "/etcdserverpb.Cluster/"
HEALTH = "/grpc.health.v1.Health/"


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def message(*fields):
    """Encodes (number, value) pairs: int and bool as varint, str and bytes with their length."""
    out = b""
    for number, value in fields:
        if isinstance(value, (int, bool)):
            out += varint(number << 3) + varint(int(value))
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def fields(data):
    """Decodes into a list of (number, int or bytes)."""
    out, at = [], 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            out.append((key >> 3, number()))
        else:
            length = number()
            out.append((key >> 3, data[at:at + length]))
            at += length
    return out


def all_of(data, number):
    return [value for n, value in fields(data) if n == number]


def one(data, number, default=0):
    found = all_of(data, number)
    return found[-1] if found else default


class Answer:
    def __init__(self, code, text, messages):
        self.code, self.text, self.messages = code, text, messages

    @property
    def status(self):
        return self.code, self.text

    @property
    def body(self):
        if self.code != 0 or len(self.messages) != 1:
            raise AssertionError(f"one message was expected: {self.code} {self.text!r}, {len(self.messages)} messages")
        return self.messages[0]

    @property
    def header(self):
        return dict(fields(one(self.body, 1, b"")))


class Raw:
    """One connection to a member (or to any endpoint)."""

    def __init__(self, endpoint):
        self.child = subprocess.Popen([PROGRAM, endpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, path, body=b"", **metadata):
        words = [path, body.hex() or "-"] + [f"{k.replace('_', '-')}={v}" for k, v in metadata.items()]
        self.child.stdin.write(" ".join(words) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise AssertionError("the raw client has ended")
        code, rest = line.rstrip("\n").split(" [", 1)
        messages, text = rest.split("] ", 1)
        return Answer(int(code), text, [bytes.fromhex(m) for m in messages.split(",")] if messages or code == "0" else [])

    def close(self):
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Requests, field by field as in rpc.proto.

    def put(self, key, value="", *more, **metadata):
        return self.call(KV + "Put", message((1, key), (2, value), *more), **metadata)

    def range(self, key, end=b"", *more, **metadata):
        return self.call(KV + "Range", message((1, key), (2, end), *more), **metadata)

    def delete(self, key, end=b"", *more):
        return self.call(KV + "DeleteRange", message((1, key), (2, end), *more))

    def txn(self, compares=(), success=(), failure=()):
        return self.call(KV + "Txn", txn(compares, success, failure))

    def compact(self, revision, physical=False):
        return self.call(KV + "Compact", message((1, revision), (2, physical)))


def txn(compares=(), success=(), failure=()):
    return message(*((1, c) for c in compares), *((2, s) for s in success), *((3, f) for f in failure))


def op_range(key, end=b"", *more):
    return message((1, message((1, key), (2, end), *more)))


def op_put(key, value="", *more):
    return message((2, message((1, key), (2, value), *more)))


def op_delete(key, end=b"", *more):
    return message((3, message((1, key), (2, end), *more)))


def op_txn(compares=(), success=(), failure=()):
    return message((4, txn(compares, success, failure)))


def kvs(body):
    """[(key, value, create, mod, version, lease)] of a RangeResponse."""
    out = []
    for row in all_of(body, 2):
        f = dict(fields(row))
        out.append((f.get(1, b"").decode(), f.get(5, b"").decode(), f.get(2, 0), f.get(3, 0), f.get(4, 0), f.get(6, 0)))
    return out
