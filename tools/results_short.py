"""The page and the chart that are published: a choice of rows from the tables of a set of runs.

results.py writes both, docs/results.md and docs/images/results.svg, of one screen each. All tables
and pictures are in build/results. A row whose CPUs were shared with others is never chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from bench_results import Results, believed
from bench_tables import Loss

from loft.tables import Cell, Table, as_markdown


@dataclass(frozen=True)
class Choice:
    """A row of a table, and what it is called on the short page."""

    table: str
    row: str
    title: str


RATIOS = [
    Choice("Throughput", "geometric mean, one thread", "one thread (mean)"),
    Choice("Throughput", "geometric mean, producer/consumer", "producer and consumer (mean)"),
    Choice("Throughput", "geometric mean, several threads", "several threads (mean)"),
    Choice("Throughput", "geometric mean, large objects, start and end", "large objects (mean)"),
    Choice("Throughput", "xalan", "xalan, a real program"),
    Choice("Throughput", "malloc-test 1:1", "malloc-test 1:1"),
    Choice("Throughput", "message passing 1:1", "message passing 1:1"),
    Choice("Throughput", "larson, 2 threads", "larson, 2 threads"),
    Choice("Throughput", "threadtest, 2 threads", "threadtest, 2 threads"),
    Choice("Throughput", "zeros, 2 MiB, all pages used", "calloc of 2 MiB"),
    Choice("Throughput", "buffers of 32 to 256 KiB, 1 thread", "buffers of 32 to 256 KiB"),
]
CHOICES = [
    *(Choice(each.table, each.row, f"throughput ↑, {each.title}") for each in RATIOS),
    Choice(
        "Peak memory",
        "geometric mean, producer/consumer",
        "peak memory ↓, producer and consumer (mean)",
    ),
    Choice(
        "Peak memory",
        "geometric mean, several threads",
        "peak memory ↓, several threads (mean)",
    ),
    Choice("Memory at rest", "10 000 threads: most", "resident ↓, 10 000 idle threads, MiB"),
    Choice("Latency", "malloc p99.9", "latency ↓, malloc p99.9, ns"),
    Choice("Latency", "free p99.9", "latency ↓, free p99.9, ns"),
    Choice("Instructions of one call", "malloc + free of 64 B", "instructions ↓, malloc and free"),
]

MOST_LOSSES = 10
# A reason that begins so says that there is nothing to explain.
NOISE = "Within the noise"


def columns(data: Results) -> list[str]:
    return ["loft", *data.peers, "glibc"]


def find(tables: list[Table], choice: Choice) -> dict[str, Cell]:
    """The cells of the row by allocator; none if it was not measured, or is not to be believed."""
    for table in tables:
        if table.title != choice.table:
            continue
        for label, cells in table.rows:
            if (label == choice.row or label.startswith(f"{choice.row} (")) and believed(label):
                return dict(zip(table.columns[1:], cells, strict=False))
    return {}


def table_lines(tables: list[Table], names: list[str]) -> list[str]:
    chosen = Table(["", *names], judged="loft")
    for choice in CHOICES:
        if found := find(tables, choice):
            cells = (found.get(name, Cell("-")) for name in names)
            # The spread, and what a figure is made of, are on the long page.
            short = [Cell(cell.text.split()[0], cell.verdict) for cell in cells]
            chosen.rows.append((choice.title, short))
    head = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    return [*head, *as_markdown(chosen)[2:]]


def loss_lines(losses: list[tuple[Loss, str]]) -> list[str]:
    """The worst row of each reason."""
    worst = Table(["row", "of what", "as good as the best peer", "why"])
    seen: set[str] = set()
    for each, why in losses:
        if why in seen or why.startswith(NOISE) or not believed(each.row):
            continue
        seen.add(why)
        worst.add(each.row, each.table, f"{each.gain:.2f}", why)
        if len(seen) == MOST_LOSSES:
            break
    head, _, *rows = as_markdown(worst)
    return [head, "|---|---|---:|---|", *rows] if seen else ["Nowhere."]


def short_page(
    data: Results, tables: list[Table], losses: list[tuple[Loss, str]], note: str
) -> str:
    lines = [
        "# Results",
        "",
        "![Throughput of loft, its peers and glibc, by workload](images/results.svg)",
        "",
        *table_lines(tables, columns(data)),
        "",
        "A ratio compares with the best of the peers in the same row. A mean is the geometric mean "
        "of a group of rows; rows whose CPUs were shared with other programs are left out of it. "
        "↑: more is better; ↓: less is better; ▼: a loss of loft.",
        "",
        *[f"- {line}" for line in data.header_lines()[:4]],
        "",
        *([note, ""] if note else []),
        "## Where we lose",
        "",
        "The worst row of each reason, without what is within the noise. The long page has all "
        "losses.",
        "",
        *loss_lines(losses),
        "",
        "## How to run it",
        "",
        "    make bench                # measures, under ten minutes; BENCH=full: the long set",
        "    make results              # writes this page and build/results from the same figures",
        "",
        "`build/results/results.md` is the long page: every table, picture and command. "
        "[benchmarks.md](benchmarks.md) says how to read both. `tools/results.py` generates them; "
        "the reasons and the note are from [losses.toml](losses.toml).",
    ]
    return "\n".join(lines) + "\n"


# The chart: a line for each row, on a logarithmic axis of ratios to the best peer.
WIDTH, LEFT, RIGHT, TOP, STEP = 860, 215, 20, 44, 24
LEAST, MOST = 0.05, 3.0
TICKS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def place(ratio: float) -> float:
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def dot(x: float, y: float, name: str, peers: list[str], about: str = "") -> str:
    title = f"<title>{escape(about)}</title>" if about else ""
    if name == "loft":
        return f'<circle cx="{x:.0f}" cy="{y}" r="6" fill="#c8102e">{title}</circle>'
    if name in peers:
        return f'<circle cx="{x:.0f}" cy="{y}" r="4" fill="#1f77b4" opacity="0.6">{title}</circle>'
    return f'<circle cx="{x:.0f}" cy="{y}" r="4" fill="none" stroke="#555">{title}</circle>'


def short_chart(data: Results, tables: list[Table]) -> str:
    header = data.header
    machine = f"{header.cpu}, {header.cores} CPUs{header.virtual}, {header.date[:10]}"
    rows = [(choice.title, found) for choice in RATIOS if (found := find(tables, choice))]
    bottom = TOP + STEP * len(rows)
    height = bottom + 42
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for x, name, text in (
        (LEFT, "loft", "loft"),
        (LEFT + 60, "peer", "a peer"),
        (LEFT + 130, "", "glibc"),
    ):
        lines.append(f'{dot(x, 16, name, ["peer"])}<text x="{x + 10}" y="20">{text}</text>')
    lines.append(f'<text x="{WIDTH - RIGHT}" y="20" text-anchor="end">{escape(machine)}</text>')
    for tick in TICKS:
        at, thick = place(tick), 1.5 if tick == 1 else 0.4
        lines.append(
            f'<path d="M{at:.0f} {TOP - 12}V{bottom - 6}" stroke="black" stroke-width="{thick}"/>'
            f'<text x="{at:.0f}" y="{bottom + 10}" text-anchor="middle">{tick:g}</text>'
        )
    lines.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{bottom + 30}" text-anchor="middle">'
        "throughput, as a ratio to the best peer of the row (right is better)</text>"
    )
    for i, (title, found) in enumerate(rows):
        y = TOP + STEP * i
        lines.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(title)}</text>')
        for name in sorted(columns(data), key=lambda name: name == "loft"):
            text = found[name].text.split()[0] if name in found else ""
            if text[:1].isdigit():
                about = f"{name} {text}"
                lines.append(dot(place(float(text)), y, name, data.peers, about))
    return "\n".join([*lines, "</svg>"]) + "\n"
