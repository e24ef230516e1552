"""What suites in Python share: TAP, scratch folders, a member that is started, asked and ended.

Programs are found in $BIN, golden data in $SHARED or beside the project. Nothing here waits for a time: it waits for
a condition until a deadline.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("BIN", os.path.join(ROOT, "build/gcc/bin"))
DEADLINE_S = 20


def shared(*parts):
    """A path in the golden data, or None where there is none."""
    top = os.environ.get("SHARED", os.path.join(ROOT, "../shared"))
    path = os.path.join(top, *parts)
    return path if os.path.exists(path) else None


class Skip(Exception):
    pass


def expect(seen, expected, about=""):
    if seen != expected:
        raise AssertionError(f"{about}\nexpected: {expected!r}\nseen:     {seen!r}")


def expect_in(part, whole, about=""):
    if part not in whole:
        raise AssertionError(f"{about}\nexpected in it: {part!r}\nseen:           {whole!r}")


def until(condition, about, deadline_s=DEADLINE_S, pause_s=0.01):
    """The first true answer of `condition`; an AssertionError when the deadline passes."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        answer = condition()
        if answer:
            return answer
        time.sleep(pause_s)
    raise AssertionError(f"not within {deadline_s} s: {about}")


class Tap:
    """Runs named cases, each in a folder of its own, and prints TAP."""

    def __init__(self):
        self.cases = []

    def case(self, name, run, *arguments):
        self.cases.append((name, run, arguments))

    def run(self, only=None):
        chosen = [c for c in self.cases if only is None or only in c[0]]
        print(f"1..{len(chosen)}", flush=True)
        failed = 0
        for number, (name, run, arguments) in enumerate(chosen, 1):
            folder = tempfile.mkdtemp(prefix="etcd-test-")
            try:
                run(folder, *arguments)
                print(f"ok {number} - {name}", flush=True)
            except Skip as skip:
                print(f"# SKIP: {skip}\nok {number} - {name} # SKIP {skip}", flush=True)
            except Exception:
                failed += 1
                for line in traceback.format_exc().splitlines():
                    print(f"# {line}")
                print(f"not ok {number} - {name}", flush=True)
            finally:
                end_all()
                shutil.rmtree(folder, ignore_errors=True)
        return 1 if failed else 0


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


RUNNING = []


def end_all():
    while RUNNING:
        RUNNING[-1].kill()


class Member:
    """One etcd-server on loopback ports of its own."""

    def __init__(self, folder, *flags, name="default", env=None, program=None, wrap=()):
        self.folder, self.flags, self.name, self.env = folder, flags, name, env or {}
        self.program = program or os.path.join(BIN, "etcd-server")
        self.wrap = list(wrap)
        self.data = os.path.join(folder, "data")
        self.log_path = os.path.join(folder, f"{name}.log")
        self.port, self.peer_port = free_ports(2)
        self.child = None

    @property
    def endpoint(self):
        return f"127.0.0.1:{self.port}"

    def command(self):
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer_port}"
        return [*self.wrap, self.program, "--name", self.name, "--data-dir", self.data, "--listen-client-urls", client,
                "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"{self.name}={peer}", *self.flags]

    def spawn(self):
        log = open(self.log_path, "ab")
        self.log_start = log.tell()
        self.child = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      env={**os.environ, **self.env})
        RUNNING.append(self)
        return self

    def log(self):
        """What this run has logged."""
        with open(self.log_path, "rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")

    def whole_log(self):
        """What all runs have logged."""
        with open(self.log_path, "rb") as log:
            return log.read().decode(errors="replace")

    def start(self):
        self.spawn()
        until(lambda: "ready to serve client requests" in self.log() or self.child.poll() is not None,
              "a member that serves")
        if self.child.poll() is not None:
            raise AssertionError(f"the member ended with {self.child.returncode}:\n{self.log()}")
        return self

    def fails(self):
        """Starts a member that must refuse to; gives exit status and log."""
        self.spawn()
        until(lambda: self.child.poll() is not None or "ready to serve" in self.log(), "a member that ends by itself")
        if self.child.poll() is None:
            raise AssertionError(f"the member serves:\n{self.log()}")
        RUNNING.remove(self)
        return self.child.returncode, self.log()

    def stop(self, signum=signal.SIGTERM):
        self.child.send_signal(signum)
        status = self.child.wait(DEADLINE_S)
        RUNNING.remove(self)
        return status

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        RUNNING.remove(self)

    def ctl(self, *arguments, check=True, input=None):
        """Runs etcd-ctl against this member; gives its stdout, or the whole result with check=False."""
        done = subprocess.run([os.path.join(BIN, "etcd-ctl"), "--endpoints", self.endpoint, *arguments],
                              capture_output=True, text=True, input=input, timeout=60)
        if not check:
            return done
        if done.returncode != 0:
            raise AssertionError(f"etcd-ctl {' '.join(arguments)}: {done.returncode}: {done.stderr}\n{self.log()[-2000:]}")
        return done.stdout

    def hash_kv(self, revision=0):
        """(hash, compact revision, hash revision), or the error's text."""
        done = self.ctl("endpoint", "hashkv", "--rev", str(revision), "-w", "json", check=False)
        try:
            answer = json.loads(done.stdout)[0]["HashKV"]
        except (ValueError, TypeError, IndexError):
            return done.stderr
        return answer["hash"], answer.get("compact_revision", 0), answer.get("hash_revision", 0)

    def http(self, path, method="GET", port=None, headers=None):
        """(status, headers, body) of a plain request."""
        request = urllib.request.Request(f"http://127.0.0.1:{port or self.port}{path}", method=method,
                                         headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return answer.status, dict(answer.headers), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read().decode()


def unpack_golden(folder, *parts):
    """Unpacks a golden data.tar.xz to FOLDER/data; gives its expected.json."""
    place = shared("golden", *parts)
    if place is None:
        raise Skip("needs the golden data")
    subprocess.run(["tar", "-xJf", os.path.join(place, "data.tar.xz"), "-C", folder], check=True)
    with open(os.path.join(place, "expected.json")) as text:
        return json.load(text)


def tree(folder):
    """What a folder holds: path -> content, for telling that nothing was changed (but LMDB's table of readers)."""
    found = {}
    for base, _, names in os.walk(folder):
        for name in set(names) - {"db-lock"}:
            path = os.path.join(base, name)
            with open(path, "rb") as content:
                found[os.path.relpath(path, folder)] = hash(content.read())
    return found


def main(tap):
    sys.exit(tap.run(os.environ.get("CASE")))
