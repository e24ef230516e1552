#!/usr/bin/env python3
"""Replays recorded transcripts of upstream's etcdctl against our programs; prints TAP, one line a case.

Usage: BIN=FOLDER golden.py [PATTERN...]    replays the cases whose path matches any pattern; none: all

The cases lie in $SHARED/golden/cli (../shared beside the tree unless SHARED says otherwise), are described in the README
there, and are read at run time. A case that needs a command, a topology or a protocol that is not there yet is
skipped; what it needs is seen from the case and from the program's own list of commands.
"""
import concurrent.futures
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("BIN", os.path.join(ROOT, "build/gcc/bin")))
CASES = os.path.join(os.environ.get("SHARED", os.path.join(ROOT, "../shared")), "golden/cli/etcdctl")
TOOLS = {"ctl": "etcd-ctl", "server": "etcd-server"}
WORKERS = 2
COMMAND_SECONDS_MAX = 30
SERVER_SECONDS_MAX = 20

PATTERNS = {
    "TERM": rb"\d+", "NUM": rb"\d+", "HEX": rb"[0-9a-f]+", "SP": rb" +", "ANY": rb".*?",
    "DUR": rb"(?:\d+h)?(?:\d+m)?[0-9.]+(?:ns|\xc2\xb5s|ms|s)", "SIZE": rb"[0-9.]+ (?:[kMGTPE]?B)",
    "TIME": rb"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", "CTL": rb"(?:etcdctl|etcd-ctl)", "UTL": rb"(?:etcdutl|etcd-utl)",
    "VERSION": rb"3\.7\.1",
}
LOG_LINES = rb'(?:(?:\{"level":|stty: |\d{4}-\d\d-\d\dT\S+\t(?:debug|info|warn|error)\t).*\n)*'
LINES = rb"(?s:.*)"
NAME = re.compile(rb"\{([A-Z][A-Z0-9]*)\}")


class Mismatch(Exception):
    pass


class Lacking(Exception):
    """Our server says itself that a flag of the case is for later."""


# --- case files ----------------------------------------------------------------------------------------------------

