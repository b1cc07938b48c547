"""`loft compare`: what it prints and writes, and how commands may end under it."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import FORWARDING_MALLOC, LOFT, OWN_MALLOC, Compile, Loft, one_line

from loft_malloc import allocators, comparison, contestants, launch, metrics
from loft_malloc.errors import UserError

HERE = "glibc,loft"


@pytest.fixture(scope="session")
def busy(compiled: Compile) -> Path:
    """Holds 32 MiB in each of two processes at the same time, and says something."""
    return compiled(
        "busy",
        """
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
          int mine[2], other[2];
          if (pipe(mine) != 0 || pipe(other) != 0) return 1;
          pid_t child = fork();
          int* out = child == 0 ? mine : other;
          int* in = child == 0 ? other : mine;
          char* p = malloc(32 << 20);
          memset(p, 1, 32 << 20);
          char ready = 1;
          if (write(out[1], &ready, 1) != 1 || read(in[0], &ready, 1) != 1) return 1;
          usleep(200000);  // time: memory is looked at meanwhile, on which the night alone relies
          printf("%d\\n", p[12345]);
          free(p);
          if (child != 0) wait(NULL);
          return 0;
        }
        """,
    )


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def compared(build: Path, busy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """One comparison with everything written: what was printed, and the folder."""
    folder = tmp_path_factory.mktemp("compared")
    files = [f"--{kind}={folder / f'out.{kind}'}" for kind in ("json", "csv", "html")]
    ran = subprocess.run(
        [LOFT, "compare", "--runs", "6", "--with", HERE, *files, "--", busy],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    # No bar and no output of the command where nobody watches.
    assert ran.stderr == ""
    assert "\n1\n" not in ran.stdout
    return ran.stdout, folder


TITLES = (
    "wall time",
    "user time",
    "system time",
    "peak RSS",
    "peak RSS, all processes",
    "minor faults",
    "major faults",
)


def test_the_tables_hold_every_metric(compared: tuple[str, Path]) -> None:
    printed, _ = compared
    for title in TITLES:
        assert title in printed
    assert "6 interleaved runs under each allocator after a warm-up" in printed
    assert len(re.findall(r"^glibc ", printed, re.MULTILINE)) == 3
    assert len(re.findall(r"^loft ", printed, re.MULTILINE)) == 3
    assert re.search(r"^wall time[:,]", printed, re.MULTILINE)


@pytest.mark.night
def test_peak_memory_is_of_one_process_and_of_all(compared: tuple[str, Path]) -> None:
    data = read(compared[1] / "out.json")
    for allocator in data["allocators"]:
        one = allocator["summary"]["peak_rss_kib"]["median"]
        together = allocator["summary"]["tree_peak_rss_kib"]["median"]
        assert 32 << 10 <= one < 60 << 10
        assert 64 << 10 <= together < 120 << 10
        assert len(allocator["memory"]) > 1


def test_json_holds_what_was_printed(compared: tuple[str, Path]) -> None:
    printed, folder = compared
    data = read(folder / "out.json")
    assert [allocator["name"] for allocator in data["allocators"]] == ["glibc", "loft"]
    assert data["allocators"][0]["library"] is None
    assert data["allocators"][1]["library"].endswith("libloft.so")
    for allocator in data["allocators"]:
        assert len(allocator["runs"]) == 6
        assert allocator["outcomes"][0]["text"] == "exit code 0"
        for metric in metrics.METRICS:
            if metric.key in allocator["summary"]:
                summary = allocator["summary"][metric.key]
                assert metric.form(summary["median"]) in printed
                if summary["ratio"] is not None:
                    assert f"{summary['ratio']:.2f}x" in printed
    assert printed.startswith(f"Verdict: {data['verdict']}\n")
    for key, conclusion in data["conclusions"].items():
        title = next(metric.title for metric in metrics.METRICS if metric.key == key)
        (said,) = [line for line in printed.splitlines() if line.endswith(f": {conclusion}")]
        assert title in said.removesuffix(f": {conclusion}").split(", ")


def test_csv_holds_what_json_holds(compared: tuple[str, Path]) -> None:
    _, folder = compared
    data = read(folder / "out.json")
    with (folder / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    by_key = {(row["allocator"], row["metric"]): row for row in rows}
    for allocator in data["allocators"]:
        for key, summary in allocator["summary"].items():
            row = by_key.pop((allocator["name"], key))
            assert float(row["median"]) == summary["median"]
            assert row["verdict"] == summary["verdict"]
            assert row["unit"]
    assert by_key == {}


def test_the_page_is_one_file(compared: tuple[str, Path]) -> None:
    _, folder = compared
    page = (folder / "out.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    assert "resident memory of all processes over time" in page
    for title in TITLES:
        assert title in page
    # Namespaces have addresses too, but nobody loads them.
    loading = (
        r"""(?:src|href|data|action)\s*=\s*["']?\s*(?!\#)[a-z/]|url\((?!\#)|@import|<link|<script"""
    )
    assert re.search(loading, page, re.IGNORECASE) is None
    data = read(folder / "out.json")
    for conclusion in data["conclusions"].values():
        assert conclusion in page
    assert len(page) < 400_000
    assert f"<strong>Verdict:</strong> {data['verdict']}." in page


