"""Requests as raw bytes, answers to the letter: codes, texts, order of checks, sizes, revisions, ranges, txns.

What is expected here was seen on upstream 3.7.1 (and runs against it: give ENDPOINT of an empty one). Every case has keys
of its own, so that one member serves them all; they run in order.
"""
import os
import re

from harness import Member, expect, expect_in, shared
from raw import (CLUSTER, HEALTH, KV, MAINTENANCE, Raw, all_of, fields, kvs, message, one, op_delete, op_put,
                 op_range, op_txn, varint)

INVALID, NOT_FOUND, EXHAUSTED, PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL = 3, 5, 8, 9, 11, 12, 13
EMPTY_KEY = (INVALID, "etcdserver: key is not provided")
DUPLICATE = (INVALID, "etcdserver: duplicate key given in txn request")
TOO_MANY_OPS = (INVALID, "etcdserver: too many operations in txn request")
KEY_NOT_FOUND = (INVALID, "etcdserver: key not found")
SORT = (INVALID, "etcdserver: invalid sort option")
FUTURE = (OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")
COMPACTED = (OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
TOO_LARGE = (INVALID, "etcdserver: request is too large")
LEASE_NOT_FOUND = (NOT_FOUND, "etcdserver: requested lease not found")
OK = (0, "")
ALL = b"\0"
LIMIT, REVISION, ORDER, TARGET, SERIALIZABLE, KEYS_ONLY, COUNT_ONLY = 3, 4, 5, 6, 7, 8, 9
MIN_MOD, MAX_MOD, MIN_CREATE, MAX_CREATE = 10, 11, 12, 13
LEASE, PREV_KV, IGNORE_VALUE, IGNORE_LEASE = 3, 4, 5, 6


def keys(answer):
    return [row[0] for row in kvs(answer.body)]


def revision(raw):
    return raw.range("\0").header[3]


# --- before anything was compacted -----------------------------------------------------------------------------


def an_empty_store(raw):
    a = raw.range("a")
    expect(a.header[3], 1, "a new store is at revision 1")
    expect(sorted(n for n, _ in fields(a.body)), [1], "an absent key: only the header")
    expect(raw.range("a", b"", (REVISION, 2)).status, FUTURE)
    expect(raw.range("a", b"", (REVISION, -1)).status, OK, "negative is current")
    expect(raw.txn().body[-2:], b"\x10\x01", "an empty txn has succeeded")
    expect(dict(fields(one(raw.txn().body, 1)))[3], 1, "and changes nothing")
    expect(raw.txn(success=[op_range("a", b"", (REVISION, -1))]).status, OK, "-1 passes while nothing was compacted")
    expect(raw.txn(success=[op_range("a", b"", (REVISION, -2))]).status, COMPACTED)
    hashed = dict(fields(raw.call(MAINTENANCE + "HashKV").body))
    expect(hashed[3], (1 << 64) - 1, "compact_revision -1: never")
    expect(raw.compact(0).status, OK, "the mark starts at -1")
    expect(raw.compact(0).status, COMPACTED)
    expect(raw.compact(2).status, FUTURE)


# --- requests that are refused -----------------------------------------------------------------------------------


def puts_are_refused_in_order(raw):
    expect(raw.put("").status, EMPTY_KEY)
    expect(raw.put("", "v", (IGNORE_VALUE, 1)).status, EMPTY_KEY, "the key comes first")
    expect(raw.put("p", "v", (IGNORE_VALUE, 1)).status, (INVALID, "etcdserver: value is provided"))
    expect(raw.put("p", "v", (IGNORE_VALUE, 1), (IGNORE_LEASE, 1), (LEASE, 7)).status, (INVALID, "etcdserver: value is provided"))
    expect(raw.put("p", "", (IGNORE_LEASE, 1), (LEASE, 7)).status, (INVALID, "etcdserver: lease is provided"))
    expect(raw.put("p", "v", (LEASE, 77)).status, LEASE_NOT_FOUND)
    expect(raw.put("absent", "", (IGNORE_VALUE, 1)).status, KEY_NOT_FOUND)
    expect(raw.put("absent", "v", (IGNORE_LEASE, 1)).status, KEY_NOT_FOUND)
    expect(raw.put("absent", "", (IGNORE_VALUE, 1), (LEASE, 77)).status, LEASE_NOT_FOUND, "the lease comes first")


def ranges_are_refused_in_order(raw):
    expect(raw.range("").status, EMPTY_KEY)
    expect(raw.range("", b"", (ORDER, 9)).status, EMPTY_KEY)
    expect(raw.range("a", b"", (ORDER, 3)).status, SORT)
    expect(raw.range("a", b"", (TARGET, 5)).status, SORT)
    expect(raw.range("a", b"", (ORDER, 9), (REVISION, 1 << 40)).status, SORT, "before the revision is looked at")
    expect(raw.range("a", b"", (REVISION, 1 << 40)).status, FUTURE)
    expect(raw.range("a", b"", (REVISION, 1 << 40), (SERIALIZABLE, 1)).status, FUTURE)
    expect(raw.delete("").status, EMPTY_KEY)
    expect(raw.call(KV + "RangeStream", message((1, "a"), (ORDER, 2))).status,
           (UNIMPLEMENTED, "RangeStream does not support custom sort orders"))
    expect(raw.call(KV + "RangeStream", message((1, "a"), (MIN_MOD, 1))).status,
           (UNIMPLEMENTED, "RangeStream does not support revision filters"))
    expect(raw.call(KV + "RangeStream", message((1, "a"), (ORDER, 2), (MIN_MOD, 1))).status,
           (UNIMPLEMENTED, "RangeStream does not support custom sort orders"))
    expect(raw.call(KV + "RangeStream").status, EMPTY_KEY)
    expect(raw.call(KV + "RangeStream", message((1, "a"), (ORDER, 1))).status, OK, "ascending by key is no custom order")


def txns_are_refused_in_order(raw):
    many = [op_put(f"t{i}") for i in range(129)]
    expect(raw.txn(success=many).status, TOO_MANY_OPS)
    expect(raw.txn(failure=many).status, TOO_MANY_OPS)
    expect(raw.txn(compares=[message((3, "k"))] * 129).status, TOO_MANY_OPS)
    expect(raw.txn(success=many[:128]).status, OK)
    expect(raw.txn(success=[op_txn(success=many[:127])]).status, OK, "a nested txn has what its parent leaves")
    expect(raw.txn(success=[op_txn(success=many[:128])]).status, TOO_MANY_OPS)
    expect(raw.txn(compares=[message((3, ""))], success=[op_put("")]).status, EMPTY_KEY)
    expect(raw.txn(success=[b""]).status, KEY_NOT_FOUND, "an op without its oneof")
    expect(raw.txn(success=[op_range("")]).status, EMPTY_KEY)
    expect(raw.txn(success=[op_range("k", b"", (ORDER, 9))]).status, SORT)
    expect(raw.txn(success=[op_put("k"), op_put("k")]).status, DUPLICATE)
    expect(raw.txn(failure=[op_put("k"), op_put("k")]).status, DUPLICATE)
    expect(raw.txn(success=[op_put("k")], failure=[op_put("k")]).status, OK, "branches do not meet")
    expect(raw.txn(success=[op_put("k"), op_delete("k")]).status, DUPLICATE)
    expect(raw.txn(success=[op_delete("j", b"l"), op_put("k")]).status, DUPLICATE)
    expect(raw.txn(success=[op_delete("k"), op_delete("k")]).status, OK)
    expect(raw.txn(success=[op_put("k"), op_txn(success=[op_put("k")])]).status, DUPLICATE)
    expect(raw.txn(success=[op_txn(success=[op_put("k")], failure=[op_put("k")])]).status, OK)
    expect(raw.txn(success=[op_txn(success=[op_delete("k")]), op_txn(success=[op_put("k")])]).status, DUPLICATE)
    expect(raw.txn(success=[op_txn(success=[op_put("k")]), op_txn(success=[op_delete("k")])]).status, OK)
    expect(raw.txn(success=[op_put("q", "v", (LEASE, 77)), op_put("r")]).status, LEASE_NOT_FOUND)
    expect(keys(raw.range("r")), [], "nothing of a refused txn is there")
    expect(raw.txn(success=[op_range("k", b"", (REVISION, 1 << 40))]).status, FUTURE)
    expect(raw.txn(success=[op_put("k"), op_range("k", b"", (REVISION, revision(raw) + 1))]).status, FUTURE,
           "although the txn itself would create it")


def sizes(raw):
    # 11 bytes around the value, 4 of the header's frame, and its id, which begins with the member's last two bytes.
    member = raw.range("a").header[2]
    room = 1572864 - 11 - 4 - len(varint((member & 0xFFFF) << 48 | 1 << 40))
    expect(raw.put("s", b"v" * room).status, OK)
    expect(raw.put("s", b"v" * (room + 1)).status, TOO_LARGE)
    limit = 1572864 + 524288
    body = message((1, "s"), (2, b"v" * limit))
    expect(raw.call(KV + "Put", body).status,
           (EXHAUSTED, f"grpc: received message larger than max ({len(body)} vs. {limit})"))
    expect(len(one(raw.range("s").body, 2)) > room, True, "and the connection goes on")
    expect(raw.delete("s").status, OK)


def paths_and_bytes(raw):
    expect(raw.call("/etcdserverpb.KV/Nope").status, (UNIMPLEMENTED, "unknown method Nope for service etcdserverpb.KV"))
    expect(raw.call("/no.Such/Put").status, (UNIMPLEMENTED, "unknown service no.Such"))
    expect(raw.call("/foo").status, (UNIMPLEMENTED, 'malformed method name: "/foo"'))
    a = raw.call(KV + "Range", b"\x0a\x05ab")
    expect(a.code, INTERNAL)
    expect_in("grpc: error unmarshalling request: ", a.text)
    expect(raw.range("a", client_api_version="3.7").status, OK)
    expect(raw.range("a", hasleader="true").status, OK)
    expect(raw.call(HEALTH + "Check").messages, [b"\x08\x01"])
    expect(raw.call(HEALTH + "Check", message((1, "etcd"))).status, (NOT_FOUND, "unknown service"))


# --- answers ---------------------------------------------------------------------------------------------------------


def puts_and_deletes(raw):
    before = revision(raw)
    a = raw.put("pd/a", "1")
    expect(a.header[3], before + 1, "the revision behind the change")
    expect(len(fields(a.body)), 1, "without prev_kv: the header alone")
    a = raw.put("pd/a", "2", (PREV_KV, 1))
    previous = dict(fields(one(a.body, 2)))
    expect((previous[5], previous[2], previous[3], previous[4]), (b"1", before + 1, before + 1, 1))
    expect(kvs(raw.range("pd/a").body), [("pd/a", "2", before + 1, before + 2, 2, 0)])
    expect(raw.put("pd/a", "", (IGNORE_VALUE, 1)).status, OK)
    expect(kvs(raw.range("pd/a").body), [("pd/a", "2", before + 1, before + 3, 3, 0)])
    a = raw.delete("pd/", b"pd0", (3, 1))
    expect((one(a.body, 2), len(all_of(a.body, 3)), a.header[3]), (1, 1, before + 4))
    a = raw.delete("pd/", b"pd0")
    expect((one(a.body, 2), a.header[3]), (0, before + 4), "nothing deleted, nothing moved")
    raw.put("pd/a", "3")
    expect(kvs(raw.range("pd/a").body), [("pd/a", "3", before + 5, before + 5, 1, 0)], "born anew")
    a = raw.range("pd/a", b"", (REVISION, before + 2))
    expect((kvs(a.body)[0][1], a.header[3]), ("2", before + 5), "an old row, the present revision")


def ranges(raw):
    for name, value in (("b", "2"), ("a", "3"), ("c", "1")):
        raw.put("rg/" + name, value)
    a, e = "rg/", b"rg0"
    first = kvs(raw.range("rg/b").body)[0][3]
    expect(keys(raw.range(a, e)), ["rg/a", "rg/b", "rg/c"])
    expect(keys(raw.range(a, e, (ORDER, 2))), ["rg/c", "rg/b", "rg/a"])
    for target, rising in ((2, "bac"), (3, "bac"), (4, "cba")):
        expect("".join(k[-1] for k in keys(raw.range(a, e, (ORDER, 1), (TARGET, target)))), rising, f"target {target}")
        expect("".join(k[-1] for k in keys(raw.range(a, e, (TARGET, target)))), rising, "none ascends too")
        expect("".join(k[-1] for k in keys(raw.range(a, e, (ORDER, 2), (TARGET, target)))), rising[::-1])
    limited = raw.range(a, e, (LIMIT, 2))
    expect((keys(limited), one(limited.body, 3), one(limited.body, 4)), (["rg/a", "rg/b"], 1, 3))
    whole = raw.range(a, e, (LIMIT, 3))
    expect((one(whole.body, 3), one(whole.body, 4)), (0, 3))
    expect(keys(raw.range(a, e, (LIMIT, -1))), ["rg/a", "rg/b", "rg/c"])
    counted = raw.range(a, e, (COUNT_ONLY, 1), (LIMIT, 1))
    expect((keys(counted), one(counted.body, 3), one(counted.body, 4)), ([], 0, 3))
    expect([row[1] for row in kvs(raw.range(a, e, (KEYS_ONLY, 1)).body)], ["", "", ""])
    filtered = raw.range(a, e, (MIN_MOD, first + 1), (LIMIT, 1))
    expect((keys(filtered), one(filtered.body, 3), one(filtered.body, 4)), (["rg/a"], 1, 3), "limit behind the filter")
    expect(keys(raw.range(a, e, (MAX_CREATE, first))), ["rg/b"])
    expect(keys(raw.range("rg/b", b"rg/b")), [], "an empty interval is no error")
    expect(keys(raw.range("rg/b", b"rg/a")), [])
    expect(keys(raw.range("rg/c", ALL))[:1], ["rg/c"], "from a key on")


def txns(raw):
    before = revision(raw)
    a = raw.txn(compares=[message((1, 0), (2, 1), (3, "tx/a"), (5, 0))],
                success=[op_range("tx/a"), op_put("tx/a", "1"), op_range("tx/a"), op_txn(success=[op_put("tx/b", "2")])])
    expect((a.header[3], one(a.body, 2)), (before + 1, 1))
    answers = [fields(r)[0] for r in all_of(a.body, 3)]
    expect([kind for kind, _ in answers], [1, 2, 1, 4])
    headers = [dict(fields(one(body, 1, b""))) for _, body in answers]
    expect(headers, [{3: before}, {3: before + 1}, {3: before + 1}, {}], "old before the first change, then new; nested: empty")
    expect([kvs(body) for kind, body in answers if kind == 1], [[], [("tx/a", "1", before + 1, before + 1, 1, 0)]])
    a = raw.txn(compares=[message((2, 3), (3, "tx/a"), (7, "x"))], success=[op_put("tx/c")], failure=[op_range("tx/c")])
    expect((a.header[3], one(a.body, 2)), (before + 1, 0))
    expect(one(raw.txn(compares=[message((2, 3), (3, "absent"), (7, ""))]).body, 2), 0, "a value of an absent key is false")
    expect(one(raw.txn(compares=[message((2, 0), (3, "absent"), (4, 0))]).body, 2), 1, "its version is 0")
    expect(one(raw.txn(compares=[message((1, 9), (3, "tx/a"), (4, 5))]).body, 2), 1, "an unknown result is true")


def streams(raw):
    for i in range(30):
        raw.put(f"st/{i:02}", "v")
    call = lambda *more: raw.call(KV + "RangeStream", message((1, "st/"), (2, "st0"), *more))
    chunks = lambda a: [[row[0] for row in kvs(one(m, 1))] for m in a.messages]
    sizes_of = lambda a: [len(c) for c in chunks(a)]
    expect(sizes_of(call()), [10, 20])
    last = one(call().messages[-1], 1)
    expect((one(last, 3), one(last, 4), dict(fields(one(last, 1)))[3]), (0, 30, revision(raw)))
    expect([n for n, _ in fields(one(call().messages[0], 1))], [2] * 10, "only rows before the last")
    cut = call((LIMIT, 25))
    last = one(cut.messages[-1], 1)
    expect((sizes_of(cut), one(last, 3), one(last, 4)), ([10, 15], 1, 30))
    expect(sizes_of(call((LIMIT, 3))), [3])
    expect(sizes_of(call((LIMIT, -1))), [30])
    counted = call((COUNT_ONLY, 1))
    expect((len(counted.messages), one(one(counted.messages[0], 1), 4)), (1, 30))
    empty = raw.call(KV + "RangeStream", message((1, "none/"), (2, "none0")))
    expect([n for n, _ in fields(one(empty.messages[0], 1))], [1])
    for i in range(50):
        raw.put(f"sl/{i:02}", "v" * 60000)
    large = raw.call(KV + "RangeStream", message((1, "sl/"), (2, "sl0")))
    expect(sizes_of(large), [10, 20, 20])
    expect(sum(chunks(large), []), [f"sl/{i:02}" for i in range(50)])
    expect(raw.call(KV + "RangeStream", message((1, "st/"), (REVISION, 1 << 40))).status, FUTURE)


def large_ranges(raw):
    """Far above one buffer: made frame by frame."""
    a = raw.range("sl/", b"sl0")
    expect([(k, len(v)) for k, v, *_ in kvs(a.body)], [(f"sl/{i:02}", 60000) for i in range(50)])
    expect(one(a.body, 4), 50)
    expect(len(kvs(raw.range("sl/", b"sl0", (KEYS_ONLY, 1)).body)), 50)


def member_and_status(raw):
    members = raw.call(CLUSTER + "MemberList")
    header = members.header
    expect(sorted(header), [1, 2, 4], "cluster answers have no revision")
    rows = all_of(members.body, 2)
    expect((len(rows), one(rows[0], 1)), (1, header[2]))
    expect(raw.call(CLUSTER + "MemberList", message((1, 1))).code, 0)
    status = raw.call(MAINTENANCE + "Status")
    expect(status.header[3], revision(raw))
    expect(one(status.body, 2), b"3.7.1")
    expect(one(status.body, 4), header[2], "the one member leads")
    expect(one(status.body, 6), status.header[4], "its term")
    expect(one(status.body, 12), 2147483648, "the quota")
    expect(raw.call(MAINTENANCE + "HashKV", message((1, 1 << 40))).status, FUTURE)
    expect(raw.call(MAINTENANCE + "Alarm").code, 0)


def compactions(raw):
    at = revision(raw)
    raw.put("cp/a", "1")
    raw.put("cp/a", "2")
    raw.delete("cp/a")
    raw.put("cp/b", "1")
    a = raw.compact(at + 3)
    expect((a.status, a.header[3]), (OK, at + 4))
    expect(raw.compact(at + 3).status, COMPACTED)
    expect(raw.compact(at).status, COMPACTED)
    expect(raw.compact(0).status, COMPACTED)
    expect(raw.compact(-1).status, COMPACTED)
    expect(raw.compact(at + 5).status, FUTURE)
    expect(raw.range("cp/a", b"", (REVISION, at + 2)).status, COMPACTED)
    expect(raw.range("cp/a", b"", (REVISION, at + 3)).status, OK, "at the mark")
    expect(raw.txn(success=[op_range("cp/a", b"", (REVISION, at + 2))]).status, COMPACTED)
    expect(raw.txn(success=[op_range("cp/a", b"", (REVISION, -1))]).status, COMPACTED, "negative, in a txn")
    expect(raw.call(KV + "RangeStream", message((1, "cp/a"), (REVISION, at))).status, COMPACTED)
    expect(raw.call(MAINTENANCE + "HashKV", message((1, at))).status, COMPACTED)
    hashed = dict(fields(raw.call(MAINTENANCE + "HashKV", message((1, at + 4))).body))
    expect((hashed[3], hashed[4]), (at + 3, at + 4))
    expect(raw.compact(at + 4, physical=True).status, OK)


CASES = (("an empty store", an_empty_store), ("puts are refused in order", puts_are_refused_in_order),
         ("ranges are refused in order", ranges_are_refused_in_order),
         ("txns are refused in order", txns_are_refused_in_order), ("sizes", sizes), ("paths and bytes", paths_and_bytes),
         ("puts and deletes", puts_and_deletes), ("ranges", ranges), ("txns", txns), ("streams", streams),
         ("large ranges", large_ranges), ("member and status", member_and_status), ("compactions", compactions))


# --- metrics -----------------------------------------------------------------------------------------------------------


def metrics_are_upstreams(folder):
    """Every name with its type and labels stands in metrics.tsv; what dashboards and alerts need is there."""
    table = {}
    with open(shared("spec", "metrics.tsv")) as text:
        for line in text:
            if not line.startswith("#"):
                name, kind, labels, buckets = line.rstrip("\n").split("\t")[:4]
                table[name] = (kind, labels, buckets)
    m = Member(folder).start()
    with Raw(m.endpoint) as raw:
        raw.put("a", "b")
        raw.range("a")
        raw.put("")
        raw.range("a", client_api_version="3.7")
        raw.call(MAINTENANCE + "Hash")
    m.http("/health"), m.http("/readyz"), m.http("/livez")
    text = m.http("/metrics")[2]
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    for name, kind in kinds.items():
        expect(kind, table.get(name, ("not in metrics.tsv",))[0], name)
    for line in filter(lambda l: l and not l.startswith("#"), text.split("\n")):
        name, labels = re.match(r"([a-z0-9_]+)(?:\{(.*)\})? \S+$", line).groups()
        base = re.sub(r"_(bucket|sum|count)$", "", name) if name not in kinds else name
        wanted = {part.split("{")[0].strip() for part in table[base][1].split(";")} - {"-"}
        seen = set(re.findall(r'(\w+)="', labels or "")) - {"le"}
        expect(seen, wanted, line)
    for name in ("etcd_disk_wal_fsync_duration_seconds", "etcd_disk_backend_commit_duration_seconds"):
        expect(" ".join(re.findall(rf'^{name}_bucket{{le="(.*)"}}', text, re.M)), table[name][2], name)
        expect(int(re.search(rf"^{name}_count (\d+)$", text, re.M).group(1)) > 0, True, name)
    for row in ('grpc_server_handled_total{grpc_code="OK",grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"} 1',
                'grpc_server_handled_total{grpc_code="InvalidArgument",grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"} 1',
                'grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 2',
                'etcd_server_client_requests_total{client_api_version="3.7",type="unary"} 1',
                "etcd_server_health_success 1", "etcd_server_leader_changes_seen_total 1", "etcd_server_proposals_pending 0",
                "etcd_server_quota_backend_bytes 2.147483648e+09",
                'etcd_server_healthchecks_total{name="linearizable_read",status="success",type="readyz"} 1'):
        expect_in(row + "\n", text)


def add(tap):
    results = {}

    def run_all(folder):
        endpoint = os.environ.get("ENDPOINT") or Member(folder).start().endpoint
        for name, run in CASES:
            with Raw(endpoint) as raw:
                try:
                    run(raw)
                    results[name] = None
                except Exception as error:
                    results[name] = error

    def case(folder, name):
        if not results:
            run_all(folder)
        if results[name] is not None:
            raise results[name]

    for name, _ in CASES:
        tap.case(f"exact: {name}", case, name)
    if shared("spec") is not None:
        tap.case("metrics are upstream's", metrics_are_upstreams)
