"""redis's own tests of commands and files, with a server that is built for malloc."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from sources import Sources
from suite import Outcomes, compare, ending, written

BUILD = ["make", f"-j{os.cpu_count()}", "MALLOC=libc", "OPTIMIZATION=-O1", "WARN=-w"]
# The others are about time, clusters or TLS, want more memory than a test should, or measure what
# jemalloc does (unit/memefficiency).
UNITS = (
    "integration/aof",
    "integration/convert-ziplist-hash-on-load",
    "integration/convert-ziplist-zset-on-load",
    "integration/convert-zipmap-hash-on-load",
    "integration/corrupt-dump",
    "integration/dismiss-mem",
    "integration/rdb",
    "integration/redis-benchmark",
    "integration/redis-cli",
    "integration/replication",
    "unit/acl",
    "unit/acl-v2",
    "unit/aofrw",
    "unit/bitfield",
    "unit/bitops",
    "unit/client-eviction",
    "unit/dump",
    "unit/expire",
    "unit/functions",
    "unit/geo",
    "unit/hyperloglog",
    "unit/info",
    "unit/introspection",
    "unit/introspection-2",
    "unit/keyspace",
    "unit/lazyfree",
    "unit/limits",
    "unit/maxmemory",
    "unit/multi",
    "unit/obuf-limits",
    "unit/other",
    "unit/pendingquerybuf",
    "unit/protocol",
    "unit/pubsub",
    "unit/querybuf",
    "unit/replybufsize",
    "unit/scan",
    "unit/scripting",
    "unit/slowlog",
    "unit/sort",
    "unit/tracking",
    "unit/type/hash",
    "unit/type/incr",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/set",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "unit/type/string",
    "unit/type/zset",
)
# How a test ended, its name, and how long it took or what was expected.
RESULT = re.compile(
    r"^\[(ok|err|skip|exception)\]: (.*?)(?: \(\d+ ms\)| in tests/.*)?$", re.MULTILINE
)


@pytest.mark.long
@pytest.mark.parametrize("unit", UNITS)
def test_unit(lib: Path, sources: Sources, tmp_path: Path, unit: str) -> None:
    redis = sources.built("redis", BUILD)

    def run(folder: Path, preload: Path | None) -> Outcomes:
        # The tests start their servers by names inside of redis's tree.
        inside = 'cd "$0" && exec tclsh tests/test_helper.tcl --clients 1 --single "$1"'
        command: list[str | Path] = ["sh", "-c", inside, redis, unit]
        outcomes = {unit: ending(command, folder, preload, 1200)}
        for result, name in RESULT.findall(written(folder)):
            # Of tests that have one name, the one that went wrong.
            if outcomes.get(name, "ok") == "ok":
                outcomes[name] = result
        return outcomes

    compare("redis", run, lib, tmp_path)
