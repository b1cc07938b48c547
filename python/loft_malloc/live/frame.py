"""What `loft top` shows: lines for a terminal of any size, or for a pipe."""

from __future__ import annotations

from rich.text import Text

from loft_malloc.live import chart
from loft_malloc.live.lines import fitted, flow, grid, quantity
from loft_malloc.live.parts import PARTS, UNTOUCHED
from loft_malloc.live.reading import Reading
from loft_malloc.live.state import State
from loft_malloc.live.views import VIEWS, size
from loft_malloc.printable import counted, one_line
from loft_malloc.profile.top import percent

# Below this there is no room for a chart beside a table.
LEAST_CHART_ROWS = 4
MOST_CHART_ROWS = 14
LEAST_TABLE_ROWS = 5
KEYS = (
    ("1 2 3, Tab", "show size classes, heaps or stacks"),
    ("s, S", "sort by the next or the previous column"),
    ("up, down", "scroll the table"),
    ("p, Space", "pause or go on"),
    ("+, -", "read more or less often"),
    ("u", "give unused memory back to the system; asks first"),
    ("r", "count the growth of stacks from now"),
    ("q", "quit"),
)
# Below this width words are left out.
NARROW = 60
SHORT_KEYS = "q quit  p pause  1-3 view  s sort  u purge  ? help"


def frame(state: State, width: int, height: int, coloured: bool) -> list[Text]:
    """Exactly so many lines, none wider; what has no room is left out, the last things first."""
    if state.help:
        middle = [_key(name, what) for name, what in KEYS]
        lines = [_head(state, width), Text(), *middle]
    elif state.now is None:
        lines = [
            _head(state, width),
            Text(state.trouble or "waiting for the first reading", style="dim"),
        ]
    else:
        lines = _reading(state, state.now, width, height - 1, coloured)
    del lines[max(height - 1, 0) :]
    lines += [Text() for _ in range(height - 1 - len(lines))]
    lines.append(_foot(state))
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return lines[-height:]


def once(state: State, width: int, coloured: bool) -> list[Text]:
    """All of it, however long, without what moves."""
    assert state.now is not None
    title = Text(f"{state.view.title} by {state.sort}", style="bold")
    parts = [_part(*each) for each in _values(state.now, coloured)]
    table = grid(state.view.columns, state.table(), width)
    return [
        _head(state, width),
        Text(),
        *parts,
        Text(),
        *_rates(state, width),
        Text(),
        title,
        *table,
    ]


def _reading(state: State, now: Reading, width: int, height: int, coloured: bool) -> list[Text]:
    rows = state.table()
    wanted = 2 if state.view.title in state.said else len(rows) + 2
    # What is least of each comes first, then the legend, then more of both.
    table_rows = min(wanted, LEAST_TABLE_ROWS, height - 1)
    left = height - 1 - table_rows
    chart_rows = LEAST_CHART_ROWS if left >= LEAST_CHART_ROWS else 0
    left -= chart_rows
    legend = _legend(now, width, left, coloured)
    speeds = _rates(state, width)[: left - len(legend)]
    left -= len(legend) + len(speeds)
    if chart_rows:
        more = min(max(left // 2, left - (wanted - table_rows)), MOST_CHART_ROWS - chart_rows)
        chart_rows += more
        left -= more
    drawn: list[Text] = []
    if chart_rows:
        columns = [each.parts() for each in state.history]
        drawn = chart.strip(columns, width, chart_rows, coloured)
    table = _table(state, rows, width, table_rows + left)
    return [_head(state, width), *drawn, *legend, *speeds, *table]


def _legend(now: Reading, width: int, height: int, coloured: bool) -> list[Text]:
    """Of all parts; or of the largest, where there is no room for all."""
    values = _values(now, coloured)
    while lines := flow([_part(*each) for each in values], width):
        if len(lines) <= height:
            return lines
        values.remove(min(values, key=lambda each: abs(each[3])))
    return []


def _head(state: State, width: int) -> Text:
    line = Text("loft top  " if width >= NARROW else "", style="bold")
    who = f"{one_line(state.name)} {state.pid or ''}".strip()
    line.append(who, style="bold cyan")
    if state.ended:
        line.append("  ended", style="bold red")
    elif state.paused:
        line.append("  paused", style="bold yellow")
    if state.now is None:
        return line
    line.append(f"  {state.now.heap}", style="bold")
    objects, threads = state.now["live_objects"], state.now["threads_attached"]
    for part in (
        "" if state.cpu is None else f"cpu {100 * state.cpu:.0f}%",
        f"{quantity(objects)} {'object' if objects == 1 else 'objects'}",
        counted(threads, "thread"),
    ):
        if part and line.cell_len + 2 + len(part) <= width:
            line.append(f"  {part}")
    return line


def _values(now: Reading, coloured: bool) -> list[tuple[str, str, str, int, int]]:
    """Of each part that holds something, as charged: colour, sign, title, bytes, of how many."""
    found = [
        (part.colour, "■" if coloured else part.mark, part.title, now[part.field], now.resident)
        for part in PARTS
        if now[part.field] or part.field in ("live_bytes", "free_span_bytes", "cached_bytes")
    ]
    if now[UNTOUCHED]:
        found.append(("dim", "-", "not resident", -now[UNTOUCHED], now.resident))
    return found


def _part(colour: str, sign: str, title: str, value: int, total: int) -> Text:
    line = Text(f"{sign} ", style=colour)
    line.append(f"{title:13}", style="default")
    line.append(f"{size(value):>9}{percent(value, total):>7}", style="default")
    return line


def _rates(state: State, width: int) -> list[Text]:
    shown = [each for each in state.rates if each.per_s > 0]
    if not shown:
        return [Text("no events between the last two readings", style="dim")]
    return flow([Text(f"{quantity(each.per_s):>6}/s {each.title}") for each in shown], width)


def _table(state: State, rows: list[list[str]], width: int, height: int) -> list[Text]:
    title = Text()
    for number, view in enumerate(VIEWS, 1):
        chosen = view is state.view
        title.append(f" {number} {view.title} ", style="reverse" if chosen else "dim")
    title.append(f"  by {state.sort}")
    said = state.said.get(state.view.title, "")
    if said:
        return [title, Text(fitted(one_line(said), width).rstrip(), style="yellow")]
    below = rows[state.first_row :][: max(height - 2, 0)]
    return [title, *grid(state.view.columns, below, width)]


def _key(name: str, what: str) -> Text:
    line = Text(f"  {name:12}", style="bold")
    return line.append(what, style="default")


def _foot(state: State) -> Text:
    if state.asks_purge:
        return Text("purge this process's unused memory? y/n", style="bold yellow")
    if state.ended:
        return Text(f"{state.trouble}; this is the last reading; q quits", style="bold red")
    if state.trouble:
        return Text(state.trouble, style="bold yellow")
    if state.message:
        return Text(state.message, style="bold")
    return Text(SHORT_KEYS, style="dim")
