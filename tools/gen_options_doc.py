#!/usr/bin/env python3
"""Write what follows from the table LOFT_OPTIONS in src/base/options.h: the one in docs/options.md,
and that which the `loft` command checks its --option against (python/loft/options.json).

tools/gen_options_doc.py            write the files
tools/gen_options_doc.py --check    exit 1 if a file is not what would be written
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "base" / "options.h"
DOCUMENT = ROOT / "docs" / "options.md"
FOR_COMMAND = ROOT / "python" / "loft" / "options.json"

# Where the document's table begins; what stands above is edited there.
TABLE_BEGINS = "|---|---|---|---|---|\n"

UNITS = {"kBytes": "bytes", "kMilliseconds": "milliseconds", "kProcessor": "processor"}
ANY_PROCESSOR = 65535


@dataclass(frozen=True)
class Option:
    """One row of the table."""

    kind: str
    name: str
    default: int
    choices: list[str]
    help: str

    def accepted(self) -> str:
        if self.kind == "kProcessor":
            return "a processor's number, or `any`"
        if self.kind in UNITS:
            return UNITS[self.kind]
        return ", ".join(f"`{choice}`" for choice in self.choices)

    def default_text(self) -> str:
        if self.kind == "kBytes":
            return short_bytes(self.default)
        if self.kind == "kProcessor" and self.default == ANY_PROCESSOR:
            return "any"
        if self.kind in UNITS:
            return str(self.default)
        return self.choices[self.default]

    def row(self) -> str:
        variable = f"LOFT_{self.name.upper()}"
        return (
            f"| `{self.name}` | `{variable}` | {self.accepted()} | `{self.default_text()}`"
            f" | {self.help} |\n"
        )

    def entry(self) -> dict[str, object]:
        unit = UNITS.get(self.kind, "")
        choices = [] if unit else self.choices
        return {"unit": unit, "choices": choices, "default": self.default_text()}


def short_bytes(count: int) -> str:
    """The count with the largest suffix that divides it, as a user would type it."""
    for suffix, shift in (("G", 30), ("M", 20), ("K", 10)):
        if count and count % (1 << shift) == 0:
            return f"{count >> shift}{suffix}"
    return str(count)


def value_of(expression: str) -> int:
    """The value of a default: a number, or `number << number`."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:<<\s*(\d+))?\s*", expression)
    if match is None:
        raise SystemExit(f"{TABLE}: default '{expression.strip()}' is not of the form N or N << N")
    return int(match[1]) << int(match[2] or 0)


def text_of(literals: str) -> str:
    """The text of adjacent string literals."""
    return "".join(re.findall(r'"([^"]*)"', literals))


def read_table(source: str) -> list[Option]:
    match = re.search(r"#define LOFT_OPTIONS\(X\)((?:.*\\\n)*.*)\n", source)
    if match is None:
        raise SystemExit(f"{TABLE}: no LOFT_OPTIONS table")
    body = re.sub(r"\\\n", " ", match[1])
    string = r'((?:"[^"]*"\s*)+)'
    entry = re.compile(
        r"X\(\s*(\w+)\s*,\s*(\w+)\s*,([^,]*),\s*" + string + r",\s*" + string + r"\)"
    )
    options = [
        Option(kind, name, value_of(default), text_of(choices).split("|"), text_of(help_text))
        for kind, name, default, choices, help_text in entry.findall(body)
    ]
    if len(options) != len(re.findall(r"\bX\(", body)):
        raise SystemExit(f"{TABLE}: an entry of LOFT_OPTIONS is not understood")
    return options


def main() -> int:
    parser = argparse.ArgumentParser(description="Write what src/base/options.h says elsewhere.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if they differ")
    arguments = parser.parse_args()

    options = read_table(TABLE.read_text(encoding="utf-8"))
    introduction = DOCUMENT.read_text(encoding="utf-8").partition(TABLE_BEGINS)[0]
    entries = {option.name: option.entry() for option in options}
    written = {
        DOCUMENT: introduction + TABLE_BEGINS + "".join(option.row() for option in options),
        FOR_COMMAND: json.dumps(entries, indent=1) + "\n",
    }
    differ = 0
    for path, text in written.items():
        if path.read_text(encoding="utf-8") == text:
            continue
        if arguments.check:
            name = path.relative_to(ROOT)
            print(f"{name} is not what src/base/options.h says: run tools/gen_options_doc.py")
            differ = 1
        else:
            path.write_text(text, encoding="utf-8")
    return differ


if __name__ == "__main__":
    sys.exit(main())
