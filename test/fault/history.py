"""What a member must hold, by the journal of the load that it got (writers.c).

A writer's calls touch keys of its own only and are made one after the other, so after a crash each writer's keys
stand as after its last answered call, or as after the one call that was in flight.
"""


class Op:
    """One call: its parts are ("p", key, value), ("d", key), ("c", revision)."""

    def __init__(self, writer, n, words):
        self.writer, self.n, self.revision = writer, n, None
        self.parts = [tuple(word.split(":", 2)) for word in words]

    @property
    def compacts(self):
        return int(self.parts[0][1]) if self.parts[0][0] == "c" else 0

    def apply(self, state, revision):
        for part in self.parts:
            if part[0] == "p":
                state[part[1]] = (revision, part[2])
            elif part[0] == "d":
                state.pop(part[1], None)

    def seen_at(self, rows):
        """The revision at which this call, if it is in the rows, was made; None when it is not."""
        for part in self.parts:
            if part[0] == "p" and part[1] in rows and rows[part[1]][1] == part[2]:
                return rows[part[1]][0]
        return None


class State:
    """What `look state` says: revision, hash, compact revision, and key -> (revision, value)."""

    def __init__(self, text):
        lines = text.splitlines()
        self.revision = int(lines[0].split()[1])
        self.hash, self.compact, self.hash_revision = map(int, lines[1].split()[1:])
        self.rows = {}
        for line in lines[2:]:
            key, revision, value = line.split(" ", 2)
            self.rows[key] = (int(revision), value)

    def __eq__(self, other):
        return vars(self) == vars(other)


class Journal:
    def __init__(self, path):
        self.ops, self.failures = [], []
        self.by_id = {}
        with open(path) as text:
            for line in text:
                if line.endswith("\n"):
                    self.line(line.split())

    def line(self, words):
        kind, writer, n = words[0], int(words[1]), int(words[2])
        if kind == "send":
            op = self.by_id[writer, n] = Op(writer, n, words[3:])
            self.ops.append(op)
        elif kind == "ack":
            self.by_id[writer, n].revision = int(words[3])
        else:
            self.failures.append(" ".join(words))

    def acked(self):
        """Answered calls in the order of their revisions; no compactions."""
        return sorted((op for op in self.ops if op.revision is not None and not op.compacts), key=lambda op: op.revision)

    def pending(self):
        return [op for op in self.ops if op.revision is None and not op.compacts]

    def compacted(self):
        return max((op.compacts for op in self.ops if op.revision is not None and op.compacts), default=-1)


def difference(seen, expected):
    keys = sorted(k for k in seen.keys() | expected.keys() if seen.get(k) != expected.get(k))
    shown = [f"{k}: expected {str(expected.get(k))[:60]}, seen {str(seen.get(k))[:60]}" for k in keys[:5]]
    return f"{len(keys)} keys differ:\n" + "\n".join(shown)


def check_crash(journal, before, now):
    """Compares a State with what must be there after `before` (rows) and a journal with calls cut short."""
    acked = journal.acked()
    revisions = [op.revision for op in acked]
    if len(set(revisions)) != len(revisions):
        raise AssertionError("two answers named the same revision")
    last = max(revisions, default=0)
    if now.revision < last:
        raise AssertionError(f"revision {last} was answered, the store is at {now.revision}")
    if now.compact < journal.compacted():
        raise AssertionError(f"compaction at {journal.compacted()} was answered, the store's is {now.compact}")
    expected = dict(before)
    for op in acked:
        op.apply(expected, op.revision)
    for op in journal.pending():
        revision = op.seen_at(now.rows)
        if revision is not None and revision in set(revisions):
            raise AssertionError(f"the unanswered call {op.writer}/{op.n} has the revision {revision} of another")
        if revision is not None or all(p[0] == "d" and p[1] not in now.rows for p in op.parts):
            op.apply(expected, revision)
    if now.rows != expected:
        raise AssertionError(difference(now.rows, expected))


class History:
    """A journal in which every call was answered: the store's rows at every revision from `first` on."""

    def __init__(self, journal, first=1, rows=None):
        acked = journal.acked()
        if journal.pending() or journal.failures:
            raise AssertionError(f"the load was not answered wholly: {journal.failures[:3]}")
        self.last = first
        self.rows = {first: rows or {}}
        for op in acked:
            self.add(op)
        self.hashes = {}
        self.compactions = self.later_calls(journal)

    def add(self, op):
        if op.revision != self.last + 1:
            raise AssertionError(f"revision {op.revision} was answered after {self.last}")
        state = dict(self.rows[self.last])
        op.apply(state, op.revision)
        self.last = op.revision
        self.rows[self.last] = state

    @staticmethod
    def later_calls(journal):
        """(revision of the same writer's next change, compacted revision): by then the compaction was answered."""
        found = []
        for op in journal.ops:
            after = [o.revision for o in journal.ops if o.writer == op.writer and o.n > op.n and not o.compacts]
            if op.compacts and after:
                found.append((after[0], op.compacts))
        return found

    def check(self, now, least, about):
        """A State must be that of one revision, not below `least`; equal revisions hash equally."""
        compact = max((c for later, c in self.compactions if later <= least), default=-1)
        if now.compact < compact:
            raise AssertionError(f"{about}: compacted at {now.compact}, expected at least {compact}")
        if not least <= now.revision <= self.last:
            raise AssertionError(f"{about}: revision {now.revision}, expected {least} to {self.last}")
        if now.rows != self.rows[now.revision]:
            raise AssertionError(f"{about}: revision {now.revision}: {difference(now.rows, self.rows[now.revision])}")
        known = self.hashes.setdefault((now.compact, now.hash_revision), now.hash)
        if known != now.hash:
            raise AssertionError(f"{about}: hash {now.hash} at {now.hash_revision}, compacted {now.compact}; was {known}")
