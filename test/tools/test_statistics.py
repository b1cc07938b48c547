"""What loft tells of a program when it ends, read by those who will read it."""

from __future__ import annotations

import json
import os
import re
import signal
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


def under(library: Path, choice: str) -> dict[str, str]:
    return {
        **os.environ,
        "LD_PRELOAD": str(library),
        "LOFT_STATS": choice,
        "PYTHONMALLOC": "malloc",
    }


def told(library: Path, choice: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=under(library, choice),
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


NUMBER = r"-?\d{1,3}(?:,\d{3})*"
SUM = re.compile(
    rf"^  Resident memory of the heap, the sum of the parts below: ({NUMBER}) bytes$", re.MULTILINE
)
PART = re.compile(rf"^ +({NUMBER}) bytes +(-?\d+\.\d) %  [A-Z].*$", re.MULTILINE)


def test_text_says_in_words_what_adds_up(library: Path) -> None:
    text = told(library, "text")
    assert text.startswith("loft ")
    whole = SUM.search(text)
    assert whole is not None, text
    parts = [int(part[1].replace(",", "")) for part in PART.finditer(text)]
    assert sum(parts) == int(whole[1].replace(",", ""))
    assert sum(round(float(part[2]) * 10) for part in PART.finditer(text)) == 1000
    # What is subtracted comes last, and has its sign.
    assert all(part > 0 for part in parts[:-1])
    assert "_bytes" not in text
    counted = re.search(rf"^  Objects handed out and not freed: ({NUMBER})$", text, re.MULTILINE)
    assert counted is not None
    assert counted.start() > text.index("Not part of the sum")
    for heading in ("Resident memory", "Heaps and threads", "Messages"):
        assert f"\n\n{heading}\n" in text


def test_text_has_a_row_that_adds_up_for_each_class(library: Path) -> None:
    rows = told(library, "text").partition("\nBytes by size class;")[2].splitlines()[2:]
    assert rows[0].split()[0] == "16"
    assert rows[-1].split()[0] == "large"
    for row in rows:
        resident, *parts, _slabs = map(int, row.split()[1:])
        assert sum(parts) == resident


WAITS = """
import signal, sys
if sys.argv[1] == "handled":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize(
    ("way", "code"), [("by default", -signal.SIGTERM), ("handled", 7), ("ignored", -signal.SIGKILL)]
)
def test_a_program_that_sigterm_ends_tells_once(library: Path, way: str, code: int) -> None:
    """Unless the signal is not loft's to handle."""
    command = [sys.executable, "-c", WAITS, way]
    if way == "ignored":
        command = ["env", "--ignore-signal=TERM", *command]
    with subprocess.Popen(
        command,
        env=under(library, "json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        if way == "ignored":
            process.kill()
        _, said = process.communicate()
    assert process.returncode == code, said
    told_by = [line for line in said.splitlines() if '"resident_bytes"' in line]
    assert len(told_by) == (0 if way == "ignored" else 1)
