"""Writes the first seeds of each fuzzer: seeds/TARGET/NAME. What the fuzzers found since and was
worth keeping lies beside them, named by its hash. In seeds/trace are recordings, too: `every`,
`handing` and `forking` are what `loft record` made of programs such as those of test/cli/traces.py.

    python3 test/fuzz/seeds.py        # after the format of an input has changed
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

HERE = Path(__file__).parent
SEEDS = HERE / "seeds"


def word(size: int, value: int) -> bytes:
    return value.to_bytes(size, "little")


# ---- calls_fuzz.cc ----

CALLS = [
    "malloc",
    "calloc",
    "realloc",
    "aligned",
    "memalign",
    "posix_memalign",
    "pages",
    "free",
    "free_somehow",
    "many",
    "free_many",
    "inside",
    "impossible",
    "create",
    "create_over",
    "heap_allocate",
    "heap_resize",
    "destroy",
    "purge",
    "trim",
    "idle",
    "option",
    "text",
    "classes",
    "end_thread",
    "fork",
]


def call(name: str, *arguments: bytes, thread: int | None = None) -> bytes:
    number = CALLS.index(name)
    turn = b""
    if thread is not None:
        # The numbers repeat; one of those with the top bit set says whose turn it is.
        number = next(n for n in range(128, 256) if n % 128 % len(CALLS) == number)
        turn = bytes([thread])
    return bytes([number]) + turn + b"".join(arguments)


def small(size: int) -> bytes:
    return bytes([0, size])


def medium(size: int) -> bytes:
    return bytes([5]) + word(2, size)


def large(size: int) -> bytes:
    return bytes([7]) + word(3, size)


ONE_THREAD, FOUR_THREADS, FORKS = bytes([0]), bytes([3]), bytes([19])
LAST = word(2, 0)  # the newest object


def any_object(number: int) -> bytes:
    return word(2, number * 4 + 1)


def calls() -> dict[str, bytes]:
    every = b"".join(
        call("many", medium(size), bytes([3])) for size in (16, 48, 64, 200, 640, 1500, 4000)
    )
    aligned = b"".join(
        call(name, bytes([power]), medium(100 * power))
        for power in (4, 7, 12)
        for name in ("aligned", "posix_memalign")
    )
    return {
        "small": ONE_THREAD + every + call("free_many", bytes([20, 0]), LAST),
        "aligned": ONE_THREAD + aligned + call("memalign", word(2, 3000), medium(50)),
        "large": ONE_THREAD
        + call("malloc", large(100_000))
        + call("realloc", LAST, bytes([0]), large(3_000_000))
        + call("realloc", LAST, bytes([2]), large(40_000))
        + call("free", LAST)
        + call("calloc", bytes([0]), large(100_000))
        + call("inside", LAST, word(3, 50_000)),
        "zero": ONE_THREAD
        + call("malloc", large(200_000))
        + call("free", LAST)
        + call("calloc", bytes([1]), large(100_000))
        + call("calloc", bytes([0]), medium(20_000)),
        "another_frees": FOUR_THREADS
        + call("many", medium(64), bytes([200]), thread=1)
        + call("free_many", bytes([200, 1]), any_object(0), thread=2)
        + call("many", medium(64), bytes([100]), thread=1)
        + call("purge", thread=3),
        "threads_end": FOUR_THREADS
        + call("many", medium(48), bytes([60]), thread=1)
        + call("end_thread")
        + call("free_many", bytes([60, 1]), any_object(0), thread=2)
        + call("end_thread")
        + call("many", medium(48), bytes([60]), thread=3)
        + call("idle", bytes([0])),
        "fork": FORKS
        + call("many", medium(100), bytes([30]), thread=1)
        + call("free_many", bytes([10, 2]), any_object(3), thread=2)
        + call("fork")
        + call("free_many", bytes([10, 2]), any_object(3))
        + call("many", medium(100), bytes([30]), thread=3)
        + call("fork"),
        "heaps": ONE_THREAD
        + call("create", bytes([0]))
        + b"".join(
            call("heap_allocate", bytes([0, cleared, 0]), medium(size))
            for size in (10, 100, 1000, 9000, 60_000)
            for cleared in (0, 1)
        )
        + call("heap_resize", LAST, medium(70))
        + call("free", any_object(2))
        + call("realloc", any_object(1), bytes([0]), medium(5000))
        + call("destroy", bytes([0])),
        "regions": ONE_THREAD
        + call("create_over", bytes([1, 0]), word(2, 100), word(2, 60_000))
        + call("create_over", bytes([2, 1]), word(2, 0), word(2, 65_535))
        + b"".join(
            call("heap_allocate", bytes([heap, 0, 1, 8]), medium(size))
            for heap in (1, 2)
            for size in (10, 300, 2000, 50_000)
        )
        + call("heap_resize", any_object(0), medium(900))
        + call("destroy", bytes([2])),
        "limits": ONE_THREAD
        + b"".join(call("option", bytes([option, 3])) for option in range(3, 16))
        + call("many", medium(900), bytes([200]))
        + call("trim", word(3, 100_000))
        + call("impossible", word(3, 1), LAST),
        "statistics": ONE_THREAD
        + call("malloc", small(1))
        + b"".join(
            call("text", bytes([form]), word(2, room))
            for form in (0, 1, 2)
            for room in (300, 60_000)
        )
        + call("classes", bytes([50, 200])),
    }


# ---- options_fuzz.cc ----

LIST, VARIABLE, NAMED, ONE = range(4)
FILE = 0xC0


def text(how: int, option: int, value: str) -> bytes:
    return bytes([how, option]) + value.encode() + b"\0"


def options() -> dict[str, bytes]:
    values = [
        "0",
        "1",
        "4K",
        "64M",
        "1G",
        "16g",
        "18446744073709551615",
        "007",
        "json",
        "on",
        "auto",
    ]
    return {
        "values": b"".join(text(ONE, number, value) for number, value in enumerate(values * 2)),
        "list": text(LIST, 0, "dirty_bytes=5M,,cache_bytes=7K,nonsense=1,stats=loud,thp=never"),
        "variable": text(VARIABLE, 4, "64M") + text(VARIABLE, 5, "") + text(VARIABLE, 1, "x" * 100),
        "file": text(
            FILE, 0, "# all\nstats = text\r\nmisuse=stop\nmisuse=continue\n\nstats=loud\nthp"
        ),
        "names": text(NAMED, 0, "cache_bytes=1k") + text(NAMED, 0, "="),
    }


# ---- group_fuzz.cc ----

# The numbers of files follow from the order of its own list.
TABLE = re.compile(r"kNames\[\] = \{(.*?)\};", re.DOTALL)
NAMES = re.findall(r'"([^"]+)"', TABLE.findall((HERE / "group_fuzz.cc").read_text())[0])
TOP, A, AB, MEMORY, MEMORY_A, MEMORY_AB, UNIFIED, UNIFIED_A = range(8)


def files(groups: str, *rest: tuple[int, str, str]) -> bytes:
    parts = [(0, groups)]
    parts += [(1 + folder * len(NAMES) + NAMES.index(name), text) for folder, name, text in rest]
    return b"".join(b"\xff" + bytes([number]) + text.encode() for number, text in parts)


STAT = "anon 41943040\ninactive_file 31457280\nactive_file 10485760\nslab_reclaimable 1048576\n"


def group() -> dict[str, bytes]:
    two = files(
        "0::/a/b\n",
        (A, "memory.max", "104857600\n"),
        (A, "memory.current", "94371840\n"),
        (A, "memory.stat", STAT),
        (AB, "memory.high", "52428800\n"),
    )
    one = files(
        "9:name=systemd:/\n4:memory:/a\n1:cpu,cpuacct:/a\n",
        (MEMORY_A, "memory.limit_in_bytes", "67108864\n"),
        (MEMORY_A, "memory.usage_in_bytes", "57108864\n"),
        (
            MEMORY_A,
            "memory.stat",
            "total_inactive_file 1048576\nhierarchical_memory_limit 67108864\n",
        ),
    )
    long = "x" * 1100
    return {
        "version_2": two,
        "version_1": one,
        "both": files("4:cpu:/a\n0::/a\n", (UNIFIED_A, "memory.max", "4096\n")),
        "odd": files("0::/a b/../c:d\n", (TOP, "memory.max", "max\n")),
        "part": files("4:memory:/docker/a\n", (MEMORY, "memory.limit_in_bytes", "1")),
        "long": files(f"0::/{long[:1018]}\n", (TOP, "memory.max", "9" * 40)),
    }


# ---- messages_fuzz.cc ----


def take(heap: int, size_class: int, wanted: int) -> bytes:
    return bytes([heap * 8, size_class, wanted - 1])


def bitmap(objects: int, heap: int = 0) -> bytes:
    return bytes([1 + heap * 8, objects - 1])


def records(*others: int) -> bytes:
    return bytes([2, len(others) - 1, *others])


def damage(from_last: int, at: int, *words: bytes) -> bytes:
    return bytes([3, from_last, at // 8 * 4 + len(words) - 1]) + b"".join(words)


ZERO = bytes([0])
DRAIN = [bytes([6 + 8 * heap]) for heap in (0, 1)]


def raw(value: int) -> bytes:
    return bytes([1]) + struct.pack("<Q", value)


def link(tag: int, kind: int = 0, *which: int) -> bytes:
    """Kind: 0 a freed object, 1 one in use, and 2 more for its slab's start, end, an odd byte."""
    return bytes([3]) + word(2, tag) + bytes([kind, *which])


