"""What `loft top` knows and what the user has chosen; what a key changes in it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from loft_malloc.live.reading import Rate, Reading, cpu_share, rates
from loft_malloc.live.views import VIEWS, View

# More columns than a terminal has.
MOST_READINGS = 1000
INTERVALS_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass
class State:
    pid: int | None
    name: str
    interval_s: float = 1.0
    history: deque[Reading] = field(default_factory=lambda: deque(maxlen=MOST_READINGS))
    # Of each view that is no class's, its rows; and what is to be said in their place.
    rows: dict[str, list[Any]] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    view: View[Any] = VIEWS[0]
    sorts: dict[str, str] = field(default_factory=dict)
    first_row: int = 0
    paused: bool = False
    help: bool = False
    # Waits for a yes.
    asks_purge: bool = False
    message: str = ""
    # Why there is nothing new, for as long as there is not; and whether there can be.
    trouble: str = ""
    ended: bool = False

    @property
    def now(self) -> Reading | None:
        return self.history[-1] if self.history else None

    @property
    def before(self) -> Reading | None:
        return self.history[-2] if len(self.history) > 1 else None

    @property
    def rates(self) -> list[Rate]:
        return rates(self.before, self.now) if self.now is not None else []

    @property
    def cpu(self) -> float | None:
        return cpu_share(self.before, self.now) if self.now is not None else None

    @property
    def sort(self) -> str:
        return self.sorts.get(self.view.title, self.view.sorts[0])

    def table(self) -> list[list[str]]:
        if self.view is VIEWS[0]:
            rows: list[Any] = self.now.classes if self.now is not None else []
        else:
            rows = self.rows.get(self.view.title, [])
        return self.view.rows(rows, self.sort)

    def pressed(self, key: str) -> str:
        """What is to be done about it elsewhere: quit, purge, look, restart; or nothing."""
        if self.asks_purge:
            self.asks_purge = False
            return "purge" if key in ("y", "Y") else ""
        self.message = ""
        if self.help:
            self.help = False
            return "quit" if key == "q" else ""
        if key in ("q", "Q"):
            return "quit"
        if key in ("p", " "):
            self.paused = not self.paused
            return "" if self.paused else "look"
        if key in ("?", "h"):
            self.help = True
        elif key in ("s", "S"):
            self._next_sort(1 if key == "s" else -1)
        elif key in ("1", "2", "3", "tab"):
            number = VIEWS.index(self.view) + 1 if key == "tab" else int(key) - 1
            self.view, self.first_row = VIEWS[number % len(VIEWS)], 0
            return "look"
        elif key in ("+", "-"):
            self._next_interval(1 if key == "-" else -1)
        elif key in ("up", "down"):
            last = max(len(self.table()) - 1, 0)
            self.first_row = min(max(self.first_row + (1 if key == "down" else -1), 0), last)
        elif key == "u" and not self.ended:
            self.asks_purge = True
        elif key == "r":
            return "restart"
        return ""

    def _next_sort(self, step: int) -> None:
        names = self.view.sorts
        self.sorts[self.view.title] = names[(names.index(self.sort) + step) % len(names)]
        self.first_row = 0

    def _next_interval(self, step: int) -> None:
        nearest = min(INTERVALS_S, key=lambda each: abs(each - self.interval_s))
        index = INTERVALS_S.index(nearest) + step
        self.interval_s = INTERVALS_S[min(max(index, 0), len(INTERVALS_S) - 1)]
        self.message = f"a reading every {self.interval_s:g} s"
