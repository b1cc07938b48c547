"""What is measured: one row for each workload, with its program and parameters.

A default run takes well under a second each, so that every row runs three times under nine
allocators within ten minutes. Rows for which that says too little are kept for `full`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ONE = "one thread"
PASSING = "producer/consumer"
MANY = "several threads"
SYSTEM = "large objects, start and end"


class Kind(StrEnum):
    # Compared by elapsed time, counters and peak memory.
    TIMED = "timed"
    # Has a table of its own; its elapsed time means nothing.
    OWN = "own"
    # As OWN; and it mostly waits, so it runs under all allocators at once.
    QUIET = "quiet"


@dataclass(frozen=True)
class Row:
    name: str
    group: str
    threads: int
    # Words with a = before the program are its environment.
    command: str
    full_only: bool = False
    kind: Kind = Kind.TIMED
    # Measured in the first round alone, since it is slow and repeats itself.
    once: bool = False
    # The only allocators that this row is for.
    only: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        words = self.command.split()
        return dict(word.split("=", 1) for word in words[: words.index(self.program)])

    @property
    def program(self) -> str:
        return next(word for word in self.command.split() if "=" not in word)

    @property
    def arguments(self) -> list[str]:
        words = self.command.split()
        return words[words.index(self.program) + 1 :]


def message_passing(n: int) -> Row:
    command = f"message_passing --producers={n} --consumers={n} --batches=300000"
    return Row(f"message passing {n}:{n}", PASSING, 2 * n, command)


def xmalloc(n: int, *, full_only: bool = False) -> Row:
    command = f"malloc_test --producers={n} --consumers={n} --min=64 --max=64 --messages=2000"
    return Row(f"xmalloc-test {n}:{n}", PASSING, 2 * n, command, full_only)


ROWS = (
    Row("hot loop 16..128 B", ONE, 1, "hot_loop --rounds=2000000"),
    Row("LIFO of 1000", ONE, 1, "batch_order --order=lifo --rounds=20000"),
    Row("FIFO of 1000", ONE, 1, "batch_order --order=fifo --rounds=20000"),
    Row(
        "random replacement, 1000 of 16..128 B",
        ONE,
        1,
        "random_replacement --slots=1000 --min=16 --max=128 --rounds=10000000",
    ),
    Row("random replacement, 20 000 of 8..507 B", ONE, 1, "random_replacement --rounds=10000000"),
    Row("2 M built, shuffled, freed", ONE, 1, "build_shuffle_free --rounds=1"),
    Row("malloc-test 1:1", PASSING, 2, "malloc_test --messages=600"),
    message_passing(1),
    message_passing(2),
    message_passing(4),
    message_passing(8),
    Row("strict alternation", PASSING, 2, "alternation --rounds=500"),
    xmalloc(1),
    xmalloc(2, full_only=True),
    xmalloc(4, full_only=True),
    xmalloc(100),
    Row("pipeline", PASSING, 2, "pipeline --count=2000000"),
    Row("pipeline, consumer reads", PASSING, 2, "pipeline --count=2000000 --read=1"),
    Row("pipeline, full", PASSING, 2, "pipeline --count=2000000 --consumer-pause=4"),
    Row("pipeline, empty", PASSING, 2, "pipeline --count=2000000 --producer-pause=4"),
    Row("symmetric exchange", MANY, 2, "symmetric_exchange --count=2000000"),
    Row("larson, 1 thread", MANY, 1, "larson --threads=1 --generations=5", full_only=True),
    Row("larson, 2 threads", MANY, 2, "larson --generations=5"),
    Row("larson, 8 threads", MANY, 8, "larson --threads=8 --generations=5", full_only=True),
    Row("cache-scratch, 2 threads", MANY, 2, "cache_scratch"),
    Row("cache-thrash, 2 threads", MANY, 2, "cache_thrash"),
    Row("800 kB ping-pong", SYSTEM, 1, "ping_pong_large --rounds=200000"),
    Row("realloc to 256 MiB", SYSTEM, 1, "realloc_vector --limit=268435456"),
    Row("thread churn", SYSTEM, 1, "thread_churn --count=5000"),
    Row("start-up", SYSTEM, 1, "startup --starts=100", kind=Kind.OWN),
)
