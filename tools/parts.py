"""What passed when: tools/passed.toml holds, for each part of the night and of the week, the last
commit at which it passed, and the table of that run."""

import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "passed.toml"
# Commits after which a part that did not run again is told of.
OLD = 50
HEADING = """\
# Written by `make night` and `make weekly`: at which commit each part last passed, and its table.
"""


class Planned(Protocol):
    tier: str
    night: int
    weekly: int


def git(*arguments: str) -> str | None:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def read() -> dict[str, dict[str, dict[str, Any]]]:
    return tomllib.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def commit_of(tier: str, part: int) -> str:
    commit: str = read().get(tier, {}).get(str(part), {}).get("commit", "")
    return commit


def changed(night: int, patterns: Iterable[str]) -> list[str] | None:
    """The files that have changed since the part of the night passed, or None if nobody knows: it
    never passed, or this checkout does not have the commit."""
    commit = commit_of("night", night)
    listed = git("diff", "--name-only", commit, "--") if commit else None
    if listed is None:
        return None
    fresh = git("ls-files", "--others", "--exclude-standard") or ""
    names = sorted({*listed.split("\n"), *fresh.split("\n")} - {""})
    return [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]


def numbers(stages: Iterable[Planned], tier: str) -> list[int]:
    found = {stage.night if tier == "night" else stage.weekly for stage in stages}
    return sorted(found - {0})


def when(stage: Planned) -> str:
    turns = [stage.tier] if stage.tier else []
    turns += [f"night {stage.night}"] if stage.night else []
    turns += [f"weekly {stage.weekly}"] if stage.weekly else []
    return ", ".join(turns)


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """In Markdown."""
    lines = [
        "| stage | passed | failed | seconds | processor seconds | skipped |",
        "|---|---:|---:|---:|---:|---|",
    ]
    total = {"stage": "all", "skipped": {}} | {
        key: sum(row[key] for row in rows)
        for key in ("passed", "failed", "seconds", "processor_seconds")
    }
    for row in [*rows, total]:
        skipped = "; ".join(f"{count}: {reason}" for reason, count in row["skipped"].items())
        lines.append(
            f"| {row['stage']} | {row['passed']} | {row['failed']} | {row['seconds']} "
            f"| {row['processor_seconds']} | {skipped} |"
        )
    return lines


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the table into CONTRIBUTING.md, between its marks."""
    page = ROOT / "CONTRIBUTING.md"
    begin, end = "<!-- make test -->\n", "<!-- /make test -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    lines = [f"{line}\n" for line in table(rows)]
    page.write_text(f"{before}{begin}{''.join(lines)}{end}{after}", encoding="utf-8")


def record(tier: str, part: int, rows: Sequence[Mapping[str, Any]]) -> str:
    """Notes in passed.toml that the part passed; for somebody to commit."""
    changes = git("status", "--porcelain", "--", ".", f":!tools/{RECORD.name}")
    if changes is None or changes:
        return f"{tier} {part} is not recorded: the tree has changes that are not committed"
    known = read()
    known.setdefault(tier, {})[str(part)] = {
        "commit": git("rev-parse", "HEAD"),
        "rows": [{**row, "skipped": sum(row["skipped"].values())} for row in rows],
    }
    lines = [HEADING]
    for kind in sorted(known):
        for number in sorted(known[kind], key=int):
            told = known[kind][number]
            lines.append(f'[{kind}.{number}]\ncommit = "{told["commit"]}"\nrows = [')
            for row in told["rows"]:
                fields = ", ".join(
                    f"{key} = " + (f'"{value}"' if isinstance(value, str) else str(value))
                    for key, value in row.items()
                )
                lines.append(f"  {{ {fields} }},")
            lines.append("]\n")
    RECORD.write_text("\n".join(lines), encoding="utf-8")
    return f"{tier} {part} passed at {git('rev-parse', '--short', 'HEAD')}: commit {RECORD.name}"


def old(stages: Iterable[Planned]) -> list[str]:
    """A line for each part that has not passed within the last commits."""
    stages = list(stages)
    lines = []
    for tier in ("night", "weekly"):
        for part in numbers(stages, tier):
            commit = commit_of(tier, part)
            since = git("rev-list", "--count", f"{commit}..HEAD") if commit else None
            again = f"make {tier} PART={part}"
            if since is None:
                lines.append(f"old: no pass is known: {again}")
            elif int(since) > OLD:
                lines.append(f"old: passed {since} commits ago: {again}")
    return lines
