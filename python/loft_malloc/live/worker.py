"""Asks a process beside what is shown: an answer that is late keeps no key waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from loft_malloc.errors import UserError

# What was asked, and its answer or what went wrong.
Answer = tuple[str, Any]


class Worker:
    """One thread, one question at a time. It ends with the process, whatever it waits for."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.questions: SimpleQueue[tuple[str, Callable[[], Any]]] = SimpleQueue()
        self.answers: SimpleQueue[Answer] = SimpleQueue()
        # Which question is under way, and since when.
        self.asked: dict[str, float] = {}
        threading.Thread(target=self._work, daemon=True).start()

    def ask(self, name: str, question: Callable[[], Any]) -> None:
        """One that is under way is not asked again."""
        if name not in self.asked:
            self.asked[name] = time.monotonic()
            self.questions.put((name, question))

    def ready(self) -> list[Answer]:
        found: list[Answer] = []
        while True:
            try:
                name, answer = self.answers.get_nowait()
            except Empty:
                return found
            self.asked.pop(name, None)
            found.append((name, answer))

    def waits_s(self, name: str) -> float:
        return time.monotonic() - self.asked[name] if name in self.asked else 0.0

    def _work(self) -> None:
        while True:
            name, question = self.questions.get()
            answer: Any
            try:
                answer = question()
            except UserError as error:
                answer = error
            except Exception as error:
                answer = UserError(f"an internal error, {type(error).__name__}: {error}")
            self.answers.put((name, answer))
            self.wake()
