"""Nothing costs more than bench/ledger.toml says; CONTRIBUTING.md tells what to do then."""

import pytest
from ledger import LIBRARY, WRITTEN, check_compiler
from ledger_counts import FAULTS, NO_FAULTS, Part, parts, place
from ledger_rows import Findings, Ledger, compare


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
