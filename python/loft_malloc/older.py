"""What Python 3.9 and 3.10 lack."""

from __future__ import annotations

import fcntl
import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

__all__ = ["F_SETPIPE_SZ", "tomllib"]

# Linux's own number.
F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", 1031)
