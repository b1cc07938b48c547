"""A process with a socket, for the tests of what asks it; and maps of heaps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heaps import small

HERE = Path(__file__).resolve().parent
GRANULE = 64 << 10
BASE = 1 << 44
STATS = (HERE / "answers" / "stats.json").read_text()


class Asked:
    """The process, and the folder from which it answers."""

    def __init__(self, folder: Path, name: str = "loft.%p", tell: bool = True) -> None:
        self.folder = folder / "answers"
        self.folder.mkdir()
        self.tell("stats.json", STATS)
        self.tell("slabs.json", json.dumps(slabs()))
        self.tell("purge.json", '{"purged_bytes": 3145728, "unreached_threads": 0}')
        small().write(self.folder / "heap.pb.gz")
        path = str(folder / name)
        environment = {k: v for k, v in os.environ.items() if k != "LOFT_SOCKET"}
        if tell:
            environment["LOFT_SOCKET"] = path
        command = [sys.executable, str(HERE / "fake_process.py"), path, str(self.folder)]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True, cwd=folder
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.pid = str(self.process.pid)
        self.path = Path(path.replace("%p", self.pid))
        # As the kernel calls it.
        self.name = Path(sys.executable).name
        self.title = f"{self.name} {self.pid}"

    def tell(self, name: str, text: str) -> None:
        """At once, so that no half of it is answered."""
        new = self.folder / f"{name}.new"
        new.write_text(text)
        new.replace(self.folder / name)

    def stats(self, **changed: int) -> None:
        self.tell("stats.json", json.dumps({**json.loads(STATS), **changed}))

    def refuse(self, name: str, text: str) -> None:
        self.tell(f"{name}.status", text)

    @property
    def posted(self) -> list[str]:
        file = self.folder / "posted"
        return file.read_text().splitlines() if file.exists() else []

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


Ask = Callable[..., Asked]


def slab(at: int, size: int, objects: int, free: int, owner: int = 1) -> dict[str, Any]:
    return {
        "at": BASE + at * GRANULE, "bytes": GRANULE, "kind": "slab", "owner": owner,
        "object_bytes": size, "objects": objects, "free": free,
    }  # fmt: skip


def slabs() -> dict[str, Any]:
    """One of each kind of thing, and a hole after the first five granules.

    What is resident is told, as a saved map has it: the kernel knows no such addresses.
    """
    ranges: list[dict[str, Any]] = [
        slab(0, 64, 1024, 256),
        slab(1, 64, 1024, 1024, owner=2),
        slab(2, 1024, 64, 0),
        {"at": BASE + 3 * GRANULE, "bytes": 2 * GRANULE, "kind": "free"},
        {"at": BASE + (1 << 30), "bytes": 4 * GRANULE, "kind": "medium", "owner": 2, "objects": 3,
         "used_bytes": 3 * GRANULE},
        {"at": BASE + (1 << 30) + 4 * GRANULE, "bytes": 80 * GRANULE, "kind": "large",
         "used_bytes": 80 * GRANULE - 4096},
        {"at": BASE + (1 << 30) + 84 * GRANULE, "bytes": GRANULE, "kind": "heap"},
        {"at": BASE + (1 << 30) + 85 * GRANULE, "bytes": GRANULE, "kind": "of a later version"},
    ]  # fmt: skip
    for each in ranges:
        each["resident_bytes"] = each["bytes"]
    # The empty slab has lost half of its pages, and all but a granule of the large object was never
    # written to.
    ranges[1]["resident_bytes"] //= 2
    ranges[5].update(resident_bytes=GRANULE, absent=[[GRANULE, 79 * GRANULE]])
    return {"loft": "0.1.0", "granule_bytes": GRANULE, "ranges": ranges, "next": None}


def many(count: int) -> dict[str, Any]:
    """Slabs of all kinds of fullness, side by side."""
    sizes = ((16, 4096), (64, 1024), (256, 256), (1024, 64))
    ranges = []
    for number in range(count):
        size, objects = sizes[number // 50 % len(sizes)]
        ranges.append(slab(number, size, objects, number * 7919 % (objects + 1), number % 40))
    return {"loft": "0.1.0", "granule_bytes": GRANULE, "ranges": ranges, "next": None}
