"""/etc/loft.conf: settings for all processes of a system.

The programs here have a root folder of their own, with that file in it, so that the machine's own
is neither needed nor touched. What makes the file trusted is tested by test/unit/settings_test.cc,
without privileges.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from filters import GLIBC, KILL, LOADER, allowing
from programs import Build

NOBODY = 65534
# Not every user's PATH leads there, and the programs here have no PATH.
CHROOT = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin") or "chroot"
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

#ifdef PATHS
const char* loft_options = PATHS;
#endif

int main(int argc, char** argv) {
  static _Alignas(16) char other[32];
  char* volatile foreign = other;
  free(malloc(100));
  if (argc > 1) free(foreign);
  puts(getauxval(AT_SECURE) ? "more rights" : "its user's rights");
}
"""


class Root:
    """A folder that is / for programs: with these, the libraries that they need, and loft."""

    def __init__(self, folder: Path, lib: Path) -> None:
        self.folder = folder
        self.put("libloft.so.0", lib.resolve())
        self.settings = folder / "etc" / "loft.conf"
        self.settings.parent.mkdir()

    def put(self, name: str, file: Path) -> None:
        target = self.folder / name.lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
            target.chmod(0o755)
            listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=False)
            for path in re.findall(r"(/\S+) \(0x", listed.stdout):
                if Path(path).name != "libloft.so.0":
                    self.put(path, Path(path))

    def compile(self, name: str, *flags: str) -> None:
        source, program = self.folder / f"{name}.c", self.folder / f"{name}.built"
        source.write_text(SOURCE)
        library = self.folder / "libloft.so.0"
        words = ["gcc", str(source), str(library), "-Wl,-rpath,/", "-fno-builtin"]
        subprocess.run([*words, *flags, "-o", program], check=True)
        self.put(name, program)
        for path in re.findall(r"(/\S+) \(0x", subprocess.getoutput(f"ldd {program}")):
            if "libloft" not in path:
                self.put(path, Path(path))

    def say(self, text: str, mode: int = 0o644) -> None:
        self.settings.write_text(text)
        self.settings.chmod(mode)

    def run(
        self, *command: str, user: int | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        change = [CHROOT, *([f"--userspec={user}:{user}"] if user is not None else [])]
        words = [*BECOMING_ROOT, "/usr/bin/env", "-i", *[f"{k}={v}" for k, v in more.items()]]
        return subprocess.run(
            [*words, *change, str(self.folder), *command],
            capture_output=True,
            text=True,
            check=False,
        )


BECOMING_ROOT = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]


@pytest.fixture
def root(lib: Path) -> Iterator[Root]:
    """Where everybody may look, unlike in pytest's own folders."""
    with tempfile.TemporaryDirectory(prefix="loft-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = Root(folder, lib)
        made.compile("main")
        refused = made.run("/main").stderr
        if refused.startswith(("chroot:", "unshare:", f"{CHROOT}:")):
            pytest.skip(f"no program may have a root folder of its own here: {refused}")
        yield made


def test_it_is_followed(root: Root) -> None:
    root.say("# for all\nstats = json\n")
    result = root.run("/main")
    assert (result.returncode, result.stdout) == (0, "its user's rights\n")
    assert result.stderr.startswith("{")


def test_the_environment_comes_later(root: Root) -> None:
    root.say("stats=json\n")
    assert root.run("/main", LOFT_STATS="off").stderr == ""


def test_mistakes_are_told_and_the_rest_counts(root: Root) -> None:
    root.say("colour=red\nstats=loud\nstats=prometheus\nmisuse=perhaps\n")
    told = root.run("/main").stderr.splitlines()
    assert told[:3] == [
        "loft: /etc/loft.conf:1: 'colour' is no option of loft; see docs/options.md",
        "loft: /etc/loft.conf:2: stats='loud' is ignored: accepted is off|text|json|prometheus",
        "loft: /etc/loft.conf:4: misuse='perhaps' is read as stop, which is stricter: "
        "accepted is stop|continue",
    ]
    assert told[3].startswith("# HELP")


def test_what_others_may_write_is_ignored(root: Root) -> None:
    root.say("stats=json\n", 0o666)
    said = "loft: /etc/loft.conf is ignored: others than its owner may write to it\n"
    result = root.run("/main")
    assert (result.returncode, result.stderr) == (0, said)


def test_a_queue_keeps_nobody_waiting(root: Root) -> None:
    os.mkfifo(root.settings, 0o644)
    result = root.run("/main")
    assert result.returncode == 0
    assert result.stderr == "loft: /etc/loft.conf is ignored: it is no regular file\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program that may more")
