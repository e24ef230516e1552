"""Leases over time and restarts; space that runs out and is given back."""
import json
import os
import random
import re
import subprocess
import threading
import time

from harness import BIN, Member, expect, expect_in, until

# Short elections make short leases: the least TTL is one second.
SHORT = ("--heartbeat-interval", "10", "--election-timeout", "100")


def grant(m, ttl_s):
    return m.ctl("lease", "grant", str(ttl_s)).split()[1]


def left(m, lease, *flags):
    return json.loads(m.ctl("lease", "timetolive", lease, "-w", "json", *flags))


def gone(m, lease):
    return lambda: left(m, lease)["ttl"] == -1


def leases(m):
    return sorted(m.ctl("lease", "list").split()[3:])


# --- the end of leases ---------------------------------------------------------------------------------------


def keys_go_with_their_lease(folder):
    m = Member(folder, *SHORT).start()
    lease = grant(m, 2)
    m.ctl("put", "b", "1", "--lease", lease)
    m.ctl("put", "a", "1", "--lease", lease)
    m.ctl("put", "moved", "1", "--lease", lease)
    m.ctl("put", "moved", "2")
    m.ctl("put", "other", "1")
    until(gone(m, lease), "the lease runs out", 10)
    expect(m.ctl("get", "", "--prefix"), "moved\n2\nother\n1\n")
    # One revision for both of its keys.
    expect(json.loads(m.ctl("get", "other", "-w", "json"))["header"]["revision"], 7)
    expect(leases(m), [])


def a_lease_ends_in_time(folder):
    m = Member(folder).start()
    began = time.monotonic()
    lease = grant(m, 2)
    until(gone(m, lease), "the lease runs out", 10)
    took = time.monotonic() - began
    if not 1.9 < took < 4:
        raise AssertionError(f"a lease of 2 s ended after {took:.2f} s")


def many_run_out_together(folder):
    m = Member(folder, *SHORT).start()
    ids = [format(0x1000 + i, "x") for i in range(40)]
    for i in ids:
        lease = grant(m, 1)
        m.ctl("put", "k" + i, "v", "--lease", lease)
    until(lambda: leases(m) == [], "all run out", 30)
    metrics = m.http("/metrics")[2]
    for name in ("debugging_lease_granted", "debugging_lease_revoked", "debugging_server_lease_expired"):
        expect_in(f"\netcd_{name}_total 40\n", metrics)
    expect(m.ctl("get", "k", "--prefix"), "")


# --- restarts --------------------------------------------------------------------------------------------------


def restart(m, how):
    m.kill() if how == "killed" else m.stop()
    m.start()


def leases_outlive_a_restart(folder, how):
    m = Member(folder, *SHORT).start()
    long, short = grant(m, 600), grant(m, 3)
    m.ctl("put", "long", "1", "--lease", long)
    m.ctl("put", "short", "1", "--lease", short)
    time.sleep(1)
    restart(m, how)
    expect(leases(m), sorted([long, short]))
    seen = left(m, long, "--keys")
    expect((seen["granted-ttl"], seen["keys"]), (600, ["bG9uZw=="]))
    if not 590 <= seen["ttl"] <= 600:
        raise AssertionError(f"{seen['ttl']} s are left of 600 s")
    if left(m, short)["ttl"] > 3:
        raise AssertionError("a lease grew")
    until(gone(m, short), "it runs out all the same", 10)
    expect(m.ctl("get", "", "--prefix"), "long\n1\n")
    restart(m, how)
    expect(leases(m), [long])
    expect(m.ctl("lease", "revoke", long), f"lease {long} revoked\n")
    expect(m.ctl("get", "", "--prefix"), "")


