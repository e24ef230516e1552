"""Upstream's recorded HTTP exchanges: the plain ones as they are, those of the JSON gateway as the gRPC calls they stand for.

The files are read at run time (their README tells the format). Exchanges whose service is not there yet are skipped; once
a skipped one would have changed the store, the exchanges behind it that show a revision are skipped too.
"""
import base64
import csv
import glob
import json
import os
import re
import socket

from harness import Member, Skip, expect, shared, until
from raw import Raw, fields, message

FLAGS = {"base": (), "access": ("--host-whitelist", "127.0.0.1,good.example", "--cors", "http://ok.example:80")}
NOT_YET = ("/downgrade", "/members/", "/raft", "/leases")  # of the peer port
WRITES_NOT_YET = ("/v3/lease/grant",)


class Exchange:
    def __init__(self, path):
        with open(path) as text:
            request, answer = text.read().split("\n----\n", 1)
        lines = request.split("\n")
        self.port = lines[0].split(": ")[1]
        self.method, self.target = lines[1].split(" ", 1)
        end = lines.index("", 2)
        self.headers = dict(line.split(": ", 1) for line in lines[2:end])
        self.body = "\n".join(lines[end + 1:])
        head, self.answer = answer.split("\n\n", 1)
        head = head.split("\n")
        self.status = int(head[0])
        self.kind = next((line.split(": ", 1)[1] for line in head if line.startswith("# compare")), "text")
        self.answer_headers = [line.split(": ", 1) for line in head[1:] if not line.startswith("#")]


class Schema:
    """messages.tsv: JSON to protobuf and back, with the original names of fields."""

    def __init__(self):
        self.messages, self.enums, self.routes = {}, {}, {}
        for row in self.rows("messages.tsv"):
            self.messages.setdefault(f"{row['package']}.{row['message']}", []).append(row)
        for row in self.rows("enums.tsv"):
            self.enums.setdefault(f"{row['package']}.{row['enum']}", {})[row["value"]] = int(row["number"])
        for row in self.rows("services.tsv"):
            for route in re.findall(r"POST (\S+?)(?:;|$)", row["gateway"]):
                self.routes[route] = row

    @staticmethod
    def rows(name):
        with open(shared("spec", name)) as text:
            return list(csv.DictReader((line for line in text if not line.startswith("#")), delimiter="\t",
                                       quoting=csv.QUOTE_NONE))

    def encode(self, name, value):
        pairs = []
        for row in self.messages[name]:
            camel = re.sub(r"_(\w)", lambda m: m.group(1).upper(), row["field"])
            for item in self.items(value.get(row["field"], value.get(camel)), row):
                pairs.append((int(row["number"]), item))
        return message(*pairs)

    def items(self, value, row):
        for item in [] if value is None else value if row["label"] == "repeated" else [value]:
            kind = row["type"]
            if kind.startswith("enum "):
                item = item if isinstance(item, int) else self.enums[kind[5:]].get(item, 0)
            elif kind == "bytes":
                item = base64.b64decode(item + "=" * (-len(item) % 4), altchars=b"-_" if "-" in item or "_" in item else None)
            elif kind == "bool":
                item = bool(item)
            elif kind == "string":
                pass
            elif "." in kind:
                item = self.encode(kind, item)
            else:
                item = int(item)
            yield item

    def decode(self, name, data):
        rows = {int(row["number"]): row for row in self.messages[name]}
        out = {}
        for number, value in fields(data):
            row = rows[number]
            value = self.shown(row["type"], value)
            if row["label"] == "repeated":
                out.setdefault(row["field"], []).append(value)
            else:
                out[row["field"]] = value
        return out

    def shown(self, kind, value):
        if kind.startswith("enum "):
            return next((k for k, n in self.enums[kind[5:]].items() if n == value), value)
        if kind == "bytes":
            return base64.b64encode(value).decode()
        if kind == "bool":
            return bool(value)
        if kind == "string":
            return value.decode()
        if "." in kind:
            return self.decode(kind, value)
        if kind in ("int64", "sint64") and value >= 1 << 63:
            value -= 1 << 64
        return value if kind in ("int32", "uint32") else str(value)