def test_a_program_that_may_more_follows_it_alone(root: Root) -> None:
    """The system's settings hold where its user's do not."""
    root.say("stats=prometheus\n")
    (root.folder / "main").chmod(0o4755)
    result = root.run("/main", user=NOBODY, LOFT_STATS="json", LOFT_OWNER="nonsense")
    if result.stdout == "its user's rights\n":
        pytest.skip("setuid has no effect here")
    assert (result.returncode, result.stdout) == (0, "more rights\n")
    assert result.stderr.startswith("# HELP")


PATHS = {"report_file": "reports", "profile_file": "/home/profile", "socket": "/home/socket"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program that may more")
@pytest.mark.parametrize("by", ["the file", "the symbol"])
def test_a_program_that_may_more_takes_no_path(root: Root, lib: Path, by: str) -> None:
    """Its user would choose where root's files go: by the folder it starts in, and by links."""
    lines = [f"{name}={path}" for name, path in PATHS.items()]
    root.say("\n".join(["misuse=continue", "profile=on", *(lines if by == "the file" else [])]))
    root.compile("other", *([f'-DPATHS="{",".join(lines)}"'] if by == "the symbol" else []))
    root.put("env", Path("/usr/bin/env"))
    # What writes profiles lies beside the library, which the system says of all addresses.
    root.put("libloft-inspect.so", lib.resolve().parent / "libloft-inspect.so")
    maps = root.folder / "proc" / "self" / "maps"
    maps.parent.mkdir(parents=True)
    maps.write_text("1000-7ffffffff000 r-xp 00000000 00:01 1 /libloft.so.0\n")
    home = root.folder / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    command = ("/env", "-C", "/home", "/other", "misuse")
    result = root.run(*command, user=NOBODY)
    assert (result.returncode, result.stdout) == (0, "its user's rights\n")
    assert {path.name for path in home.iterdir()} == {"reports", "profile"}
    for path in home.iterdir():
        path.unlink()
    (root.folder / "other").chmod(0o4755)
    result = root.run(*command, user=NOBODY)
    if result.stdout == "its user's rights\n":
        pytest.skip("setuid has no effect here")
    assert (result.returncode, result.stdout) == (0, "more rights\n")
    assert re.fullmatch(r"loft: free of a foreign pointer [^\n]*\n", result.stderr)
    assert list(home.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_somebody_elses_is_ignored(root: Root) -> None:
    root.say("stats=json\n")
    os.chown(root.settings, NOBODY, NOBODY)
    said = "loft: /etc/loft.conf is ignored: root does not own it\n"
    assert root.run("/main").stderr == said


def test_under_a_filter_that_its_parent_has_set(root: Root, build: Build) -> None:
    """Reading it takes no call that the loader does not make before."""
    root.put("confined", build("confined.c"))
    root.put("sandboxed", build("sandboxed.c"))
    root.put("env", Path("/usr/bin/env"))
    allowing(GLIBC | LOADER | {"clock_gettime"}, KILL).put(root.folder / "filter")
    root.say("decay_ms=50\nthp=never\n")
    preload = "LD_PRELOAD=/libloft.so.0"
    result = root.run("/env", preload, "/confined", "/filter", "/sandboxed", "work")
    assert (result.returncode, result.stdout, result.stderr) == (0, "lived\n", "")
