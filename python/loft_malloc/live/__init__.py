"""What a running process tells of its heap: `loft top`, and the rest of what asks its socket."""

from __future__ import annotations