def restarts_do_not_bring_back_what_ran_out(folder):
    """Killed again and again around the moment when a lease runs out, either all of it is there or nothing."""
    m = Member(folder, *SHORT).start()
    for seed in range(6):
        lease = grant(m, 1)
        for i in range(5):
            m.ctl("put", f"k{i}", "v", "--lease", lease)
        time.sleep(0.9 + 0.15 * seed)
        restart(m, "killed")
        keys = m.ctl("get", "k", "--prefix", "--keys-only").split()
        known = lease in leases(m)
        # Between the two questions it may have run out.
        if keys and len(keys) != 5 or keys and not known and m.ctl("get", "k", "--prefix", "--keys-only"):
            raise AssertionError(f"{keys} of a lease that is {'there' if known else 'gone'}")
        until(gone(m, lease), "the lease runs out", 10)
        expect(m.ctl("get", "k", "--prefix"), "")


def a_keeper_outlives_restarts(folder, how):
    m = Member(folder, *SHORT).start()
    lease = grant(m, 3)
    m.ctl("put", "kept", "1", "--lease", lease)
    keeper = subprocess.Popen([os.path.join(BIN, "etcd-ctl"), "--endpoints", m.endpoint, "lease", "keep-alive", lease],
                              stdout=subprocess.PIPE, text=True)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(keeper.stdout), daemon=True)
    try:
        reader.start()
        for _ in range(2):
            time.sleep(1.5)
            restart(m, how)
            time.sleep(3)
            expect(m.ctl("get", "kept"), "kept\n1\n")
        m.ctl("lease", "revoke", lease)
        expect(keeper.wait(20), 0)
        reader.join(10)
    finally:
        keeper.kill()
        keeper.wait()
    expect(lines[-1], f"lease {lease} expired or revoked.\n")
    if len(lines) < 6 or set(lines[:-1]) != {f"lease {lease} keepalived with TTL(3)\n"}:
        raise AssertionError(lines)


def a_keeper_does_not_hold_up_a_stop(folder):
    m = Member(folder).start()
    lease = grant(m, 60)
    keeper = subprocess.Popen([os.path.join(BIN, "etcd-ctl"), "--endpoints", m.endpoint, "lease", "keep-alive", lease],
                              stdout=subprocess.PIPE, text=True)
    try:
        expect(keeper.stdout.readline(), f"lease {lease} keepalived with TTL(60)\n")
        began = time.monotonic()
        expect(m.stop(), -15)
        took = time.monotonic() - began
        if took > 5:
            raise AssertionError(f"the stop took {took:.2f} s")
    finally:
        keeper.kill()
        keeper.wait()


# --- space -------------------------------------------------------------------------------------------------------


def status(m):
    return json.loads(m.ctl("endpoint", "status", "-w", "json"))[0]["Status"]


