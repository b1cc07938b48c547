"""The parts of resident memory, as docs/internals/accounting.md adds them up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    field: str
    title: str
    # Of a class, the same part; empty where classes have none.
    of_class: str
    colour: str
    # Where there are no colours.
    mark: str
    # Memory that the program has not asked for.
    waste: bool = True


PARTS = (
    Part("live_bytes", "live", "live_bytes", "#4c9f70", "L", waste=False),
    Part("rounding_bytes", "rounding", "rounding_bytes", "#a3c76d", "r"),
    Part("free_in_slabs_bytes", "free in slabs", "free_bytes", "#e0a83e", "f"),
    Part("cached_bytes", "cached", "cached_bytes", "#5b8fd9", "c"),
    Part("in_flight_bytes", "in flight", "in_flight_bytes", "#9f7fe0", "i"),
    Part("large_cached_bytes", "large cached", "", "#4bb5c1", "l"),
    Part("free_span_bytes", "free spans", "", "#d9694f", "s"),
    Part("metadata_resident_bytes", "metadata", "", "#9a9a9a", "m"),
    Part("user_heap_resident_bytes", "program's own", "", "#c77fb0", "u"),
    Part("purged_charged_bytes", "purge refused", "", "#b0413e", "p"),
    Part("huge_slack_bytes", "huge pages", "huge_slack_bytes", "#7f6f55", "h"),
)
UNTOUCHED = "untouched_bytes"
RESIDENT = "resident_bytes"
# Which part of the events of a second is shown, in this order; two of them are read as a pair.
RATES = (
    ("refills", "refills"),
    ("flushes", "flushes"),
    ("batch_objects", "objects sent"),
    ("batch_messages", "messages sent"),
    ("messages_received", "messages got"),
    ("posts", "posts"),
    ("drains", "drains"),
    ("slabs_created", "slabs made"),
    ("slabs_released", "slabs released"),
    ("spans_acquired", "spans taken"),
    ("large_allocations", "large objects"),
    ("os_maps", "maps"),
    ("os_purges", "purges"),
    ("locks_waited_for", "locks waited for"),
)
