"""`loft profile`: a command that leaves profiles, and what is said and written of them.

The commands here write the profiles themselves, as the library is to; it is replaced by one that
does nothing.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from heaps import MIB, Heap, small
from support import Compile, Loft, one_line

from loft_malloc.profile import files, top, tree
from loft_malloc.profile.top import Sort

Profile = Callable[..., subprocess.CompletedProcess[str]]
# In the place of a profile that a test makes.
SMALL = "a small profile"
# What a process of the library's would do at its exit.
LEAVE = 'leave() { cp "$HEAP" "$(echo "$LOFT_PROFILE_FILE" | sed "s/%p/$1/")"; }; '


@pytest.fixture(scope="session")
def driver(compiled: Compile, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command, with a library that has nothing in it."""
    library = compiled("libnothing.so", "int nothing;", "-shared", "-fPIC")
    script = tmp_path_factory.mktemp("driver") / "loft.py"
    script.write_text(
        "from pathlib import Path\n"
        "from loft_malloc import main, places\n"
        f"places.library = lambda: Path({str(library)!r})\n"
        "main.main()\n"
    )
    return [sys.executable, str(script)]


@pytest.fixture
def profile(driver: list[str], tmp_path: Path) -> Profile:
    """Runs a shell's script with the heap profiled; `$HEAP` is a profile to leave."""
    heap = small().write(tmp_path / "small.pb.gz")
    folder = tmp_path / "work"
    folder.mkdir()

    def run(script: str, *options: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*driver, "profile", *map(str, options), "--", "sh", "-c", LEAVE + script],
            env={**os.environ, "HEAP": str(heap), "TMPDIR": str(tmp_path)},
            cwd=folder,
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture
def heap(tmp_path: Path) -> Path:
    return small().write(tmp_path / "heap.pb.gz")


def test_the_commands_profile_is_shown(profile: Profile, tmp_path: Path) -> None:
    ran = profile('leave $$; echo "said $$"; exit 3')
    assert ran.returncode == 3
    assert ran.stdout.startswith("said ")
    lines = ran.stderr.splitlines()
    assert lines[0].startswith("sh -c ") and lines[0].endswith(", at its peak")
    assert lines[1] == "in use: 8.00 MiB, in 15 objects"
    assert lines[2] == "allocated: 24.0 MiB, in 112 objects"
    assert lines[3].split() == (
        ["in", "use", "with", "calls", "allocated", "with", "calls", "function"]
    )
    assert lines[4].split() == [
        *["8.00", "MiB", "100.0%", "8.00", "MiB", "100.0%"],
        *["15.0", "MiB", "15.0", "MiB", "grow", "a.c:10"],
    ]
    assert lines[-1] == "-o FILE keeps the profile, --html FILE draws it as a flame graph"
    # Nothing of ours is left, here or there.
    assert not list((tmp_path / "work").iterdir())
    assert not list(tmp_path.glob("loft-profile-*"))


def test_where_nothing_is_left_what_was_allocated_is_shown(loft: Loft, tmp_path: Path) -> None:
    heap = Heap()
    heap.stack("main;serve", [90, 9 * MIB, 0, 0])
    page = tmp_path / "page.html"
    ran = loft("profile", "--read", heap.write(tmp_path / "heap.pb.gz"), "--html", page)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[1] == "allocated: 9.00 MiB, in 90 objects"
    assert lines[3].split() == ["9.00", "MiB", "100.0%", "9.00", "MiB", "100.0%", "serve", "a.c:10"]
    assert "nothing is in use, so the list shows what was allocated" in lines
    assert '"main":1' in page.read_text()