def decode(text):
    """Resolves the escapes of a text."""
    def one(match):
        what = match.group(1)
        return bytes([int(what[1:], 16)]) if what[:1] == b"x" else {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\"}[what]
    return re.sub(rb"\\(x[0-9A-Fa-f]{2}|[ntr\\])", one, text.encode())


def words(text):
    return [b"" if word == "''" else decode(word) for word in text.split(" ")] if text else []


class Block:
    def __init__(self, kind, command):
        self.kind, self.tool, self.rest = kind, command.split(" ", 1)[0], command.partition(" ")[2]
        self.command, self.env, self.stdin, self.hold, self.stop = command, {}, b"", False, None
        self.captures, self.out, self.err, self.pb, self.tab, self.exit = [], [], [], [], False, "0"

    def arguments(self):
        return [decode(self.rest)] if self.tool == "sh" else words(self.rest)


class Case:
    def __init__(self, path):
        self.path = path
        self.group, self.name = os.path.relpath(path, CASES)[:-len(".case")].split(os.sep)[-2:]
        self.topology, self.server, self.env, self.blocks = "none", [], {}, []
        with open(path, encoding="utf-8") as lines:
            for line in lines.read().split("\n"):
                if line:
                    self.take(*line.partition(" ")[::2])

    def take(self, key, value):
        block = self.blocks[-1] if self.blocks else None
        if key in ("step", "run", "bg"):
            self.blocks.append(Block(key, value))
        elif key == "env":
            name, _, text = value.partition("=")
            (block.env if block else self.env)[name] = text
        elif key == "topo":
            self.topology = value
        elif key == "server":
            self.server = value.split()
        elif key in ("case", "about"):
            pass
        elif key in ("in", "in-"):
            block.stdin += decode(value[1:]) + (b"" if key == "in-" else b"\n")
        elif key in ("out", "out-", "tab", "tab-", "err", "err-"):
            block.tab |= key.startswith("tab")
            (block.err if key.startswith("err") else block.out).append((value[1:], key.endswith("-")))
        elif key == "pb":
            block.pb.append(value[1:])
        elif key == "exit":
            block.exit = value
        elif key == "hold":
            block.hold = True
        elif key == "stop":
            block.stop = dict(word.split("=") for word in value.split())
        elif key == "cap":
            block.captures.append(value.split(" ", 1))
        else:
            raise ValueError(f"{self.path}: a line begins with {key!r}")


# --- what a case needs ------------------------------------------------------------------------------------------------

class Commands:
    """What our program can do, asked from itself, and what upstream's can, seen from the folders of cases."""

    def __init__(self):
        self.known = self.ask("")
        self.subs = {name: self.ask(name, "") for name in self.known}
        self.recorded = {group: {f[:-5] for f in os.listdir(os.path.join(CASES, group))}
                         for group in os.listdir(CASES) if os.path.isdir(os.path.join(CASES, group))}

    @staticmethod
    def ask(*line):
        shown = subprocess.run([os.path.join(BIN, "etcd-ctl"), "__complete", *line], capture_output=True, text=True)
        return {row.split("\t")[0] for row in shown.stdout.splitlines() if not row.startswith(":")}

    def missing(self, arguments):
        """The command that `arguments` call and that is not there; None when it is, or is meant not to be."""
        plain = [word.decode(errors="replace") for word in arguments if not word.startswith(b"-")]
        for value_of in (b"--endpoints", b"-w", b"--write-out"):
            if value_of in arguments[:-1]:
                value = arguments[arguments.index(value_of) + 1].decode(errors="replace")
                if value in plain:
                    plain.remove(value)
        if not plain:
            return None
        if plain[0] not in self.known:
            return plain[0] if plain[0] in self.recorded else None
        subs = self.subs[plain[0]]
        if len(plain) > 1 and subs and plain[1] not in subs:
            named = any(case.split("-")[0] == plain[1] for case in self.recorded.get(plain[0], ()))
            return f"{plain[0]} {plain[1]}" if named else None
        return None

    def needs(self, case):
        """Why a case cannot be replayed yet; None when it can."""
        if case.topology in ("three", "learner"):
            return "a cluster of more than one member"
        texts = " ".join([*case.server, *(block.command for block in case.blocks)])
        if "--auto-tls" in texts or "https://" in texts or case.group == "tls":
            return "TLS"
        if "--discovery-srv" in texts:
            return "discovery by DNS"
        for block in case.blocks:
            if block.tool == "ctl":
                lacking = self.missing(block.arguments())
                if lacking:
                    return f"command {lacking}"
            elif block.tool not in TOOLS and block.tool not in ("sh", "sleep", "stopserver", "startserver"):
                return f"program {block.tool}"
            for text, _ in block.err:
                suggested = text[2:] if text.startswith("\\t") else None
                if suggested in self.recorded and suggested not in self.known:
                    return f"command {suggested}"
        return None


# --- servers ------------------------------------------------------------------------------------------------------------

class Ports:
    """Ports that were free a moment ago; none is given twice while the run lasts."""
    lock, given = threading.Lock(), set()

    @classmethod
    def take(cls):
        with cls.lock:
            while True:
                with socket.socket() as s:
                    s.bind(("127.0.0.1", 0))
                    port = s.getsockname()[1]
                if port not in cls.given:
                    cls.given.add(port)
                    return port


class World:
    """What one case runs in: a scratch directory, its servers, the values of placeholders."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="golden")
        self.values = {"DIR": self.dir, "DEAD": self.address(), "DEAD2": self.address(), "PROXY": self.address()}
        self.servers, self.children = {}, []

    @staticmethod
    def address():
        return f"127.0.0.1:{Ports.take()}"

    def fill(self, text):
        if isinstance(text, str):
            text = text.encode()
        known = lambda m: self.values[m.group(1).decode()].encode() if m.group(1).decode() in self.values else m.group(0)
        return NAME.sub(known, text)

    def spawn(self, tool, arguments, log):
        with open(os.path.join(self.dir, log), "ab") as output:
            child = subprocess.Popen([os.path.join(BIN, TOOLS[tool]), *arguments], stdout=output, stderr=output,
                                     stdin=subprocess.DEVNULL, cwd=self.dir,
                                     env={"PATH": os.environ["PATH"], "HOME": self.dir})
        self.children.append(child)
        return child

    def add_server(self, key, name, extra):
        client, peer = self.address(), self.address()
        suffix = "" if key == "1" else key
        self.values.update({"EP" + suffix: client, "PEER" + key: peer, "DATA" + key: os.path.join(self.dir, "data" + key)})
        self.servers[key] = [
            "--name", name, "--data-dir", self.values["DATA" + key],
            "--listen-client-urls", f"http://{client}", "--advertise-client-urls", f"http://{client}",
            "--listen-peer-urls", f"http://{peer}", "--initial-advertise-peer-urls", f"http://{peer}",
            "--initial-cluster", f"{name}=http://{peer}", "--heartbeat-interval", "20", "--election-timeout", "200",
            "--log-level", "warn", *(self.fill(flag).decode() for flag in extra)]
        self.start(key)
        return self.learn_ids(key)

    def start(self, key):
        child = self.spawn("server", self.servers[key], f"log{key}")
        self.values["pid" + key] = str(child.pid)
        endpoint = self.values["EP" + ("" if key == "1" else key)]
        end = time.monotonic() + SERVER_SECONDS_MAX
        while time.monotonic() < end and child.poll() is None:
            try:
                with urllib.request.urlopen(f"http://{endpoint}/version", timeout=1) as answer:
                    version = json.load(answer)
                if version.get("etcdcluster") == "3.7.0" and version.get("storage") == "3.7.0":
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.005)
        with open(os.path.join(self.dir, f"log{key}")) as log:
            said = log.read()
        flag = re.search(r"(--[a-z-]+): this server cannot do that yet", said)
        if flag:
            raise Lacking(f"server flag {flag.group(1)}")
        raise Mismatch(f"server {key} does not serve:\n{said[-2000:]}")

    def stop(self, key):
        pid = int(self.values["pid" + key])
        self.end(next(child for child in self.children if child.pid == pid))

    def learn_ids(self, key):
        """Notes the ids; False when they are too short for messages that pad them."""
        endpoint = self.values["EP" + ("" if key == "1" else key)]
        shown = subprocess.run([os.path.join(BIN, "etcd-ctl"), f"--endpoints={endpoint}", "endpoint", "status", "-w", "json"],
                               capture_output=True, env={}).stdout
        header = json.loads(shown)[0]["Status"]["header"]
        cluster = "CID" if key != "B" else "CIDB"
        for name, value in (("MID" + key, header["member_id"]), (cluster, header["cluster_id"])):
            self.values[name], self.values[name + "D"] = f"{value:x}", str(value)
        return min(header["member_id"], header["cluster_id"]) >= 1 << 60

    def build(self, case):
        if case.topology == "none":
            return True
        good = self.add_server("1", "m1", case.server)
        return self.add_server("B", "mb", []) and good if case.topology == "two" else good

    @staticmethod
    def end(child):
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def close(self):
        for child in self.children:
            self.end(child)
        shutil.rmtree(self.dir, ignore_errors=True)


# --- running a block ------------------------------------------------------------------------------------------------------

def as_user():
    """A job that a shell put into the background would ignore SIGINT; these do not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def gather(stream, into, lines, seen):
    for piece in iter(lambda: os.read(stream.fileno(), 65536), b""):
        into.append(piece)
        if lines and b"".join(into).count(b"\n") >= lines:
            seen.set()


def execute(world, case, block):
    """Runs a command; returns its exit as the case files write it, stdout and stderr."""
    environment = {"PATH": os.environ["PATH"], "HOME": world.dir}
    for name, value in {**case.env, **block.env}.items():
        environment[name] = world.fill(value)
    arguments = [world.fill(word) for word in block.arguments()]
    program = ["/bin/sh", "-c"] if block.tool == "sh" else [os.path.join(BIN, TOOLS[block.tool])]
    child = subprocess.Popen([*program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=environment, cwd=world.dir, preexec_fn=as_user)
    stop = block.stop or {}
    seen, out, err = threading.Event(), [], []
    readers = [threading.Thread(target=gather, args=(child.stdout, out, int(stop.get("lines", 0)), seen)),
               threading.Thread(target=gather, args=(child.stderr, err, 0, seen))]
    for reader in readers:
        reader.start()
    try:
        child.stdin.write(block.stdin)
        child.stdin.flush()
        if not block.hold:
            child.stdin.close()
    except BrokenPipeError:
        pass
    if stop:
        seen.wait(int(stop["ms"]) / 1000 if "ms" in stop else 6)
        if child.poll() is None:
            child.send_signal(getattr(signal, "SIG" + stop.get("sig", "INT")))
    try:
        child.wait(COMMAND_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        err.append(b"(did not end)\n")
    for reader in readers:
        reader.join()
    for stream in (child.stdin, child.stdout, child.stderr):
        try:
            stream.close()
        except BrokenPipeError:
            pass
    code = child.returncode
    exit_text = str(code) if code >= 0 else "signal " + signal.Signals(-code).name[3:]
    return exit_text, b"".join(out), b"".join(err)


# --- comparing --------------------------------------------------------------------------------------------------------------

def line_pattern(world, text):
    """A regular expression for one expected line. Placeholders nobody knows stand for themselves."""
    out, at = b"", 0
    for match in NAME.finditer(text):
        name = match.group(1).decode()
        if name in world.values:
            pattern = re.escape(world.values[name].encode())
        elif name in PATTERNS:
            pattern = PATTERNS[name]
        else:
            continue
        out += re.escape(text[at:match.start()]) + pattern
        at = match.end()
    return out + re.escape(text[at:])


def stream_pattern(world, lines):
    out = b""
    for text, unfinished in lines:
        if text == "{LOG}":
            out += LOG_LINES
        elif text == "{LINES}":
            out += LINES
        else:
            out += line_pattern(world, decode(text)) + (b"" if unfinished else b"\n")
    return out


def squeeze(text):
    return re.sub("(?:─)+".encode(), "─".encode(), re.sub(rb" +", b" ", text))


def compare(world, what, expected, seen):
    if not re.fullmatch(stream_pattern(world, expected), seen):
        wanted = "\n".join(text for text, _ in expected)
        raise Mismatch(f"{what}: expected\n{wanted}\n{what}: seen\n{seen.decode(errors='backslashreplace')[:4000]}")


class Fields:
    """The wire fields of a protobuf message, taken one by one."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def done(self):
        return self.at >= len(self.data)

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def next(self):
        key = self.varint()
        number, wire = key >> 3, key & 7
        if wire == 0:
            return number, self.varint()
        length = {1: 8, 5: 4}.get(wire)
        if length is None:
            length = self.varint()
        self.at += length
        return number, self.data[self.at - length:self.at]


def compare_pb(world, expected, data):
    """Walks expected lines and bytes together."""
    open_messages = [Fields(data)]
    for raw in expected:
        line = raw.strip()
        top = open_messages[-1]
        if line == ".":
            if not top.done():
                raise Mismatch("protobuf: a message has more fields than expected")
            open_messages.pop()
            continue
        number, kind, value = (line.split(" ", 2) + [""])[:3]
        if top.done():
            raise Mismatch(f"protobuf: expected {raw!r}, the message is at its end")
        got_number, got = top.next()
        if str(got_number) != number:
            raise Mismatch(f"protobuf: expected {raw!r}, seen field {got_number} = {got!r}")
        if kind == "m":
            open_messages.append(Fields(got))
            continue
        text = {"v": lambda: str(got).encode(), "b": lambda: got, "f": lambda: got.hex().encode(),
                "d": lambda: got.hex().encode()}[kind]()
        if not re.fullmatch(line_pattern(world, decode(value)), text):
            raise Mismatch(f"protobuf: expected {raw!r}, seen {got!r}")
    if len(open_messages) != 1 or not open_messages[0].done():
        raise Mismatch("protobuf: more fields than expected")


def capture(world, name, pattern, out):
    match = re.search(pattern.encode(), out)
    if not match:
        raise Mismatch(f"{name}: {pattern!r} does not match stdout: {out!r}")
    world.values[name] = match.group(1).decode()
    if re.fullmatch(r"[0-9a-fA-F]+", world.values[name]):
        world.values[name + "D"] = str(int(world.values[name], 16))


def check(world, case, block):
    code, out, err = execute(world, case, block)
    if code not in block.exit.split("|"):
        raise Mismatch(f"{block.command}: exit {code}, expected {block.exit}\nstdout: {out[-2000:]!r}\nstderr: {err[-2000:]!r}")
    for name, pattern in block.captures:
        capture(world, name, pattern, out)
    if block.kind == "step":
        return
    if block.pb:
        compare_pb(world, block.pb, out)
    else:
        compare(world, f"{block.command}: stdout", block.out, squeeze(out) if block.tab else out)
    compare(world, f"{block.command}: stderr", block.err, err)


def in_background(world, block):
    _, tool, *arguments = block.command.split(" ")
    host, port = world.fill(block.tool).decode().rsplit(":", 1)
    world.spawn(tool, [world.fill(decode(word)) for word in arguments], "background")
    end = time.monotonic() + SERVER_SECONDS_MAX
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise Mismatch(f"{block.command}: does not listen")


def run_block(world, case, block):
    if block.kind == "bg":
        in_background(world, block)
    elif block.tool == "sleep":
        time.sleep(int(block.rest) / 1000)
    elif block.tool == "stopserver":
        world.stop(block.rest)
    elif block.tool == "startserver":
        world.start(block.rest)
    else:
        check(world, case, block)


def replay(case):
    """None, or how the case differs."""
    for _ in range(8):
        world = World()
        try:
            if not world.build(case):
                continue
            for block in case.blocks:
                run_block(world, case, block)
            return None
        except Mismatch as mismatch:
            return str(mismatch)
        finally:
            world.close()
    return "no ports give ids of 16 digits"


# --- the suite --------------------------------------------------------------------------------------------------------------

def main():
    if not os.path.isdir(CASES):
        print(f"1..1\nok 1 - golden transcripts # SKIP no {CASES}")
        return 0
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(CASES) for name in names if name.endswith(".case"))
    cases = [Case(path) for path in paths if len(sys.argv) == 1 or any(re.search(p, path) for p in sys.argv[1:])]
    commands = Commands()
    print(f"1..{len(cases)}", flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        reasons = [commands.needs(case) for case in cases]
        results = [pool.submit(replay, case) if reason is None else None for case, reason in zip(cases, reasons)]
        for number, (case, reason, result) in enumerate(zip(cases, reasons, results), 1):
            title = f"{number} - {case.group}/{case.name}"
            wrong = None
            try:
                wrong = result.result() if reason is None else None
            except Lacking as lacking:
                reason = str(lacking)
            except Exception as error:  # of the runner itself; must not hide the other cases
                wrong = repr(error)
            if reason is not None:
                print(f"ok {title} # SKIP needs {reason}", flush=True)
                continue
            for line in (wrong or "").split("\n") if wrong else ():
                print(f"# {line}")
            print(f"{'not ok' if wrong else 'ok'} {title}", flush=True)
            failed += wrong is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
