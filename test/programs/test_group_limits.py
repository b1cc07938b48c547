"""What loft makes of the control group that a program is in: of made-up ones, and of a real one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from control_groups import mounted, new_group
from programs import Build, Execute

MIB = 1 << 20

# By a thread of loft's own, which these programs of one thread would not get by themselves.
WATCHED = {"LOFT_CGROUP": "watch", "LOFT_BACKGROUND": "on"}


def groups() -> tuple[Path, str]:
    """Where the control groups of version 2 are to be seen, and the group of this process."""
    group = re.search(r"^0::(/.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    if group is None:
        pytest.skip("no control groups of version 2 here")
    return mounted(2), group[1]


class MadeUp:
    """A tree of files that is put in the place of the control groups, for one process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mount, group = groups()
        self.folder = root / group.lstrip("/")
        self.folder.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            pytest.skip("no mount namespace to be had here")

    def put(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name.replace("_", ".")).write_text(f"{text}\n")

    def command(self, lib: Path, *command: str | Path) -> list[str]:
        script = 'mount --bind "$0" "$1" && shift && LD_PRELOAD="$1" && export LD_PRELOAD'
        script += ' && shift && exec "$@"'
        words = ["unshare", "-m", "sh", "-c", script, self.root, self.mount, lib, *command]
        return [str(word) for word in words]


@pytest.fixture
def made_up(tmp_path: Path) -> MadeUp:
    return MadeUp(tmp_path / "groups")


def test_limits_are_watched(made_up: MadeUp, build: Build, lib: Path, execute: Execute) -> None:
    made_up.put(
        memory_max=str(1 << 30),
        memory_high=str(768 * MIB),
        memory_current=str(50 * MIB),
        cpu_max="50000 100000",
    )
    command = made_up.command(lib, build("group.c"), "watch", made_up.folder)
    result = execute(*command, preload=False, LOFT_DECAY_MS="60000", **WATCHED)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines() == [
        f"group_limit_bytes {768 * MIB}",
        f"soft_limit_bytes {768 * MIB}",
        "hard_limit_bytes 0",
        "group_processors 1",
        "soft_limit_hits 0",
        "group_used_bytes 800000000",
        f"soft_limit_bytes {960 * MIB}",
    ]


def test_hard_limit_of_the_group(
    made_up: MadeUp, build: Build, lib: Path, execute: Execute
) -> None:
    made_up.put(memory_max=str(64 * MIB), memory_high="max", memory_current=str(MIB))
    command = made_up.command(lib, build("group.c"), "hard", made_up.folder)
    result = execute(*command, preload=False, LOFT_CGROUP="hard")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["59 MiB", "59 MiB", "child: 59 MiB"], "as it was at load"


def test_a_group_that_cannot_be_read_any_more(
    made_up: MadeUp, build: Build, lib: Path, execute: Execute
) -> None:
    made_up.put(memory_max=str(64 * MIB), memory_high="max", memory_current=str(MIB))
    command = made_up.command(lib, build("group.c"), "lost", made_up.folder)
    result = execute(*command, preload=False, LOFT_CGROUP="hard")
    assert (result.returncode, result.stdout) == (0, "child: 59 MiB\n"), result.stderr


@pytest.mark.parametrize("background", ["auto", "on", "off"])
def test_untouched_memory_is_not_refused(
    made_up: MadeUp, build: Build, lib: Path, execute: Execute, background: str
) -> None:
    """By default: a program may ask for more than the group has, and use less."""
    made_up.put(memory_max=str(64 * MIB), memory_high="max", memory_current=str(MIB))
    script = "print(len(bytearray(200 << 20)))"
    command = made_up.command(lib, "/usr/bin/python3", "-c", script)
    result = execute(*command, preload=False, LOFT_BACKGROUND=background, LOFT_STATS="json")
    assert (result.returncode, result.stdout) == (0, f"{200 << 20}\n"), result.stderr
    assert '"soft_limit_bytes": 62914560' in result.stderr, "read when the process starts"


