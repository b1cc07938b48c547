#!/usr/bin/env python3
"""Write what follows from the table LOFT_OPTIONS in src/base/options.h: those in docs/options.md,
and that which the `loft` command checks its --option against (python/loft_malloc/options.json).

tools/gen_options_doc.py            write the files
tools/gen_options_doc.py --check    exit 1 if a file is not what would be written
"""

import argparse
import ast
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "base" / "options.h"
DOCUMENT = ROOT / "docs" / "options.md"
FOR_COMMAND = ROOT / "python" / "loft_malloc" / "options.json"

# Where the document's tables begin; what stands above is edited there.
TABLES_BEGIN = "## The options\n"
HEAD = "\n| option | environment | accepted | default | what it does |\n|---|---|---|---|---|\n"

# By purpose. Each option is in one group.
GROUPS = {
    "To know first": ("stats", "profile", "socket", "background", "owner", "hardened"),
    "Memory that stays": ("dirty_bytes", "decay_ms", "cache_bytes", "thp"),
    "Limits": ("cgroup", "soft_limit", "hard_limit"),
    "Profiles": ("sample_bytes", "profile_file", "profile_signal"),
    "Misuse": ("misuse", "report_file", "hardened_required"),
}

UNITS = {"kBytes": "bytes", "kMilliseconds": "milliseconds"}


@dataclass(frozen=True)
class Option:
    """As the command knows it: without a unit its value is one of the choices."""

    unit: str
    choices: list[str]
    default: str
    meaning: str

    def row(self, name: str) -> str:
        name_cell = f"| `{name}` | `LOFT_{name.upper()}` |"
        accepted = ", ".join(f"`{choice}`" for choice in self.choices) or self.unit
        if self.unit == "path":
            return f"{name_cell} a path | none | {self.meaning} |\n"
        if self.unit == "signal":
            accepted = "a signal's name or number"
            return f"{name_cell} {accepted} | none | {self.meaning} |\n"
        return f"{name_cell} {accepted} | `{self.default}` | {self.meaning} |\n"


def short_bytes(count: int) -> str:
    """The count with the largest suffix that divides it, as a user would type it."""
    for suffix, shift in (("G", 30), ("M", 20), ("K", 10)):
        if count and count % (1 << shift) == 0:
            return f"{count >> shift}{suffix}"
    return str(count)


def option(kind: str, default: str, choices: list[str], meaning: str) -> Option:
    number, _, shift = default.partition("<<")
    value = int(number) << int(shift or 0)
    if kind == "kChoice":
        return Option("", choices, choices[value], meaning)
    if kind == "kFile":
        return Option("path", [], "", meaning)
    if kind == "kSignal":
        return Option("signal", [], "", meaning)
    said = short_bytes(value) if kind == "kBytes" else str(value)
    return Option(UNITS[kind], [], said, meaning)


def read_table(source: str) -> dict[str, Option]:
    """The options by name."""
    match = re.search(r"#define LOFT_OPTIONS\(X\)((?:.*\\\n)*.*)\n", source)
    if match is None:
        raise SystemExit(f"{TABLE}: no LOFT_OPTIONS table")
    found = {}
    # Strings that stand side by side are one, in C++ as in Python.
    for entry in re.split(r"\bX\(", re.sub(r"\\\n", " ", match[1]))[1:]:
        kind, name, default, texts = entry.split(",", 3)
        choices, meaning = ast.literal_eval(f"({texts.strip()}")
        found[name.strip()] = option(kind, default, choices.split("|"), meaning)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Write what src/base/options.h says elsewhere.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if they differ")
    arguments = parser.parse_args()

    options = read_table(TABLE.read_text(encoding="utf-8"))
    grouped = [name for names in GROUPS.values() for name in names]
    if sorted(grouped) != sorted(options):
        raise SystemExit(f"GROUPS: not each option once: {sorted({*grouped} ^ {*options})}")
    introduction = DOCUMENT.read_text(encoding="utf-8").partition(TABLES_BEGIN)[0]
    tables = "".join(
        f"\n### {title}\n{HEAD}" + "".join(options[name].row(name) for name in names)
        for title, names in GROUPS.items()
    )
    entries = {name: asdict(options[name]) for name in grouped}
    written = {
        DOCUMENT: introduction + TABLES_BEGIN + tables,
        FOR_COMMAND: json.dumps(entries, indent=1) + "\n",
    }
    differ = [path for path, text in written.items() if path.read_text(encoding="utf-8") != text]
    for path in differ:
        if arguments.check:
            name = path.relative_to(ROOT)
            print(f"{name} is not what src/base/options.h says: run tools/gen_options_doc.py")
        else:
            path.write_text(written[path], encoding="utf-8")
    return 1 if differ and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