# The carriers of three messages of eight objects, as damage() counts.
FIRST, SECOND = 23, 15


def messages() -> dict[str, bytes]:
    start = take(0, 3, 100) + bitmap(8) + bitmap(8) + bitmap(8)
    mixed = take(0, 5, 40) + take(1, 9, 40) + take(0, 7, 40)
    seeds = {
        "sound": mixed + bitmap(20) + records(3, 1) + DRAIN[0] + bitmap(4, heap=7) + DRAIN[1],
        "cut": start + damage(FIRST, 0, ZERO) + DRAIN[0],
        "nowhere": start + damage(FIRST, 0, raw(0x12345678)) + DRAIN[0],
        "circle": start + damage(SECOND, 0, link(0x41, 0, 0)) + DRAIN[0],
        "in_use": start + damage(FIRST, 0, link(0x41, 1, 5)) + DRAIN[0],
        "odd": start + damage(FIRST, 0, link(0x41, 6, 5, 3)) + DRAIN[0],
        "slab_end": start + damage(FIRST, 0, link(0x8007, 4, 5, 16)) + DRAIN[0],
        "words": start + damage(FIRST, 8, raw(2**64 - 1), raw(2**64 - 1)) + DRAIN[0],
        "records": mixed
        + records(0, 2, 3)
        + damage(0, 8, raw(2**63), raw(1))
        + DRAIN[1]
        + DRAIN[0],
        "moved": take(0, 4, 255)
        + bitmap(200)
        + DRAIN[0]
        + take(0, 4, 4)
        + bytes([15, 4])
        + records(1)
        + DRAIN[0]
        + DRAIN[1],
    }
    # A message in the last object of a slab that would go on behind it.
    for name, size_class, objects, tag in (
        ("records_behind", 11, 341, 0x807F),
        ("bitmap_behind", 2, 1365, 22 << 6),
        ("run_behind", 0, 4096, 64 << 6),
    ):
        taken = take(0, size_class, 256) * (objects // 256)
        taken += take(0, size_class, objects % 256 or 1)
        forged = damage(0, 0, link(tag, 0, 0))
        ones = damage(2, 8, raw(2**64 - 1))
        seeds[name] = taken + bitmap(1) + forged + bitmap(1) + ones + DRAIN[0]
    return seeds


# ---- request_fuzz.cc ----


def request() -> dict[str, bytes]:
    host = b"Host: x\r\n"
    posted = b"POST /options HTTP/1.1\r\n" + host
    return {
        "nothing": b"",
        "plain": b"GET /stats.json HTTP/1.1\r\n" + host + b"Accept: */*\r\n\r\n",
        "map": b"GET /slabs.json?from=65536 HTTP/1.1\r\n" + host + b"\r\n",
        "old": b"GET / HTTP/1.0\r\n\r\n",
        "head": b"HEAD / HTTP/1.1\r\n\r\n",
        "posted": posted + b"Content-Length: 13\r\n\r\ndecay_ms=100\n",
        "half": posted + b"Content-Length: 14\r\n\r\ndecay_ms=100\n",
        "two_lengths": posted + b"Content-Length: 0\r\ncontent-length: 0\r\n\r\n",
        "no_length": posted + b"Content-Length: \r\n\r\n",
        "too_long": posted + b"Content-Length: 4097\r\n\r\n",
        "chunked": posted + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "expecting": posted + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n=",
        "folded": b"GET / HTTP/1.1\r\n" + host + b"A: b\r\n c\r\n\r\n",
        "newer": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "line_feeds": b"GET / HTTP/1.1\nHost: x\n\n",
        "many_fields": b"GET / HTTP/1.1\r\n" + host + b"A: b\r\n" * 32 + b"\r\n",
    }


# ---- trace_fuzz.cc ----

MALLOC, CALLOC, REALLOC, REALLOC_NEW, REALLOC_ARRAY, FREE, FREE_SIZED = range(1, 8)
FREE_ALIGNED, ALIGNED_ALLOC, MEMALIGN, POSIX_MEMALIGN, VALLOC, PVALLOC, SPAWN, JOIN, END = range(
    8, 17
)
NEXT, NOW, NOTHING = 0x20, 0x40, 0x80
HEAP = 0x7F00_0000_0000


def uleb(value: int) -> bytes:
    text = b""
    while value >= 128:
        text += bytes([value & 127 | 128])
        value >>= 7
    return text + bytes([value])


def zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


class Thread:
    """The chunk of one thread: its calls, each at its ticket."""

    def __init__(self, number: int, image: int = 1) -> None:
        self.head = image, 4711, number
        self.ticket = self.address = 0
        self.calls = b""

    def call(self, ticket: int, kind: int, *numbers: int, then: bytes = b"") -> Thread:
        """With the numbers that follow its ticket, and the addresses behind them."""
        self.calls += bytes([kind | NOW]) + uleb(zigzag(ticket - self.ticket))
        self.calls += b"".join(map(uleb, numbers)) + then
        self.ticket = ticket
        return self

    def at(self, address: int) -> bytes:
        difference, self.address = address - self.address, address
        even = difference % 16 == 0
        return uleb(zigzag(difference >> 4) << 1 if even else zigzag(difference) << 1 | 1)

    def takes(self, ticket: int, place: int, size: int = 100) -> Thread:
        return self.call(ticket, MALLOC, size, then=self.at(HEAP + place * 64))

    def frees(self, ticket: int, place: int) -> Thread:
        return self.call(ticket, FREE, then=self.at(HEAP + place * 64))

    def moves(self, ticket: int, end: int, old: int, place: int | None, size: int = 300) -> Thread:
        kind = REALLOC | (NOTHING if place is None else 0)
        then = uleb(end - ticket - 1) + self.at(HEAP + old * 64)
        if place is not None:
            then += self.at(HEAP + place * 64)
        self.call(ticket, kind, size, then=then)
        self.ticket = end
        return self

    def chunk(self) -> bytes:
        image, pid, number = self.head
        head = b"TLC1" + struct.pack("<I", 48 + len(self.calls)) + struct.pack("<Q", image)
        return head + struct.pack("<IIIIQQ", pid, number, 0, 0, 0, 0) + self.calls


def process(image: int, parent: int = 0, forked: int = 0, forker: int = 0) -> bytes:
    words = b"a\0b\0"
    head = b"TLP1" + struct.pack("<I", 48 + 24 + len(words)) + struct.pack("<Q", image)
    more = struct.pack("<QQQ", parent, forked, forker)
    return head + struct.pack("<IIIIQQ", 4711, 0, 0, 0, 0, 0) + more + words


def trace() -> dict[str, bytes]:
    first, second = Thread(0), Thread(1)
    first.takes(1, 0).takes(2, 1).call(3, SPAWN, 1).takes(4, 2).call(9, JOIN, 1).frees(10, 3)
    second.frees(5, 1).takes(6, 3).moves(7, 8, 2, 4).call(11, END)
    threads = process(1) + first.chunk() + second.chunk()
    moved = Thread(0).takes(1, 0).moves(2, 4, 0, 1).takes(3, 0).moves(5, 6, 1, None, 0)
    moved.moves(7, 8, 0, None, 1 << 62).frees(9, 0)
    alone, before, after = Thread(0), Thread(0, 1), Thread(0, 2)
    alone.call(1, CALLOC, 3, 50, then=alone.at(HEAP)).call(2, FREE_SIZED, 150, then=alone.at(HEAP))
    alone.call(3, ALIGNED_ALLOC, 64, 128, then=alone.at(HEAP + 64))
    alone.call(4, FREE_ALIGNED, 64, 128, then=alone.at(HEAP + 64)).frees(5, 9).takes(6, 5)
    alone.takes(7, 5).call(8, MALLOC | NOTHING, 1 << 63).call(9, FREE | NOTHING)
    # The parent goes on while the child does.
    before.takes(1, 0).takes(2, 1).takes(3, 2).frees(9, 0)
    # What is of no use in a replay: a start of what runs, a wait for what runs on, an object that
    # another thread tries to move.
    one, other = Thread(0), Thread(1)
    one.takes(1, 0).takes(3, 1).call(4, SPAWN, 1).call(5, JOIN, 1).frees(8, 1)
    other.takes(2, 2).moves(6, 7, 0, None, 1 << 62).frees(9, 2)
    after.frees(1, 0).moves(2, 3, 1, 5).frees(4, 2)
    return {
        "threads": threads,
        "moved": process(1) + moved.chunk(),
        "alone": process(1) + alone.chunk(),
        "forked": process(1) + before.chunk() + process(2, 1, 2) + after.chunk(),
        "twice": threads + first.chunk(),
        "odd": process(1) + one.chunk() + other.chunk(),
        "cut": threads[:-1],
    }


def main() -> None:
    for target in (calls, options, group, messages, request, trace):
        folder = SEEDS / target.__name__
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in target().items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
