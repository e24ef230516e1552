#!/usr/bin/env python3
"""Tests of iotrace.c and replay.py: small programs run under the shim, their folder is rebuilt.

  test_replay.py IOTRACE_SO
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import replay  # noqa: E402

SHIM = None

PRELUDE = """
import os, socket, sys
d = sys.argv[1]
def new(name): return os.open(d + "/" + name, os.O_RDWR | os.O_CREAT)
def sync_dir(name=""):
    f = os.open(d + "/" + name, os.O_RDONLY); os.fsync(f); os.close(f)
"""


class Traced(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.dir = self.tmp.name + "/d"
        os.mkdir(self.dir)

    def tearDown(self):
        self.tmp.cleanup()

    def run_traced(self, program, **settings):
        trace = self.tmp.name + "/trace"
        env = dict(os.environ, LD_PRELOAD=SHIM, IOTRACE_FILE=trace, IOTRACE_DIR=self.dir,
                   PYTHONDONTWRITEBYTECODE="1", **settings)
        done = subprocess.run([sys.executable, "-c", PRELUDE + program, self.dir], env=env,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.records = replay.read_trace(trace)
        return done.stdout.strip()

    def image(self, prefix, loss, seed=1, inflight=False):
        out = self.tmp.name + "/image"
        replay.Cut(replay.World(self.records, None, self.dir), prefix, loss, seed, inflight).save(out)
        found = {}
        for root, _, files in os.walk(out):
            for name in files:
                path = os.path.join(root, name)
                with open(path, "rb") as f:
                    found[os.path.relpath(path, out)] = f.read()
        return found

    def test_order_and_data(self):
        self.run_traced('f = new("a"); os.write(f, b"one"); os.pwrite(f, b"two", 8); os.fdatasync(f)')
        self.assertEqual([r.kind for r in self.records], ["OPEN", "WRITE", "WRITE", "SYNC"])
        self.assertEqual([r.data for r in self.records], [b"", b"one", b"two", b""])
        self.assertEqual([r.off for r in self.records], [0, 0, 8, 0])

    def test_unsynced_write_is_kept_or_lost(self):
        self.run_traced('f = new("a"); sync_dir(); os.write(f, b"x" * 600); os.fdatasync(f); os.write(f, b"y" * 600)')
        end = len(self.records)
        self.assertEqual(self.image(end, "kept")["a"], b"x" * 600 + b"y" * 600)
        self.assertEqual(self.image(end, "lost")["a"], b"x" * 600)
        self.assertEqual(self.image(end - 2, "lost")["a"], b"")
        torn = {self.image(end, "torn", seed)["a"] for seed in range(20)}
        self.assertGreater(len(torn), 2)
        self.assertTrue(all(t[:600] == b"x" * 600 for t in torn))

    def test_sync_in_flight_covers_nothing(self):
        self.run_traced('f = new("a"); sync_dir(); os.write(f, b"x"); os.fdatasync(f)')
        end = len(self.records)
        self.assertEqual(self.image(end, "lost", inflight=True)["a"], b"")
        self.assertEqual(self.image(end, "lost")["a"], b"x")

    def test_dsync_write_is_durable(self):
        self.run_traced('f = os.open(d + "/a", os.O_RDWR | os.O_CREAT | os.O_DSYNC); sync_dir(); os.write(f, b"x")')
        self.assertEqual(self.records[-1].flags, "dsync")
        self.assertEqual(self.image(len(self.records), "lost")["a"], b"x")

    def test_name_needs_its_folder_synced(self):
        self.run_traced('f = new("a"); os.write(f, b"x"); os.fdatasync(f); os.rename(d + "/a", d + "/b"); sync_dir()')
        end = len(self.records)
        self.assertEqual(self.image(end - 1, "lost"), {})
        self.assertEqual(self.image(end - 1, "kept"), {"b": b"x"})
        self.assertEqual(self.image(end, "lost"), {"b": b"x"})

    def test_renamed_folder_takes_its_files_along(self):
        self.run_traced('os.mkdir(d + "/t"); f = new("t/a"); os.write(f, b"x"); os.fdatasync(f); sync_dir("t");'
                        'os.rename(d + "/t", d + "/w"); sync_dir(); g = new("w/b"); sync_dir("w")')
        end = len(self.records)
        self.assertEqual(self.image(end, "lost"), {"w/a": b"x", "w/b": b""})
        self.assertEqual(self.image(end - 1, "lost"), {"w/a": b"x"})

    def test_nth_write_fails(self):
        out = self.run_traced('f = new("a")\nfor i in range(3):\n try: os.write(f, b"xx"); print("ok")\n'
                              ' except OSError as e: print(e.errno)',
                              IOTRACE_FAIL="2", IOTRACE_FAIL_ERRNO="ENOSPC", IOTRACE_FAIL_KIND="write",
                              IOTRACE_FAIL_PATH="/a")
        self.assertEqual(out.split(), ["ok", "28", "ok"])

    def test_half_write(self):
        out = self.run_traced('f = new("a"); print(os.write(f, b"12345678"))', IOTRACE_FAIL="1",
                              IOTRACE_FAIL_ERRNO="half", IOTRACE_FAIL_PATH="/a")
        self.assertEqual(out, "4")
        self.assertEqual(self.image(len(self.records), "kept")["a"], b"1234")

    def test_failed_sync_is_heard_once_by_the_other_descriptor(self):
        out = self.run_traced('f = new("a"); g = new("a")\nfor h in (f, f, g, g):\n try: os.fdatasync(h); print("ok")\n'
                              ' except OSError: print("failed")', IOTRACE_FAIL="1", IOTRACE_FAIL_KIND="sync",
                              IOTRACE_FAIL_PATH="/a")
        self.assertEqual(out.split(), ["failed", "ok", "failed", "ok"])

    def test_send_before_sync_is_found(self):
        talk = 'f = new("log"); a, b = socket.socketpair(); os.write(f, b"entry");'
        self.run_traced(talk + 'os.fdatasync(f); a.send(b"reply")', IOTRACE_SOCKETS="1")
        self.assertEqual(list(replay.uncovered_sends(self.records, "log", 1)), [])
        os.unlink(self.tmp.name + "/trace")
        self.run_traced(talk + 'a.send(b"reply"); os.fdatasync(f)', IOTRACE_SOCKETS="1")
        self.assertEqual(len(list(replay.uncovered_sends(self.records, "log", 1))), 1)


if __name__ == "__main__":
    SHIM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
