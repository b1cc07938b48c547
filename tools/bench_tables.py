"""The tables of rows that are not about time: start-up, instructions, memory, latencies, sweeps.

And all tables together, with the list of what loft loses.
"""

from __future__ import annotations

import statistics

from bench_report import METRICS, Cell, Json, Table, judged, metric_table


def startup_table(data: Json) -> Table | None:
    row = next((row for row in data["rows"] if row["name"] == "start-up"), None)
    if row is None or not any(row["runs"].values()):
        return None
    names: list[str] = data["allocators"]
    table = Table(
        "Hello, world",
        "A program that does nothing: what loading the allocator costs. Absolute, and in "
        "parentheses the difference from glibc.",
        ["", *names],
    )
    for title, key, form in (
        ("start to exit, ms (median)", "median_start_ms", "{:.2f}"),
        ("peak RSS, KiB", "hello_peak_rss_kib", "{:.0f}"),
        ("system calls", "hello_system_calls", "{:.0f}"),
    ):
        middle = {
            name: statistics.median(float(run[key]) for run in runs)
            for name, runs in row["runs"].items()
            if runs
        }
        best = min((middle[name] for name in data["peers"] if name in middle), default=None)
        cells = []
        for name in names:
            if name not in middle:
                cells.append(Cell("-"))
                continue
            text = form.format(middle[name])
            if name != "glibc" and "glibc" in middle:
                text += f" ({'{:+' + form[2:]})".format(middle[name] - middle["glibc"])
            cells.append(judged(text, middle[name] / best, False) if best else Cell(text))
        table.rows.append((title, cells))
    return table


def instruction_table(data: Json) -> Table | None:
    counted: dict[str, Json] = data.get("instructions", {})
    if not counted:
        return None
    names = [name for name in data["allocators"] if name in counted]
    objects = counted[names[0]]["remote_free"]["objects"]
    table = Table(
        "Instructions of one call",
        "Counted by single-stepping, the loop and the PLT left out: malloc + free of a cached "
        f"object, and a free of what another thread allocated, over {objects} such objects.",
        ["", *names],
    )
    sizes = [pair["size"] for pair in counted[names[0]]["pairs"]]
    for i, size in enumerate(sizes):
        cells = []
        for name in names:
            pair = counted[name]["pairs"][i]
            text = f"{pair['pair']} ({pair['malloc']} + {pair['free']})"
            if pair["calls"]:
                text += f", {pair['calls']} calls"
            if pair["locked"]:
                text += f", {pair['locked']} locked"
            cells.append(Cell(text))
        table.rows.append((f"malloc + free of {size} B", cells))
    remote = {name: counted[name]["remote_free"] for name in names}
    table.rows.append(
        ("remote free of 64 B: median", [Cell(str(remote[n]["median"])) for n in names])
    )
    table.rows.append(
        ("remote free of 64 B: mean", [Cell(f"{remote[n]['mean']:.1f}") for n in names])
    )
    table.rows.append(
        (
            "locked instructions per remote free",
            [Cell(f"{remote[n]['locked_per_object']:.4f}") for n in names],
        )
    )
    return table


def tables(data: Json) -> list[Table]:
    made = [metric_table(data, metric) for metric in METRICS]
    made += [startup_table(data), instruction_table(data)]
    return [table for table in made if table is not None]
