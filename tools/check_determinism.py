#!/usr/bin/env python3
"""Finds what makes a test depend on the machine that it runs on, or on luck: tests that sleep, read
a clock, draw a seed from the system, write a setting of the machine or need a network.

It reads the tests in Python by their syntax, the programs in their strings and those in C and C++
by their words. It passes over what only the night runs: the folders of NIGHT, files named
*_night_test.cc and *_machine_test.cc, and what carries pytest's marker `night` or `machine`, as a
module or as a function. A loop that does nothing but nap until something is so may do that: it has
no bound, measures nothing, and pytest or CTest ends it if it hangs. Anything else needs its reason
on its line: `# time: why`, or `// seed: why`. The kinds are time, seed, machine and network. The
exceptions are counted, so that they stay few.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Other people's tests, whole builds of packages, emulated machines, and what runs for an hour.
NIGHT = ("test/suites", "test/packages", "test/elsewhere", "test/soak")
# It quotes what it looks for.
OWN_TEST = "test/tools/test_check_determinism.py"
NIGHT_NAMES = ("_night_test.cc", "_machine_test.cc")
NIGHT_MARKERS = ("night", "machine")
# Whoever sleeps that long waits to be ended, and measures nothing.
FOR_EVER_S = 1000
# A limit as short as that ends a test which is slow, not one which hangs.
SHORT_S = 60

SETTING = re.compile(r"""["'](/proc/sys/|/sys/)""")
# In C++ control groups are made up, below a folder of the test's own.
C_SETTING = re.compile(r"\"(/proc/sys/|/sys/(kernel|devices|block|module)/)")
WRITES = re.compile(
    r"\bO_WRONLY\b|\bO_RDWR\b|\bofstream\b|\bfopen\([^;]*\"[wa]|\.write_text\(|\.write_bytes\("
    r"|\bopen\([^)]*[\"'][wa][\"']"
)
C_WORDS = {
    "time": re.compile(
        r"\b(sleep_for|sleep_until|u?sleep(?=\(\w)|(clock_)?nanosleep|gettimeofday"
        r"|time(?=\((NULL|nullptr|0)\))"
        r"|(?<=\.)wait_(for|until)|(steady|system|high_resolution)_clock|clock_gettime|CLOCK_\w+)"
    ),
    "seed": re.compile(r"\b(random_device|getrandom|getentropy|arc4random\w*)\b|/dev/u?random"),
}
# A loop that only naps. In Python the nap stands on a line of its own.
C_NAPS = re.compile(r"\bwhile \([^;]*\) (usleep\(|nanosleep\(|std::this_thread::sleep_for\()")
SHELL_NAPS = re.compile(r"\bwhile :; do sleep [\d.]+; done")
PYTHON_LOOP = re.compile(r"\s*while .*:$")
# What is written in a string may be C, Python or a shell's.
TEXT_SLEEP = re.compile(r"\b(?:time\.sleep\(|u?sleep\(|sleep +)([\d.]*)")
TEXT_CLOCK = re.compile(
    r"\btime\.(?:monotonic|perf_counter|time)\(|\bclock_gettime\(|\bnanosleep\("
)
TEXT_SEED = re.compile(r"\bos\.urandom\(|\brandom_device\b|\bgetrandom\(|/dev/u?random")
CLOCKS = {"monotonic", "perf_counter", "process_time", "time", "monotonic_ns", "perf_counter_ns"}
DRAWS = {"random", "randint", "randrange", "choice", "choices", "sample", "shuffle", "getrandbits"}
WAITS = {"wait", "join", "settimeout", "sigtimedwait"}
LIMITS = {"timeout", "timeout_s"}
FETCHERS = {"apt", "apt-get", "mmdebstrap", "debootstrap", "curl", "wget"}
FETCHES = ({"pip", "install"}, {"pip", "download"}, {"cargo", "fetch"})
REQUESTS = {"urlopen", "urlretrieve"}


@dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    kind: str
    what: str
    # Why it may stay; empty if it may not.
    reason: str = ""

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.path}:{self.line}: {self.kind}: {self.what}{why}"


def reason(line: str, kind: str) -> str:
    found = re.search(rf"(?:#|//|/\*)\s*{kind}: (.*?)(?:\*/)?\s*$", line)
    return found[1].strip() if found else ""


def without_comment(line: str) -> str:
    return re.sub(r"(?<!:)//.*$|/\*.*?\*/", "", line)


def found_in_c(text: str) -> Iterator[tuple[int, str, str]]:
    writes = WRITES.search(text)
    for number, line in enumerate(text.splitlines(), 1):
        code = without_comment(line)
        if C_NAPS.search(code):
            continue
        for kind, words in C_WORDS.items():
            for match in words.finditer(code):
                yield number, kind, match[0].rstrip(" (")
        if writes and C_SETTING.search(code):
            yield number, "machine", "a setting, in a file that writes"


def is_marked(node: ast.expr) -> bool:
    """Whether an expression names one of the night's markers, in a list or with arguments too."""
    return any(
        isinstance(part, ast.Attribute)
        and part.attr in NIGHT_MARKERS
        and isinstance(part.value, ast.Attribute)
        and part.value.attr == "mark"
        for part in ast.walk(node)
    )


def of_the_night(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Assign)
        and any(isinstance(name, ast.Name) and name.id == "pytestmark" for name in node.targets)
        and is_marked(node.value)
        for node in tree.body
    )


