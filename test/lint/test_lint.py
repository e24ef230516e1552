#!/usr/bin/env python3
"""Each check of lint.py sees the violation planted for it, and passes the same tree without it. Output is TAP."""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

CLEAN = {
    "libcore/LAYERS": "0 base pure :\n1 heart pure : base\n4 os edge : base\n",
    "libcore/base/base.h": "#ifndef BASE_BASE_H\n#define BASE_BASE_H\nint base_one(void);\n#endif\n",
    "libcore/base/base.c": '#include "base/base.h"\n\nint base_one(void)\n{\n    return 1;\n}\n',
    "libcore/base/err.def": 'ERR(E_EMPTY_KEY, GRPC_INVALID_ARGUMENT, 1, "etcdserver: key is not provided")\n',
    "libcore/heart/heart.h": "#ifndef HEART_H\n#define HEART_H\n#include <stddef.h>\n\nsize_t heart_two(void);\n#endif\n",
    "libcore/heart/heart.c": '#include "heart/heart.h"\n\n#include "base/base.h"\n\nsize_t heart_two(void)\n{\n'
                             "    return (size_t)base_one() + 1;\n}\n",
    "libcore/os/os.h": "#ifndef OS_OS_H\n#define OS_OS_H\nint os_three(void);\n#endif\n",
    "test/floors": "exceptions 1\nunit 10\n",
    "cmd/tool/main.c": "int main(void)\n{\n    return 0;\n}\n",
    "spec/errors.tsv": "symbol\tgrpc_code\tmessage\twhen\nEmptyKey\tInvalidArgument(3)\tetcdserver: key is not provided\tx\n",
}
LONG = "int heart_long(void);\nint heart_long(void)\n{\n" + "    base_one();\n" * 80 + "    return 0;\n}\n"
TANGLED = "int heart_tangle(int a);\nint heart_tangle(int a)\n{\n" + "    if (a) a--;\n" * 16 + "    return a;\n}\n"

# (check, what it is about, files to add or change, text its complaint must hold)
PLANTED = [
    ("layers", "an include that points upwards", {"libcore/base/up.c": '#include "heart/heart.h"\n'}, "may not include heart"),
    ("layers", "a module that is in no layer", {"libcore/stray/stray.h": "\n"}, "not in libcore/LAYERS"),
    ("layers", "a private header of another module",
     {"libcore/heart/peek.c": '#include "base/base_int.h"\n'}, "is private to base"),
    ("layers", "a table row that points upwards", {"libcore/LAYERS": "0 base pure : heart\n1 heart pure : base\n4 os edge :\n"},
     "may not stand above"),
    ("purity", "a clock read in the heart",
     {"libcore/heart/now.c": "#include <time.h>\nlong heart_now(void);\nlong heart_now(void)\n{\n    return time(0);\n}\n"},
     "needs time"),
    ("purity", "a malloc in the heart",
     {"libcore/heart/mem.c": "#include <stdlib.h>\nvoid *heart_mem(int n);\nvoid *heart_mem(int n)\n{\n    return malloc(n);\n}\n"},
     "needs malloc"),
    ("banned", "an unbounded copy", {"libcore/heart/copy.c": "void f(char *a)\n{\n    strcpy(a, \"x\");\n}\n"}, "strcpy() is banned"),
    ("banned", "a library that exits", {"libcore/os/quit.c": "void f(void)\n{\n    exit(1);\n}\n"}, "exit() is banned"),
    ("banned", "a library that prints", {"libcore/heart/say.c": "void f(void)\n{\n    printf(\"x\");\n}\n"}, "printf() is banned"),
    ("headers", "a header that needs another first",
     {"libcore/heart/lean.h": "#ifndef LEAN_H\n#define LEAN_H\nuint64_t heart_lean(void);\n#endif\n"}, "does not compile alone"),
    ("size", "a function that is too long", {"libcore/heart/long.c": LONG}, "length of heart_long()"),
    ("size", "a function that is too tangled", {"libcore/heart/tangle.c": TANGLED}, "complexity of heart_tangle()"),
    ("size", "a source that is too long", {"libcore/heart/many.c": "\n" * 900}, "file length is 900"),
    ("size", "a header that is too long", {"libcore/heart/many.h": "\n" * 301}, "file length is 301"),
    ("size", "a main.c that is too long", {"cmd/tool/main.c": "\n" * 151}, "a main.c is 151 lines"),
    ("size", "an exception that is no longer needed",
     {"test/lint/exceptions": "file libcore/heart/heart.c 900\n"}, "is within the limit now"),
    ("size", "an exception for what is gone", {"test/lint/exceptions": "file libcore/heart/gone.c 900\n"}, "is not there any more"),
    ("size", "an exception that could be lower",
     {"libcore/heart/many.c": "\n" * 850, "test/lint/exceptions": "file libcore/heart/many.c 900\n"}, "is down to 850"),
    ("format", "a layout of one's own", {"libcore/heart/odd.c": "int  heart_odd( void ) { return 1 ; }\n"}, "clang-format"),
    ("errors", "an error text that differs",
     {"libcore/base/err.def": 'ERR(E_EMPTY_KEY, GRPC_INVALID_ARGUMENT, 1, "etcdserver: no key")\n'}, "EmptyKey is missing"),
    ("errors", "an error with another code",
     {"libcore/base/err.def": 'ERR(E_EMPTY_KEY, GRPC_INTERNAL, 1, "etcdserver: key is not provided")\n'},
     "EmptyKey has code InvalidArgument"),
    ("floors", "a floor that sinks", {"test/floors": "exceptions 1\nunit 9\n"}, "floor of unit may only rise: it was 10"),
    ("floors", "a floor that is gone", {"test/floors": "exceptions 1\n"}, "floor of unit may only rise"),
    ("floors", "room for more exceptions", {"test/floors": "exceptions 2\nunit 10\n"}, "may only fall: it was 1"),
    ("floors", "more exceptions than there may be",
     {"test/lint/exceptions": "file a.c 900\nfile b.c 900\n"}, "lists 2, the most is 1"),
    ("text", "a trailing blank", {"libcore/heart/blank.c": "int heart_blank; \n"}, "trailing blank"),
]


