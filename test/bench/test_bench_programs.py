"""Every benchmark program does what it says: a broken one must not flatter anyone."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import recordings
from bench_rows import ROWS
from release import build_release

ROOT = Path(__file__).resolve().parent.parent.parent
# Program, small parameters, and how many operations it must then report (None: drawn at random).
PROGRAMS: list[tuple[str, str, int | None]] = [
    ("hot_loop", "--rounds=1000", 8000),
    ("batch_order", "--order=lifo --count=100 --rounds=20", 2000),
    ("batch_order", "--order=fifo --count=100 --rounds=20", 2000),
    ("batch_order", "--order=fifo --threads=3 --count=100 --rounds=20 --min=512 --max=512", 6000),
    ("random_replacement", "--slots=1000 --rounds=5000", 6000),
    ("build_shuffle_free", "--count=5000 --rounds=2", 10000),
    ("grows", "--count=5000", 5000),
    ("grows", "--count=200 --min=20480 --max=20480 --step=20480 --reads=9", 200),
    ("malloc_test", "--messages=20 --objects=512", 20 * 512),
    ("malloc_test", "--producers=5 --consumers=5 --messages=23 --objects=100 --queue=3", 2300),
    ("malloc_test", "--producers=1 --consumers=3 --messages=20 --min=64 --max=64", 20 * 4096),
    ("malloc_test", "--messages=20 --objects=100 --marks=7", 2000),
    ("malloc_test", "--messages=20 --objects=100 --queue=50 --touch=1", 2000),
    ("malloc_test", "--seconds=1 --objects=100", None),
    ("malloc_test", "--producers=16 --consumers=1 --messages=90 --objects=10 --queue=9", 900),
    ("message_passing", "--batches=2000", None),
    ("message_passing", "--batches=2000 --producers=3 --consumers=2 --limit=64", None),
    ("alternation", "--count=500 --rounds=10", 5000),
    ("pipeline", "--count=20000 --ring=64", 20000),
    ("pipeline", "--count=2000 --consumer-pause=20", 2000),
    ("symmetric_exchange", "--count=5000", 10000),
    ("symmetric_exchange", "--count=100 --threads=6 --window=8", 600),
    ("larson", "--threads=3 --slots=100 --generations=3 --rounds=1000", 9300),
    ("larson", "--slots=100 --generations=2 --rounds=1000 --litter=3000", 4200),
    ("threadtest", "--threads=3 --objects=300 --rounds=10", 3000),
    ("phong", "--threads=3 --steps=30000 --life=500", 30000),
    ("latency", "--rounds=20000 --slots=100", 40000),
    ("latency", "--rounds=1000 --threads=5 --slots=10", 5000),
    ("fork_under_load", "--forks=5 --workers=2", 5),
    ("idle_return", "--size=256 --count=10000 --keep=100 --quiet-ms=30 --step-ms=10", 10000),
    ("idle_return", "--quiet-ms=1", 300_000),
    ("idle_return", "--by=others --size=64 --count=9000 --quiet-ms=1", 9000),
    ("idle_return", "--by=ended --threads=3 --size=64 --count=9000 --quiet-ms=1", 9000),
    ("many_threads", "--threads=40 --quiet-ms=1", 40),
    ("many_threads", "--threads=5 --quiet-ms=1 --every-class=1", 5),
    ("wakeups", "--threads=30 --period-ms=20 --run-ms=100", 150),
    ("sleeping_producer", "--bytes=3000000 --quiet-ms=0", 11538),
    ("reclaimer", "--producers=3 --slots=1000 --rounds=5000", 18000),
    ("phases", "--count=20000", 7 * 20000),
    ("phases", "--count=2001 --threads=3", 7 * 2001),
    ("mappings", "--mib=512 --rounds=5000", 5000),
    ("trims", "--gib=1", None),
    ("cache_scratch", "--threads=3 --rounds=5 --writes=1000", 15000),
    ("cache_thrash", "--threads=3 --rounds=5 --writes=1000", 15000),
    ("startup", "--starts=3", 3),
    ("realloc_vector", "--limit=10000000", None),
    ("ping_pong_large", "--rounds=100", 100),
    ("zeroed", "--rounds=20 --size=3000000 --step=1", 20),
    ("zeroed", "--rounds=20 --size=3000000 --step=20000", 20),
    ("large_replacement", "--rounds=100 --slots=10", 220),
    ("large_replacement", "--threads=3 --rounds=50 --slots=4 --min=9 --max=5000", 162),
    ("thread_churn", "--count=50", 50),
    ("alloc_test", "--threads=3 --draws=20000 --slots=100", None),
    ("glibc_thread", "--threads=3 --rounds=5000 --slots=50", 15000),
    ("mstress", "--threads=5 --phases=3 --steps=100 --places=10", None),
    ("rptest", "--threads=3 --loops=100 --ring=50 --burst=10", 3 * 10 * (100 + 50)),
    ("rptest", "--threads=2 --loops=9 --ring=7 --burst=3 --cross=4 --sizes=even", 2 * 3 * (9 + 3)),
    ("rptest", "--threads=1 --loops=30 --sizes=exp", 100 * (30 + 15)),
    # Sizes of 8 to 32 bytes, in rows of 12, 6, 4 and 4.
    ("shbench", "--rounds=7 --row=12 --max=32", 7 * 26),
    ("shbench", "--threads=3 --swap=1 --rounds=50 --row=12 --max=32", 3 * 50 * 26),
    ("barnes", "--bodies=100 --steps=2", None),
    ("cfrac", "--number=21000128000051", None),
]


def environment(preload: Path | None) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if preload is not None:
        variables["LD_PRELOAD"] = str(preload)
    return variables


def ended(program: Path, arguments: str, preload: Path | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments.split()],
        env=environment(preload),
        capture_output=True,
        text=True,
        check=False,
    )


def run(program: Path, arguments: str, preload: Path | None = None) -> Any:
    done = ended(program, arguments, preload)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def libraries() -> list[Path | None]:
    """glibc, and loft where it is built."""
    loft = ROOT / "build" / "libloft.so"
    return [None, loft] if loft.exists() else [None]


@pytest.mark.parametrize("preload", libraries(), ids=lambda path: path.stem if path else "glibc")
@pytest.mark.parametrize(("program", "arguments", "operations"), PROGRAMS)
def test_does_what_it_says(
    programs: Path, program: str, arguments: str, operations: int | None, preload: Path | None
) -> None:
    result = run(programs / program, arguments, preload)
    if operations is not None:
        assert result["operations"] == operations
    assert result["operations"] > 0
    assert result["seconds"] > 0
    assert result["ops_per_second"] == pytest.approx(
        result["operations"] / result["seconds"], rel=0.01
    )
    assert result["peak_rss_kib"] > 0
    allowed = os.sched_getaffinity(0)
    assert set(result["cpus"]) <= allowed
    assert len(result["cpus"]) == min(result["threads"], len(allowed))
    if result["bench"] == "pipeline":
        assert result["mode"] in ("full", "empty")
    if "most_alive" in result:
        limit = 64 if "--limit=64" in arguments else 4096
        assert 0 < result["most_alive"] <= limit


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of a program that anybody has."""
    build_release("loft_command")
    plan = tmp_path_factory.mktemp("recording") / "sh.plan"
    command = "sh -c 'i=0; while [ $i -lt 500 ]; do i=$((i + 1)); x=$x$i; done'"
    recordings.make(recordings.Recording(command=command, environment={}), plan)
    return plan


