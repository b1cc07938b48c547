"""Programs into which nothing can be preloaded are recognised before they run."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from support import Compile, Loft, one_line

from loft_malloc import elf, program
from loft_malloc.errors import UserError
from loft_malloc.program import User

MAIN = "int main(void) { return 0; }"
NOBODY = 65534


@pytest.fixture(scope="session")
def static(compiled: Compile) -> Path:
    return compiled("static", MAIN, "-static")


@pytest.fixture(scope="session")
def dynamic(compiled: Compile) -> Path:
    return compiled("dynamic", MAIN)


def script(path: Path, first_line: str) -> Path:
    path.write_text(f"{first_line}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_static_program_is_refused(loft: Loft, static: Path, command: str) -> None:
    ran = loft(command, "--", static)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "is statically linked" in one_line(ran.stderr)


@pytest.mark.parametrize("flags", [[], ["-s"]])
def test_a_static_go_program_is_refused_as_what_it_is(
    loft: Loft, compiled: Compile, flags: list[str]
) -> None:
    """Loft cannot be linked into it, as it can into another static program."""
    main = 'int main(int n, char** words) { return n > 1 && words[1] == "runtime.mallocgcTiny"; }'
    go = compiled("go", main, "-static", *flags)
    ran = loft("run", "--", go)
    assert ran.returncode == 2
    said = one_line(ran.stderr)
    assert f"{go} is a static Go program: Go's own allocator serves it" in said
    assert "libloft.a" not in said
    ran = loft("doctor", "--", go)
    assert ran.returncode == 1
    assert "Go's own allocator serves it, and only C code that cgo brings in" in ran.stdout
    assert "if it is yours" not in ran.stdout


def test_a_position_independent_static_program_is_refused(compiled: Compile) -> None:
    path = compiled("static-pie", MAIN, "-static-pie")
    assert "statically linked" in str(program.obstacle(path, User.current()))


@pytest.mark.parametrize("bit", [stat.S_ISUID, stat.S_ISGID])
def test_a_program_with_an_owners_rights_is_refused(
    dynamic: Path, tmp_path: Path, bit: int
) -> None:
    path = tmp_path / "owned"
    shutil.copy(dynamic, path)
    path.chmod(0o755 | bit)
    status = path.stat()
    owner, other = User(status.st_uid, status.st_gid), User(NOBODY, NOBODY)
    assert program.obstacle(path, owner) is None
    name = "setuid" if bit == stat.S_ISUID else "setgid"
    assert f"is {name}: the loader ignores LD_PRELOAD" in str(program.obstacle(path, other))


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_setuid_program_is_refused_on_the_command_line(
    loft: Loft, dynamic: Path, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "owned"
    if os.getuid() == 0:
        shutil.copy(dynamic, path)
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o4755)
    else:
        path = Path(shutil.which("su") or "")
    ran = loft(command, "--", path)
    assert ran.returncode == 2
    assert "is setuid" in one_line(ran.stderr)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives capabilities away")
def test_a_program_with_capabilities_is_refused(dynamic: Path, tmp_path: Path) -> None:
    path = tmp_path / "capable"
    shutil.copy(dynamic, path)
    # struct vfs_cap_data, version 2: CAP_NET_RAW, permitted and effective.
    granted = b"\x01\x00\x00\x02" + (1 << 13).to_bytes(4, "little") + bytes(12)
    try:
        os.setxattr(path, "security.capability", granted)
    except OSError as error:
        pytest.skip(f"this file system keeps no capabilities: {error.strerror}")
    assert program.obstacle(path, User(0, 0)) is None
    assert "has file capabilities" in str(program.obstacle(path, User(NOBODY, NOBODY)))


def test_a_script_is_what_interprets_it(loft: Loft, static: Path, tmp_path: Path) -> None:
    path = script(tmp_path / "script", f"#!{static} -x")
    ran = loft("compare", "--", path)
    assert ran.returncode == 2
    said = one_line(ran.stderr)
    assert f"{static}, the interpreter of {path}, is statically linked" in said


def test_a_scripts_interpreter_may_be_a_script(static: Path, tmp_path: Path) -> None:
    first = script(tmp_path / "first", f"#!{static}")
    second = script(tmp_path / "second", f"#! {first}")
    assert list(program.chain(second)) == [second, first, static]


def test_env_runs_what_it_names(
    static: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(static.parent), prepend=os.pathsep)
    path = script(tmp_path / "script", f"#!/usr/bin/env -S A=b {static.name}")
    assert list(program.chain(path)) == [path, Path("/usr/bin/env"), static]
    assert "statically linked" in str(program.obstacle(path, User.current()))


@pytest.mark.parametrize(
    "words", [["env"], ["env", "-i", "A=b"], ["nohup", "env", "A=b"], ["setsid", "--wait"]]
)
def test_a_command_that_executes_another_is_followed(
    static: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("PATH", str(static.parent), prepend=os.pathsep)
    assert program.executed([*words, static.name, "A=b"]) == static
    with pytest.raises(UserError, match="statically linked"):
        program.check([*words, static.name])


def test_a_command_that_would_execute_nothing_is_itself() -> None:
    for words in (["env"], ["env", "A=b"], ["env", "no-such-program"]):
        assert program.executed(words).name == "env"
        program.check(words)


def test_scripts_that_name_each_other_end(tmp_path: Path) -> None:
    path = script(tmp_path / "script", f"#!{tmp_path / 'script'}")
    assert set(program.chain(path)) == {path}


def test_a_dynamic_program_and_its_script_are_fine(dynamic: Path, tmp_path: Path) -> None:
    assert program.obstacle(dynamic, User.current()) is None
    path = script(tmp_path / "script", "#!/bin/sh")
    assert program.obstacle(path, User.current()) is None


def test_another_machines_program_is_refused(dynamic: Path, tmp_path: Path) -> None:
    path = tmp_path / "other"
    content = bytearray(dynamic.read_bytes())
    # e_machine: none that a compiler makes code for.
    content[18:20] = (183 if content[18] == 62 else 62).to_bytes(2, "little")
    path.write_bytes(content)
    path.chmod(0o755)
    assert "and loft is built for" in str(program.obstacle(path, User.current()))


def test_whose_malloc_it_is(build: Path, dynamic: Path, compiled: Compile) -> None:
    own = compiled("own", "#include <stddef.h>\nvoid* malloc(size_t n) { return NULL; }\n" + MAIN)
    assert elf.replaces_malloc(build / "libloft.so")
    assert not elf.replaces_malloc(dynamic)
    assert not elf.replaces_malloc(Path("/etc/passwd"))
    described = elf.read(own)
    assert described is not None
    assert "malloc" in described.defined


def test_what_a_user_compiles_runs(loft: Loft, dynamic: Path) -> None:
    assert loft("run", "--", dynamic).returncode == 0
    assert subprocess.run([dynamic]).returncode == 0
