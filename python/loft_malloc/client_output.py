"""What a client that makes load says of it: latency and throughput, as far as its words are known.

Known are wrk (with --latency), ab, hey and redis-benchmark (in full, with --csv and with -q).
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass

# ab says all of them, and a table with all of them is too wide: of 90 and 95 one is enough.
PERCENTILES = ("50", "90", "95", "99", "99.9")
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


@dataclass(frozen=True, order=True)
class Quantity:
    # What was asked, where a client asks several things; else empty.
    test: str
    # A percentile, or empty for the throughput.
    percentile: str

    @property
    def key(self) -> str:
        parts = [re.sub(r"\W+", "_", self.test.lower()).strip("_")]
        parts.append(f"latency_p{self.percentile}_s" if self.percentile else "throughput_per_s")
        return "_".join(part for part in parts if part)

    @property
    def title(self) -> str:
        what = f"latency p{self.percentile}" if self.percentile else "throughput"
        return f"{self.test} {what}".strip()


Reading = dict[Quantity, float]


def read(text: str) -> Reading:
    """Empty if these are the words of no client that is known."""
    for reader in (_redis_csv, _redis_summaries, _redis_quiet, _wrk, _ab, _hey):
        if found := reader(text):
            return found
    return {}


def _reading(
    test: str, latencies: list[tuple[str, str]], scale: float, rate: str | None
) -> Reading:
    """Of what is said there, that which is a number."""
    times = [(p, _number(time)) for p, time in latencies if p in PERCENTILES]
    made = {Quantity(test, p): time * scale for p, time in times if time is not None}
    if Quantity(test, "95") in made:
        made.pop(Quantity(test, "90"), None)
    if rate is not None and (number := _number(rate)) is not None:
        made[Quantity(test, "")] = number
    return made


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None


def _redis_csv(text: str) -> Reading:
    lines = [line for line in text.splitlines() if line.startswith('"')]
    made: Reading = {}
    if not lines or not lines[0].startswith('"test","rps",'):
        return made
    try:
        rows = list(csv.DictReader(lines))
    except csv.Error:
        # A field that is too long.
        return made
    for row in rows:
        columns = [(p, row.get(f"p{p}_latency_ms")) for p in PERCENTILES]
        latencies = [(p, value) for p, value in columns if value]
        made |= _reading(row["test"], latencies, 1e-3, row["rps"])
    return made


def _redis_summaries(text: str) -> Reading:
    made: Reading = {}
    # What is drawn over on a terminal is a line of its own here.
    parts = re.split(r"^====== (.+) ======$", text.replace("\r", "\n"), flags=re.MULTILINE)
    for test, said in zip(parts[1::2], parts[2::2]):
        rate = _found(r"throughput summary: ([\d.]+)", said)
        table = re.search(r"latency summary \(msec\):\n(.*)\n(.*)", said)
        if rate and table:
            heads = [head.removeprefix("p") for head in table[1].split()]
            latencies = list(zip(heads, table[2].split()))
            made |= _reading(test, latencies, 1e-3, rate)
    return made


def _redis_quiet(text: str) -> Reading:
    made: Reading = {}
    pattern = r"^(.+): ([\d.]+) requests per second, p50=([\d.]+) msec"
    for test, rate, middle in re.findall(pattern, text.replace("\r", "\n"), re.MULTILINE):
        made |= _reading(test, [("50", middle)], 1e-3, rate)
    return made


def _wrk(text: str) -> Reading:
    rate = _found(r"^Requests/sec:\s+([\d.]+)$", text)
    if rate is None or "Thread Stats" not in text:
        return {}
    made = _reading("", [], 1, rate)
    for percentile, time, unit in re.findall(
        r"^\s+([\d.]+)%\s+([\d.]+)(us|ms|s|m)$", text, re.MULTILINE
    ):
        name = re.sub(r"\.0+$", "", percentile)
        made |= _reading("", [(name, time)], UNITS[unit], None)
    return made


def _ab(text: str) -> Reading:
    rate = _found(r"^Requests per second:\s+([\d.]+) \[#/sec\]", text)
    if rate is None:
        return {}
    latencies = re.findall(r"^\s+(\d+)%\s+(\d+)(?: |$)", text, re.MULTILINE)
    return _reading("", latencies, 1e-3, rate)


def _hey(text: str) -> Reading:
    rate = _found(r"^\s+Requests/sec:\s+([\d.]+)$", text)
    if rate is None:
        return {}
    # Some of its versions print the sign twice.
    return _reading("", re.findall(r"^\s+(\d+)%%? in ([\d.]+) secs$", text, re.MULTILINE), 1, rate)