def fill(m, count, length, prefix="k", concurrent=4):
    """Puts `count` keys through a few processes that take transactions from standard input."""
    value = "v" * length

    def some(keys):
        for at in range(0, len(keys), 100):
            ops = "".join(f"put {k} {value}\n" for k in keys[at:at + 100])
            m.ctl("txn", input=f"\n{ops}\n\n")

    keys = [f"{prefix}{i:06}" for i in range(count)]
    threads = [threading.Thread(target=some, args=(keys[i::concurrent],)) for i in range(concurrent)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def no_space_and_back(folder):
    m = Member(folder, "--quota-backend-bytes", str(2 * 1024 * 1024)).start()
    seen = None
    for i in range(200):
        seen = m.ctl("put", f"k{i}", "v" * 50000, check=False)
        if seen.returncode != 0:
            break
    expect_in("etcdserver: mvcc: database space exceeded", seen.stderr)
    until(lambda: "alarm:NOSPACE" in m.ctl("alarm", "list"), "the alarm is raised")
    expect_in("alarm:NOSPACE", " ".join(status(m)["errors"]))
    for words in (("put", "small", "1"), ("lease", "grant", "10")):
        expect_in("database space exceeded", m.ctl(*words, check=False).stderr)
    # Reading, deleting, compacting and giving back go on.
    expect_in("k0", m.ctl("get", "k0", "--keys-only"))
    expect_in("SUCCESS", m.ctl("txn", input='ver("k0") > "0"\n\nget k0 --keys-only\n\n\n'))
    expect(int(m.ctl("del", "k", "--prefix")) > 10, True)
    revision = status(m)["header"]["revision"]
    m.ctl("compaction", str(revision), "--physical")
    before = status(m)["dbSize"]
    m.ctl("defrag")
    if not status(m)["dbSize"] < before / 4:
        raise AssertionError(f"{before} bytes became {status(m)['dbSize']}")
    # The alarm stays until it is cleared, across a restart too.
    restart(m, "stopped")
    expect_in("database space exceeded", m.ctl("put", "small", "1", check=False).stderr)
    expect_in("alarm:NOSPACE", m.ctl("alarm", "disarm"))
    expect(m.ctl("alarm", "list"), "")
    expect(m.ctl("put", "small", "1"), "OK\n")
    grant(m, 10)


def defragmentation_keeps_everything(folder):
    m = Member(folder).start()
    fill(m, 4000, 500)
    m.ctl("del", "k", "k003900", "--range")
    m.ctl("compaction", str(status(m)["header"]["revision"]), "--physical")
    lease = grant(m, 600)
    m.ctl("put", "leased", "1", "--lease", lease)
    before, size = m.hash_kv(), status(m)["dbSize"]
    expect_in("Finished defragmenting", m.ctl("defrag"))
    if not status(m)["dbSize"] < size / 3:
        raise AssertionError(f"{size} bytes became {status(m)['dbSize']}")
    expect(m.hash_kv(), before)
    m.ctl("put", "behind", "1")
    after = m.hash_kv()
    restart(m, "killed")
    expect(m.hash_kv(), after)
    expect(leases(m), [lease])
    left_over = [n for n in os.listdir(os.path.join(m.data, "member/snap")) if "tmp" in n]
    expect(left_over, [])


def killed_while_it_defragments(folder):
    m = Member(folder).start()
    fill(m, 3000, 1000)
    last = None
    for seed in range(8):
        m.ctl("put", "round", str(seed))
        last = m.hash_kv()
        child = subprocess.Popen([os.path.join(BIN, "etcd-ctl"), "--endpoints", m.endpoint, "defrag"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.Random(seed).uniform(0.001, 0.06))
        m.kill()
        child.kill()
        child.wait()
        m.start()
        expect(m.hash_kv(), last, f"after kill {seed}")
        names = os.listdir(os.path.join(m.data, "member/snap"))
        expect(sorted(n for n in names if re.search("tmp", n)), [])
    expect(last[0] != 0, True)


def requests_go_on_while_it_defragments(folder):
    m = Member(folder).start()
    fill(m, 3000, 1000)
    stop, wrong, rounds = threading.Event(), [], []

    def work():
        while not stop.is_set():
            key = f"w{len(rounds)}"
            for words, expected in ((("put", key, "1"), "OK\n"), (("get", key), f"{key}\n1\n")):
                done = m.ctl(*words, check=False)
                if done.stdout != expected:
                    wrong.append(done)
            rounds.append(key)

    worker = threading.Thread(target=work)
    worker.start()
    for _ in range(10):
        m.ctl("defrag")
    until(lambda: len(rounds) > 5, "requests are answered")
    stop.set()
    worker.join()
    expect(wrong, [])
    before = m.hash_kv()
    restart(m, "killed")
    expect(m.hash_kv(), before)


def add(tap):
    tap.case("keys go with their lease", keys_go_with_their_lease)
    tap.case("a lease ends in time", a_lease_ends_in_time)
    tap.case("many leases run out together", many_run_out_together)
    for how in ("stopped", "killed"):
        tap.case(f"leases outlive a restart: {how}", leases_outlive_a_restart, how)
        tap.case(f"who keeps a lease outlives restarts: {how}", a_keeper_outlives_restarts, how)
    tap.case("who keeps a lease does not hold up a stop", a_keeper_does_not_hold_up_a_stop)
    tap.case("kills around the end of a lease", restarts_do_not_bring_back_what_ran_out)
    tap.case("no space, and back", no_space_and_back)
    tap.case("defragmentation keeps everything", defragmentation_keeps_everything)
    tap.case("killed while it defragments", killed_while_it_defragments)
    tap.case("requests go on while it defragments", requests_go_on_while_it_defragments)
