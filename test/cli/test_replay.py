"""`loft replay`: the calls of a trace are made as they were recorded, and what is wrong is said."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Compile, Loft, one_line
from traces import EVERY, HANDING, MANY, MANY_CALLS, recorded

from loft_malloc import places, trace_file

HERE = "glibc,loft"


@pytest.fixture
def many(loft: Loft, compiled: Compile, tmp_path: Path) -> Path:
    return recorded(loft, tmp_path / "many.zst", compiled("many", MANY % "return 0;"))


def replayed(loft: Loft, trace: Path, *options: str, code: int = 0) -> Any:
    """What it writes about a replay, one entry for each allocator."""
    told = trace.with_suffix(".json")
    ran = loft("replay", "--runs", "1", "--with", HERE, "--json", told, *options, trace)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert ran.stderr == ""
    return json.loads(told.read_text())


def runs(told: Any) -> list[Any]:
    return [run for allocator in told["allocators"] for run in allocator["runs"]]


CLEAN = ("damaged", "dirty", "failed", "succeeded", "unaligned")


@pytest.mark.parametrize("touch", ["ends", "pages", "all"])
def test_every_call_is_made_again(
    loft: Loft, compiled: Compile, tmp_path: Path, touch: str
) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("every", EVERY, "-fno-builtin", "-w"))
    told = replayed(loft, trace, "--touch", touch)
    assert [each["name"] for each in told["allocators"]] == ["glibc", "loft"]
    for run in runs(told):
        assert run["calls"] == 28
        assert [run[key] for key in CLEAN] == [0] * len(CLEAN)


def test_the_table_and_the_json_hold_the_same(loft: Loft, many: Path) -> None:
    told = replayed(loft, many, "--samples", "20")
    ran = loft("replay", "--runs", "6", "--with", HERE, many)
    assert f": {MANY_CALLS} calls of 1 thread, window 40, 6 interleaved rounds" in ran.stdout
    for title in ("wall time", "CPU time", "peak memory", "peak / live", "faults"):
        assert title in ran.stdout
        assert re.search(rf"^{title}: ", ran.stdout, re.MULTILINE)
    assert "memory / live, by share of the calls made" in ran.stdout
    for run in runs(told):
        # And one where most was alive.
        assert len(run["samples"]) in (20, 21)
        assert (
            max(sample["live_bytes"] for sample in run["samples"]) == told["process"]["peak_bytes"]
        )
        tickets = [sample["ticket"] for sample in run["samples"]]
        assert tickets == sorted(tickets)


LARGE = """
#include <stdlib.h>
int main(void) {
  static void* kept[2000];
  for (int i = 0; i < 2000; i++) kept[i] = malloc(16 << 10);
  for (int i = 0; i < 2000; i++) free(kept[i]);
  return 0;
}
"""


def test_memory_is_what_was_alive_and_a_little_more(
    loft: Loft, compiled: Compile, tmp_path: Path
) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("large", LARGE, "-fno-builtin"))
    for run in runs(replayed(loft, trace)):
        # Of 31.25 MiB; the kernel's numbers are not exact to the last page.
        most = max(sample["resident_kib"] for sample in run["samples"])
        assert 30 << 10 < most < 50 << 10
        assert run["minor_faults"] > 0
        assert run["seconds"] > 0


def test_the_trace_is_described(loft: Loft, many: Path) -> None:
    ran = loft("replay", "--info", many)
    assert ran.returncode == 0
    assert re.search(rf"^0 \* .* exec +{MANY_CALLS} +1 ", ran.stdout, re.MULTILINE)
    assert f"  malloc: {MANY_CALLS // 2}\n" in ran.stdout
    assert f"  free: {MANY_CALLS // 2}\n" in ran.stdout
    assert re.search(r"^\d+\.\d\d bytes a call in ", ran.stdout, re.MULTILINE)
    assert "in 100 objects" in ran.stdout


# Two threads each of which frees what the other has taken, over a ring; and moves some of it.
RING = """
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
enum { kCount = 2000, kRing = 64 };
static void* ring[2][kRing];
static void* body(void* p) {
  void** out = ring[p != NULL];
  void** in = ring[p == NULL];
  for (int i = 0; i < kCount; i++) {
    void* mine = malloc(i % 300 + 1);
    while (__atomic_load_n(&out[i % kRing], __ATOMIC_ACQUIRE) != NULL) sched_yield();
    __atomic_store_n(&out[i % kRing], mine, __ATOMIC_RELEASE);
    void* other;
    while ((other = __atomic_load_n(&in[i % kRing], __ATOMIC_ACQUIRE)) == NULL) sched_yield();
    __atomic_store_n(&in[i % kRing], NULL, __ATOMIC_RELEASE);
    if (i % 3 == 0) other = realloc(other, i % 500 + 1);
    free(other);
  }
  return NULL;
}
int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, NULL) != 0) return 1;
  body("");
  return pthread_join(thread, NULL);
}
"""


@pytest.mark.parametrize("window", ["0", "1", "1000", "1000000000"])
def test_threads_hand_over_as_they_did(
    loft: Loft, compiled: Compile, tmp_path: Path, window: str
) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("ring", RING, "-pthread"))
    told = replayed(loft, trace, "--window", window)
    assert told["process"]["handed"] == 4000
    for run in runs(told):
        assert run["calls"] >= 8000
        assert [run[key] for key in CLEAN] == [0] * len(CLEAN)


def test_threads_start_and_end_as_they_did(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("handing", HANDING, "-pthread"))
    for run in runs(replayed(loft, trace, "--touch", "all")):
        assert [run[key] for key in CLEAN] == [0] * len(CLEAN)


def test_a_program_without_a_call(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("none", "int main(void) { return 0; }"))
    assert [run["calls"] for run in runs(replayed(loft, trace))] == [0, 0]


def test_a_forked_child_is_replayed_with_what_it_inherited(loft: Loft, tmp_path: Path) -> None:
    trace = recorded(loft, tmp_path / "t", "sh", "-c", "(true; true) & wait; exit 0")
    told = replayed(loft, trace, "--process", "1")
    assert told["process"]["inherited"] > 0
    assert told["process"]["foreign"] == 0


def bad(compiled: Compile, name: str, malloc: str, more: str = "") -> Path:
    """An allocator in front of the C library's with a defect."""
    source = f"""
    #define _GNU_SOURCE
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    extern void* __libc_malloc(size_t);
    extern void* __libc_calloc(size_t, size_t);
    extern void* __libc_realloc(void*, size_t);
    extern void __libc_free(void*);
    static unsigned calls;
    void* malloc(size_t size) {{ calls++; {malloc} }}
    {more}
    """
    return compiled(name, source, "-shared", "-fPIC", "-fno-builtin", "-w")