def test_the_library_is_asked_for_what_was_asked(profile: Profile) -> None:
    tell = 'leave $$; echo "$LOFT_PROFILE $LOFT_SAMPLE_BYTES $LOFT_STATS"'
    assert profile(tell).stdout == profile(tell, "--peak").stdout == "peak 512K \n"
    ran = profile(tell, "--bytes", "64K", "--exit", "--option", "stats=json")
    assert ran.stdout == "on 64K json\n"
    assert ran.stderr.splitlines()[0].endswith(", at its exit")
    assert profile(tell, "--leaks").stdout == "leaks 512K \n"
    assert "libnothing.so" in profile("leave $$; echo $LD_PRELOAD").stdout


def test_the_command_has_the_terminals_input(profile: Profile, driver: list[str]) -> None:
    ran = subprocess.run(
        [*driver, "profile", "--", "cat"], input="text", capture_output=True, text=True,
    )  # fmt: skip
    assert ran.stdout == "text"


def test_files_that_were_asked_for(profile: Profile, tmp_path: Path) -> None:
    ran = profile("leave $$", "-o", "out.collapsed", "--html", "out.html", "--top", "1")
    assert ran.returncode == 0
    work = tmp_path / "work"
    assert sorted(path.name for path in work.iterdir()) == ["out.collapsed", "out.html"]
    assert "main;serve;grow 1048576" in (work / "out.collapsed").read_text()
    assert "and 3 more functions" in ran.stderr
    assert ran.stderr.splitlines()[-2:] == ["written to out.collapsed", "drawn in out.html"]


def test_the_largest_process_is_shown_and_the_others_are_listed(
    profile: Profile, tmp_path: Path
) -> None:
    large = Heap(comments=["cc1plus -quiet a.cc"])
    large.stack("main;parse", [40, 40 * MIB, 20, 20 * MIB])
    large.write(tmp_path / "large.pb.gz")
    leave = f"leave 7; HEAP={tmp_path}/large.pb.gz leave 8; leave $$"
    ran = profile(leave, "-o", "out.pb.gz")
    assert ran.returncode == 0
    lines = ran.stderr.splitlines()
    assert lines[0].startswith("cc1plus -quiet a.cc (process 8 of sh -c ")
    assert lines[1] == "in use: 20.0 MiB, in 20 objects"
    at = lines.index("this is the largest of 3 processes; the others:")
    assert re.fullmatch(r"  8\.00 MiB  process \d+, written to out\.\d+\.pb\.gz", lines[at + 1])
    assert lines[at + 2] == "  8.00 MiB  process 7, written to out.7.pb.gz"
    kept = tmp_path / "work" / "out.7.pb.gz"
    assert kept.read_bytes() == (tmp_path / "small.pb.gz").read_bytes()
    assert [each.comments for each in [files.read(tmp_path / "work" / "out.pb.gz")]] == [
        ["cc1plus -quiet a.cc"]
    ]
    ran = profile("for i in 1 2 3 4 5 6 7; do leave $i; done; leave $$")
    assert "this is the largest of 8 processes" in ran.stderr
    assert "and 2 more processes" in ran.stderr


def test_another_process_has_to_do_if_the_first_left_nothing(profile: Profile) -> None:
    ran = profile("leave 7; echo $$")
    assert f"the command's own process, {ran.stdout.strip()}, left no profile" in ran.stderr
    assert ran.stderr.startswith("process 7 (process 7 of sh -c ")


@pytest.mark.parametrize(
    ("script", "code", "how"),
    [
        (":", 1, "exit code 0"),
        ("exit 5", 5, "exit code 5"),
        ("kill -KILL $$", 128 + signal.SIGKILL, "ended by SIGKILL"),
    ],
)
def test_a_command_that_leaves_nothing(
    profile: Profile, tmp_path: Path, script: str, code: int, how: str
) -> None:
    ran = profile(script)
    assert ran.returncode == code
    assert f"the command left no profile ({how}): it ended by _exit" in one_line(ran.stderr)
    assert not list(tmp_path.glob("loft-profile-*"))