@pytest.mark.parametrize("preload", libraries(), ids=lambda path: path.stem if path else "glibc")
def test_replay_makes_the_calls_of_a_recording(
    programs: Path, recording: Path, preload: Path | None
) -> None:
    result = run(programs / "replay", f"--plan={recording}", preload)
    assert result["operations"] > 1000
    assert result["plan_threads"] == 1
    # The string has 1392 bytes at the end.
    assert result["peak_live_bytes"] > 1392
    assert 0 < result["peak_rss_kib"] < 100_000


def test_replay_names_what_is_missing(programs: Path) -> None:
    said = failure(programs / "replay", "--plan=/none")
    assert said == "replay: /none: the plan cannot be read; tools/recordings.py makes it\n"


def test_every_recording_has_a_row() -> None:
    replayed = {row.arguments[0] for row in ROWS if row.program == "replay"}
    assert replayed == {f"--plan={name}" for name in recordings.all_of_them()}


def test_malloc_test_says_its_peak_and_its_progress(programs: Path) -> None:
    arguments = "--messages=50 --objects=100 --min=64 --max=64 --queue=4 --marks=10"
    result = run(programs / "malloc_test", arguments)
    assert 6400 <= result["peak_live_bytes"] <= 4 * 6400
    assert len(result["marks"]) == 10
    assert result["marks"] == sorted(result["marks"])
    assert result["marks"][0] > 0


