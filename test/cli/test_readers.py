"""Other people's readers of profiles open ours, and say the same: pprof, speedscope, flamegraph.pl.

tools/readers.sh fetches the first two; without it they are skipped. Of Perfetto there is no test:
its package fetches the program that reads, which is in no registry.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import Browser
from support import LOFT, ROOT, Compile

from loft_malloc.profile import files, top, tree
from loft_malloc.profile.top import Sort

FLAMEGRAPH = Path("/usr/share/perl5/Devel/NYTProf/flamegraph.pl")
FETCHED = ROOT / "build" / "readers"
SOURCE = """
#include <stdlib.h>
static char* volatile kept[3000];
static int count;
__attribute__((noinline)) void grow(int bytes) {
  char* p = malloc(bytes);  // LINE grow
  kept[count++] = p;
  p[0] = 1;
}
__attribute__((noinline)) void parse(int depth) {
  if (depth > 0) { parse(depth - 1); asm volatile(""); return; }
  for (int i = 0; i < 500; i++) grow(20000);
  asm volatile("");
}
__attribute__((noinline)) void serve(void) {
  for (int i = 0; i < 200; i++) grow(70000);
  kept[count++] = malloc(5000000);  // LINE serve
  asm volatile("");
}
int main(void) {
  parse(3);
  serve();
  return 0;
}
"""
LINES = {
    line.split("LINE ")[1]: at for at, line in enumerate(SOURCE.split("\n"), 1) if "LINE" in line
}


@dataclass(frozen=True)
class Written:
    named: Path
    collapsed: Path
    # As the library wrote it.
    plain: Path

    def functions(self) -> dict[str, tuple[int, int]]:
        """What each holds itself and with calls, in the order of the list that loft prints."""
        made = tree.build(files.read(self.named))
        return {
            held.function[0]: (held.flat[made.main], held.cumulative[made.main])
            for held in top.ordered(made, Sort.FLAT)
        }


@pytest.fixture(scope="module")
def profile(build: Path, compiled: Compile, tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("written")
    program = compiled("program", SOURCE, "-g", "-O1", "-fno-optimize-sibling-calls")
    found = Written(*(folder / name for name in ("named.pb.gz", "named.collapsed", "plain.pb.gz")))
    preload, rate = f"LD_PRELOAD={build / 'libloft.so'}", "LOFT_SAMPLE_BYTES=8K"
    settings = [preload, "LOFT_PROFILE=on", rate, f"LOFT_PROFILE_FILE={found.plain}"]
    subprocess.run(["env", *settings, program], check=True)
    for path in (found.named, found.collapsed):
        subprocess.run(
            [LOFT, "profile", "--read", found.plain, "-o", path],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return found


@pytest.fixture(scope="session")
def fetched() -> Path:
    ran = subprocess.run([ROOT / "tools" / "readers.sh"], capture_output=True, text=True)
    if ran.returncode != 0:
        pytest.fail(f"infrastructure: {ran.stderr.strip()}")
    return FETCHED


def pprof(fetched: Path, *arguments: str | Path) -> str:
    everything = ["-nodefraction=0", "-edgefraction=0", "-nodecount=1000", "-unit=B"]
    environment = {**os.environ, "PPROF_TMPDIR": str(fetched)}
    ran = subprocess.run(
        [fetched / "pprof", "-top", *everything, *arguments],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rows(text: str) -> list[tuple[str, int, int]]:
    found = re.findall(r"^ *(\d+)B? +\S+ +\S+ +(\d+)B? +\S+ +(.+)$", text, re.MULTILINE)
    return [(name, int(flat), int(cumulative)) for flat, cumulative, name in found]


@pytest.mark.night
def test_pprof_says_the_same(fetched: Path, profile: Written) -> None:
    text = pprof(fetched, profile.named)
    assert "Type: inuse_space\n" in text
    ours = profile.functions()
    theirs = rows(text)
    assert {name: values for name, *values in theirs} == {
        name: list(values) for name, values in ours.items()
    }
    assert ours["grow"][0] > 20_000_000
    assert ours["parse"][0] == 0 and ours["parse"][1] > 7_000_000
    # What holds something itself stands in one order.
    assert [name for name, flat, _ in theirs if flat] == [
        name for name, (flat, _) in ours.items() if flat
    ]


@pytest.mark.night
def test_pprof_finds_lines(fetched: Path, profile: Written) -> None:
    theirs = [name for name, flat, _ in rows(pprof(fetched, "-lines", profile.named)) if flat]
    assert [re.sub(r" .*/", " ", name) for name in theirs] == [
        f"grow source.c:{LINES['grow']}", f"serve source.c:{LINES['serve']}"
    ]  # fmt: skip


@pytest.mark.night
def test_pprof_finds_names_itself(fetched: Path, profile: Written) -> None:
    """In what the library wrote, where there are addresses alone."""
    ours = profile.functions()
    theirs = {name: (flat, whole) for name, flat, whole in rows(pprof(fetched, profile.plain))}
    for name in ("grow", "parse", "serve", "main"):
        assert theirs[name] == ours[name]


@pytest.mark.night
@pytest.mark.parametrize("kind", ["named", "collapsed"])
def test_speedscope_says_the_same(
    fetched: Path, profile: Written, browser: Browser, tmp_path: Path, kind: str
) -> None:
    path = profile.named if kind == "named" else profile.collapsed
    text = seen_in_speedscope(fetched, browser, path, tmp_path / "load.js")
    # Total, Self and Symbol Name, each row in three lines.
    cells = [line.strip() for line in text.split("Symbol Name\n")[1].split("\n") if line.strip()]
    theirs = {name: (own, whole) for whole, own, name in zip(*[iter(cells)] * 3, strict=False)}
    ours = profile.functions()
    assert list(theirs)[:2] == ["grow", "serve"]
    assert set(theirs) == set(ours)
    for name, (own, whole) in ours.items():
        for value, shown in zip((own, whole), theirs[name], strict=True):
            assert shown.startswith(in_speedscope(value, kind == "named")), name


def in_speedscope(value: int, in_bytes: bool) -> str:
    if not in_bytes:
        return f"{value:,} "
    for unit, size in (("MB", 1 << 20), ("KB", 1 << 10)):
        if value >= size:
            return f"{value / size:.2f} {unit} "
    return f"{value} B "


def seen_in_speedscope(fetched: Path, browser: Browser, path: Path, script: Path) -> str:
    """Its table, when it is told to load the file, as its own command tells it."""
    data = base64.b64encode(path.read_bytes()).decode()
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(path.name)}, {json.dumps(data)})")
    page = (fetched / "speedscope" / "index.html").as_uri()
    browser.ask("Page.navigate", url="about:blank")
    browser.ask("Page.navigate", url=f"{page}#localProfilePath={script}")
    text = ""
    while "Symbol Name" not in text:
        text = str(browser.run("document.body ? document.body.innerText : ''"))
        if path.name in text and "Export" in text:
            browser.press("3", ord("3"), "3")
        time.sleep(0.1)  # time: looks again, until it is there
    return text


def test_flamegraph_says_the_same(profile: Written) -> None:
    perl = shutil.which("perl")
    assert perl is not None
    ran = subprocess.run(
        [perl, FLAMEGRAPH, "--countname=bytes", "--minwidth=0", profile.collapsed],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    drawn: dict[str, list[int]] = {}
    for name, value in re.findall(r"<title>(\S+) \(([\d,]+) bytes", ran.stdout):
        # A function has a box for each way to it; one that calls itself is inside itself.
        drawn.setdefault(name, []).append(int(value.replace(",", "")))
    ours = profile.functions()
    assert set(drawn) == {*ours, "all"}
    assert sum(drawn["grow"]) == ours["grow"][1]
    assert max(drawn["parse"]) == ours["parse"][1]
    assert drawn["main"] == [ours["main"][1]]
