#!/usr/bin/env python3
"""The Python client etcd3 from PyPI against a member. Usage: python.py HOST PORT. Output is TAP."""
import sys
import threading
import time

import etcd3


def expect(seen, expected):
    if seen != expected:
        raise AssertionError(f"expected {expected!r}, seen {seen!r}")


def put_and_get(client):
    client.put("py/a", b"\x00\xffbytes")
    value, meta = client.get("py/a")
    expect(value, b"\x00\xffbytes")
    expect(meta.version, 1)
    expect(client.get("py/none"), (None, None))
    expect(client.delete("py/a"), True)
    expect(client.delete("py/a"), False)


def ranges(client):
    for i in range(30):
        client.put(f"py/r/{i:02}", str(i))
    pairs = [(meta.key, value) for value, meta in client.get_prefix("py/r/", sort_order="descend")]
    expect(pairs, [(f"py/r/{i:02}".encode(), str(i).encode()) for i in reversed(range(30))])
    expect(client.delete_prefix("py/r/").deleted, 30)


def transactions(client):
    client.put("py/t", "1")
    good, answers = client.transaction(compare=[client.transactions.value("py/t") == "1"],
                                       success=[client.transactions.put("py/t", "2"), client.transactions.get("py/t")],
                                       failure=[client.transactions.get("py/t")])
    expect((good, answers[1][0][0]), (True, b"2"))
    expect(client.replace("py/t", "1", "3"), False)
    expect(client.replace("py/t", "2", "3"), True)


def threads_share_a_client(client):
    def write(n):
        for i in range(50):
            client.put(f"py/w/{n}/{i}", "x")

    writers = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for w in writers:
        w.start()
    for w in writers:
        w.join()
    expect(sum(1 for _ in client.get_prefix("py/w/")), 400)


def status_and_members(client):
    status = client.status()
    expect(status.version, "3.7.1")
    expect([m.id for m in client.members], [status.leader.id])


def compaction(client):
    client.put("py/c", "1")
    revision = client.get("py/c")[1].mod_revision
    client.put("py/c", "2")
    client.compact(revision)
    try:
        client.compact(revision)
    except Exception as error:
        if "has been compacted" not in str(error):
            raise
    else:
        raise AssertionError("expected a refusal of the second compaction")


def leases(client):
    lease = client.lease(30)
    client.put("py/l", "1", lease)
    expect((lease.granted_ttl, lease.remaining_ttl in (29, 30), list(lease.keys)), (30, True, [b"py/l"]))
    lease.revoke()
    expect(client.get("py/l")[0], None)
    expect(client.get_lease_info(lease.id).TTL, -1)


def a_lease_that_is_kept(client):
    lease = client.lease(2)
    client.put("py/k", "1", lease)
    for _ in range(8):
        time.sleep(0.5)
        expect([(a.ID, a.TTL) for a in lease.refresh()], [(lease.id, 2)])
    expect(client.get("py/k")[0], b"1")
    end = time.monotonic() + 15
    while client.get("py/k")[0] is not None:
        expect(time.monotonic() < end, True)
        time.sleep(0.1)
    expect([a.TTL for a in lease.refresh()], [0])


def watches(client):
    events, cancel = client.watch_prefix("py/watch/")
    first = client.put("py/watch/a", "1").header.revision
    client.put("py/watch/b", "2")
    client.delete("py/watch/a")
    expect([(type(e).__name__, e.key, e.value) for e in (next(events), next(events), next(events))],
           [("PutEvent", b"py/watch/a", b"1"), ("PutEvent", b"py/watch/b", b"2"), ("DeleteEvent", b"py/watch/a", b"")])
    cancel()
    expect(list(events), [])
    again, cancel = client.watch("py/watch/a", start_revision=first, prev_kv=True)
    expect([(e.mod_revision, e.prev_value) for e in (next(again), next(again))], [(first, b""), (first + 2, b"1")])
    cancel()
    expect(client.watch_prefix_once("py/watch/b", timeout=5, start_revision=first).value, b"2")


def main():
    client = etcd3.client(host=sys.argv[1], port=int(sys.argv[2]), timeout=20)
    cases = [put_and_get, ranges, transactions, threads_share_a_client, status_and_members, compaction, leases,
             a_lease_that_is_kept, watches]
    print(f"1..{len(cases)}")
    failed = 0
    for number, case in enumerate(cases, 1):
        name = "python: " + case.__name__.replace("_", " ")
        try:
            case(client)
            print(f"ok {number} - {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"# {type(error).__name__}: {error}\nnot ok {number} - {name}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
