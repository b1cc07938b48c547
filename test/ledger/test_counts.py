"""Nothing costs more than bench/ledger.toml says; CONTRIBUTING.md tells what to do then."""

import json
from pathlib import Path

import kept_recordings
import pytest
from ledger import LIBRARY, WRITTEN, check_compiler
from ledger_counts import FAULTS, KEPT, NO_FAULTS, Part, parts, place
from ledger_rows import Findings, Ledger, compare

from loft_malloc import replay, trace_file


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    written = Ledger.parse(WRITTEN.read_text(encoding="utf-8"))
    check_compiler(written)
    return written


def marked(name: str, part: Part) -> object:
    return pytest.param(part, id=name, marks=[pytest.mark.night] if part.night else [])


@pytest.mark.parametrize("part", [marked(name, part) for name, part in parts().items()])
def test_nothing_is_worse(ledger: Ledger, part: Part) -> None:
    if why := part.why_not(ledger):
        pytest.skip(why)
    with place(LIBRARY) as there:
        counted = part.count(there)
    findings = Findings()
    compare(ledger, counted, findings)
    for better in findings.better:
        print(f"better: {better}; `make ledger UPDATE=1` writes it")
    assert not findings.worse
    if part.runs and not any(FAULTS in title for title in counted):
        pytest.skip(NO_FAULTS)


@pytest.mark.parametrize("name", kept_recordings.all_of_them())
def test_a_recording_is_whole(name: str, tmp_path: Path) -> None:
    chunks = tmp_path / "chunks"
    trace = trace_file.Trace.read(KEPT / f"{name}.zst", chunks, lambda done, of: None)
    plan = replay.helper("loft-trace", trace, "plan", chunks, "0", "1", tmp_path / "plan")
    told = json.loads(plan)
    assert told["threads"] == 1
    assert told["failed"] == told["foreign"] == told["twice"] == told["lost"] == 0
    assert 1000 < told["calls"] <= kept_recordings.all_of_them()[name].calls
