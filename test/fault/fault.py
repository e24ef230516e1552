"""What the fault cases share: members that are quick to start, the load, the shim, threads for many restarts."""
import concurrent.futures
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from harness import BIN, Member, expect  # noqa: E402
from history import Journal, State  # noqa: E402

BUILD = os.environ.get("BUILD", os.path.dirname(BIN))
TOOLS = os.path.join(BUILD, "test/fault")
SHIM = os.path.join(TOOLS, "iotrace.so")
LONG = os.environ.get("FAULT") == "long"
SEED = int(os.environ.get("FAULT_SEED", "1"))

# Restarts are many and each writes a segment of 64 MB: in memory where there is some.
DISK = tempfile.gettempdir()
if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 2 << 30:
    tempfile.tempdir = "/dev/shm"

ADDRESSES = itertools.count(1)
ADDRESS_LOCK = threading.Lock()


class Node(Member):
    """A member on a loopback address of its own, so that thousands of them never meet a port in use; all advertise the
    same peer URL, so that a folder can be carried from one to another (ids are made of it)."""

    def __init__(self, folder, *flags, **settings):
        super().__init__(folder, *flags, **settings)
        with ADDRESS_LOCK:
            n = next(ADDRESSES)
        self.host = f"127.{1 + os.getpid() % 200}.{n // 250 % 250}.{1 + n % 250}"
        self.port, self.peer_port = 2379, 2380

    @property
    def endpoint(self):
        return f"{self.host}:{self.port}"

    def command(self):
        words = super().command()
        for flag in ("--listen-client-urls", "--advertise-client-urls", "--listen-peer-urls"):
            at = words.index(flag) + 1
            words[at] = words[at].replace("127.0.0.1", self.host)
        return words

    def look(self, *arguments):
        """Stdout of look.c, or its stderr as an AssertionError."""
        done = self.try_look(*arguments)
        if done.returncode != 0:
            raise AssertionError(f"look {' '.join(arguments)}: {done.stderr}\n{self.log()[-2000:]}")
        return done.stdout

    def try_look(self, *arguments):
        return subprocess.run([os.path.join(TOOLS, "look"), self.endpoint, *arguments], capture_output=True, text=True,
                              timeout=60)

    def state(self):
        return State(self.look("state"))


def shim(folder, member, **settings):
    """Lets a member run under iotrace.so; gives the path of the trace."""
    trace = os.path.join(folder, "trace")
    member.env = {"LD_PRELOAD": SHIM, "IOTRACE_FILE": trace, "IOTRACE_DIR": member.data,
                  **{f"IOTRACE_{name}": value for name, value in settings.items()}}
    return trace


def load_command(member, journal, *options):
    return [os.path.join(TOOLS, "writers"), "--endpoint", member.endpoint, "--journal", journal, *map(str, options)]


def run_load(member, journal, *options, complete=True):
    """A load to its end; gives its journal."""
    done = subprocess.run(load_command(member, journal, *options), capture_output=True, text=True, timeout=120)
    if complete:
        expect(done.returncode, 0, done.stderr + member.log()[-2000:])
    if not os.path.exists(journal):
        open(journal, "w").close()
    return Journal(journal)


THREADS = min(4, os.cpu_count() or 1)  # each has a folder of 150 MB


def in_parallel(run, jobs):
    """Runs jobs in a few threads; fails with the first few failures, after all have ended."""
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        results = [pool.submit(run, job) for job in jobs]
        errors = [str(e) for e in (r.exception() for r in results) if e is not None]
    if errors:
        raise AssertionError(f"{len(errors)} of {len(results)} failed:\n" + "\n".join(errors[:8]))
