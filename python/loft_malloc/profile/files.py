"""Profiles as files: which format one is in, and what is said of one that cannot be read."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from loft_malloc.errors import UserError
from loft_malloc.profile import collapsed, pprof, pprof_write
from loft_malloc.profile.collapsed import CollapsedError
from loft_malloc.profile.model import Profile
from loft_malloc.profile.wire import WireError

GZIP = b"\x1f\x8b"
COLLAPSED = ".collapsed"
# Above any profile of a heap, and below what a small file can be made to unpack to.
MOST_BYTES = 1 << 29


def read(path: Path) -> Profile:
    """Raises what is wrong with the file, in one line."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    return parsed(data, str(path), path.suffix == COLLAPSED)


def parsed(data: bytes, path: str, is_collapsed: bool = False) -> Profile:
    """What was read there."""
    try:
        if data.startswith(GZIP):
            data = _unpacked(data)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} is damaged: its gzip data cannot be unpacked: {error}") from None
    if len(data) > MOST_BYTES:
        raise UserError(f"{path} is not a profile: it is larger than {MOST_BYTES >> 20} MiB")
    if not data:
        raise UserError(f"{path} is empty; its program may have been killed")
    try:
        profile = _decoded(data, is_collapsed)
    except (WireError, CollapsedError) as error:
        raise UserError(f"{path} is not a profile that loft can read: {error}") from None
    if any(value < 0 for sample in profile.samples for value in sample.values):
        raise UserError(
            f"{path} has negative values, so it is a difference; give its two files instead"
        )
    return profile


def _unpacked(data: bytes) -> bytes:
    """At most a byte too much; whatever follows the first part is read too, as gunzip does."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return file.read(MOST_BYTES + 1)
    except gzip.BadGzipFile as error:
        raise zlib.error(str(error)) from None


def _decoded(data: bytes, is_collapsed: bool) -> Profile:
    if is_collapsed:
        return collapsed.decode(data.decode(errors="replace"))
    return pprof.decode(data)


def write(path: Path, profile: Profile) -> None:
    if path.suffix == COLLAPSED:
        stacks = collapsed.lines(profile, profile.main_index)
        text = "".join(f"{line}\n" for line in stacks)
        path.write_text(text, encoding="utf-8", errors="replace")
    else:
        path.write_bytes(pprof_write.compressed(profile))
