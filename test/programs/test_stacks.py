"""The stacks of Debian's own programs, at each malloc: no frame differs from glibc's backtrace().

Nearly none of their functions has a frame pointer. They load libraries while they run, and call
back from the C library.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from compilers import link
from programs import PYTHON, ROOT, SOURCES, Build, Execute, environment

UNWIND = ROOT / "src" / "unwind"
# What stacks.cc needs of loft, without its malloc.
PARTS = [
    *sorted(UNWIND.glob("*.cc")),
    *(ROOT / "src" / "os" / f"{name}.cc" for name in ("calls", "os", "symbols")),
]

COMMANDS = {
    "python": [
        PYTHON,
        "-c",
        "import decimal, json, sqlite3, ssl, threading\n"
        "work = lambda: json.dumps([list(range(100))] * 50, indent=1)\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]",
    ],
    "perl": ["perl", "-e", "my %h; $h{$_} = [sort 1 .. 10] for 1 .. 1000; eval { die {} }"],
    "git": ["git", "-c", "core.pager=cat", "log", "--stat", "-5"],
    "compiler": ["g++", "-std=c++20", "-fsyntax-only", str(SOURCES / "templates.cc")],
    "shell": ["bash", "-c", "for i in $(seq 20); do x=$(echo $i | tr 1 2); done"],
}


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stacks") / "stacks.so"
    flags = ["-std=c++20", "-O2", "-fPIC", "-shared", "-fno-exceptions", f"-I{ROOT / 'src'}"]
    return link("g++", [SOURCES / "stacks.cc", *PARTS], path, flags, ["-ldl", "-lpthread"])


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    script = """
    set -e
    git init --quiet
    for i in 1 2 3; do
      seq "$i" 100 > numbers
      git add numbers
      git commit --quiet --message "$i"
    done
    """
    subprocess.run(["bash", "-c", script], cwd=folder, env=environment(folder), check=True)
    return folder


@pytest.mark.xdist_group("stacks")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_frame_is_as_glibc_has_it(
    name: str, stacks: Path, history: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    subprocess.run(
        COMMANDS[name],
        cwd=history,
        env=environment(tmp_path) | {"LD_PRELOAD": str(stacks), "STACKS": str(report)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    counts = [[int(word) for word in line.split()] for line in report.read_text().splitlines()]
    captures, frames, different, shorter = (sum(column) for column in zip(*counts, strict=True))
    assert (different, shorter) == (0, 0)
    assert captures > 100
    assert frames > 3 * captures


@pytest.mark.parametrize(
    "settings",
    [
        {"LOFT_PROFILE": "on", "LOFT_SAMPLE_BYTES": "1"},
        {"LOFT_HARDENED": "guard", "LOFT_SAMPLE_BYTES": "1"},
        {"LOFT_HARDENED": "full", "LOFT_PROFILE": "on", "LOFT_SAMPLE_BYTES": "1"},
    ],
    ids=["profile", "guard", "full"],
)
def test_a_stack_ends_at_code_without_information(
    execute: Execute, build: Build, settings: dict[str, str]
) -> None:
    result = execute(build("without_information.c"), **settings)
    assert (result.returncode, result.stdout, result.stderr) == (0, "survived\n", "")
