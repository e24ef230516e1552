#!/usr/bin/env python3
"""Measures our member, beside another etcd when ETCD_PEER names one, and prints ratios with their spread.

Both run at the same time on the same device in fresh folders, and take turns row by row (who begins changes each round),
so that a ratio compares neighbours in time: on a shared machine absolute rates wander, ratios of pairs hardly do. CPU is
the server's user and system seconds per 100,000 requests. N x M is N connections with M requests in flight on each.

Environment:
  BIN, BUILD     folders of our programs and of the helpers (build/gcc/bin, build/gcc)
  ETCD_PEER      the other etcd; without it only our figures are printed
  BENCH_ROUNDS   3
  BENCH_SCALE    1; counts are multiplied by it: 0.2 with one round takes half a minute
  BENCH_KEYS     1000000; keys of the rows about loading and starting; 0 leaves them out
  BENCH_ROWS     a regular expression; only rows whose name matches
  BENCH_DIR      where the folders are made (the build folder)
  BENCH_JSON     a file for all single figures
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ENV = os.environ.get
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = ENV("BUILD") or os.path.join(TOP, "build/gcc")
OURS = os.path.join(ENV("BIN") or os.path.join(BUILD, "bin"), "etcd-server")
PEER = ENV("ETCD_PEER")
ROUNDS = int(ENV("BENCH_ROUNDS", "3"))
SCALE = float(ENV("BENCH_SCALE", "1"))
KEYS = int(ENV("BENCH_KEYS", "1000000"))
ROWS = re.compile(ENV("BENCH_ROWS", ""))
QUOTA = 16 << 30

# name, options of load, count at scale 1, least rate ratio, greatest CPU ratio (None: no such target)
LOADS = [
    ("put 100x10", "--op put --conns 100 --inflight 10", 200000, 4, 1 / 5),
    ("put 1x100", "--op put --conns 1 --inflight 100", 100000, 4, 1 / 6),
    ("put 1x1", "--op put --conns 1 --inflight 1", 10000, None, 1 / 2.4),
    ("get l 100x10", "--op get --conns 100 --inflight 10 --keys 100000 --shuffled", 200000, 4.5, 1 / 8),
    ("get s 100x10", "--op get --conns 100 --inflight 10 --keys 100000 --shuffled --serializable", 200000, 4, 1 / 7),
    ("get l 1x1", "--op get --keys 100000 --shuffled", 20000, 2, 1 / 4),
    ("get s 1x1", "--op get --keys 100000 --shuffled --serializable", 20000, 2, 1 / 4),
    ("txn of 8 puts 100x10", "--op txn --conns 100 --inflight 10 --shuffled", 40000, 4, 1 / 5),
    ("range of 1000 1x100", "--op range --conns 1 --inflight 100 --keys 100000", 2000, 2.2, 1 / 4),
    ("range of 1000 100x10", "--op range --conns 100 --inflight 10 --keys 100000", 4000, None, None),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def memory(pid, name):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(rf"^{name}:\s+(\d+)", f.read(), re.M).group(1)) / 1024


def cpu_seconds(pid):
    """All threads, nanoseconds precise: clock_getcpuclockid() is this number."""
    return time.clock_gettime(~pid << 3 | 2)


class Member:
    """One server on a folder of its own."""

    def __init__(self, name, program, folder):
        self.name, self.program, self.folder = name, program, os.path.join(folder, name)
        self.port, self.peer_port = free_port(), free_port()
        self.child = None

    def start(self):
        """Starts it and returns the seconds until it says that it is healthy."""
        client, peer = (f"http://127.0.0.1:{p}" for p in (self.port, self.peer_port))
        command = [self.program, "--name", "m", "--data-dir", self.folder, "--listen-client-urls", client,
                   "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls",
                   peer, "--initial-cluster", f"m={peer}", "--quota-backend-bytes", str(QUOTA)]
        with open(self.folder + ".log", "ab") as log:
            begin = time.monotonic()
            self.child = subprocess.Popen(command, stdout=log, stderr=log)
        while not self.healthy():
            if self.child.poll() is not None or time.monotonic() - begin > 120:
                sys.exit(f"{self.program} does not start: see {self.folder}.log")
            time.sleep(0.001)
        return time.monotonic() - begin

    def healthy(self):
        try:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            c.request("GET", "/health")
            return b'"true"' in c.getresponse().read()
        except OSError:
            return False

    def stop(self, how=signal.SIGTERM):
        if self.child is not None:
            self.child.send_signal(how)
            self.child.wait()
        self.child = None

    def load(self, options, count, **more):
        command = [os.path.join(BUILD, "test/bench/load"), *options.split(), "--count", str(count), "--port",
                   str(self.port), "--pid", str(self.child.pid)]
        for key, value in more.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        done = subprocess.run(command, stdout=subprocess.PIPE)
        result = json.loads(done.stdout)
        if result["failed"]:
            sys.exit(f"{self.name}: {result['failed']} of {count} requests failed: {' '.join(command)}")
        return result


class Figures:
    """All that was measured: (row, figure, side) to one value a round."""

    def __init__(self):
        self.values = {}

    def add(self, row, figure, side, value):
        self.values.setdefault(row, {}).setdefault(figure, {}).setdefault(side, []).append(value)

    def get(self, row, figure, side):
        return self.values.get(row, {}).get(figure, {}).get(side, [])

    def middle(self, row, figure, side):
        values = self.get(row, figure, side)
        return statistics.median(values) if values else None

    def ratio(self, row, figure):
        """Ours by theirs, round by round: (median, least, greatest)."""
        pairs = [a / b for a, b in zip(self.get(row, figure, "ours"), self.get(row, figure, "peer")) if b]
        return (statistics.median(pairs), min(pairs), max(pairs)) if pairs else None


def sides(folder, turn):
    both = [Member("ours", OURS, folder)] + ([Member("peer", PEER, folder)] if PEER else [])
    return both if turn % 2 == 0 else both[::-1]


def measure_bare(folder, figures):
    """The disk, and an HTTP/2 server that does nothing but answer 256 bytes."""
    done = subprocess.run([os.path.join(BUILD, "test/bench/disk"), folder, "1000"], stdout=subprocess.PIPE, check=True)
    figures.add("fdatasync of 2 KiB", "p50_us", "ours", json.loads(done.stdout)["p50_us"])
    nghttpd = shutil.which("nghttpd", path=ENV("PATH", "") + ":/usr/sbin")
    if nghttpd is None:
        return
    with open(os.path.join(folder, "file"), "w") as f:
        f.write("x" * 256)
    port = free_port()
    child = subprocess.Popen([nghttpd, "--no-tls", "-d", folder, str(port)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.01)
        done = subprocess.run([os.path.join(BUILD, "test/bench/load"), "--op", "http", "--path", "/file", "--port",
                               str(port), "--count", str(int(10000 * SCALE) + 1000)], stdout=subprocess.PIPE)
        figures.add("nghttpd round trip", "p50_us", "ours", json.loads(done.stdout)["p50_us"])
    finally:
        child.terminate()
        child.wait()


def measure_loads(folder, turn, figures):
    members = sides(folder, turn)
    for m in members:
        figures.add("start empty", "seconds", m.name, m.start())
        figures.add("start empty", "anon_mib", m.name, memory(m.child.pid, "RssAnon"))
        figures.add("start empty", "rss_mib", m.name, memory(m.child.pid, "VmRSS"))
    for m in members:
        m.load("--op put --conns 10 --inflight 20 --keys 100000 --shuffled", 100000)
    for name, options, count, _, _ in LOADS:
        if not ROWS.search(name):
            continue
        for m in members:
            result = m.load(options, max(int(count * SCALE), 100))
            for figure in ("rate", "p50_us", "p99_us"):
                figures.add(name, figure, m.name, result[figure])
            figures.add(name, "cpu", m.name, result["server_cpu"])
            figures.add(name, "rss_growth_mib", m.name, (result["rss_kib"] - result["rss_before_kib"]) / 1024)
            figures.add(name, "peak_mib", m.name, result["peak_kib"] / 1024)
    for m in members:
        m.stop()


def measure_starts(folder, turn, figures):
    row = f"load of {KEYS:,} keys"
    for m in sides(folder, turn):
        m.start()
        result = m.load("--op put --conns 10 --inflight 100 --shuffled", KEYS, keys=KEYS)
        figures.add(row, "rate", m.name, result["rate"])
        figures.add(row, "cpu", m.name, result["server_cpu"])
        figures.add(row, "anon_mib", m.name, result["anon_kib"] / 1024)
        m.stop()
        for name, how in (("a clean stop", signal.SIGKILL), ("kill -9", signal.SIGTERM)):
            figures.add(f"start after {name}", "seconds", m.name, m.start())
            figures.add(f"start after {name}", "cpu_s", m.name, cpu_seconds(m.child.pid))
            figures.add(f"start after {name}", "anon_mib", m.name, memory(m.child.pid, "RssAnon"))
            if how == signal.SIGKILL:
                m.load("--op put --conns 10 --inflight 10 --shuffled", 5000, keys=KEYS)
            m.stop(how)


# --- the table ---------------------------------------------------------------------------------------------


def number(value):
    return "-" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def spread(ratio):
    return "-" if ratio is None else "%.2f (%.2f-%.2f)" % ratio


def line(f, row, figure, target, met):
    cells = [row, figure, number(f.middle(row, figure, "ours")), number(f.middle(row, figure, "peer")),
             spread(f.ratio(row, figure)), target, met]
    print("| " + " | ".join(cells) + " |")


def verdict(ok):
    return "-" if ok is None else "yes" if ok else "NO"


def print_load(f, name, rate_target, cpu_target):
    rate, cpu = f.ratio(name, "rate"), f.ratio(name, "cpu")
    if not f.get(name, "rate", "ours"):
        return
    wanted = "-" if rate_target is None else f">= {rate_target}"
    line(f, name, "rate", wanted, verdict(None if not rate or not rate_target else rate[0] >= rate_target))
    wanted = "-" if cpu_target is None else f"<= {cpu_target:.3f}"
    line(f, name, "cpu", wanted, verdict(None if not cpu or not cpu_target else cpu[0] <= cpu_target))
    line(f, name, "p50_us", "-", "-")
    line(f, name, "p99_us", "-", "-")


def print_bounds(f):
    disk, bare = (f.middle(r, "p50_us", "ours") for r in ("fdatasync of 2 KiB", "nghttpd round trip"))
    line(f, "fdatasync of 2 KiB", "p50_us", "-", "-")
    line(f, "nghttpd round trip", "p50_us", "-", "-")
    seen = f.middle("put 1x1", "p50_us", "ours")
    if seen and bare:
        bound = disk + bare + 60
        print(f"| put 1x1 | p50_us | {number(seen)} | - | - | <= {bound:.0f} | {verdict(seen <= bound)} |")
    bounds = [("start empty", "seconds", 0.04), ("start empty", "anon_mib", 5), ("start empty", "rss_mib", 12),
              ("range of 1000 100x10", "rss_growth_mib", 40), ("range of 1000 100x10", "peak_mib", None)]
    if KEYS == 1000000:
        bounds += [(f"load of {KEYS:,} keys", "anon_mib", 120), ("start after a clean stop", "seconds", 0.4),
                   ("start after a clean stop", "anon_mib", 110), ("start after kill -9", "seconds", 0.8)]
    bounds += [(f"load of {KEYS:,} keys", figure, None) for figure in ("rate", "cpu")]
    bounds += [(f"start after {how}", "cpu_s", None) for how in ("a clean stop", "kill -9")]
    for row, figure, bound in bounds:
        seen = f.middle(row, figure, "ours")
        if seen is not None:
            line(f, row, figure, "-" if bound is None else f"<= {bound}", verdict(None if bound is None else seen <= bound))


def main():
    figures = Figures()
    base = tempfile.mkdtemp(prefix="bench.", dir=ENV("BENCH_DIR") or BUILD)
    print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.2f}, {ROUNDS} rounds, scale {SCALE}")
    try:
        for turn in range(ROUNDS):
            folder = os.path.join(base, str(turn))
            os.makedirs(os.path.join(folder, "start"))
            measure_bare(folder, figures)
            measure_loads(folder, turn, figures)
            if KEYS > 0 and ROWS.search("start load"):
                measure_starts(os.path.join(folder, "start"), turn, figures)
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print("| row | figure | ours | peer | ours / peer (least-greatest) | target | met |\n|---|---|---|---|---|---|---|")
    for name, _, _, rate, cpu in LOADS:
        print_load(figures, name, rate, cpu)
    print_bounds(figures)
    print(f"load average at the end {os.getloadavg()[0]:.2f}")
    if ENV("BENCH_JSON"):
        with open(ENV("BENCH_JSON"), "w") as f:
            json.dump(figures.values, f, indent=1)


if __name__ == "__main__":
    main()