def test_without_counters_one_line_says_so(compared: tuple[str, Path]) -> None:
    printed, folder = compared
    counted = any(allocator["counts"] for allocator in read(folder / "out.json")["allocators"])
    said = [line for line in printed.splitlines() if "were not counted" in line]
    assert len(said) == (0 if counted else 1)


@pytest.mark.parametrize(
    ("error", "said"), [(errno.EACCES, "perf_event_paranoid"), (errno.ENOENT, "has no counters")]
)
def test_why_nothing_is_counted(error: int, said: str) -> None:
    assert said in comparison.why_not_counted(error)


def test_the_page_names_the_tail_and_memory_shows_it(
    loft: Loft, tmp_path: Path, compiled: Compile
) -> None:
    # Has its memory from the last moment before the hold on, so that only the hold shows it.
    program = compiled(
        "keeps",
        """
        #include <stdlib.h>
        #include <string.h>
        static void last(void) { memset(malloc(16 << 20), 1, 16 << 20); }
        int main(void) { return atexit(last); }
        """,
        "-O0",
    )
    ran = loft(
        "compare", "--runs", "1", "--tail", "3", "--with", "loft", "--json", tmp_path / "j",
        "--html", tmp_path / "h", "--", program,
    )  # fmt: skip
    assert ran.returncode == 0
    assert "kept alive for 3 s: the quiet tail" in (tmp_path / "h").read_text()
    allocator = read(tmp_path / "j")["allocators"][0]
    assert any(size > 16 << 10 for _, size in allocator["memory"])


def test_the_timed_runs_are_not_held(loft: Loft, tmp_path: Path) -> None:
    told = tmp_path / "told"
    loft(
        "compare", "--runs", "2", "--tail", "0.5", "--with", "loft", "--", "sh", "-c",
        f"echo ${{LOFT_HOLD_MS-not}} >> {told}",
    )  # fmt: skip
    assert set(told.read_text().split()[:-1]) == {"not"}
    assert told.read_text().split()[-1] == "500"


