"""`loft top`: the loop of readings, keys and frames, or one frame for a pipe."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live

from loft_malloc.errors import UserError
from loft_malloc.live import find, frame, owners
from loft_malloc.live.client import Client, Gone
from loft_malloc.live.growth import Growth
from loft_malloc.live.keys import Keys
from loft_malloc.live.lines import Column, grid
from loft_malloc.live.parts import PARTS
from loft_malloc.live.reading import Reading, Usage, parsed
from loft_malloc.live.state import State
from loft_malloc.live.views import HEAPS, STACKS, VIEWS, size
from loft_malloc.live.worker import Worker
from loft_malloc.map import model, told

STATS = "/stats.json"
# A view that is more to ask for is asked for less often.
SLOW_INTERVAL_S = 5.0
# An answer that takes longer is spoken of.
LATE_S = 3.0
WIDTH_IN_PIPE = 1000


@dataclass(frozen=True)
class Wanted:
    interval_s: float = 1.0
    once: bool = False
    json: bool = False
    sort: str = ""


def top(pid: int | None, socket: Path | None, wanted: Wanted) -> int:
    console = Console()
    if pid is None and socket is None:
        there = find.everywhere()
        for path in find.remove_dead(there):
            print(f"loft: removed {path}, whose process is gone", file=sys.stderr)
        if not there:
            raise UserError(f"no process of yours has a socket; {find.HOW}", 1)
        if len(there) > 1:
            return _listed(console, there, wanted)
        client = there[0].client()
    else:
        client = find.client_of(pid, socket)
    state = State(client.pid, find.name_of(client.pid or 0), wanted.interval_s)
    _sort(state, wanted.sort)
    if wanted.once or wanted.json or not console.is_terminal:
        return _once(console, client, state, as_json=wanted.json)
    return _Watch(console, client, state).run()


def _coloured(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def read(client: Client) -> Reading:
    answer = client.json(STATS)
    return parsed(answer, time.monotonic(), Usage.of(client.pid))


def purge(client: Client) -> str:
    """What came of it, in words."""
    try:
        answer = json.loads(client.post("/purge"))
    except ValueError:
        return "purged"
    bytes_ = answer.get("purged_bytes") if isinstance(answer, dict) else None
    return f"purged {size(bytes_)}" if isinstance(bytes_, int) else "purged"


def _sort(state: State, sort: str) -> None:
    if not sort:
        return
    if sort not in VIEWS[0].sorts:
        raise UserError(f"--sort {sort}: expected {', '.join(VIEWS[0].sorts)}")
    state.sorts[VIEWS[0].title] = sort


def _once(console: Console, client: Client, state: State, as_json: bool) -> int:
    """Two readings, since one has no rates."""
    state.history.append(read(client))
    time.sleep(state.interval_s)
    state.history.append(read(client))
    if as_json:
        print(json.dumps(_as_json(state)))
        return 0
    width = console.width if console.is_terminal else WIDTH_IN_PIPE
    for line in frame.once(state, width, _coloured(console)):
        console.print(line, soft_wrap=True, highlight=False)
    return 0


def _as_json(state: State) -> dict[str, Any]:
    now = state.now
    assert now is not None
    return {
        "schema": 1,
        "pid": state.pid,
        "name": state.name,
        "loft": now.version,
        "resident_bytes": now.resident,
        "process_resident_bytes": now.usage.resident if now.usage is not None else None,
        "parts": {part.field: now[part.field] for part in PARTS},
        "untouched_bytes": now["untouched_bytes"],
        "rates_per_s": {each.title: round(each.per_s, 3) for each in state.rates},
        "cpu": state.cpu,
        "classes": [{**each.values, "waste_bytes": each.waste} for each in now.classes],
    }


def _listed(console: Console, there: list[find.Found], wanted: Wanted) -> int:
    """Who can be asked, most memory first."""
    rows: list[tuple[int, dict[str, Any], list[str]]] = []
    for found in there:
        name = find.name_of(found.pid)
        try:
            now = read(found.client())
        except UserError as error:
            said = {"pid": found.pid, "name": name, "socket": str(found.path), "error": str(error)}
            rows.append((-1, said, [str(found.pid), "", "", "", name, str(error)]))
            continue
        live = now["live_bytes"]
        whole = now.usage.resident if now.usage is not None else 0
        about = {
            "resident_bytes": now.resident, "live_bytes": live, "process_resident_bytes": whole
        }  # fmt: skip
        said = {"pid": found.pid, "name": name, "socket": str(found.path), **about}
        cells = [
            *(str(found.pid), size(now.resident), size(whole), size(live)),
            *(name, str(found.path)),
        ]
        rows.append((now.resident, said, cells))
    rows.sort(key=lambda row: row[0], reverse=True)
    if wanted.json:
        print(json.dumps({"schema": 1, "processes": [said for _, said, _ in rows]}))
        return 0
    if not console.is_terminal:
        console.width = WIDTH_IN_PIPE
    columns = [Column("PID"), Column("heap"), Column("process"), Column("live", 1),
               Column("program"), Column("socket", right=False)]  # fmt: skip
    for line in grid(columns, [cells for _, _, cells in rows], console.width):
        console.print(line, soft_wrap=True, highlight=False)
    console.print("loft top PID watches one of them; sizes are resident memory", style="dim")
    return 0


class _Watch:
    def __init__(self, console: Console, client: Client, state: State) -> None:
        self.console = console
        self.client = client
        self.state = state
        self.started = find.started(client.pid) if client.pid else ""
        self.keys = Keys(sys.stdin.fileno() if sys.stdin is not None else -1)
        self.quick = Worker(self.keys.wake)
        self.slow = Worker(self.keys.wake)
        self.growth = Growth(client)
        self.due_s = 0.0
        self.slow_due_s = 0.0

    def run(self) -> int:
        live = Live(console=self.console, screen=True, auto_refresh=False)
        with self.keys, live:
            while True:
                self._ask()
                live.update(Group(*self._frame()), refresh=True)
                for key in self.keys.wait(self._pause_s()):
                    if self._do(self.state.pressed(key)):
                        return 0
                self._take()

    def _frame(self) -> list[Any]:
        width, height = self.console.size
        return list(frame.frame(self.state, width, height, _coloured(self.console)))

    def _pause_s(self) -> float:
        """Until something is due; an answer that is late is noticed each second."""
        return min(max(self.due_s - time.monotonic(), 0.02), 1.0)

    def _ask(self) -> None:
        state, now = self.state, time.monotonic()
        if state.ended or state.paused:
            self.due_s = now + 1.0
            return
        if now >= self.due_s:
            self.quick.ask(STATS, lambda: read(self.client))
            self.due_s = now + state.interval_s
        if (late := self.quick.waits_s(STATS)) > LATE_S:
            state.trouble = f"no answer for {late:.0f} s; the process may be stopped"
        if now >= self.slow_due_s and state.view in (HEAPS, STACKS):
            question = self._heaps if state.view is HEAPS else self.growth.look
            if state.view.title not in state.rows:
                state.said[state.view.title] = "asking…"
            self.slow.ask(state.view.title, question)
            self.slow_due_s = now + max(SLOW_INTERVAL_S, state.interval_s)

    def _heaps(self) -> list[owners.Owner]:
        return owners.owners(model.parsed(told.ask(self.client), str(self.client.path)))

    def _do(self, what: str) -> bool:
        """True to quit."""
        if what == "purge":
            self.state.message = "purging…"
            self.slow.ask("purge", lambda: purge(self.client))
        elif what == "restart":
            self.growth.restart()
            self.state.message = "growth counts from the next profile"
        if what in ("look", "restart"):
            self.due_s = self.slow_due_s = 0.0
        return what == "quit"

    def _take(self) -> None:
        for name, answer in [*self.quick.ready(), *self.slow.ready()]:
            if name == STATS:
                self._took_reading(answer)
            elif name == "purge":
                failed = isinstance(answer, UserError)
                self.state.message = f"not purged: {answer}" if failed else answer
                self.due_s = 0.0
            elif isinstance(answer, UserError):
                self.state.said[name] = str(answer)
            else:
                self.state.said.pop(name, None)
                self.state.rows[name] = answer

    def _took_reading(self, answer: Any) -> None:
        state = self.state
        if isinstance(answer, Reading):
            state.trouble = ""
            state.history.append(answer)
        elif isinstance(answer, Gone) and self._is_gone():
            state.ended, state.asks_purge = True, False
            state.trouble = f"process {state.pid} has ended"
        else:
            state.trouble = str(answer)

    def _is_gone(self) -> bool:
        """The process, and not its socket alone."""
        return bool(self.client.pid) and find.started(self.client.pid or 0) != self.started
