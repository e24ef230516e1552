#!/usr/bin/env python3
"""Reads a trace of iotrace.c and rebuilds what a power cut may leave of the traced folder.

  replay.py list TRACE
      one line per record, numbered as --prefix counts
  replay.py image TRACE --dir DIR --out OUT --prefix N [--loss kept|lost|torn] [--seed S] [--inflight] [--base BASE]
      makes OUT what a restart finds in DIR (the folder that was traced) after a cut when N records had returned;
      BASE is a copy of DIR from before the trace began; --inflight: the N-th had been called but not returned
  replay.py sends TRACE --path PART [--min-bytes N]
      every SEND that left while a write to a file with PART in its path was not yet synced; exit code 1 if any

Model: a write is durable once it returned on an O_DSYNC descriptor or a sync of its file that began later has
returned; so are a file's length and its reserved space. A name (create, rename, unlink, mkdir) is durable once a
sync of its folder that began later has returned. What is not durable is kept, lost, or torn: by 512-byte sectors
for writes, by a prefix of the changes of each folder for names.
"""
import argparse
import os
import random
import re
import shutil
import sys

SECTOR = 512


class Record:
    def __init__(self, fields, kind, data):
        self.kind = kind
        self.seq = int(fields["seq"])
        self.began = int(fields["from"])
        self.fd = int(fields["fd"])
        self.flags = fields["flags"]
        self.off = int(fields["off"])
        self.rc = int(fields["rc"])
        self.path = unescape(fields["path"])
        self.to = unescape(fields["to"]) if "to" in fields else None
        self.data = data


