#!/usr/bin/env python3
"""What of the style guide a program can check. Each check is one function over a tree.

Usage: lint.py [--root DIR] [--objects DIR] [--shared DIR] CHECK...   (no CHECK: all)

Output is TAP, one line a check; what is wrong stands above it, one `file:line: text` each.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

FUNCTION_LINES_MAX = 70
COMPLEXITY_MAX = 15
SOURCE_LINES_MAX = 800
HEADER_LINES_MAX = 300
COLUMNS_MAX = 100
PURE_SYMBOLS = set("""
memcpy memmove memset memcmp memchr strlen strcmp strncmp strnlen strchr strrchr strtoull strtoll snprintf
vsnprintf __snprintf_chk __vsnprintf_chk __memcpy_chk __memmove_chk __memset_chk __stack_chk_fail qsort bsearch
bcmp strtod __isoc99_sscanf __strcpy_chk strspn strcspn strcasecmp strncasecmp strstr
assert_failed failpoint_hit _GLOBAL_OFFSET_TABLE_ __tls_get_addr __cpu_model __cpu_indicator_init
""".split())
PURE_PREFIXES = ("protobuf_c_",)  # packs and unpacks through the allocator it is given
BANNED_IN_LIBCORE = re.compile(
    r"(?<![\w.>])(strcpy|strcat|strncpy|strncat|sprintf|vsprintf|gets|strtok|atoi|atol|alloca|abort|exit|_exit)\s*\(")
BANNED_HEAP = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|asprintf)\s*\(")
BANNED_PRINT = re.compile(r"(?<![\w.>])(printf|fprintf|puts|perror)\s*\(")
KEYWORDS = re.compile(r"\b(if|for|while|switch)\b|&&|\|\||\?")


class Tree:
    def __init__(self, root, objects, shared):
        self.root, self.objects, self.shared = root, objects, shared
        self.problems = []

    def say(self, path, line, text):
        self.problems.append(f"{os.path.relpath(path, self.root)}:{line}: {text}")

    def files(self, folders, endings):
        for folder in folders:
            for base, _, names in sorted(os.walk(os.path.join(self.root, folder))):
                for name in sorted(names):
                    if name.endswith(endings):
                        yield os.path.join(base, name)

    def layers(self):
        rows = {}
        for line in open(os.path.join(self.root, "libcore/LAYERS")):
            words = line.split("#")[0].split()
            if words:
                rows[words[1]] = dict(ring=int(words[0]), kind=words[2], may=words[4:], order=len(rows))
        return rows


def strip_comments(text):
    """The text with comments and literals blanked, line numbers and columns kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)


