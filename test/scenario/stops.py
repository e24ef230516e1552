"""How a member ends: in time whatever its clients do, by a second signal at once, and never with a lie."""
import os
import random
import signal
import socket
import time

from harness import Member, Skip, expect, expect_in, until
from raw import MAINTENANCE, Raw

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, DATA = 4, 1, 0
BUILD = os.environ.get("BUILD", os.path.join(os.path.dirname(os.environ.get("BIN", "build/gcc/bin"))))


def frame(kind, flags=0, stream=0, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def header(name, value):
    """A literal header field without indexing, no Huffman code."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def call(path, message, stream=1):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), ("content-type", "application/grpc"), ("te", "trailers")]
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return frame(HEADERS, 4, stream, b"".join(header(*f) for f in fields)) + frame(DATA, 1, stream, body)


def connect(m, first=b""):
    s = socket.create_connection(("127.0.0.1", m.port), timeout=10)
    s.sendall(first)
    return s


def read_until(s, part):
    seen = b""
    while part not in seen:
        got = s.recv(65536)
        if not got:
            raise AssertionError(f"closed before {part!r}: {seen!r}")
        seen += got
    return seen


def stop_seconds(m, signum=signal.SIGTERM):
    start = time.monotonic()
    status = m.stop(signum)
    expect(status, -signum)
    return time.monotonic() - start


def within(seconds, limit):
    if seconds > limit:
        raise AssertionError(f"the stop took {seconds:.2f} s, more than {limit} s")


def slow(limit):
    """Sanitizers and shared machines take their time; the order of magnitude is what counts."""
    return limit * (3 if os.environ.get("SANITIZED") else 1)


def idle_clients_do_not_hold_up_a_stop(folder):
    m = Member(folder).start()
    silent = connect(m)
    http = connect(m, b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    read_until(http, b"etcdserver")
    deaf = connect(m, PREFACE + frame(SETTINGS))  # will never answer the ping behind a GOAWAY
    read_until(deaf, b"\0\0\0\4\1\0\0\0\0")
    within(stop_seconds(m), slow(1.5))
    for s in (silent, http):
        expect(s.recv(100), b"", "closed in good order")


def hanging_call(m):
    """A stream whose client takes nothing: the rows of one big range wait for its window."""
    window_0 = b"\0\4" + (0).to_bytes(4, "big")
    s = connect(m, PREFACE + frame(SETTINGS, 0, 0, window_0) + call("/etcdserverpb.KV/Range", b"\x0a\1a\x12\1z"))
    read_until(s, bytes([HEADERS, 4, 0, 0, 0, 1]))
    return s


def filled(folder, *flags, **more):
    m = Member(folder, *flags, **more).start()
    m.ctl("put", "big", "v" * 100000)
    return m


def a_second_signal_does_not_wait_for_calls(folder):
    m = filled(folder)
    hanging = hanging_call(m)
    m.child.send_signal(signal.SIGTERM)
    until(lambda: "shutting down" in m.log(), "the first signal is seen")
    time.sleep(1.2)  # longer than idle clients are waited for
    expect(m.child.poll(), None, "a running call is waited for")
    start = time.monotonic()
    m.child.send_signal(signal.SIGINT)
    expect(m.child.wait(10), -signal.SIGTERM, "the first signal is the one that ends it")
    within(time.monotonic() - start, slow(1.0))
    hanging.close()
    m.start()
    expect_in("v" * 1000, m.ctl("get", "big"))


def a_call_that_hangs_is_waited_for_at_most_T(folder):
    m = filled(folder, "--election-timeout", "500", "--heartbeat-interval", "100")
    hanging = hanging_call(m)
    took = stop_seconds(m)
    within(took, slow(7.5))
    if took < 5.5:
        raise AssertionError(f"the call had only {took:.2f} s to finish")
    hanging.close()


def a_signal_during_the_start_ends_it(folder):
    dice = random.Random(1)
    m = Member(folder)
    for _ in range(12):
        m.spawn()
        time.sleep(dice.uniform(0, 0.06))
        within(stop_seconds(m), slow(1.5))
    m.start()
    expect(m.ctl("put", "a", "b"), "OK\n")


def shim(m, folder, **settings):
    library = os.path.join(BUILD, "test/fault/iotrace.so")
    if not os.path.exists(library):
        raise Skip("needs test/fault/iotrace.so, which test-programs builds")
    if os.environ.get("SANITIZED"):
        raise Skip("the shim and a sanitizer do not go together")
    m.env = {"LD_PRELOAD": library, "IOTRACE_FILE": folder + "/trace", "IOTRACE_DIR": folder,
             **{f"IOTRACE_{name}": str(value) for name, value in settings.items()}}
    return m


def a_full_disk_does_not_hold_up_a_stop(folder):
    full = folder + "/full"
    m = shim(Member(folder), folder, FAIL=1, FAIL_STICKY=1, FAIL_KIND="write", FAIL_PATH="snap/db",
             FAIL_ERRNO="ENOSPC", FAIL_WHILE=full)
    m.start()
    m.ctl("put", "a", "1")
    with Raw(m.endpoint) as raw:
        expect(raw.call(MAINTENANCE + "Hash").code, 0, "a hash commits what is applied first")
    open(full, "w").close()
    m.ctl("put", "a", "2")
    until(lambda: "no space to commit" in m.log(), "the store finds no space")
    took = stop_seconds(m)
    within(took, slow(8.5))
    expect_in("the log holds every change", m.log())
    os.unlink(full)
    m.start()
    expect(m.ctl("get", "a"), "a\n2\n")


def a_failing_sync_ends_it_at_once(folder, path):
    broken = folder + "/broken"
    m = shim(Member(folder), folder, FAIL=1, FAIL_STICKY=1, FAIL_PATH=path, FAIL_KIND="sync", FAIL_WHILE=broken)
    m.start()
    m.ctl("put", "a", "1")
    idle = connect(m, PREFACE + frame(SETTINGS))
    open(broken, "w").close()
    # The store's sync may fail for the put before already: then this one gets no answer.
    done = m.ctl("put", "a", "2", check=False)
    if path != "snap/db" and done.returncode == 0:
        raise AssertionError("a put was acknowledged that is on no disk")
    until(lambda: m.child.poll() is not None, "the process ends", deadline_s=5)
    expect(m.child.returncode, 1)
    expect_in("cannot go on", m.log())
    idle.close()


def cpu_seconds(m):
    with open(f"/proc/{m.child.pid}/stat") as text:
        fields = text.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def no_descriptors_left_is_survived(folder):
    m = Member(folder, wrap=("prlimit", "--nofile=48:48")).start()
    sockets = [connect(m) for _ in range(80)]
    before = cpu_seconds(m)
    time.sleep(1)
    spent = cpu_seconds(m) - before
    if spent > 0.5:
        raise AssertionError(f"waiting for descriptors took {spent} s of processor time in a second")
    for s in sockets:
        s.close()
    expect(m.ctl("put", "a", "b"), "OK\n")


def add(tap):
    tap.case("idle clients do not hold up a stop", idle_clients_do_not_hold_up_a_stop)
    tap.case("a second signal does not wait for running calls", a_second_signal_does_not_wait_for_calls)
    tap.case("a call that hangs is waited for T at most", a_call_that_hangs_is_waited_for_at_most_T)
    tap.case("a signal during the start ends it", a_signal_during_the_start_ends_it)
    tap.case("a full disk does not hold up a stop, and nothing is lost", a_full_disk_does_not_hold_up_a_stop)
    tap.case("a failing sync of the log ends it at once", a_failing_sync_ends_it_at_once, ".wal")
    tap.case("a failing sync of the store ends it at once", a_failing_sync_ends_it_at_once, "snap/db")
    tap.case("no descriptors left is survived", no_descriptors_left_is_survived)
