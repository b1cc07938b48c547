"""hardened=guard: what a sample finds, and what is found of any object."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from programs import HOW_TO_GET_STACKS, SOURCES, Build, Execute

EACH = "1"  # byte: a sample falls on each object
FEW = "1G"
OBJECT = r"an object of 40 bytes at 0x\w+"
FRAME = r"  #\d+ 0x\w+( in [^\n]+\+0x\w+( build-id \w+)?)?\n"
STACK = f"({FRAME})+"
ALLOCATED = r"  allocated by thread \d+\n" + STACK
FREED = r"  freed by thread \d+\n" + STACK
END = r"  end of report\n"

AT_ONCE = {
    "beyond": (rf"write beyond an object: at 0x\w+, 8 bytes behind the end of {OBJECT}", False),
    "read": (rf"read beyond an object: at 0x\w+, 10 bytes behind the end of {OBJECT}", False),
    "before": (rf"write before an object: at 0x\w+, 1 bytes in front of {OBJECT}", False),
    "after": (rf"write after free: at 0x\w+, 3 bytes into {OBJECT}", True),
    "read-after": (rf"read after free: at 0x\w+, 3 bytes into {OBJECT}", True),
}
BY_A_CALL = {
    "slack": (
        rf"free: a write beyond the object has damaged what lies behind {OBJECT}",
        False,
    ),
    "twice": (rf"double free of {OBJECT}", True),
    "twice-later": (rf"double free of {OBJECT}", True),
    "realloc": (rf"realloc of {OBJECT}, which was freed", True),
    "usable": (rf"malloc_usable_size of {OBJECT}, which was freed", True),
}


def report_of(line: str, freed: bool) -> str:
    return f"loft: {line}\n" + STACK + ALLOCATED + (FREED if freed else "") + END


def is_ended_by(result: subprocess.CompletedProcess[str], number: signal.Signals) -> None:
    assert result.returncode == -number, result.stderr
    assert "survived" not in result.stdout


@pytest.fixture(params=["thread", "cpu", "shared"])
def owner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def is_told_of_a_sample(
    execute: Execute, program: Path, how: str, owner: str, number: signal.Signals
) -> None:
    result = execute(program, how, LOFT_HARDENED="guard", LOFT_SAMPLE_BYTES=EACH, LOFT_OWNER=owner)
    is_ended_by(result, number)
    expected = report_of(*(AT_ONCE | BY_A_CALL)[how])
    assert re.fullmatch(expected, result.stderr), result.stderr


@pytest.mark.parametrize("how", AT_ONCE)
def test_a_sample_is_left_by_a_fault(execute: Execute, build: Build, how: str, owner: str) -> None:
    is_told_of_a_sample(execute, build("guard.c"), how, owner, signal.SIGSEGV)


@pytest.mark.parametrize("how", BY_A_CALL)
def test_a_sample_is_known_by_calls(execute: Execute, build: Build, how: str, owner: str) -> None:
    is_told_of_a_sample(execute, build("guard.c"), how, owner, signal.SIGABRT)


@pytest.mark.parametrize("how", ["twice", "twice-later", "twice-ahead", "realloc", "usable"])
def test_any_object_has_a_mark(execute: Execute, build: Build, how: str, owner: str) -> None:
    result = execute(
        build("guard.c"), how, LOFT_HARDENED="guard", LOFT_SAMPLE_BYTES=FEW, LOFT_OWNER=owner
    )
    is_ended_by(result, signal.SIGABRT)
    call = {
        "realloc": "realloc of a freed object",
        "usable": "malloc_usable_size of a freed object",
    }
    line = call.get(how, "double free of")
    expected = rf"loft: {line} 0x\w+: slab 0x\w+, size class 48 bytes" + HOW_TO_GET_STACKS
    assert re.fullmatch(expected, result.stderr)


def test_a_fault_of_another_kind_is_the_programs(execute: Execute, build: Build) -> None:
    for how in ("null", "sent", "protected"):
        for fault in ("stop", "continue"):
            result = execute(
                build("guard.c"),
                how,
                LOFT_HARDENED="guard",
                LOFT_SAMPLE_BYTES=EACH,
                LOFT_MISUSE=fault,
            )
            is_ended_by(result, signal.SIGSEGV)
            assert result.stderr == ""


def test_a_call_does_not_go_on(execute: Execute, build: Build) -> None:
    result = execute(
        build("guard.c"),
        "call",
        LOFT_HARDENED="guard",
        LOFT_SAMPLE_BYTES=EACH,
        LOFT_MISUSE="continue",
    )
    is_ended_by(result, signal.SIGSEGV)
    line = rf"use after free: at 0x\w+, 0 bytes into {OBJECT}"
    assert re.fullmatch(report_of(line, True), result.stderr), result.stderr


def test_a_handler_of_the_program_may_pass_the_signal_on(execute: Execute, build: Build) -> None:
    result = execute(build("guard.c"), "handler", LOFT_HARDENED="guard", LOFT_SAMPLE_BYTES=EACH)
    is_ended_by(result, signal.SIGSEGV)
    assert result.stdout.startswith("the program's handler\n")
    assert re.fullmatch(report_of(*AT_ONCE["after"]), result.stderr), result.stderr


SAMPLED = {"LOFT_HARDENED": "guard", "LOFT_SAMPLE_BYTES": EACH}
MODES = [{}, {"LOFT_HARDENED": "guard"}, SAMPLED, {"LOFT_HARDENED": "full"}]


def is_as_without(
    execute: Execute, command: list[str | Path], settings: dict[str, str], says: str
) -> None:
    expected = execute(*command, preload=False)
    result = execute(*command, **settings)
    assert says in expected.stdout + expected.stderr
    told = [re.sub(r"\(\d+\)", "", each.stderr) for each in (expected, result)]  # threads' numbers
    assert (result.returncode, result.stdout, told[1]) == (
        expected.returncode,
        expected.stdout,
        told[0],
    )


@pytest.mark.parametrize("settings", MODES, ids=["off", "guard", "samples", "full"])
@pytest.mark.parametrize("when", ["early", "late", ""])
def test_a_stack_overflows_as_ever(
    execute: Execute, build: Build, when: str, settings: dict[str, str]
) -> None:
    says = "the stack overflows" if when else ""
    is_as_without(execute, [build("overflow.c"), when], settings, says)


@pytest.fixture(scope="module")
def overflowing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("rust") / "overflow"
    subprocess.run(["rustc", "-O", SOURCES / "overflow.rs", "-o", program], check=True)
    return program


# Its library allocates before it takes the signal, and the first sample comes later than that.
CLOSE = {"LOFT_HARDENED": "guard", "LOFT_SAMPLE_BYTES": "64K"}


@pytest.mark.parametrize(
    "settings", [*MODES[:2], CLOSE, MODES[3]], ids=["off", "guard", "samples", "full"]
)
def test_rust_tells_of_its_stack(
    execute: Execute, overflowing: Path, settings: dict[str, str]
) -> None:
    is_as_without(execute, [overflowing], settings, "has overflowed its stack")


@pytest.mark.parametrize("to", ["", "report"])
def test_a_report_fits_a_short_alternate_stack(
    execute: Execute, build: Build, tmp_path: Path, to: str
) -> None:
    settings = {"LOFT_REPORT_FILE": str(tmp_path / to)} if to else {}
    result = execute(build("guard.c"), "after", "short", **SAMPLED, **settings)
    is_ended_by(result, signal.SIGSEGV)
    assert result.stderr.endswith("  end of report\n")


def test_a_child_has_its_parents_samples(execute: Execute, build: Build) -> None:
    result = execute(build("guard.c"), "child", LOFT_HARDENED="guard", LOFT_SAMPLE_BYTES=EACH)
    assert result.stdout == f"child {int(signal.SIGSEGV)}\nsurvived\n"
    assert re.fullmatch(report_of(*AT_ONCE["after"]), result.stderr), result.stderr


@pytest.mark.parametrize("how", AT_ONCE)
def test_a_program_may_go_on(execute: Execute, build: Build, how: str) -> None:
    result = execute(
        build("guard.c"),
        how,
        LOFT_HARDENED="guard",
        LOFT_SAMPLE_BYTES=EACH,
        LOFT_MISUSE="continue",
    )
    assert (result.returncode, result.stdout) == (0, "survived\n")
    assert re.fullmatch(report_of(*AT_ONCE[how]), result.stderr), result.stderr


def test_what_a_short_text_leaves_is_no_mark(execute: Execute, build: Build, owner: str) -> None:
    for _ in range(4):  # each process has a secret of its own
        result = execute(build("guard.c"), "short", LOFT_HARDENED="guard", LOFT_OWNER=owner)
        assert (result.returncode, result.stdout, result.stderr) == (0, "survived\n", "")