@pytest.mark.night
def test_processes_of_a_held_command_are_not_held(loft: Loft, tmp_path: Path) -> None:
    # Were each held, the ten would take 30 seconds and the limit would end them.
    loop = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done"
    ran = loft(
        "compare", "--runs", "1", "--tail", "3", "--timeout", "25", "--with", "loft", "--",
        "sh", "-c", loop,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout


def test_an_exit_code_that_all_share_is_the_exit_code(loft: Loft) -> None:
    ran = loft("compare", "--runs", "1", "--with", HERE, "--", "sh", "-c", "exit 3")
    assert ran.returncode == 3
    assert "the command ended alike under every allocator: exit code 3" in ran.stdout
    assert "wall time" in ran.stdout


def test_exit_codes_that_differ_are_reported(loft: Loft, failing: Path) -> None:
    ran = loft("compare", "--runs", "2", "--with", f"glibc,{failing}", "--", "true")
    assert ran.returncode == 1
    assert "the command did not end alike under all allocators:" in ran.stdout
    assert re.search(r"^under glibc: exit code 0 \(\d+ runs\)$", ran.stdout, re.MULTILINE)
    assert re.search(r"^under failing: exit code 7 \(\d+ runs\)$", ran.stdout, re.MULTILINE)


def test_a_crash_under_one_allocator_is_named(loft: Loft, aborting: Path, tmp_path: Path) -> None:
    ran = loft(
        "compare", "--runs", "1", "--with", f"{HERE},{aborting}", "--json", tmp_path / "j", "--",
        "true",
    )  # fmt: skip
    assert ran.returncode == 1
    assert "under aborting: ended by SIGABRT (1 run)" in ran.stdout
    # The others are compared all the same, and it is not.
    assert re.search(r"^loft .* (ms|µs)", ran.stdout, re.MULTILINE)
    assert not re.search(r"^aborting ", ran.stdout, re.MULTILINE)
    usable = {each["name"]: each["usable"] for each in read(tmp_path / "j")["allocators"]}
    assert usable == {"glibc": True, "loft": True, "aborting": False}


def test_a_crash_under_all_is_the_commands(loft: Loft, tmp_path: Path) -> None:
    page = tmp_path / "page"
    ran = loft(
        "compare", "--runs", "1", "--with", HERE, "--html", page, "--", "sh", "-c", "kill -SEGV $$"
    )
    assert ran.returncode == 128 + signal.SIGSEGV
    said = "the command ended alike under every allocator: ended by SIGSEGV"
    assert said in ran.stdout
    assert said in page.read_text()


def test_a_crash_inside_a_shell_is_recognised(loft: Loft) -> None:
    command = ["sh", "-c", "sh -c 'kill -ABRT $$'; exit $?"]
    ran = loft("compare", "--runs", "1", "--with", HERE, "--", *command)
    assert ran.returncode == 134
    assert "exit code 134 (128 + SIGABRT)" in ran.stdout


def marked(mark: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if mark in (process.info["cmdline"] or [])
    ]


# A process group, a session of its own, and an orphan.
STUBBORN = "trap '' TERM INT; sleep {0} & setsid sleep {0} & (sleep {0} &); exec sleep {0}"


def test_a_command_without_an_end_is_ended_with_all_it_started(loft: Loft) -> None:
    mark = f"{4000 + os.getpid() / 1e7:.7f}"
    ran = loft(
        "compare", "--runs", "1", "--timeout", "0.5", "--with", HERE, "--", "sh", "-c",
        STUBBORN.format(mark),
    )  # fmt: skip
    assert ran.returncode == 124
    assert "ended alike under every allocator: killed at the time limit" in ran.stdout
    assert marked(mark) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing(build: Path, number: signal.Signals, code: int) -> None:
    mark = f"{5000 + number + os.getpid() / 1e7:.7f}"
    command = [str(LOFT), "compare", "--with", "loft", "--", "sh", "-c", STUBBORN.format(mark)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while len(marked(mark)) < 4:
            time.sleep(0.02)
        # An impatient user presses twice.
        process.send_signal(number)
        process.send_signal(number)
        out, errors = process.communicate()
    assert process.returncode == code
    assert "Traceback" not in out + errors
    assert marked(mark) == []


def test_a_killed_loft_takes_the_command_along(build: Path) -> None:
    mark = f"{6000 + os.getpid() / 1e7:.7f}"
    with subprocess.Popen([LOFT, "compare", "--with", "loft", "--", "sleep", mark]) as process:
        while not marked(mark):
            time.sleep(0.02)
        process.kill()
    while marked(mark):
        time.sleep(0.02)


def test_what_a_command_leaves_behind_is_ended_and_said(loft: Loft) -> None:
    mark = f"{7000 + os.getpid() / 1e7:.7f}"
    ran = loft("compare", "--runs", "1", "--with", HERE, "--", "sh", "-c", f"setsid sleep {mark} &")
    assert ran.returncode == 0
    assert "left up to 1 process running; killed" in ran.stdout
    assert marked(mark) == []


def test_output_is_shown_on_request(loft: Loft) -> None:
    command = ["compare", "--runs", "1", "--with", "loft"]
    assert "said" not in loft(*command, "--", "printf", "%s\n", "sa\\id").stdout.replace("'", "")
    shown = loft(*command, "--show-output", "--", "sh", "-c", "echo out; echo err >&2; cat")
    assert shown.stdout.count("out\n") >= 3
    assert "err" in shown.stderr


def test_a_few_rounds_are_said_to_be_too_few(loft: Loft) -> None:
    ran = loft("compare", "--runs", "2", "--with", HERE, "--", "true")
    said = "2 rounds are too few to tell a difference from noise"
    assert ran.stdout.startswith(f"Verdict: no winner: {said}")
    # And before any time is spent.
    assert one_line(ran.stderr) == f"loft: {said}; use --runs 6 or more"
    # Once, and not for each metric.
    assert ran.stdout.count(said) == 1


def test_a_small_commands_memory_is_its_own(loft: Loft, tmp_path: Path) -> None:
    """And not that of the Python process that started it."""
    loft("compare", "--runs", "1", "--with", "glibc", "--json", tmp_path / "j", "--", "true")
    peak = read(tmp_path / "j")["allocators"][0]["summary"]["peak_rss_kib"]["median"]
    assert peak < 4 << 10


def test_a_preloaded_library_stays_and_a_preloaded_allocator_does_not(
    loft: Loft, build: Path, failing: Path, compiled: Compile
) -> None:
    harmless = compiled("harmless.so", "int nothing;", "-shared", "-fPIC")
    ran = loft(
        "compare", "--runs", "1", "--with", "glibc", "--show-output", "--", "sh", "-c",
        'echo "[$LD_PRELOAD]"', LD_PRELOAD=f"{harmless}",
    )  # fmt: skip
    assert f"[{harmless}]\n" in ran.stdout
    glibc = allocators.Allocator("glibc", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", f"{failing}:{harmless}")
        assert allocators.preload_value(glibc, []) == str(harmless)


def test_an_allocator_that_is_preloaded_by_a_bare_name_does_not_stay(
    loft: Loft, compiled: Compile
) -> None:
    other = compiled("libother.so", FORWARDING_MALLOC, "-shared", "-fPIC")
    ran = loft(
        "compare", "--runs", "1", "--with", "glibc", "--show-output", "--", "sh", "-c",
        'echo "[$LD_PRELOAD]"', LD_PRELOAD=other.name, LD_LIBRARY_PATH=str(other.parent),
    )  # fmt: skip
    assert "[]\n" in ran.stdout


def test_a_linked_allocator_is_not_measured_as_glibc(
    loft: Loft, compiled: Compile, tmp_path: Path
) -> None:
    ending = "#include <stdlib.h>\nvoid* malloc(size_t size) { _Exit(7); }"
    library = compiled("libending.so", ending, "-shared", "-fPIC")
    calling = "#include <stdlib.h>\nint main(void) { return malloc(1) == NULL; }"
    where = f"-Wl,-rpath,{library.parent}"
    program = compiled("linked", calling, "-fno-builtin", str(library), where)
    ran = loft("compare", "--runs", "1", "--with", "glibc", "--json", tmp_path / "j", "--", program)
    assert ran.returncode == 0
    assert f"{program} is linked with {library}; under glibc, /" in ran.stdout
    assert "libc.so" in read(tmp_path / "j")["allocators"][0]["library"]


def test_a_malloc_in_the_program_itself_is_said(loft: Loft, compiled: Compile) -> None:
    program = compiled("own", OWN_MALLOC, "-fno-builtin")
    ran = loft("compare", "--runs", "1", "--with", "glibc", "--", program)
    assert ran.returncode == 0
    assert f"{program} defines a malloc of its own" in ran.stdout
    assert "these rows all measure that one" in ran.stdout


def test_the_files_are_written_though_nobody_reads_the_terminal(
    build: Path, tmp_path: Path
) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    what = ["--runs", "1", "--with", "glibc", f"--json={tmp_path / 'j'}", "--", "true"]
    subprocess.run([LOFT, "compare", *what], stdout=theirs)
    os.close(theirs)
    assert read(tmp_path / "j")["runs"] == 1


def test_an_argument_that_is_no_text(loft: Loft, tmp_path: Path) -> None:
    ran = loft(
        "compare", "--runs", "1", "--with", "glibc", "--html", tmp_path / "h", "--json",
        tmp_path / "j", "--", "true", os.fsdecode(b"bytes-\xff"),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "bytes-\ufffd" in ran.stdout
    assert "bytes-\ufffd" in (tmp_path / "h").read_text()
    assert read(tmp_path / "j")["command"] == ["true", os.fsdecode(b"bytes-\xff")]


def test_the_first_line_of_a_report_counts() -> None:
    done = b"done 32512 1 1 1 1 1 1 1 -61 -61\n"
    with pytest.raises(UserError, match=r"nothing cannot be executed: No such file"):
        launch._result(b"exec 2\n" + done, 0, "nothing")
    assert launch._result(done, 0, "something").outcome.number == 127


def test_two_libraries_of_one_name_are_refused(loft: Loft, aborting: Path, tmp_path: Path) -> None:
    other = tmp_path / aborting.name
    other.write_bytes(aborting.read_bytes())
    ran = loft("compare", "--with", f"{aborting},{other}", "--", "true")
    assert ran.returncode == 2
    assert "two libraries are called aborting" in one_line(ran.stderr)


def test_allocators_are_found_where_they_are(build: Path, failing: Path, tmp_path: Path) -> None:
    system, peers = tmp_path / "lib", tmp_path / "peers"
    system.mkdir()
    peers.mkdir()
    names = ("lib/libjemalloc.so.2", "peers/jemalloc.so", "peers/another.so")
    for i, name in enumerate((*names, "peers/zopied.so")):
        (tmp_path / name).write_bytes(failing.read_bytes() + bytes(i % len(names)))
    (system / "libmimalloc.so.2").write_text("not a library")
    found = {each.name: each.library for each in allocators.found([system], peers)}
    assert list(found) == ["glibc", "loft", "jemalloc", "another", "peers/jemalloc"]
    assert found["jemalloc"] == system / "libjemalloc.so.2"
    assert found["peers/jemalloc"] == peers / "jemalloc.so"


def test_those_for_the_papers_take_part_only_if_named() -> None:
    there = [allocators.Allocator(name, None) for name in ("glibc", *allocators.PAPER_PEERS)]
    assert contestants.chosen([], there) == there[:1]
    assert contestants.chosen(["rpmalloc"], there) == [allocators.Allocator("rpmalloc", None)]


def test_a_script_without_a_first_line_runs_as_in_a_shell(loft: Loft, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("exit 4\n")
    path.chmod(0o755)
    assert loft("compare", "--runs", "1", "--with", "glibc", "--", path).returncode == 4


def test_a_bar_is_drawn_on_a_terminal(build: Path) -> None:
    ours, theirs = os.openpty()
    ran = subprocess.Popen(
        [LOFT, "compare", "--runs", "1", "--with", HERE, "--", "true"],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    drawn = b""
    try:
        while part := os.read(ours, 65536):
            drawn += part
    except OSError:
        pass  # How a terminal says that its other end is closed.
    finally:
        os.close(ours)
    assert ran.wait() == 0
    assert b"looking at the program" in drawn
    assert b"warm-up: glibc" in drawn
    assert b"round 1 of 1: loft" in drawn
