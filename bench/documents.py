"""A program of `make run`: JSON documents that one thread allocates and another frees.

Two threads build documents and parse them, two others take what was parsed, write it out again and
drop it. It prints a digest of all that was written. An argument says how many documents.
"""

import hashlib
import json
import queue
import sys
import threading
from typing import Any

DOCUMENTS = int(sys.argv[1]) if len(sys.argv) > 1 else 24
RECORDS, PAIRS = 2500, 2

Box = queue.Queue[Any]


def document(number: int) -> list[dict[str, Any]]:
    return [
        {
            "id": number * RECORDS + i,
            "name": f"item {i} of {number}",
            "tags": [f"t{i % k}" for k in (7, 11, 13)],
            "note": "x" * (i % 300),
            "size": {"w": i % 640, "h": i % 480, "scale": i / 7},
        }
        for i in range(RECORDS)
    ]


def produce(box: Box, first: int) -> None:
    for number in range(first, DOCUMENTS, PAIRS):
        box.put(json.loads(json.dumps(document(number))))
    box.put(None)


def consume(box: Box, digests: list[str]) -> None:
    while (parsed := box.get()) is not None:
        digests.append(hashlib.sha256(json.dumps(parsed, sort_keys=True).encode()).hexdigest())
        parsed = None


def main() -> None:
    digests: list[str] = []
    threads = []
    for first in range(PAIRS):
        box = Box(2)
        threads.append(threading.Thread(target=produce, args=(box, first)))
        threads.append(threading.Thread(target=consume, args=(box, digests)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(hashlib.sha256("".join(sorted(digests)).encode()).hexdigest())


main()
