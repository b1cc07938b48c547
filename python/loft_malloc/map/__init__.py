"""`loft map`: the slabs of a heap by their addresses, as a page and as a picture."""

from __future__ import annotations
