"""The stacks of Debian's own programs, at each malloc.

Nearly none of their functions has a frame pointer. They load libraries while they run, and call
back from the C library.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from programs import PYTHON, SOURCES, Build, Execute, environment

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
def test_a_stack_is_taken_at_each_call(name: str, lib: Path, history: Path, tmp_path: Path) -> None:
    heap = tmp_path / "heap.%p.collapsed"
    settings = {
        "LD_PRELOAD": str(lib),
        "LOFT_PROFILE": "on",
        "LOFT_SAMPLE_BYTES": "1",
        "LOFT_PROFILE_FILE": str(heap),
    }
    ran = subprocess.run(
        COMMANDS[name],
        cwd=history,
        env=environment(tmp_path) | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    profiles = [path.read_text() for path in tmp_path.glob("heap.*.collapsed")]
    stacks = [line for profile in profiles for line in profile.splitlines() if line[0] != "#"]
    assert stacks
    assert max(line.count(";") for line in stacks) >= 3


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
