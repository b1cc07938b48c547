"""Each command that a page for users shows runs, and prints what the page says that it prints.

A block of ```console shows commands behind `$ ` (continued after a backslash) and their output. The
blocks of a page are one session of bash, in a folder of its own. A block with a name after its
language (```python service.py) is written there first. Output is compared by shape: a number with
its unit, an address and a path are the same as any other. `...` on a line of its own stands for any
lines, and inside a line for any text. Commands that need another machine are in blocks of ```sh.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support import LOFT, ROOT

PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    if "```console" in path.read_text()
)
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
END = "--- end of a command ---"

PLACES = (
    # Who is ahead is measured, as numbers are.
    (re.compile(r"^Verdict: .+"), "Verdict: #"),
    (re.compile(r"0x[0-9a-f]+"), "#"),
    (re.compile(r"build-id [0-9a-f]+"), "build-id #"),
    (re.compile(r"(?<![\w.])(?:/[\w.%+~$-]+)+"), "/"),
    (re.compile(r"[-+±]?\d[\d,.]*(?: ?(?:[KMGT]iB|[KMGTk]?B|k|M|ms|us|µs|ns|s|%|x)(?!\w))?"), "#"),
    (re.compile(r"-{3,}|={3,}|[─━█▇▆▅▄▃▂▁]+"), "-"),
    (re.compile(r"\s+"), " "),
)


def shape(line: str) -> str:
    for pattern, place in PLACES:
        line = pattern.sub(place, line)
    return line.strip()


def pattern_of(expected: str) -> str:
    """What an output has to match, shaped line by line."""
    wanted = ""
    for line in expected.splitlines():
        if line == "...":
            wanted += r"(?:.*\n)*?"
        elif line.strip():
            wanted += r".*?".join(re.escape(shape(part)) for part in line.split("...")) + "\n"
    return wanted


def shaped(output: str) -> str:
    return "".join(f"{line}\n" for line in map(shape, output.splitlines()) if line)


def commands(text: str) -> list[tuple[str, str]]:
    blocks = (block for language, _, block in BLOCK.findall(text) if language == "console")
    return [found for block in blocks for found in COMMAND.findall(block)]


def outputs(text: str, build: Path, folder: Path) -> list[str]:
    """What each command of the page prints, to either stream."""
    for _, name, content in BLOCK.findall(text):
        if name:
            (folder / name).write_text(content)
    (folder / "bin").mkdir()
    (folder / "bin" / "loft").symlink_to(LOFT)
    script = "exec 2>&1\n"
    for command, _ in commands(text):
        # What starts in the background has its socket before the next command asks it.
        wait = "sleep 3\n" if command.endswith("&") else ""  # time: by night alone
        script += f"{command}\n{wait}printf '\\n{END}\\n'\n"
    inherited = {name: value for name, value in os.environ.items() if "LOFT" not in name}
    environment = inherited | {
        "PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": str(build),
        "COLUMNS": "120",
    }
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as session:
        assert session.stdout is not None
        try:
            # Until the last command's end: what runs in the background holds the pipe open.
            found = [""]
            while len(found) <= len(commands(text)) and (line := session.stdout.readline()):
                if line.rstrip("\n") == END:
                    found.append("")
                else:
                    found[-1] += line
        finally:
            os.killpg(session.pid, signal.SIGKILL)
    return found[:-1]


@pytest.mark.night
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_command_prints_what_the_page_shows(page: Path, build: Path, tmp_path: Path) -> None:
    text = page.read_text()
    found = outputs(text, build, tmp_path)
    assert len(found) == len(commands(text)), "the session ended early"
    for (command, expected), output in zip(commands(text), found, strict=True):
        assert re.fullmatch(pattern_of(expected), shaped(output)), (
            f"$ {command}\nprints\n{output}\nand the page says\n{expected}"
        )


def test_what_is_compared() -> None:
    page = "live 2.60 MiB  68.0%\n...\nin /usr/bin/python3+0x1f: ... wins\n"
    said = "live 9 KiB 1%\n\nmore\nin /bin/sqlite3+0x2a5: loft or glibc wins\n"
    assert re.fullmatch(pattern_of(page), shaped(said))
    assert not re.fullmatch(pattern_of(page), shaped(said.replace("live", "dead")))
    assert not re.fullmatch(pattern_of(page), shaped(f"{said}another line\n"))