def unescape(text):
    return re.sub("%([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), text)


def read_trace(path):
    records = []
    with open(path, "rb") as f:
        while line := f.readline():
            kind, *rest = line.decode("utf-8", "surrogateescape").split()
            fields = dict(item.split("=", 1) for item in rest)
            size = int(fields["len"])
            data = f.read(size)
            if size and (len(data) != size or f.read(1) != b"\n"):
                break  # the process ended in the middle of a record
            records.append(Record(fields, kind, data))
    return records


class Inode:
    def __init__(self, content=b""):
        self.content = content.rstrip(b"\0")  # log segments are long and mostly empty
        self.size = len(content)
        self.changes = []  # Change, in order
        self.is_dir = False


class Change:
    """One change of a file or of a folder, and from which record on it is durable."""

    def __init__(self, record, what):
        self.seq = record.seq
        self.what = what
        self.durable_at = record.seq if "dsync" in record.flags else None


class World:
    """All files and names of a trace."""

    def __init__(self, records, base, top):
        self.top = top
        self.names = {}  # path -> Inode, as the process sees it
        self.folders = {}  # folder -> [Change of (path, Inode or None[, path before a rename])]
        self.start = {}
        if base:
            self.load(base)
        self.names[top] = self.folder_inode()
        self.start = dict(self.names)
        for r in records:
            self.step(r)

    @staticmethod
    def folder_inode():
        inode = Inode()
        inode.is_dir = True
        return inode

    def load(self, base):
        for root, dirs, files in os.walk(base):
            here = os.path.normpath(os.path.join(self.top, os.path.relpath(root, base)))
            for name in dirs:
                self.names[os.path.join(here, name)] = self.folder_inode()
            for name in files:
                with open(os.path.join(root, name), "rb") as f:
                    self.names[os.path.join(here, name)] = Inode(f.read())

    def bind(self, record, path, inode):
        if inode is None:
            self.names.pop(path, None)
        else:
            self.names[path] = inode
        change = Change(record, (path, inode))
        self.folders.setdefault(os.path.dirname(path), []).append(change)

    def inode(self, path):
        if path not in self.names:
            self.names[path] = Inode()  # opened before the trace began and not in the base
            self.start[path] = self.names[path]
        return self.names[path]

    def rename(self, r):
        moved = {p: i for p, i in self.names.items() if p == r.path or p.startswith(r.path + "/")}
        for path, inode in moved.items():
            self.names.pop(path)
            self.names[r.to + path[len(r.path):]] = inode
        for folder in [f for f in self.folders if f == r.path or f.startswith(r.path + "/")]:
            changes = self.folders.pop(folder)  # a sync of the folder by its new name covers them
            self.folders.setdefault(r.to + folder[len(r.path):], []).extend(changes)
        inode = self.names.get(r.to)
        away = Change(r, (r.path, None))
        there = Change(r, (r.to, inode, r.path))
        self.folders.setdefault(os.path.dirname(r.path), []).append(away)
        self.folders.setdefault(os.path.dirname(r.to), []).append(there)

    def step(self, r):
        if r.kind == "WRITE" and r.data:
            self.inode(r.path).changes.append(Change(r, ("write", r.off, r.data)))
        elif r.rc < 0 or r.kind == "SEND":
            return
        elif r.kind in ("TRUNCATE", "ALLOCATE"):
            if r.kind == "TRUNCATE" or r.flags == "-":
                self.inode(r.path).changes.append(Change(r, (r.kind.lower(), r.off)))
        elif r.kind == "OPEN":
            if r.flags == "create":
                self.bind(r, r.path, Inode())
            else:
                self.inode(r.path).changes.append(Change(r, ("truncate", 0)))
        elif r.kind == "MKDIR":
            self.bind(r, r.path, self.folder_inode())
        elif r.kind in ("UNLINK", "RMDIR"):
            self.bind(r, r.path, None)
        elif r.kind == "LINK":
            self.bind(r, r.to, self.inode(r.path))
        elif r.kind == "RENAME":
            self.rename(r)
        elif r.kind in ("SYNC", "FSYNC"):
            inode = self.names.get(r.path)
            is_dir = inode is not None and inode.is_dir
            for change in self.folders.get(r.path, []) if is_dir else self.inode(r.path).changes:
                if change.durable_at is None and change.seq <= r.began:
                    change.durable_at = r.seq


def durable(change, cut):
    return change.durable_at is not None and change.durable_at <= cut


class Image:
    """A file that is being rebuilt; holes stay holes."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self.size = 0

    def write(self, off, data):
        os.pwrite(self.fd, data, off)
        self.size = max(self.size, off + len(data))

    def resize(self, size):
        os.ftruncate(self.fd, size)
        self.size = size

    def apply(self, what):
        if what[0] == "truncate":
            self.resize(what[1])
        elif what[0] == "allocate":
            self.resize(max(self.size, what[1]))
        else:
            self.write(what[1], what[2])

    def tear(self, off, data, chance):
        """Each sector of a write for itself."""
        at = 0
        while at < len(data):
            end = min(len(data), at + SECTOR - (off + at) % SECTOR)
            if chance():
                self.write(off + at, data[at:end])
            at = end

    def close(self):
        os.close(self.fd)


class Cut:
    """A power cut after `prefix` records; `cut` is the last one whose effects are certain."""

    def __init__(self, world, prefix, loss, seed, inflight):
        self.world, self.prefix, self.loss = world, prefix, loss
        self.cut = prefix - 1 if inflight else prefix
        self.random = random.Random(seed)

    def chance(self):
        return self.loss == "kept" or (self.loss == "torn" and self.random.random() < 0.5)

    def rebuild(self, inode, path):
        out = Image(path)
        out.write(0, inode.content)
        out.resize(inode.size)
        for change in inode.changes:
            if change.seq > self.prefix:
                break
            if durable(change, self.cut):
                out.apply(change.what)
            elif change.what[0] == "write" and self.loss == "torn":
                out.tear(change.what[1], change.what[2], self.chance)
            elif self.chance():
                out.apply(change.what)
        out.close()

    def survivors(self, changes):
        """Names change in order: once one is lost, so are all later ones of that folder."""
        for change in changes:
            if change.seq > self.prefix:
                return
            if not durable(change, self.cut) and not self.chance():
                return
            yield change

    def names(self):
        found = dict(self.world.start)
        kept = [c for changes in self.world.folders.values() for c in self.survivors(changes)]
        for change in sorted(kept, key=lambda c: c.seq):
            path, inode, *renamed_from = change.what
            moved = {}
            for old in renamed_from:  # a folder takes what is in it along
                for p in [p for p in found if p.startswith(old + "/")]:
                    moved[path + p[len(old):]] = found.pop(p)
            found.pop(path, None)
            if inode is not None:
                found[path] = inode
            found.update(moved)
        return found

    def save(self, out):
        top = self.world.top
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        for path, inode in sorted(self.names().items()):
            if path != top and not path.startswith(top + "/"):
                continue
            target = os.path.join(out, os.path.relpath(path, top))
            if inode.is_dir:
                os.makedirs(target, mode=0o700, exist_ok=True)
            elif os.path.isdir(os.path.dirname(target)):  # else its folder is lost, and it with it
                self.rebuild(inode, target)


def uncovered_sends(records, part, min_bytes):
    """Pairs of a SEND and a write to a file with `part` in its path that was not durable when it left."""
    pending = []
    for r in records:
        if r.kind == "WRITE" and r.data and "dsync" not in r.flags and part in r.path:
            pending.append(r)
        elif r.kind in ("SYNC", "FSYNC") and r.rc == 0:
            pending = [w for w in pending if w.path != r.path or w.seq > r.began]
        elif r.kind == "SEND" and len(r.data) >= min_bytes:
            for w in pending:
                yield r, w


def do_list(args):
    for i, r in enumerate(read_trace(args.trace), 1):
        to = f" -> {r.to}" if r.to else ""
        print(f"{i:6} {r.kind:8} {r.flags:6} off={r.off} len={len(r.data)} rc={r.rc} {r.path}{to}")
    return 0


def do_image(args):
    records = read_trace(args.trace)
    world = World(records, args.base, os.path.normpath(args.dir))
    Cut(world, args.prefix, args.loss, args.seed, args.inflight).save(args.out)
    return 0


def do_sends(args):
    found = 0
    for send, write in uncovered_sends(read_trace(args.trace), args.path, args.min_bytes):
        print(f"record {send.seq}: {len(send.data)} bytes sent, record {write.seq} to {write.path} not synced")
        found = 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, fn in (("list", do_list), ("image", do_image), ("sends", do_sends)):
        p = commands.add_parser(name)
        p.set_defaults(fn=fn)
        p.add_argument("trace")
        if name == "image":
            p.add_argument("--dir", required=True)
            p.add_argument("--out", required=True)
            p.add_argument("--prefix", type=int, required=True)
            p.add_argument("--loss", choices=("kept", "lost", "torn"), default="kept")
            p.add_argument("--seed", type=int, default=1)
            p.add_argument("--inflight", action="store_true")
            p.add_argument("--base")
        elif name == "sends":
            p.add_argument("--path", required=True)
            p.add_argument("--min-bytes", type=int, default=1)
    args = parser.parse_args()
    return args.fn(args)


if __name__ == "__main__":
    sys.exit(main())