def complaints(loft: Loft, trace: Path, allocator: Path) -> str:
    ran = loft("replay", "--runs", "1", "--with", f"glibc,{allocator}", trace)
    assert ran.returncode == 1
    said = re.findall(rf"^under {allocator.stem}: (.*)$", ran.stdout, re.MULTILINE)
    assert len(said) == 1
    return str(said[0])


def test_an_object_that_is_given_twice_is_noticed(
    loft: Loft, compiled: Compile, many: Path
) -> None:
    twice = bad(
        compiled,
        "twice.so",
        """
        static void* last;
        if (calls % 1000 == 999) return last;
        return last = __libc_malloc(size < 1024 ? 1024 : size);
        """,
        "void free(void* p) {}",
    )
    assert "objects were not what they had been" in complaints(loft, many, twice)


def test_memory_of_calloc_that_is_not_zero_is_noticed(
    loft: Loft, compiled: Compile, tmp_path: Path
) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("every", EVERY, "-fno-builtin", "-w"))
    dirty = bad(
        compiled,
        "dirty.so",
        "return __libc_malloc(size);",
        """
        void* calloc(size_t n, size_t m) {
          void* p = __libc_calloc(n, m);
          if (p != NULL && n * m != 0) memset(p, 7, 1);
          return p;
        }
        """,
    )
    assert "1 objects of calloc were not zero" in complaints(loft, trace, dirty)


def test_what_realloc_loses_is_noticed(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("every", EVERY, "-fno-builtin", "-w"))
    losing = bad(
        compiled,
        "losing.so",
        "return __libc_malloc(size);",
        """
        void* realloc(void* p, size_t n) {
          void* q = __libc_realloc(p, n);
          if (p != NULL && q != NULL) memset(q, 0, n);
          return q;
        }
        """,
    )
    assert "objects were not what they had been" in complaints(loft, trace, losing)


def test_an_allocator_that_refuses_is_told_of(loft: Loft, compiled: Compile, many: Path) -> None:
    refusing = bad(compiled, "refusing.so", "return size == 500 ? NULL : __libc_malloc(size);")
    ran = loft("replay", "--runs", "1", "--with", refusing, many)
    assert ran.returncode == 0
    said = "under refusing: 20 calls failed that had succeeded in the recording"
    assert said in ran.stdout


def test_an_allocator_that_crashes_is_out(loft: Loft, aborting: Path, many: Path) -> None:
    ran = loft("replay", "--runs", "2", "--with", f"loft,{aborting}", many)
    assert ran.returncode == 1
    assert "under aborting: ended by SIGABRT" in ran.stdout
    assert re.search(r"^loft ", ran.stdout, re.MULTILINE)
    assert not re.search(r"^aborting ", ran.stdout, re.MULTILINE)