def number_of(node: ast.expr) -> float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


class Reader(ast.NodeVisitor):
    """Collects what one module does that it should not."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.found: list[tuple[int, str, str]] = []

    def add(self, node: ast.expr, kind: str, what: str) -> None:
        self.found.append((node.lineno, kind, what))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.enter(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.enter(node)

    def enter(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        if not any(is_marked(decorator) for decorator in node.decorator_list):
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        naps = len(node.body) == 1 and ast.unparse(node.body[0]).startswith("time.sleep(")
        if naps:
            self.visit(node.test)
        else:
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        # A text that stands alone is a description.
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str):
            return
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            line = self.lines[number - 1]
            if C_NAPS.search(line) or SHELL_NAPS.search(line) or self.naps_in_a_loop(number):
                continue
            for match in TEXT_SLEEP.finditer(line):
                seconds = float(match[1].strip(".") or 0) if match[1] else 0
                if match[0].startswith("usleep"):
                    seconds /= 1_000_000
                # A sentence may speak of sleep; a program says for how long.
                if seconds < FOR_EVER_S and (match[1] or match[0].endswith("(")):
                    self.found.append((number, "time", match[0].strip()))
            for kind, words in (("time", TEXT_CLOCK), ("seed", TEXT_SEED)):
                for match in words.finditer(line):
                    self.found.append((number, kind, match[0].rstrip("(")))

    def naps_in_a_loop(self, number: int) -> bool:
        """Of Python in a string: the line is a nap, and nothing else in a loop."""
        line, before = self.lines[number - 1], self.lines[number - 2]
        depth = len(before) - len(before.lstrip())
        return bool(
            PYTHON_LOOP.match(before) and re.fullmatch(rf" {{{depth + 4}}}time\.sleep\(.*\)", line)
        )

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        of = owner.id if isinstance(owner, ast.Name) else ""
        if of == "time" and name == "sleep":
            self.add(node, "time", "time.sleep")
        elif of == "time" and name in CLOCKS:
            self.add(node, "time", f"time.{name}")
        elif (of, name) == ("gzip", "compress") and "mtime" not in {
            each.arg for each in node.keywords
        }:
            self.add(node, "time", "gzip.compress, which writes the time down, without mtime")
        elif (of, name) in (("os", "urandom"), ("os", "getrandom")) or of == "secrets":
            self.add(node, "seed", f"{of}.{name}")
        elif of == "random" and (name in DRAWS or (name in ("Random", "seed") and not node.args)):
            self.add(node, "seed", f"random.{name}")
        elif name in REQUESTS:
            self.add(node, "network", name)
        if name in WAITS and node.args:
            self.limit(node.args[0], name)
        for keyword in node.keywords:
            if keyword.arg in LIMITS:
                self.limit(keyword.value, str(keyword.arg))
        self.command(node)
        self.generic_visit(node)

    def limit(self, node: ast.expr, of: str) -> None:
        seconds = number_of(node)
        if seconds is not None and seconds < SHORT_S:
            self.add(node, "time", f"{of} of {seconds} s")

    def command(self, node: ast.Call) -> None:
        groups = [node.args, *(each.elts for each in node.args if isinstance(each, ast.List))]
        for group in groups:
            texts = [each.value for each in group if isinstance(each, ast.Constant)]
            words = {text for text in texts if isinstance(text, str)}
            first = group[0].value if group and isinstance(group[0], ast.Constant) else None
            if first in FETCHERS or any(fetch <= words for fetch in FETCHES):
                self.add(node, "network", f"calls {' '.join(map(str, texts))}")


def found_in_python(text: str) -> Iterator[tuple[int, str, str]]:
    tree = ast.parse(text)
    if of_the_night(tree):
        return
    lines = text.splitlines()
    reader = Reader(lines)
    reader.visit(tree)
    yield from reader.found
    yield from settings(tree, lines)


def settings(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, str, str]]:
    if not WRITES.search("\n".join(lines)):
        return
    of_the_machine = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(map(is_marked, node.decorator_list))
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    for number, line in enumerate(lines, 1):
        if SETTING.search(line) and number not in of_the_machine:
            yield number, "machine", "a setting, in a file that writes"


def findings(root: Path = ROOT) -> list[Finding]:
    found: set[Finding] = set()
    readers = {".py": found_in_python, ".cc": found_in_c, ".c": found_in_c, ".h": found_in_c}
    for path in sorted((root / "test").rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in readers or name.startswith(tuple(f"{night}/" for night in NIGHT)):
            continue
        if name.endswith(NIGHT_NAMES) or name == OWN_TEST:
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        found |= {
            Finding(name, line, kind, what, reason(lines[line - 1], kind))
            for line, kind, what in readers[path.suffix](text)
        }
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--list", action="store_true", help="also what has a reason")
    parser.add_argument("folders", nargs="*", default=["test"], help="of these folders alone")
    arguments = parser.parse_args()
    folders = tuple(f"{folder.rstrip('/')}/" for folder in arguments.folders)
    found = [each for each in findings() if each.path.startswith(folders)]
    wrong = [each for each in found if not each.reason]
    for each in found if arguments.list else wrong:
        print(each)
    excused = Counter(each.kind for each in found if each.reason)
    counted = ", ".join(f"{number} {kind}" for kind, number in sorted(excused.items())) or "none"
    print(f"determinism: {len(wrong)} findings; exceptions with a reason: {counted}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
