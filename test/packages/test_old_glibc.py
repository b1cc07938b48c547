"""What is released runs with every glibc since 2.28: it asks for no symbol of a later one."""

from __future__ import annotations

import io
import tarfile

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import Section
from made_packages import VERSION, one

OLDEST = (2, 28)


def sections(data: bytes) -> list[Section]:
    return list(ELFFile(io.BytesIO(data)).iter_sections())


def versions(data: bytes) -> set[tuple[int, ...]]:
    found = set()
    for section in sections(data):
        if isinstance(section, GNUVerNeedSection):
            for _, needed in section.iter_versions():
                for version in needed:
                    name = version.name
                    assert name.startswith("GLIBC_2."), name
                    found.add(tuple(int(part) for part in name.removeprefix("GLIBC_").split(".")))
    return found


def libraries(data: bytes) -> set[str]:
    return {
        tag.needed  # type: ignore[attr-defined]
        for section in sections(data)
        if isinstance(section, DynamicSection)
        for tag in section.iter_tags("DT_NEEDED")
    }


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("name", ["libloft.so.0", "libloft-bounds.so", "libloft-inspect.so"])
def test_the_libraries(machine: str, name: str) -> None:
    folder = f"loft-malloc-{VERSION}-linux-{machine}"
    with tarfile.open(one(f"{folder}.tar.gz")) as archive:
        file = archive.extractfile(f"{folder}/lib/{name}")
        assert file is not None
        data = file.read()
    # What watches names no library: it takes what libc the program has.
    assert max(versions(data), default=(0,)) <= OLDEST
    # An old glibc has its threads and its loader's functions in libraries of their own.
    if name == "libloft.so.0":
        loader = {it for it in libraries(data) if it.startswith("ld-linux")}
        assert libraries(data) - loader == {"libc.so.6", "libpthread.so.0", "libdl.so.2"}
