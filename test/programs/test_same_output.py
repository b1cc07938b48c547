"""Real programs do under loft exactly what they do without it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from programs import (
    OWNERS,
    PROGRAMS,
    PYTHON,
    SOURCES,
    Execute,
    NeverEnds,
    Program,
    Reference,
    differences,
    run,
)

LIMIT = 512_000 * 1024


@dataclass(frozen=True)
class Variant:
    """What loft is told, and the programs that are run so; the others of these at night."""

    name: str
    settings: Mapping[str, str]
    programs: tuple[str, ...]
    quick: tuple[str, ...] = ()
    # Whether copies are checked, too.
    bounds: bool = False


EVERY = tuple(program.name for program in PROGRAMS)
# Processes, threads, a server, and languages with memory of their own.
QUICK = ("python-json-malloc", "sqlite3", "git", "redis", "sort", "php")
# Python with arenas of its own asks for little.
WITH_MALLOC = tuple(
    name for name in EVERY if not name.startswith("python-") or name.endswith("-malloc")
)
HARDENED = ("python-json-malloc", "sqlite3", "git", "perl", "php", "bash", "sort")
VARIANTS = (
    Variant("thread", {"owner": "thread"}, EVERY, QUICK),
    *(Variant(owner, {"owner": owner}, WITH_MALLOC, QUICK) for owner in OWNERS[1:]),
    # No false alarm: they make no mistake.
    Variant("full", {"hardened": "full"}, (*HARDENED, "cargo", "tar", "find"), bounds=True),
    # Most programs get some hundred samples.
    Variant("guard", {"hardened": "guard", "sample_bytes": "20480"}, HARDENED),
)


def environment_of(variant: Variant) -> dict[str, str]:
    return {f"LOFT_{name.upper()}": value for name, value in variant.settings.items()}


def preloaded(variant: Variant, lib: Path) -> list[Path]:
    return [lib.parent / "libloft-bounds.so", lib] if variant.bounds else [lib]


def pairs() -> Iterator[Any]:
    for variant in VARIANTS:
        for program in PROGRAMS:
            if program.name in variant.programs:
                marks = () if program.name in variant.quick else (pytest.mark.night,)
                yield pytest.param(
                    program, variant, marks=marks, id=f"{program.name}-{variant.name}"
                )


def small() -> Iterator[Any]:
    for program in PROGRAMS:
        if program.small:
            marks = () if program.name in QUICK else (pytest.mark.night,)
            yield pytest.param(program, marks=marks, id=program.name)


def test_the_library_is_loaded(execute: Execute, lib: Path) -> None:
    """The loader goes on without a library that it cannot preload; every test here would pass."""
    maps = execute("cat", "/proc/self/maps")
    assert str(lib) in maps.stdout
    assert maps.stderr == ""


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_settings_are_in_force(variant: Variant, execute: Execute, lib: Path) -> None:
    libraries = ":".join(map(str, preloaded(variant, lib)))
    settings = environment_of(variant) | {"LD_PRELOAD": libraries}
    told = execute(PYTHON, SOURCES / "options.py", *variant.settings, preload=False, **settings)
    assert (json.loads(told.stdout), told.stderr) == (variant.settings, "")


@pytest.mark.night
def test_a_program_that_never_ends_is_reported(lib: Path, inputs: Path, tmp_path: Path) -> None:
    waiting = Program("waiting", "echo begun; exec sleep 1000", timeout=5)
    with pytest.raises(NeverEnds, match=r"(?s)waiting .*\(sleep\): \d+ .*begun"):
        run(waiting, tmp_path, inputs, lib)


@pytest.mark.parametrize(("program", "variant"), list(pairs()))
def test_program(
    program: Program,
    variant: Variant,
    lib: Path,
    inputs: Path,
    reference: Reference,
    tmp_path: Path,
) -> None:
    expected = reference(program)
    ours = replace(program, env={**program.env, **environment_of(variant)})
    under_loft = run(ours, tmp_path, inputs, *preloaded(variant, lib))
    assert differences(program, under_loft, expected.result()) == []


@pytest.mark.parametrize("program", list(small()))
def test_program_in_little_address_space(
    program: Program, lib: Path, inputs: Path, reference: Reference, tmp_path: Path
) -> None:
    """`ulimit -v 512000`: what loft maps must not be what fails, nor leave too little."""
    expected = reference(program)
    under_loft = run(program, tmp_path, inputs, lib, address_space=LIMIT)
    assert differences(program, under_loft, expected.result()) == []