def test_off_reads_nothing(made_up: MadeUp, build: Build, lib: Path, execute: Execute) -> None:
    made_up.put(memory_max=str(64 * MIB), memory_high="max", memory_current=str(MIB))
    script = "print(len(bytearray(200 << 20)))"
    command = made_up.command(lib, "/usr/bin/python3", "-c", script)
    result = execute(
        *command, preload=False, LOFT_CGROUP="off", LOFT_BACKGROUND="off", LOFT_STATS="json"
    )
    assert '"soft_limit_bytes": 0' in result.stderr


@pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])
@pytest.mark.parametrize(
    ("threads", "burst_kib", "shortest", "longest"),
    [
        (200, 4096, 32, 2048),
        (200, 4096, 32, 32768),
        (200, 8192, 33_000, 1_000_000),
        (100, 8192, 500_000, 4_000_000),
    ],
)
def test_threads_that_wait_keep_little(
    made_up: MadeUp,
    build: Build,
    lib: Path,
    execute: Execute,
    threads: int,
    burst_kib: int,
    shortest: int,
    longest: int,
    owner: str,
) -> None:
    """Each had its burst, and nobody else can empty its cache. All together they keep an eighth of
    the group's limit, and the rest of these 56 MiB is the threads' own."""
    made_up.put(memory_max=str(128 * MIB), memory_high="max", memory_current=str(MIB))
    numbers = map(str, (threads, burst_kib, shortest, longest))
    command = made_up.command(lib, build("waiting_threads.c"), *numbers)
    result = execute(*command, preload=False, LOFT_OWNER=owner)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) << 10 <= 56 * MIB


@pytest.fixture
def real_group() -> Iterator[Path]:
    with new_group(2) as group:
        yield group


def inside(group: Path, *command: str | Path) -> list[str]:
    script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    return ["sh", "-c", script, str(group), *map(str, command)]


@pytest.mark.machine
def test_refused_instead_of_killed(real_group: Path, build: Build, execute: Execute) -> None:
    (real_group / "memory.max").write_text(str(64 * MIB))
    if (real_group / "memory.swap.max").exists():
        (real_group / "memory.swap.max").write_text("0")
    program = build("group.c")
    without = execute(*inside(real_group, program, "hard"))
    assert without.returncode == -9, "or the test says nothing"
    limited = execute(*inside(real_group, program, "hard"), LOFT_HARD_LIMIT="48M")
    assert (limited.returncode, limited.stdout) == (0, "47 MiB\n47 MiB\n"), limited.stderr
    limited = execute(*inside(real_group, program, "hard"), LOFT_CGROUP="hard")
    assert (limited.returncode, limited.stdout) == (0, "59 MiB\n59 MiB\n"), limited.stderr


@pytest.mark.machine
def test_a_real_group_is_near_its_limit(real_group: Path, build: Build, execute: Execute) -> None:
    (real_group / "memory.max").write_text(str(128 * MIB))
    script = """
import ctypes, time
loft = ctypes.CDLL(None)
loft.malloc.restype = ctypes.c_void_p
loft.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
loft.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
# Not loft's own memory, but the group's.
import mmap
other = mmap.mmap(-1, 100 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, 100 << 20, 4096):
    other[page] = 1
mine = loft.malloc(16 << 20)
loft.memset(mine, 1, 16 << 20)
for _ in range(3000):
    time.sleep(0.001)
    data = bytearray(200000)
"""
    command = inside(real_group, "/usr/bin/python3", "-c", script)
    result = execute(*command, PYTHONMALLOC="malloc", LOFT_STATS="json", **WATCHED)
    assert result.returncode == 0, result.stderr
    found = dict(re.findall(r'"(\w+)": (\d+)', result.stderr))
    assert int(found["group_limit_bytes"]) == 128 * MIB
    assert int(found["soft_limit_bytes"]) == 120 * MIB
    assert int(found["group_used_bytes"]) >= 100 * MIB
    assert int(found["soft_limit_hits"]) >= 1