class Replay:
    """One member and the exchanges of a directory, in order; each case does its own and those before it."""

    def __init__(self, name):
        self.name = name
        self.done, self.member, self.raw, self.drifted = 0, None, None, None
        self.paths = sorted(glob.glob(os.path.join(shared("golden", "http", name), "*.txt")))

    def begin(self, folder):
        metrics = socket.socket()
        metrics.bind(("127.0.0.1", 0))
        self.metrics_port = metrics.getsockname()[1]
        metrics.close()
        self.member = Member(folder, "--listen-metrics-urls", f"http://127.0.0.1:{self.metrics_port}", *FLAGS[self.name],
                             name="g1").start()
        until(lambda: '"storage":"3.7.0"' in self.member.http("/version", headers={"Host": "127.0.0.1"})[2], "versions")
        members = json.loads(self.member.http("/members", port=self.member.peer_port)[2])
        cluster = self.member.http("/members", port=self.member.peer_port)[1]["X-Etcd-Cluster-Id"]
        self.bound = {"<MEMBER_ID>": str(members[0]["id"]), "<MEMBER_ID_HEX>": f"{members[0]['id']:x}",
                      "<CLUSTER_ID>": str(int(cluster, 16)), "<CLUSTER_ID_HEX>": cluster,
                      "<CLIENT_URL>": f"http://{self.member.endpoint}",
                      "<PEER_URL>": f"http://127.0.0.1:{self.member.peer_port}"}
        self.raw = Raw(self.member.endpoint)
        self.schema = Schema()

    def end(self):
        if self.raw is not None:
            self.raw.close()
            self.member.kill()

    def bind(self, text):
        for name, value in self.bound.items():
            text = text.replace(name, value)
        return text

    def run(self, folder):
        """Yields (path, None or an exception) for every exchange."""
        self.begin(folder)
        try:
            for path in self.paths:
                try:
                    self.exchange(Exchange(path))
                    yield path, None
                except (Exception, Skip) as error:
                    yield path, error
        finally:
            self.end()

    def exchange(self, e):
        if e.port == "peer" and e.target.startswith(NOT_YET):
            raise Skip("the peer's transport is not there yet")
        if not e.target.startswith("/v3") or e.method == "OPTIONS":
            return self.plain(e)
        row = self.schema.routes.get(e.target)
        if e.method != "POST" or row is None or e.body.strip() == "" or e.answer.startswith('{"code":3,"message":"<PARSER_TEXT>'):
            raise Skip("the JSON gateway is not there yet")
        if row["kind"] != "unary":
            raise Skip("streams need the JSON gateway")
        self.call(e, row)

    # --- plain

    def plain(self, e):
        port = {"client": self.member.port, "peer": self.member.peer_port, "metrics": self.metrics_port}[e.port]
        status, headers, body = request(port, e.method, e.target, e.headers, e.body)
        expect(status, e.status, body)
        for name, value in e.answer_headers:
            expect(headers.get(name.lower()), self.bind(value), f"header {name}")
        if "no-cors" in e.kind:
            return
        self.compare(e, body)

    def compare(self, e, body):
        wanted = self.bind(e.answer)
        if e.kind.startswith("json"):
            if not same(json.loads(body), loads(wanted)):
                raise AssertionError(f"expected: {wanted}\nseen:     {body}")
        elif e.kind.startswith("lines-any-order"):
            expect(sorted(filter(None, body.split("\n"))), sorted(filter(None, wanted.split("\n"))))
        else:
            expect(body, wanted if "ends with newline" in e.kind else wanted[:-1] if wanted.endswith("\n") else wanted)

    # --- as gRPC

    def call(self, e, row):
        answer = self.raw.call(row["grpc_path"], self.schema.encode(row["request"], json.loads(self.bind(e.body))))
        if answer.code == 12 and answer.text.startswith("unknown "):
            if e.target in WRITES_NOT_YET:
                self.drifted = e.target
            raise Skip(f"{row['service']}.{row['rpc']} is not there yet")
        wanted = loads(self.bind(e.answer))
        if e.status != 200:
            expect(answer.status, (wanted["code"], wanted["message"]))
            return
        expect(answer.code, 0, answer.text)
        if self.drifted is not None:
            raise Skip(f"{self.drifted} is not there yet, so revisions differ from here on")
        seen = self.schema.decode(row["response"], answer.body)
        if not same(seen, wanted):
            raise AssertionError(f"expected: {json.dumps(wanted)}\nseen:     {json.dumps(seen)}")


def loads(text):
    """JSON with bare placeholders made strings."""
    return json.loads(re.sub(r'(?<!")(<[A-Z_]+>)(?!")', r'"\1"', text))


def same(seen, wanted):
    """Equal as JSON values; <TERM>, <NUM>, <TIME> stand for anything."""
    if isinstance(wanted, str) and re.search(r"<(TERM|NUM|TIME|PARSER_TEXT)>", wanted):
        return re.fullmatch(re.sub(r"<(TERM|NUM|TIME|PARSER_TEXT)>", ".*", re.escape(wanted).replace("\\<", "<").replace("\\>", ">")),
                            str(seen)) is not None
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return wanted.keys() == seen.keys() and all(same(seen[k], wanted[k]) for k in wanted)
    if isinstance(wanted, list) and isinstance(seen, list):
        return len(wanted) == len(seen) and all(map(same, seen, wanted))
    return seen == wanted


def request(port, method, target, headers, body):
    """(status, lower-case headers, body) by a plain socket, so that nothing is added or hidden."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    if not any(k.lower() == "host" for k in headers):
        lines.append(f"Host: 127.0.0.1:{port}")
    data = body.encode()
    if data:
        lines.append(f"Content-Length: {len(data)}")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode() + data)
        got = b""
        while part := s.recv(65536):
            got += part
    head, rest = got.split(b"\r\n\r\n", 1)
    status, *fields_ = head.decode().split("\r\n")
    seen = {k.lower(): v for k, v in (line.split(": ", 1) for line in fields_)}
    return int(status.split()[1]), seen, rest.decode()


def add(tap):
    if shared("golden", "http") is None:
        return
    for name in FLAGS:
        replay = Replay(name)
        results = {}

        def case(folder, path, replay=replay, results=results):
            if not results:
                results.update(replay.run(folder))
            if isinstance(results[path], BaseException):
                raise results[path]

        for path in replay.paths:
            tap.case(f"golden http/{name}/{os.path.basename(path)}", case, path)
