"""What compares the suites notices a difference, and accepts what is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
import suite
from suite import Outcomes, compare, ending

KNOWN = {"known": "exit 3"}


def test_what_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "explained", lambda _: KNOWN)
    libc = {"same": "exit 0", "known": "exit 0", "lost": "exit 0", "other": "exit 0"}
    loft = {"same": "exit 0", "known": "exit 3", "other": "SIGSEGV"}
    assert suite.differences("s", libc, loft) == [
        "s: lost: not run under loft, exit 0 under libc",
        "s: other: SIGSEGV under loft, exit 0 under libc",
    ]
    assert suite.differences("s", libc, {**libc, "known": "exit 4"}) != []


@pytest.mark.parametrize(("script", "end"), [("exit 7", "exit 7"), ("kill -SEGV $$", "SIGSEGV")])
def test_an_ending_is_told(tmp_path: Path, script: str, end: str) -> None:
    assert ending(["sh", "-c", script], tmp_path / "run", None, 60) == end


def test_what_never_ends_is_ended(tmp_path: Path) -> None:
    assert ending(["sleep", "1000"], tmp_path / "run", None, 1) == suite.NO_END


def test_a_crash_is_never_put_down_to_chance(tmp_path: Path) -> None:
    runs: list[Path | None] = []

    def run(folder: Path, preload: Path | None) -> Outcomes:
        runs.append(preload)
        return {"test": "exit 0" if preload is None else "SIGSEGV"}

    with pytest.raises(AssertionError, match="SIGSEGV under loft"):
        compare("s", run, Path("library"), tmp_path)
    assert len(runs) == 2


def test_what_differs_once_is_a_warning(tmp_path: Path) -> None:
    ends = iter(["exit 0", "exit 1", "exit 0", "exit 0"])
    with pytest.warns(UserWarning, match="shown once of twice: s: test"):
        compare("s", lambda *_: {"test": next(ends)}, Path("library"), tmp_path)


def test_the_library_is_preloaded(lib: Path, tmp_path: Path) -> None:
    ending(["cat", "/proc/self/maps"], tmp_path / "run", lib, 60)
    assert str(lib) in (tmp_path / "run/output").read_text()


@pytest.mark.long
def test_explanations_have_their_tests() -> None:
    import test_glibc
    import test_snmalloc

    assert set(suite.explained("glibc")) <= set(test_glibc.TESTS)
    assert set(suite.explained("snmalloc")) <= {Path(name).name for name in test_snmalloc.TESTS}
