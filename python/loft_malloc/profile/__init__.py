"""`loft profile`: reads heap profiles, gives their addresses names, and shows them."""

from __future__ import annotations
