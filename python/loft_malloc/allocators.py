"""The allocators that can be compared on this machine, installed or built here."""

from __future__ import annotations

import filecmp
import os
import re
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from loft_malloc import elf, places, preload

# The file that replaces malloc, as distributions name it.
INSTALLED = {
    "mimalloc": "libmimalloc.so.*",
    "jemalloc": "libjemalloc.so.*",
    "tcmalloc": "libtcmalloc_minimal.so.*",
    "tbbmalloc": "libtbbmalloc_proxy.so.*",
}


# Those that `make peers` builds and loft is measured against. The prototype, a sketch of loft that
# may stand beside them, does not compete.
PEERS = ("mimalloc2", "mimalloc3", "snmalloc", "jemalloc", "tcmalloc", "tbbmalloc")
# Those that it builds for a comparison with the engines of the papers (papers/) or for
# docs/internals/misuse.md, and that nothing else is measured with unless it is named.
PAPER_PEERS = (
    "snmalloc-checks",
    "mimalloc3-secure",
    "rpmalloc",
    "scudo",
    "hardened",
    "hardened-light",
)
# loft by its other owners.
OWNERS = {"loft cpu": "cpu", "loft shared": "shared"}


@dataclass(frozen=True)
class Allocator:
    name: str
    # glibc's needs none.
    library: Path | None
    # What has to be set for it.
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)


def library_folders() -> list[Path]:
    multiarch = sysconfig.get_config_var("MULTIARCH")
    names = ["/usr/local/lib", f"/usr/lib/{multiarch}", "/usr/lib64", "/usr/lib"]
    return [Path(name) for name in names]


def found(folders: list[Path], peers: Path) -> list[Allocator]:
    """glibc's, loft, what is installed in `folders`, and what `make peers` has built and nobody
    has installed."""
    by_name: dict[str, Path | None] = {"glibc": None, "loft": places.library()}
    for name, pattern in INSTALLED.items():
        files = [file for folder in folders for file in sorted(folder.glob(pattern))]
        if usable := [file for file in files if elf.replaces_malloc(file)]:
            by_name[name] = usable[0]
    for file in sorted(peers.glob("*.so")):
        if elf.replaces_malloc(file) and not _is_any_of(file, by_name.values()):
            taken = file.stem in by_name
            by_name[f"peers/{file.stem}" if taken else file.stem] = file
    return [Allocator(name, library) for name, library in by_name.items()]


def built(folder: Path) -> list[Allocator]:
    """What the scripts measure: glibc's, and of a checkout's build loft by each of its owners and
    the peers."""
    loft, peers = folder / "libloft.so", (*PEERS, "prototype")
    candidates = [
        Allocator("loft", loft),
        *(Allocator(name, loft, {"LOFT_OWNER": owner}) for name, owner in OWNERS.items()),
        *(Allocator(name, folder / "peers" / f"{name}.so") for name in peers),
    ]
    there = [each for each in candidates if each.library is not None and each.library.exists()]
    return [Allocator("glibc", None), *there]


def _is_any_of(file: Path, others: Iterable[Path | None]) -> bool:
    return any(other is not None and filecmp.cmp(file, other, shallow=False) for other in others)


def preloaded(entry: str, environment: Mapping[str, str]) -> Path | None:
    """The file that the loader takes for an entry of LD_PRELOAD; a bare name it searches for."""
    if "/" in entry:
        return Path(entry)
    asked = environment.get("LD_LIBRARY_PATH", "")
    folders = [Path(name) for name in re.split("[:;]", asked)] if asked else []
    files = [folder / entry for folder in [*folders, *library_folders()]]
    return next((file for file in files if file.exists()), None)


def preload_value(allocator: Allocator, extra: list[Path]) -> str:
    """LD_PRELOAD for this allocator; one that the user has there would be measured in its place."""
    there = preload.inherited()
    others = [each for each in there if not elf.replaces_malloc(preloaded(each, os.environ))]
    libraries = [] if allocator.library is None else [allocator.library]
    return preload.value([*libraries, *extra], others)
