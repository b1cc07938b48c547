"""What loft makes of the control group that a program is in: of made-up ones, and of a real one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from control_groups import new_group
from programs import Build, Execute

MIB = 1 << 20

# By a thread of loft's own, which these programs of one thread would not get by themselves.
WATCHED = {"LOFT_CGROUP": "watch", "LOFT_BACKGROUND": "on"}


class MadeUp:
    """A tree of files that is put in the place of the control groups, for one process, and a file
    that says that it is in one of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.is_in("0::/box")
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            pytest.skip("no mount namespace to be had here")

    def is_in(self, lines: str) -> None:
        self.root.mkdir(exist_ok=True)
        (self.root / "lines").write_text(f"{lines}\n")

    def put(self, below: str = "box", **files: str) -> None:
        folder = self.root / below
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("_", ".", 1)).write_text(f"{text}\n")

    def command(self, *command: str | Path, within: Sequence[str | Path] = ()) -> list[str]:
        script = 'mount --bind "$0/lines" /proc/$$/cgroup && mount --bind "$0" /sys/fs/cgroup'
        words = [
            "unshare",
            "-m",
            *within,
            "sh",
            "-c",
            f'{script} && exec "$@"',
            self.root,
            *command,
        ]
        return [str(word) for word in words]

    def preloaded(self, lib: Path, *command: str | Path) -> list[str]:
        return self.command("env", f"LD_PRELOAD={lib}", *command)


@pytest.fixture
def made_up(tmp_path: Path) -> MadeUp:
    return MadeUp(tmp_path / "groups")


def test_limits_are_watched(made_up: MadeUp, build: Build, lib: Path, execute: Execute) -> None:
    made_up.put(
        memory_max=str(1 << 30),
        memory_high=str(768 * MIB),
        memory_current=str(50 * MIB),
    )
    command = made_up.preloaded(lib, build("group.c"), "watch", made_up.root / "box")
    result = execute(*command, preload=False, LOFT_DECAY_MS="60000", **WATCHED)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines() == [
        f"group_limit_bytes {768 * MIB}",
        f"soft_limit_bytes {768 * MIB}",
        "hard_limit_bytes 0",
        "soft_limit_hits 0",
        "group_used_bytes 800000000",
        f"soft_limit_bytes {960 * MIB}",
    ]


def test_hard_limit_of_the_group(
    made_up: MadeUp, build: Build, lib: Path, execute: Execute
) -> None:
    made_up.put(memory_max=str(64 * MIB), memory_high="max", memory_current=str(MIB))
    command = made_up.preloaded(lib, build("group.c"), "hard", made_up.root / "box")
    result = execute(*command, preload=False, LOFT_CGROUP="hard")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["59 MiB", "59 MiB", "child: 59 MiB"], "as it was at load"


def test_a_group_that_cannot_be_read_any_more(
    made_up: MadeUp, build: Build, lib: Path, execute: Execute
) -> None:
    made_up.put(memory_max=str(64 * MIB), memory_high="max", memory_current=str(MIB))
    command = made_up.preloaded(lib, build("group.c"), "lost", made_up.root / "box")
    result = execute(*command, preload=False, LOFT_CGROUP="hard")
    assert (result.returncode, result.stdout) == (0, "child: 59 MiB\n"), result.stderr


@pytest.mark.parametrize("background", ["auto", "on", "off"])
def test_untouched_memory_is_not_refused(
    made_up: MadeUp, build: Build, lib: Path, execute: Execute, background: str
) -> None:
    """By default: a program may ask for more than the group has, and use less."""
    made_up.put(memory_max=str(64 * MIB), memory_high="max", memory_current=str(MIB))
    script = "print(len(bytearray(200 << 20)))"
    command = made_up.preloaded(lib, "/usr/bin/python3", "-c", script)
    result = execute(*command, preload=False, LOFT_BACKGROUND=background, LOFT_STATS="json")
    assert (result.returncode, result.stdout) == (0, f"{200 << 20}\n"), result.stderr
    assert '"soft_limit_bytes": 62914560' in result.stderr, "read when the process starts"


def test_off_reads_nothing(made_up: MadeUp, build: Build, lib: Path, execute: Execute) -> None:
    made_up.put(memory_max=str(64 * MIB), memory_high="max", memory_current=str(MIB))
    script = "print(len(bytearray(200 << 20)))"
    command = made_up.preloaded(lib, "/usr/bin/python3", "-c", script)
    result = execute(
        *command, preload=False, LOFT_CGROUP="off", LOFT_BACKGROUND="off", LOFT_STATS="json"
    )
    assert '"soft_limit_bytes": 0' in result.stderr


# What loft asks the system as it is loaded into a program that asks for nothing.
LOADED = """getrandom
openat /etc/loft.conf ENOENT
openat /proc/self/cgroup
read
close
{groups}prlimit64
"""
READ = "openat /sys/fs/cgroup/{}\nread\nclose\n"
SECOND = [READ.format(f"{path}memory.max") for path in ("box/inner/", "box/")]
FIRST = [READ.format(f"memory/{path}memory.limit_in_bytes") for path in ("box/inner/", "box/")]
# Of a container this has a limit, too; of the machine there is no such file.
TOPMOST = "openat /sys/fs/cgroup/memory.max ENOENT\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("0::/", [TOPMOST]),
        ("0::/box", [SECOND[1], TOPMOST]),
        ("0::/box/inner", [*SECOND, TOPMOST]),
        ("2:cpu:/\n1:memory:/box/inner\n0::/", FIRST),
    ],
    ids=["no group", "a group", "a group in a group", "version 1"],
)
def test_what_is_read_at_the_start(
    made_up: MadeUp, lib: Path, execute: Execute, tmp_path: Path, lines: str, expected: list[str]
) -> None:
    made_up.is_in(lines)
    for folder in ("box", "box/inner"):
        made_up.put(folder, memory_max="max")
        made_up.put(f"memory/{folder}", memory_limit_in_bytes="9223372036854771712")
    trace = tmp_path / "trace"

    def calls(*settings: str) -> list[str]:
        command = made_up.command("env", *settings, "/bin/true", within=["strace", "-o", trace])
        result = execute(*command, preload=False)
        if "ptrace" in result.stderr:
            pytest.skip("no process may be traced here")
        assert result.returncode == 0, result.stderr
        asked = re.compile(r'(\w+)\((?:AT_FDCWD, "([^"]+)")?.* = (?:-1 (\w+))?')
        made = trace.read_text().split("execve(")[-1].splitlines()[1:]
        found = [match.groups("") for match in map(asked.match, made) if match]
        return [" ".join(filter(None, words)) for words in found]

    bare, loaded = calls(), calls(f"LD_PRELOAD={lib}")
    after = loaded.index("munmap") + 1
    assert loaded[after:-1] == LOADED.format(groups="".join(expected)).splitlines()
    # The loader opens and maps the file, and closes its constants.
    assert after - bare.index("exit_group") == 8


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
    command = made_up.preloaded(lib, build("waiting_threads.c"), *numbers)
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
