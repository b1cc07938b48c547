"""Trees of files for the scripts that read some."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_tree(folder: Path, files: Mapping[str, str]) -> Path:
    """Makes the files, by their paths below the folder, which is returned."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
