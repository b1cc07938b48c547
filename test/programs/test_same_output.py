"""Real programs do under loft exactly what they do without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import PROGRAMS, Execute, NeverEnds, Program, Reference, differences, run

SMALL = [program for program in PROGRAMS if program.small]
LIMIT = 512_000 * 1024


def test_the_library_is_loaded(execute: Execute, lib: Path) -> None:
    """The loader goes on without a library that it cannot preload; every test here would pass."""
    maps = execute("cat", "/proc/self/maps")
    assert str(lib) in maps.stdout
    assert maps.stderr == ""


def test_a_program_that_never_ends_is_reported(lib: Path, inputs: Path, tmp_path: Path) -> None:
    waiting = Program("waiting", "echo begun; exec sleep 1000", timeout=5)
    with pytest.raises(NeverEnds, match=r"(?s)waiting .*\(sleep\): \d+ .*begun"):
        run(waiting, tmp_path, inputs, lib)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_program(
    program: Program, lib: Path, inputs: Path, reference: Reference, tmp_path: Path
) -> None:
    expected = reference(program)
    under_loft = run(program, tmp_path, inputs, lib)
    assert differences(program, under_loft, expected.result()) == []


@pytest.mark.parametrize("program", SMALL, ids=lambda program: program.name)
def test_program_in_little_address_space(
    program: Program, lib: Path, inputs: Path, reference: Reference, tmp_path: Path
) -> None:
    """`ulimit -v 512000`: what loft maps must not be what fails, nor leave too little."""
    expected = reference(program)
    under_loft = run(program, tmp_path, inputs, lib, address_space=LIMIT)
    assert differences(program, under_loft, expected.result()) == []