def test_a_profile_that_was_not_finished(profile: Profile, tmp_path: Path) -> None:
    ran = profile('leave $$; f=$(ls "$(dirname "$LOFT_PROFILE_FILE")"/*); echo x >"$f"')
    assert ran.returncode == 2
    assert "not a profile that loft can read" in one_line(ran.stderr)
    assert not list(tmp_path.glob("loft-profile-*"))


def test_others_that_cannot_be_kept_are_one_line(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "work" / "out.7.pb.gz").mkdir()
    (tmp_path / "work" / "out.7.pb.gz" / "heap.7.pb.gz").mkdir()
    ran = profile("leave 7; leave $$", "-o", "out.pb.gz")
    assert ran.returncode == 2
    assert "out.7.pb.gz cannot be written" in one_line(ran.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_loft_ends_the_command_and_shows_its_profile(
    driver: list[str], heap: Path, tmp_path: Path, number: signal.Signals
) -> None:
    script = (
        f"{LEAVE}trap 'leave $$; exit 9' {number.value}; echo ready; while :; do sleep 0.01; done"
    )
    with subprocess.Popen(
        [*driver, "profile", "--", "sh", "-c", script],
        env={**os.environ, "HEAP": str(heap)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, said = process.communicate()
    assert process.returncode == 9
    assert "in use: 8.00 MiB" in said


def test_a_terminals_interrupt_is_the_commands(
    driver: list[str], heap: Path, tmp_path: Path
) -> None:
    """Ctrl-C reaches both; the command decides what it means, and loft stays to read."""
    script = f"{LEAVE}trap 'leave $$; exit 6' INT; echo ready; while :; do sleep 0.01; done"
    with subprocess.Popen(
        [*driver, "profile", "--", "sh", "-c", script],
        env={**os.environ, "HEAP": str(heap)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 6
    assert "in use: 8.00 MiB" in said


def test_a_script_without_a_first_line(driver: list[str], heap: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"{LEAVE}leave $$\necho ran\n")
    script.chmod(0o755)
    ran = subprocess.run(
        [*driver, "profile", "--", str(script)], env={**os.environ, "HEAP": str(heap)},
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    assert "in use: 8.00 MiB" in ran.stderr


def test_a_profile_is_read(loft: Loft, heap: Path, tmp_path: Path) -> None:
    ran = loft("profile", "--read", heap)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[0] == "heap.pb.gz"
    order = [line.split()[-2] for line in ran.stdout.splitlines()[4:]]
    assert order == ["grow", "main", "parse", "serve"]
    ran = loft("profile", "--read", heap, "--sort", "alloc")
    assert [line.split()[-2] for line in ran.stdout.splitlines()[4:6]] == ["grow", "serve"]
    # Only what is asked for is written.
    assert [path.name for path in tmp_path.iterdir()] == ["heap.pb.gz"]


def test_files_of_other_formats(loft: Loft, heap: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.collapsed"
    assert loft("profile", "--read", heap, "-o", out).returncode == 0
    shown = loft("profile", "--read", out).stdout
    assert "8.00 MiB  100.0%" in shown
    # There is nothing to say of what was allocated.
    assert "allocated" not in shown


def test_an_empty_profile_is_shown_as_such(loft: Loft, tmp_path: Path) -> None:
    ran = loft("profile", "--read", Heap().write(tmp_path / "heap.pb.gz"))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "in use: 0 B, in 0 objects" in ran.stdout
    damaged = tmp_path / "damaged.pb.gz"
    damaged.write_bytes((tmp_path / "heap.pb.gz").read_bytes()[:-5])
    ran = loft("profile", "--read", damaged)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"{damaged} is damaged" in one_line(ran.stderr)


def test_a_file_that_does_not_fit_is_said(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    """The library's part is tested with the library; here, what is said of a program's file."""
    program = compiled("program", "int main(void) { return 0; }", "-Wl,--build-id")
    heap = Heap()
    number = heap.mapping(0x1000_0000, 0x2000_0000, 0, str(program), "12" * 20)
    heap.sample([heap.address(0x1000_1010, number)], [1, 64, 1, 64])
    ran = loft("profile", "--read", heap.write(tmp_path / "heap.pb.gz"))
    assert ran.returncode == 0
    assert f"{program} has changed since" in ran.stdout
    assert "  program+0x1010" in ran.stdout


def test_a_difference_shows_what_has_changed(loft: Loft, heap: Path, tmp_path: Path) -> None:
    now = Heap()
    now.stack("main;parse;grow", [10, 10 << 20, 5, 6 << 20])
    path = now.write(tmp_path / "now.pb.gz")
    ran = loft("profile", "--read", path, "--base", heap)
    assert ran.returncode == 0
    lines = ran.stdout.splitlines()
    assert lines[0] == f"now.pb.gz, against {heap}"
    assert lines[1] == "in use: 6.00 MiB, -2.00 MiB against 8.00 MiB, in 5 objects"
    assert lines[4].split()[:6] == ["-2.00", "MiB", "-25.0%", "-2.00", "MiB", "-25.0%"]
    same = loft("profile", "--read", heap, "--base", heap).stdout
    assert "0 B against 8.00 MiB" in same


def test_profiles_without_a_common_kind(loft: Loft, heap: Path, tmp_path: Path) -> None:
    other = Heap(kinds=(("samples", "count"),))
    other.stack("main", [3])
    path = other.write(tmp_path / "other.pb.gz")
    ran = loft("profile", "--read", path, "--base", heap)
    assert ran.returncode == 2
    assert "no kind of value in common" in one_line(ran.stderr)
    # By itself any profile is shown.
    shown = loft("profile", "--read", path).stdout
    assert "samples: 3" in shown


def test_lines_are_those_where_most_is_held(tmp_path: Path) -> None:
    heap = Heap()
    for line, size in ((3, 10), (5, 30), (9, 20)):
        heap.sample([heap.named(("f", "/src/a.c", line))], [1, size, 1, size])
    made = tree.build(files.read(heap.write(tmp_path / "heap.pb.gz")))
    (held,) = top.ordered(made, Sort.FLAT)
    assert (held.flat[3], top.place(held)) == (60, "a.c:5")


def test_the_list_tells_how_long_objects_lived(loft: Loft, tmp_path: Path) -> None:
    heap = Heap()
    heap.stack("main;parse;grow", [10, 10 * MIB, 5, 5 * MIB], lifetime_us=2000)
    heap.stack("main;serve", [90, 9 * MIB, 0, 0], lifetime_us=500)
    heap.stack("main;keep", [10, MIB, 10, MIB])
    written = heap.write(tmp_path / "heap.pb.gz")
    again = tmp_path / "again.pb.gz"
    ran = loft("profile", "--read", written, "--sort", "alloc", "-o", again)
    assert ran.returncode == 0, ran.stderr
    for told in (written, again):
        made = tree.build(files.read(told))
        # Of main: 5 objects that lived 2 ms, 90 that lived 0.5 ms.
        lives = {held.function[0]: top.duration(held.lifetime_us) for held in made.held}
        assert lives == {
            "main": "579 us",
            "parse": "2.0 ms",
            "grow": "2.0 ms",
            "serve": "500 us",
            "keep": "",
        }
    lines = {line.split()[-2]: line for line in ran.stdout.splitlines() if " a.c" in line}
    assert "500 us" in lines["serve"]
    assert " us" not in lines["keep"]
    assert "lives" in ran.stdout
    # A comparison is about two times, and one without lifetimes tells none.
    ran = loft("profile", "--read", written, "--base", written)
    assert "lives" not in ran.stdout
    ran = loft("profile", "--read", small().write(tmp_path / "small.pb.gz"))
    assert "lives" not in ran.stdout


@pytest.mark.parametrize(
    ("microseconds", "said"),
    [
        (0, ""),
        (1, "1 us"),
        (999, "999 us"),
        (999.9, "1.0 ms"),
        (9_949, "9.9 ms"),
        (12_345, "12 ms"),
        (1_500_000, "1.5 s"),
        (90e6, "1.5 min"),
        (2 * 3600e6, "2.0 h"),
        (3 * 86400e6, "3.0 days"),
    ],
)
def test_durations_are_short(microseconds: float, said: str) -> None:
    assert top.duration(microseconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (10 * 1024 - 1, "10.0 KiB"),
        (1024 * 1024 - 1, "1.00 MiB"),
        (1000 * 1024, "1000 KiB"),
        (5 << 40, "5.00 TiB"),
        ((1 << 63) - 1, "8.00 EiB"),
        (-2048, "-2.00 KiB"),
    ],
)
def test_amounts_have_three_digits(value: int, said: str) -> None:
    assert top.amount(value, "bytes") == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a command, a PID, or --read"),
        (["--read", "/no/such", "--", "true"], "give a command or --read, not both"),
        (["--leaks", "--peak", "--", "true"], "give --leaks or --peak, not both"),
        (["--peak", "--waste", "--", "true"], "give --peak or --waste, not both"),
        (["--peak", "--exit", "--", "true"], "give --peak or --exit, not both"),
        (["--bytes", "many", "--", "true"], "--bytes many: expected a number of bytes"),
        (["--bytes", "0", "--", "true"], "--bytes 0: expected a number of bytes"),
        (["--option", "stats=2", "--", "true"], "stats=2: expected off, text"),
        (["--sort", "name", "--", "true"], "'--sort'"),
        (["--top", "0", "--", "true"], "'--top'"),
        (["-o", "/no/such/file", "--", "true"], "/no/such/file cannot be written"),
        (["--html", "/tmp", "--", "true"], "/tmp is a folder"),
        (["--read", SMALL, "-o", "/dev/full"], "/dev/full cannot be written: No space left"),
        (["--read", SMALL, "--html", "/dev/full"], "/dev/full cannot be written: No space left"),
        (["--base", "/no/such/file", "--", "true"], "/no/such/file cannot be read"),
    ],
)
def test_bad_input_is_one_line(loft: Loft, heap: Path, arguments: list[str], said: str) -> None:
    ran = loft("profile", *(str(heap) if each == SMALL else each for each in arguments))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in one_line(ran.stderr)


def test_a_name_cannot_steer_the_terminal(loft: Loft, tmp_path: Path) -> None:
    path = tmp_path / "heap.collapsed"
    path.write_bytes(
        "main;\x1b[2J\x07evil\x9b\u202e 5\nmain;\xff\r 6\n".encode("latin-1", "replace")
    )
    ran = loft("profile", "--read", path)
    assert ran.returncode == 0
    assert "\ufffd[2J\ufffdevil" in ran.stdout
    assert all(line.isprintable() for line in ran.stdout.split("\n"))


def test_a_terminal_sees_lines_of_its_width(loft: Loft, tmp_path: Path) -> None:
    heap = Heap()
    heap.stack("main;" + "very_long_name_" * 20, [1, 64, 1, 64])
    path = heap.write(tmp_path / "heap.pb.gz")
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [Path(sys.executable).parent / "loft", "profile", "--read", path],
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"},
        stdout=terminal,
        stderr=terminal,
        stdin=subprocess.DEVNULL,
    ) as process:
        os.close(terminal)
        shown = b""
        try:
            while part := os.read(main, 4096):
                shown += part
        except OSError:
            # How Linux says that the other end is closed.
            pass
        assert process.wait() == 0
    os.close(main)
    lines = shown.decode().splitlines()
    named = [line for line in lines if "very_long" in line]
    assert named and max(len(line.split("\x1b")[0]) for line in named) <= 80
    assert "…" in named[0]