def test_cfrac_finds_a_prime_factor(programs: Path) -> None:
    assert run(programs / "cfrac", "--number=21000128000051")["factor"] in ("3000017", "7000003")
    assert "no factor after 5 steps" in failure(programs / "cfrac", "--steps=5")


def test_idle_return_follows_its_memory(programs: Path) -> None:
    arguments = "--size=512 --count=20000 --keep=100 --quiet-ms=30 --step-ms=10"
    result = run(programs / "idle_return", arguments)
    labels = [sample["label"] for sample in result["memory"]]
    assert labels == ["start", "peak", "freed", "quiet", "quiet", "quiet"]
    start, peak = result["memory"][0], result["memory"][1]
    # Ten megabytes, every byte of them written.
    assert peak["rss_kib"] - start["rss_kib"] >= 9900
    assert result["survivor_bytes"] == 200 * 512
    # Two hundred objects that stand far apart: on one page each, or two.
    assert 200 * 4 <= result["survivor_pages_kib"] <= 400 * 4
    assert result["table_kib"] == pytest.approx(20000 * 12 / 1024, abs=16)


def test_many_threads_exist_at_once(programs: Path) -> None:
    result = run(programs / "many_threads", "--threads=50 --bytes=65536 --quiet-ms=1")
    samples = {sample["label"]: sample["rss_kib"] for sample in result["memory"]}
    assert list(samples) == ["start", "freed", "quiet", "joined"]
    # Each needs at least a page of stack.
    assert samples["quiet"] - samples["start"] >= 50 * 4
    assert result["objects"] % 50 == 0


def test_latency_is_ordered_and_bounded_by_the_time_it_took(programs: Path) -> None:
    result = run(programs / "latency", "--rounds=30000")
    for key in ("malloc_ns", "free_ns", "clock_ns"):
        values = [result[key][q] for q in ("p50", "p99", "p99.9", "p99.99", "p99.999", "max")]
        assert values == sorted(values)
        assert values[-1] <= result["seconds"] * 1e9 * 1.1
    assert result["malloc_ns"]["max"] > 0


# Sleeps for 20 ms in every two thousandth malloc.
SLOW = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>
static _Thread_local int count;
void* malloc(size_t n) {
  static void* (*real)(size_t);
  if (real == NULL) real = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
  if (++count % 2000 == 0) usleep(20000);  // time: the defect that is to be noticed
  return real(n);
}
"""

# A lock that every fork leaves locked in the child.
HANGS = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int fork(void) {
  static int (*real)(void);
  if (real == NULL) real = (int (*)(void))dlsym(RTLD_NEXT, "fork");
  pthread_mutex_lock(&lock);
  int pid = real();
  if (pid != 0) pthread_mutex_unlock(&lock);
  return pid;
}
void* malloc(size_t n) {
  static void* (*real)(size_t);
  if (real == NULL) real = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
  pthread_mutex_lock(&lock);
  void* p = real(n);
  pthread_mutex_unlock(&lock);
  return p;
}
"""


# Tells, at the end, how many objects of 256 bytes the first thread freed, and how many others did.
COUNTS = r"""
#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
static atomic_int freed[2];
void free(void* p) {
  static void (*real)(void*);
  if (real == NULL) real = (void (*)(void*))dlsym(RTLD_NEXT, "free");
  if (p != NULL && malloc_usable_size(p) == 264) freed[gettid() != getpid()]++;
  real(p);
}
__attribute__((destructor)) static void tell(void) {
  FILE* out = fopen(OUT, "w");
  fprintf(out, "%d %d", freed[0], freed[1]);
  fclose(out);
}
"""


def compiled(tmp_path: Path, source: str) -> Path:
    library = tmp_path / "seeded.so"
    (tmp_path / "seeded.c").write_text(source)
    out = f'-DOUT="{tmp_path / "out"}"'
    flags = ["-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", out]
    subprocess.run(["gcc", *flags, tmp_path / "seeded.c", "-o", library], check=True)
    return library


def failure(program: Path, arguments: str, preload: Path | None = None) -> str:
    """What a program says that must fail without a result."""
    done = ended(program, arguments, preload)
    assert done.returncode == 1, done.stdout
    assert done.stdout == ""
    return done.stderr


def test_latency_sees_a_slow_call(programs: Path, tmp_path: Path) -> None:
    library = compiled(tmp_path, SLOW)
    result = run(programs / "latency", "--rounds=20000 --threads=1", library)
    assert result["malloc_ns"]["p99.99"] > 19_000_000
    assert result["malloc_ns"]["p50"] < 10_000_000