def functions(path):
    """(name, first line, line count, complexity) of each function: clang-format puts its braces in column 1."""
    lines = strip_comments(open(path, errors="replace").read()).split("\n")
    start = name = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{") and start is None:
            head = ""
            back = number - 2
            while back >= 0 and lines[back].strip() and not lines[back].rstrip().endswith((";", "}")):
                head = lines[back] + " " + head
                back -= 1
            found = re.search(r"(\w+)\s*\(", head)
            if found:
                start, name = number, found.group(1)
        elif line.startswith("}") and start is not None:
            body = "\n".join(lines[start - 1 : number])
            yield name, start, number - start + 1, 1 + len(KEYWORDS.findall(body))
            start = None


def exceptions(tree):
    """Lines `check path[:function] limit`: what already exceeds, with the most it may."""
    allowed = {}
    path = os.path.join(tree.root, "test/lint/exceptions")
    if os.path.exists(path):
        for line in open(path):
            words = line.split("#")[0].split()
            if words:
                allowed[(words[0], words[1])] = int(words[2])
    return allowed


def over(tree, allowed, check, place, value, limit, path, line, what):
    limit_here = allowed.pop((check, place), limit)
    if value > limit_here:
        tree.say(path, line, f"{what} is {value}, the limit {limit_here}")
    elif limit_here > limit and value <= limit:
        tree.say(path, line, f"{what} is within the limit now: take {place} out of test/lint/exceptions")
    elif limit_here > limit and value < limit_here:
        tree.say(path, line, f"{what} is down to {value}: lower {place} in test/lint/exceptions")


def check_layers(tree):
    rows = tree.layers()
    for name, row in rows.items():
        for other in row["may"]:
            if other not in rows or rows[other]["order"] >= row["order"]:
                tree.say(os.path.join(tree.root, "libcore/LAYERS"), 1, f"{name} may not stand above {other}")
    folder = os.path.join(tree.root, "libcore")
    for module in sorted(os.listdir(folder)):
        if os.path.isdir(os.path.join(folder, module)) and module not in rows:
            tree.say(os.path.join(folder, module), 1, "module is not in libcore/LAYERS")
    for path in tree.files(["libcore"], (".c", ".h")):
        module = os.path.relpath(path, folder).split(os.sep)[0]
        if module not in rows:
            continue
        for number, line in enumerate(open(path), 1):
            found = re.match(r'\s*#\s*include\s+"(?:([\w.-]+)/)?([\w.-]+)"', line)
            if not found:
                continue
            other, name = found.groups()
            if name.endswith(".pb-c.h"):
                other = "pb"
            if other is None:
                tree.say(path, number, f'include "{module}/{name}" with its module')
            elif other != module and other not in rows[module]["may"]:
                tree.say(path, number, f"{module} may not include {other}")
            elif other != module and name.endswith("_int.h"):
                tree.say(path, number, f"{name} is private to {other}")


def check_purity(tree):
    pure = [m for m, row in tree.layers().items() if row["kind"] == "pure"]
    archives = [os.path.join(tree.objects, "lib", m + ".a") for m in pure]
    archives = [a for a in archives if os.path.exists(a)]
    if not archives:
        tree.say(tree.objects, 1, "no archives of pure modules; build first")
        return
    defined = set()
    for archive in archives:
        out = subprocess.run(["nm", "--defined-only", "-g", archive], capture_output=True, text=True).stdout
        defined |= {line.split()[-1] for line in out.splitlines() if len(line.split()) >= 3}
    for archive in archives:
        out = subprocess.run(["nm", "-A", "-u", archive], capture_output=True, text=True).stdout
        for line in out.splitlines():
            symbol = line.split()[-1].split("@")[0]
            if symbol in defined or symbol in PURE_SYMBOLS or symbol.startswith(PURE_PREFIXES):
                continue
            tree.say(archive, 1, f"{line.split(':')[1]} needs {symbol}, which the heart may not")


def check_banned(tree):
    for path in tree.files(["libcore", "cmd"], (".c", ".h")):
        if path.endswith("base/banned.h"):
            continue
        module = os.path.relpath(path, tree.root).split(os.sep)[1]
        in_cmd = os.path.relpath(path, tree.root).startswith("cmd")
        for number, line in enumerate(strip_comments(open(path).read()).split("\n"), 1):
            patterns = [] if in_cmd else [BANNED_IN_LIBCORE]
            if module != "os" and not in_cmd:
                patterns += [BANNED_HEAP, BANNED_PRINT]
            if re.match(r"\s*#\s*include\s*<assert\.h>", line):
                tree.say(path, number, "use base/assert.h")
            for pattern in patterns:
                found = pattern.search(line)
                if found and not re.search(r"__attribute__", line):
                    if module == "os" and found.group(1) in ("abort", "_exit"):
                        continue
                    tree.say(path, number, f"{found.group(1)}() is banned here")


def check_headers(tree):
    compiler = os.environ.get("CC", "gcc")
    flags = subprocess.run(["pkg-config", "--cflags", "libprotobuf-c", "lmdb", "libnghttp2", "libuv"],
                           capture_output=True, text=True).stdout.split()
    for path in tree.files(["libcore"], (".h",)):
        name = os.path.relpath(path, os.path.join(tree.root, "libcore"))
        if name == "base/banned.h":
            continue
        run = subprocess.run([compiler, "-std=c17", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                              "-Wno-unused", "-Ilibcore", "-Ibuild/gen", *flags, "-x", "c", "-"],
                             input=f'#include "{name}"\n#include "{name}"\n', cwd=tree.root,
                             capture_output=True, text=True)
        if run.returncode != 0:
            tree.say(path, 1, "does not compile alone: " + run.stderr.strip().split("\n")[0])


def check_size(tree):
    allowed = exceptions(tree)
    for path in tree.files(["libcore", "cmd", "doc", "test/lib", "test/bench"], (".c", ".h")):
        place = os.path.relpath(path, tree.root)
        count = len(open(path, errors="replace").read().split("\n")) - 1
        limit = SOURCE_LINES_MAX if path.endswith(".c") else HEADER_LINES_MAX
        over(tree, allowed, "file", place, count, limit, path, 1, "file length")
        if re.fullmatch(r"cmd/[\w-]+/main\.c", place) and count > 150:
            tree.say(path, 1, f"a main.c is {count} lines, the limit 150")
        for name, line, length, complexity in functions(path):
            here = f"{place}:{name}"
            over(tree, allowed, "function", here, length, FUNCTION_LINES_MAX, path, line, f"length of {name}()")
            over(tree, allowed, "complexity", here, complexity, COMPLEXITY_MAX, path, line,
                 f"complexity of {name}()")
    for check, place in allowed:
        tree.say(os.path.join(tree.root, "test/lint/exceptions"), 1, f"{check} {place} is not there any more")


def check_format(tree):
    tool = shutil.which("clang-format")
    if tool is None:
        tree.say(tree.root, 1, "clang-format is not installed")
        return
    paths = [p for p in tree.files(["libcore", "cmd", "doc", "test"], (".c", ".h"))]
    for start in range(0, len(paths), 64):
        run = subprocess.run([tool, "--dry-run", "-Werror", *paths[start : start + 64]], capture_output=True,
                             text=True, cwd=tree.root)
        for path, line in sorted(set(re.findall(r"^(\S+?):(\d+):\d+: error", run.stderr, flags=re.M))):
            tree.say(path if os.path.isabs(path) else os.path.join(tree.root, path), line,
                     "is not laid out as clang-format would")


def check_errors(tree):
    path = os.path.join(tree.root, "libcore/base/err.def")
    table = os.path.join(tree.shared or "", "spec/errors.tsv")
    if not os.path.exists(table):
        return f"no {os.path.basename(table)} beside the project"
    ours = {}
    for number, line in enumerate(open(path), 1):
        found = re.match(r'ERR\((\w+), GRPC_(\w+), (\d+), "(.*)"\)', line)
        if found:
            ours.setdefault(found.group(4), (found.group(2).replace("_", "").lower(), number))
    compared = 0
    for line in open(table):
        words = line.rstrip("\n").split("\t")
        if line.startswith("#") or len(words) < 3 or not re.match(r"[A-Z]\w+$", words[0]):
            continue
        code = re.match(r"(\w+)\((\d+)\)", words[1])
        if not code:
            continue
        compared += 1
        if words[2] not in ours:
            tree.say(path, 1, f"{words[0]} is missing: {words[2]}")
        elif ours[words[2]][0] != code.group(1).lower():
            tree.say(path, ours[words[2]][1], f"{words[0]} has code {code.group(1)} upstream")
    if compared == 0:
        tree.say(table, 1, "holds no error")


def floors(text):
    """Lines `NAME COUNT` of test/floors."""
    rows = (line.split("#")[0].split() for line in text.split("\n"))
    return {words[0]: int(words[1]) for words in rows if len(words) == 2}


def check_floors(tree):
    """Floors only rise, and the ceiling `exceptions` only falls, over all the history there is."""
    path = os.path.join(tree.root, "test/floors")
    if not os.path.exists(path):
        return "there is no test/floors"
    now = floors(open(path).read())
    listed = len(exceptions(tree))
    if listed > now.get("exceptions", 0):
        tree.say(path, 1, f"test/lint/exceptions lists {listed}, the most is {now.get('exceptions', 0)}")
    git = ["git", "-C", tree.root]
    log = subprocess.run([*git, "log", "--format=%h", "--", "test/floors"], capture_output=True, text=True).stdout
    for commit in log.split():
        then = floors(subprocess.run([*git, "show", f"{commit}:test/floors"], capture_output=True, text=True).stdout)
        for name, count in then.items():
            if name == "exceptions" and now.get(name, 0) > count:
                tree.say(path, 1, f"exceptions may only fall: it was {count} in {commit}")
            elif name != "exceptions" and now.get(name, 0) < count:
                tree.say(path, 1, f"the floor of {name} may only rise: it was {count} in {commit}")


def check_text(tree):
    for path in tree.files(["libcore", "cmd", "test", "proto", "doc"], (".c", ".h", ".proto", ".py", ".bats", ".md", ".sh")):
        if os.sep + "corpus" + os.sep in path or os.sep + "fixtures" + os.sep in path:
            continue
        for number, line in enumerate(open(path, errors="replace"), 1):
            if line.rstrip("\n") != line.rstrip():
                tree.say(path, number, "trailing blank")
            if "\t" in line and path.endswith((".c", ".h")):
                tree.say(path, number, "tab")


CHECKS = dict(layers=check_layers, purity=check_purity, banned=check_banned, headers=check_headers, size=check_size,
              format=check_format, errors=check_errors, floors=check_floors, text=check_text)


def main():
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=here)
    parser.add_argument("--objects")
    parser.add_argument("--shared", default=os.environ.get("SHARED"))
    parser.add_argument("checks", nargs="*")
    args = parser.parse_args()
    root = os.path.abspath(args.root)
    shared = args.shared or os.path.join(root, "../shared")
    failed = False
    names = args.checks or list(CHECKS)
    print(f"1..{len(names)}")
    for number, name in enumerate(names, 1):
        tree = Tree(root, args.objects or os.path.join(root, "build/gcc"), shared)
        skip = CHECKS[name](tree)
        for problem in tree.problems:
            print(f"# {problem}")
        failed |= bool(tree.problems)
        print(f"{'not ok' if tree.problems else 'ok'} {number} - {name}{' # SKIP ' + skip if skip else ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
