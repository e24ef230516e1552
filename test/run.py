#!/usr/bin/env python3
"""Runs suites that speak TAP and ends with one line: N passed, N failed, N skipped.

Usage: run.py [--floors FILE] [--jobs N] SUITE=COMMAND...

A command is given to the shell at the top of the tree; N of them (1) run at a time. Cases that failed are shown with what they printed; skipped
ones are listed with their reasons above the total. A command that ends with an error, or stops before its
plan is done, counts as a failure of its own. With --floors each suite must have executed (passed or failed) at
least as many cases as the file says: lines `SUITE COUNT`.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import threading
import time

LINE = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:-\s*)?(.*?)(?:\s*#\s*(SKIP|TODO)\b\s*(.*))?$", re.I)


LOCK = threading.Lock()  # of the totals


class Suite:
    def __init__(self, name):
        self.name, self.passed, self.failed, self.skipped, self.seconds = name, 0, 0, [], 0.0

    def add(self, other):
        with LOCK:
            self.passed += other.passed
            self.failed += other.failed
            self.skipped += other.skipped
            self.seconds += other.seconds


def read_tap(suite, command, stream):
    """Counts the cases of one command; returns (planned, seen)."""
    planned, seen, noise, reason = None, 0, [], ""
    for raw in stream:
        line = raw.decode(errors="replace").rstrip("\n")
        plan = re.match(r"^1\.\.(\d+)", line)
        case = LINE.match(line)
        if plan:
            planned = (planned or 0) + int(plan.group(1))
        elif case:
            seen += 1
            bad, _, name, directive, why = case.groups()
            if directive and directive.upper() == "SKIP":
                suite.skipped.append(f"{suite.name}: {name or why}: {reason or why or 'no reason given'}")
            elif bad:
                suite.failed += 1
                print(f"not ok - {suite.name}: {name}\n" + "\n".join("    " + n for n in noise[-80:]), flush=True)
            else:
                suite.passed += 1
            noise, reason = [], ""
        else:
            said = re.search(r"SKIP: (.*)", line)
            reason = said.group(1) if said else reason
            noise.append(line)
    return planned, seen, noise


def run(total, command):
    suite, start = Suite(total.name), time.monotonic()
    environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP")
    child = subprocess.Popen(["/bin/bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, env=environment)
    planned, seen, noise = read_tap(suite, command, child.stdout)
    code = child.wait()
    wrong = None
    if planned is not None and seen < planned:
        wrong = f"stopped after {seen} of {planned} cases (exit {code})"
    elif planned is None:
        wrong = f"printed no plan after {seen} cases (exit {code})"
    elif code != 0 and suite.failed == 0:
        wrong = f"ended with exit {code} though no case failed"
    if wrong:
        suite.failed += 1
        print(f"not ok - {suite.name}: {command}: {wrong}\n" + "\n".join("    " + n for n in noise[-80:]), flush=True)
    suite.seconds = time.monotonic() - start
    total.add(suite)


def below_floor(path, suites):
    low = []
    for line in open(path):
        words = line.split("#")[0].split()
        if words and words[0] != "exceptions":  # a ceiling, which lint.py holds
            suite = suites.get(words[0])
            count = suite.passed + suite.failed if suite else 0
            if count < int(words[1]):
                low.append(f"{words[0]} executed {count} cases, its floor is {words[1]}")
    return low


def main():
    arguments, options = sys.argv[1:], {"--floors": None, "--jobs": "1"}
    while arguments and arguments[0] in options:
        options[arguments[0]], arguments = arguments[1], arguments[2:]
    floors, suites = options["--floors"], {}
    with concurrent.futures.ThreadPoolExecutor(int(options["--jobs"])) as pool:
        running = []
        for argument in arguments:
            name, command = argument.split("=", 1)
            running.append(pool.submit(run, suites.setdefault(name, Suite(name)), command))
        for done in running:
            done.result()
    for suite in suites.values():
        print(f"{suite.name}: {suite.passed} passed, {suite.failed} failed, {len(suite.skipped)} skipped"
              f" ({suite.seconds:.1f} s)")
    for skipped in (text for suite in suites.values() for text in suite.skipped):
        print(f"skipped {skipped}")
    failed = sum(s.failed for s in suites.values())
    for text in below_floor(floors, suites) if floors else []:
        print(f"not ok - floors: {text}")
        failed += 1
    print(f"{sum(s.passed for s in suites.values())} passed, {failed} failed, "
          f"{sum(len(s.skipped) for s in suites.values())} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