def test_a_replay_takes_the_same_instructions_each_time(loft: Loft, many: Path) -> None:
    """Counted one by one: what a change of an allocator costs is no matter of noise here."""
    counted = []
    for _ in range(2):
        told = replayed(loft, many, "--instructions")
        counted.append([each["instructions"] for each in told["allocators"]])
    for first, second in zip(*counted, strict=True):
        # Neither is there less to do than a few for each call.
        assert first > 20 * MANY_CALLS
        # What differs is how the numbers read that the system says of the memory.
        assert abs(first - second) < first / 500


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "is incomplete"),
    "text": (
        lambda data: b"no trace at all, and longer than a header",
        "is damaged, or not a recording",
    ),
    "cut in the middle": (lambda data: data[: len(data) // 2], "is incomplete"),
    "cut at its end": (lambda data: data[:-1], "is incomplete"),
    "more behind": (lambda data: data + b"more", "is damaged"),
    "another byte": (flipped, "is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_one_line(loft: Loft, many: Path, tmp_path: Path, damage: str) -> None:
    change, said = DAMAGES[damage]
    (tmp_path / "bad").write_bytes(change(many.read_bytes()))
    ran = loft("replay", "--with", "loft", tmp_path / "bad")
    assert ran.returncode == 2
    assert said in one_line(ran.stderr)


def packed(path: Path, chunks: bytes, command: object = ("made",)) -> Path:
    with path.open("wb") as file:
        writer = trace_file.Writer(file, {"command": command})
        writer.write(chunks)
        writer.finish({})
    return path


def test_chunks_that_are_none_are_one_line(loft: Loft, many: Path, tmp_path: Path) -> None:
    """Whole as a file, and wrong inside: each of its bytes in turn, of the first chunks."""
    chunks = tmp_path / "chunks"
    trace_file.Trace.read(many, chunks, lambda done, of: None)
    good = chunks.read_bytes()[: 3 * 4096]
    trace = places.find("loft-trace")
    for at in [*range(200), *range(200, len(good), 97)]:
        for value in (0, 0xFF, good[at] ^ 0x10):
            chunks.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
            ran = subprocess.run(
                [trace, "plan", chunks, "0", "9", tmp_path / "plan"],
                capture_output=True,
                text=True,
            )
            # It may still be a trace, of other calls.
            assert ran.returncode in (0, 1), (at, value, ran.returncode)
            assert ran.returncode == 0 or ran.stderr.count("\n") == 1
    ran = loft("replay", "--with", "loft", packed(tmp_path / "bad", b"x" * 5000))
    assert ran.returncode == 1
    assert one_line(ran.stderr).endswith("damaged: there is a chunk that is none")
    ran = loft("replay", "--with", "loft", packed(tmp_path / "bad", good[:5000]))
    assert one_line(ran.stderr).endswith("damaged: it ends within a chunk")


def test_a_header_that_is_none_is_one_line(loft: Loft, tmp_path: Path) -> None:
    for command in (None, "text", [1]):
        ran = loft("replay", "--info", packed(tmp_path / "bad", b"", command))
        assert "is damaged, or not a recording" in one_line(ran.stderr)
    ran = loft("replay", "--info", packed(tmp_path / "bad", b""))
    assert "has no calls" in one_line(ran.stderr)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--process", "7"], "--process 7: "),
        (["--touch", "some"], "--touch some: ends, pages or all is needed"),
        (["--with", "nobody"], "--with nobody: there is no allocator of that name"),
        (["--timeout", "0"], "'--timeout': '0' is not a number of seconds"),
        (["--json", "/none/x"], "/none/x cannot be written"),
    ],
)
def test_what_cannot_be_replayed_is_one_line(
    loft: Loft, many: Path, options: list[str], said: str
) -> None:
    ran = loft("replay", *options, many)
    assert ran.returncode == 2
    assert said in one_line(ran.stderr)


def test_a_file_that_is_not_there(loft: Loft, tmp_path: Path) -> None:
    ran = loft("replay", tmp_path / "none")
    assert one_line(ran.stderr).endswith("none cannot be read: No such file or directory")


def test_nothing_is_left_of_a_replay(loft: Loft, many: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    ran = loft("replay", "--runs", "1", "--with", "loft", many, TMPDIR=str(tmp_path / "tmp"))
    assert ran.returncode == 0
    assert list((tmp_path / "tmp").iterdir()) == []
    shutil.rmtree(tmp_path / "tmp")