@pytest.mark.parametrize(
    ("by", "counts"), [("self", "20000 0"), ("others", "200 19800"), ("ended", "200 19800")]
)
def test_idle_return_is_freed_by_whom_it_says(
    programs: Path, tmp_path: Path, by: str, counts: str
) -> None:
    library = compiled(tmp_path, COUNTS)
    arguments = f"--by={by} --size=256 --count=20000 --keep=100 --quiet-ms=1"
    result = run(programs / "idle_return", arguments, library)
    # The survivors are freed at the end, by the thread that made them.
    assert result["survivor_bytes"] == 200 * 256
    assert (tmp_path / "out").read_text() == counts


# Nothing is freed: all that is allocated is new memory.
KEEPS = "void free(void* p) {}"


def test_sleeping_producer_sees_that_nothing_is_used_again(programs: Path, tmp_path: Path) -> None:
    library = compiled(tmp_path, KEEPS)
    result = run(programs / "sleeping_producer", "--bytes=20000000 --quiet-ms=0", library)
    assert result["first_kib"] >= 19000
    assert result["grown_kib"] >= 0.95 * result["first_kib"]


def test_phases_see_what_is_kept(programs: Path, tmp_path: Path) -> None:
    library = compiled(tmp_path, KEEPS)
    result = run(programs / "phases", "--count=20000", library)
    residents = [phase["rss_kib"] for phase in result["phases"]]
    assert residents == sorted(residents)
    # In so few steps the fifth phase frees about half of what the fourth, of larger sizes, had.
    fourth, fifth = result["phases"][3:5]
    assert fifth["live_kib"] < 0.7 * fourth["live_kib"]
    assert max(phase["live_kib"] for phase in result["phases"]) * 1024 <= result["peak_live_bytes"]