def plant(folder, files):
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            out.write(text)


def history(folder):
    """One commit of the clean tree's floors."""
    git = ["git", "-C", folder, "-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "test/floors"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "floors"], check=True)


def archives(folder):
    lib = os.path.join(folder, "objects/lib")
    os.makedirs(lib)
    for module in ("base", "heart"):
        objects = []
        source = os.path.join(folder, "libcore", module)
        for name in sorted(os.listdir(source)):
            if name.endswith(".c"):
                objects.append(os.path.join(folder, "objects", module + "_" + name[:-2] + ".o"))
                subprocess.run(["gcc", "-w", "-I" + os.path.join(folder, "libcore"), "-c", "-o", objects[-1],
                                os.path.join(source, name)], check=True)
        subprocess.run(["ar", "rcs", os.path.join(lib, module + ".a"), *objects], check=True)


def run(check, files):
    folder = tempfile.mkdtemp(prefix="lint-test-")
    try:
        plant(folder, CLEAN)
        if check == "floors":
            history(folder)
        plant(folder, files)
        shutil.copy(os.path.join(ROOT, ".clang-format"), folder)
        if check == "purity":
            archives(folder)
        done = subprocess.run([sys.executable, os.path.join(HERE, "lint.py"), "--root", folder, "--objects",
                               os.path.join(folder, "objects"), "--shared", folder, check], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr
    finally:
        shutil.rmtree(folder)


def main():
    cases = [(check, "a clean tree passes", {}, None) for check in dict.fromkeys(p[0] for p in PLANTED)] + PLANTED
    print(f"1..{len(cases)}")
    failed = 0
    for number, (check, about, files, expected) in enumerate(cases, 1):
        code, output = run(check, files)
        good = code == 0 if expected is None else code == 1 and expected in output
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {check}: {about}")
        if not good:
            print(f"# expected: {expected or 'exit 0'}\n# seen: exit {code}")
            print("\n".join("#   " + line for line in output.splitlines()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
