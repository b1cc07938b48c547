"""What loft tells of a program when it ends, read by those who will read it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

PARTS = (
    "live_bytes",
    "rounding_bytes",
    "free_in_slabs_bytes",
    "cached_bytes",
    "in_flight_bytes",
    "large_cached_bytes",
    "free_span_bytes",
    "metadata_resident_bytes",
    "purged_charged_bytes",
    "user_heap_resident_bytes",
    "huge_slack_bytes",
)
CLASS_PARTS = (
    "live_bytes",
    "rounding_bytes",
    "free_bytes",
    "cached_bytes",
    "in_flight_bytes",
    "huge_slack_bytes",
)

# Threads that allocate and end, objects that others free, and a large one.
PROGRAM = """
import threading
kept = []
def work():
    objects = [bytes(i % 3000) for i in range(20_000)]
    kept.append(objects[::3])
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
del kept[0]
kept.append(bytes(5_000_000))
"""


@pytest.fixture(scope="module")
def library(build: Path) -> Path:
    return build / "libloft.so"


def told(library: Path, choice: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "LOFT_STATS": choice,
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


def test_json(library: Path) -> None:
    text = told(library, "json")
    assert text.count("\n") == 1
    stats = json.loads(text)
    assert stats["threads_started"] >= 5
    assert stats["resident_bytes"] > 5_000_000
    assert sum(stats[part] for part in PARTS) - stats["untouched_bytes"] == stats["resident_bytes"]
    for row in stats["classes"]:
        parts = sum(row[part] for part in CLASS_PARTS)
        assert parts - row["untouched_bytes"] == row["resident_bytes"]
    sizes = [row["object_bytes"] for row in stats["classes"]]
    assert sizes == [*sorted(sizes[:-1]), 0]
    for name in ("live_bytes", "rounding_bytes", "in_flight_bytes", "refills", "slabs_created"):
        assert sum(row[name] for row in stats["classes"]) == stats[name]


NAME = r"loft_[a-z][a-z0-9_]*"
LINES = {
    "HELP": re.compile(rf"# HELP ({NAME}) [A-Z][^\\\n]*\."),
    "TYPE": re.compile(rf"# TYPE ({NAME}) (counter|gauge)"),
    "sample": re.compile(rf'({NAME})(\{{size_class="(\d+|large)"\}})? \d+'),
}


def test_prometheus_keeps_to_the_format(library: Path) -> None:
    """As the text format 0.0.4 says, which parsers do not insist on."""
    text = told(library, "prometheus")
    assert text.endswith("\n")
    seen: set[str] = set()
    samples: set[str] = set()
    lines = iter(text.splitlines())
    metric = kind = ""
    for line in lines:
        if line.startswith("# HELP"):
            help_line, type_line = (
                LINES["HELP"].fullmatch(line),
                LINES["TYPE"].fullmatch(next(lines)),
            )
            assert help_line, line
            assert type_line, line
            metric, kind = type_line.groups()
            assert help_line[1] == metric
            assert metric not in seen, "a metric's lines stand together"
            seen.add(metric)
            assert metric.endswith("_total") == (kind == "counter"), line
        else:
            sample = LINES["sample"].fullmatch(line)
            assert sample, line
            assert sample[1] == metric
            assert line.split(" ")[0] not in samples
            samples.add(line.split(" ")[0])
    assert len(seen) > 60


def test_prometheus_reads_it(library: Path) -> None:
    families = {f.name: f for f in text_string_to_metric_families(told(library, "prometheus"))}
    value = {name: f.samples[0].value for name, f in families.items() if len(f.samples) == 1}
    parts = sum(value[f"loft_{part}"] for part in PARTS)
    assert parts - value["loft_untouched_bytes"] == value["loft_resident_bytes"]
    assert families["loft_refills"].type == "counter"
    by_class = families["loft_class_refills"].samples
    assert sum(sample.value for sample in by_class) == value["loft_refills"]
    classes = [sample.labels["size_class"] for sample in by_class]
    assert classes[0] == "16"
    assert classes[-1] == "large"


def test_text(library: Path) -> None:
    text = told(library, "text")
    assert text.startswith("loft ")
    for part in PARTS:
        assert re.search(rf"^  {part} +\d+ +\d+\.\d MiB$", text, re.MULTILINE)
    assert re.search(r"^ +16 +\d+", text, re.MULTILINE)
    assert re.search(r"^ +large +\d+", text, re.MULTILINE)