# Every large object gets a mapping of its own, which joins with no other.
MAPS = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
void* malloc(size_t n) {
  static void* (*real)(size_t);
  if (real == NULL) real = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
  if (n < 1 << 20) return real(n);
  char* p = mmap(NULL, n + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(p + (n + 4095) / 4096 * 4096, 4096, PROT_NONE);
  return p;
}
void free(void* p) {}
void* realloc(void* p, size_t n) {
  void* q = malloc(n);
  return p == NULL ? q : memcpy(q, p, 16);
}
"""


def test_mappings_counts_them(programs: Path, tmp_path: Path) -> None:
    few = run(programs / "mappings", "--mib=512 --rounds=2000 --threads=1")
    many = run(
        programs / "mappings", "--mib=512 --rounds=2000 --threads=1", compiled(tmp_path, MAPS)
    )
    assert few["most_mappings"] < 200
    # Half of 125 large ones are large enough, with two lines each.
    assert many["most_mappings"] > 80


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("mappings", "--mib=65536 --rounds=100000 --limit-mib=64"),
        ("phases", "--count=100000 --limit-mib=64"),
    ],
)
def test_does_not_fill_the_machine(programs: Path, program: str, arguments: str) -> None:
    assert "more than 64 MiB resident" in failure(programs / program, arguments)


def test_many_threads_touch_every_size(programs: Path, tmp_path: Path) -> None:
    arguments = "--threads=20 --bytes=16 --quiet-ms=1"
    library = compiled(tmp_path, KEEPS)
    few = run(programs / "many_threads", arguments, library)
    all_sizes = run(programs / "many_threads", f"{arguments} --every-class=1", library)
    # About 36 sizes up to 32 KiB, each written in full.
    more = all_sizes["memory"][1]["rss_kib"] - few["memory"][1]["rss_kib"]
    assert more > 20 * 200


def test_notices_a_child_that_hangs(programs: Path, tmp_path: Path) -> None:
    library = compiled(tmp_path, HANGS)
    arguments = "--forks=1 --workers=1 --child-limit=1"
    assert "a child hung" in failure(programs / "fork_under_load", arguments, library)


@pytest.mark.parametrize("preload", libraries(), ids=lambda path: path.stem if path else "glibc")
def test_xalan_transforms_every_record(programs: Path, preload: Path | None) -> None:
    result = run(programs / "xalan", "--records=200", preload)
    assert result["operations"] == 200
    assert result["cpu_seconds"] > 0
    # xalan's own, far above that of the program that started it.
    assert result["peak_rss_kib"] > 8000


def test_xalan_notices_a_program_that_does_nothing(programs: Path) -> None:
    assert "left no" in failure(programs / "xalan", "--records=10 --program=true")


def test_pipeline_names_its_mode(programs: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    assert run(programs / "pipeline", "--count=20000 --consumer-pause=50")["mode"] == "full"
    assert run(programs / "pipeline", "--count=20000 --producer-pause=50")["mode"] == "empty"


def test_startup_measures_hello(programs: Path) -> None:
    result = run(programs / "startup", "--starts=2")
    assert 0 < result["median_start_ms"] < 10_000
    assert 500 < result["hello_peak_rss_kib"] < 100_000
    assert 10 < result["hello_system_calls"] < 1000


def test_counts_instructions(programs: Path) -> None:
    result = run(programs / "count_instructions", "--remote=256 --long=1")
    for pair in result["pairs"]:
        assert pair["pair"] == pair["malloc"] + pair["free"]
        # glibc's own: its fast path is known not to be shorter than this.
        assert 30 < pair["pair"] < 1000
    # A refill asks at least what a fast path does, and is told apart from it.
    assert result["refill"]["seen"] > 0
    assert result["refill"]["questions"] > 2
    assert result["refill"]["instructions"] > result["refill"]["questions"]
    assert result["remote_free"]["objects"] == 256
    assert result["remote_free"]["mean"] > 10


def test_counts_of_a_library_alone_repeat(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOFT_BACKGROUND", "off")
    arguments = "--remote=64 --long=1 --library=libloft"
    both = Path(f"{libraries()[1]}:{programs / 'still.so'}")
    first, second = (run(programs / "count_instructions", arguments, both) for _ in range(2))
    assert first == second
    assert first["cases"]["malloc of 64 B"] == first["pairs"][1]["malloc"]
    for pair in first["pairs"]:
        assert pair["calls"] == pair["locked"] == 0


def test_observes_what_a_program_does(programs: Path) -> None:
    grows = [str(programs / "grows"), "--count=1000", "--min=4096", "--max=4096", "--reads=1"]
    few, many = (
        json.loads(
            subprocess.run(
                [programs / "observe", "--", *grows, count],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()[-1]
        )
        for count in ("--step=64", "--step=4096")
    )
    assert many["peak"] > 1000 * 4096
    assert few["peak"] == many["peak"] < many["anonymous"]
    assert few["system_calls"] == sum(few["by_number"].values())
    assert many["resident_kib"] > 4000 and many["minor_faults"] > 1000
    if "malloc_faults" in few:
        assert few["faults"] > few["malloc_faults"] >= 1000


def test_observe_ends_a_program_at_a_fault(programs: Path) -> None:
    command = [str(programs / "observe"), f"--preload={programs / 'still.so'}"]
    grows = ["--", str(programs / "grows"), "--count=40000", "--reads=1"]

    def told(*options: str) -> dict[str, Any]:
        ran = subprocess.run(
            [*command, *options, *grows], capture_output=True, text=True, check=True
        )
        last: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return last

    whole = told()
    if "faults" not in whole:
        pytest.skip("the system lets nobody count faults here")
    peak = told(f"--end-at={whole['fault_at_peak']}")
    sooner = told(f"--end-at={whole['fault_at_peak'] // 2}")
    assert sooner["resident"]["all"] < peak["resident"]["all"]
    assert 0.95 * whole["resident"]["all"] < peak["resident"]["all"] <= whole["resident"]["all"]


def test_observe_fails_with_its_program(programs: Path) -> None:
    done = ended(programs / "observe", "-- /bin/false", None)
    assert done.returncode == 1 and "did not end well" in done.stderr


def test_a_program_draws_the_same_each_time(programs: Path) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(programs / "still.so")}
    command = ["/usr/bin/ruby", "--disable=gems", "-e", 'print "text".hash']
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == second != ""


def test_time_stands_still(programs: Path) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(programs / "still.so")}
    for command in (["lua5.4", "-e", "print(os.time())"], ["date", "+%s"]):
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert told.stdout == "1000000\n"


def test_threads_at_rest(programs: Path) -> None:
    result = run(programs / "threads_at_rest", "--threads=20")
    one = run(programs / "threads_at_rest", "--threads=20 --sizes=1")
    assert one["kept_kib"] < result["kept_kib"]
    assert 20 * 12 <= result["kept_kib"] < 20 * 200
    assert result["freed_kib"] <= result["kept_kib"] + 20


# The program waits for what becomes due with time.
@pytest.mark.night
@pytest.mark.parametrize("preload", libraries(), ids=lambda path: path.stem if path else "glibc")
def test_trims_cost_the_same_however_many_addresses_are_used(
    programs: Path, preload: Path | None
) -> None:
    result = run(programs / "trims", "", preload)
    for kind in ("trim_instructions", "tick_instructions"):
        at_one, at_64, at_1024 = result[kind]
        assert at_one > 100
        assert at_64 <= 1.2 * at_one
        assert at_1024 <= 1.2 * at_one


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("hot_loop", "--rouds=1", "unknown argument --rouds=1"),
        ("hot_loop", "--rounds=many", "--rounds: not a number: many"),
        ("hot_loop", "--rounds=0", "--rounds: 0 is not within"),
        ("batch_order", "--order=random", "--order is lifo or fifo"),
        ("idle_return", "--by=nobody", "--by is self, others or ended"),
        ("rptest", "--sizes=odd", "--sizes is even, linear or exp"),
        ("mstress", "--min=20", "--min and --max are multiples of 8"),
        ("cfrac", "--number=1x", "--number: not a number: 1x"),
        ("cfrac", "--number=10", "--number: of 32 to 120 bits"),
    ],
)
def test_refuses_what_it_does_not_know(
    programs: Path, program: str, arguments: str, message: str
) -> None:
    done = subprocess.run([programs / program, *arguments.split()], capture_output=True, text=True)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


# An allocator that, from some point on, hands out one 64-byte object again and again: every program
# that looks at contents must notice and say so instead of printing a time.
BROKEN = r"""
#include <dlfcn.h>
#include <stddef.h>
static int count;
static void* again;
void* malloc(size_t n) {
  static void* (*real)(size_t);
  if (real == NULL) real = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
  if (n != 64 || ++count < 40) return real(n);
  if (again == NULL) again = real(n);
  return again;
}
void free(void* p) {
  static void (*real)(void*);
  if (real == NULL) real = (void (*)(void*))dlsym(RTLD_NEXT, "free");
  if (p != again) real(p);
}
"""


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("batch_order", "--order=fifo --min=64 --max=64 --count=100 --rounds=1"),
        ("build_shuffle_free", "--min=64 --max=64 --count=100 --rounds=1"),
        ("random_replacement", "--min=64 --max=64 --slots=100 --rounds=10000"),
        ("large_replacement", "--min=64 --max=71 --slots=100 --rounds=1000 --threads=1"),
        ("malloc_test", "--min=64 --max=64 --messages=1"),
        ("alternation", "--size=64 --rounds=1"),
        ("threadtest", "--size=64 --threads=1 --rounds=1"),
        ("phong", "--min=64 --max=64 --threads=1"),
        ("latency", "--min=64 --max=64 --threads=1"),
        ("idle_return", "--size=64 --count=1000 --quiet-ms=1"),
        ("larson", "--min=80 --max=80 --generations=1 --rounds=100"),
        ("many_threads", "--threads=1 --bytes=1000000 --quiet-ms=1"),
        ("wakeups", "--threads=1 --period-ms=1 --run-ms=30"),
        ("sleeping_producer", "--min=64 --max=64 --bytes=1048576 --threads=1 --quiet-ms=0"),
        ("reclaimer", "--size=64 --producers=1 --slots=1000 --rounds=1000"),
        ("alloc_test", "--min=64 --max=64 --slots=1000 --draws=10000"),
        ("glibc_thread", "--min=64 --max=64 --threads=1 --rounds=10000"),
        ("mstress", "--min=80 --max=80 --threads=1 --phases=1 --steps=1000"),
        ("rptest", "--min=64 --max=64 --threads=1 --loops=10"),
        ("shbench", "--min=64 --max=64 --rounds=2"),
        ("shbench", "--min=64 --max=64 --rounds=5 --swap=1"),
        # Of a cell, and of a number of three digits.
        ("barnes", "--bodies=100 --steps=2"),
        ("cfrac", ""),
    ],
)
def test_notices_an_object_with_two_owners(
    programs: Path, tmp_path: Path, program: str, arguments: str
) -> None:
    # Objects of 64 bytes are also what the C++ library makes for threads that a thread starts.
    sizes = {"larson": "80", "mstress": "80", "barnes": "136", "cfrac": "12"}
    library = compiled(tmp_path, BROKEN.replace("64", sizes.get(program, "64")))
    assert "overwritten" in failure(programs / program, arguments, library)
