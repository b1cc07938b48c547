"""Names for the addresses of a heap profile: of real programs, by each way that knows any."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from heaps import Heap

from loft_malloc.profile import debug_files, demangle, dwarf, files, stacks, symbolise
from loft_malloc.profile.model import Frame, Location

# It says which addresses its calls return to, and where its file lies in memory.
SOURCE = """
#include <execinfo.h>
#include <stdio.h>
namespace store {
template <typename T> struct Table {
  __attribute__((noinline)) static void grow() {
    void* places[32];
    const int count = backtrace(places, 32);  // LINE grow
    for (int i = 0; i < count; i++) printf("at %p\\n", places[i]);
  }
};
__attribute__((always_inline)) inline void add() {
  Table<int>::grow();  // LINE add
  asm volatile("");
}
}  // namespace store
__attribute__((noinline)) void parse() {
  store::add();  // LINE parse
  asm volatile("");
}
int main() {
  parse();  // LINE main
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  while (fgets(line, sizeof(line), maps) != NULL) printf("map %s", line);
  return 0;
}
"""
LINES = {
    line.split("LINE ")[1]: at for at, line in enumerate(SOURCE.split("\n"), 1) if "LINE" in line
}
Named = list[tuple[str, str, int]]


def expected(readable: bool = True) -> Named:
    """The innermost first."""
    names = {
        "grow": "store::Table<int>::grow()" if readable else "_ZN5store5TableIiE4growEv",
        "add": "store::add()" if readable else "_ZN5store3addEv",
        "parse": "parse()" if readable else "_Z5parsev",
        "main": "main",
    }
    return [(name, "source.cc", LINES[what]) for what, name in names.items()]


@dataclass(frozen=True)
class Program:
    path: Path

    @property
    def build_id(self) -> str:
        described = debug_files.describe(self.path)
        assert described is not None
        return described.build_id

    def heap(self, build_id: str = "", name: str = "") -> Heap:
        """As the library would write it, of one sample from there."""
        text = subprocess.run([self.path], capture_output=True, text=True, check=True).stdout
        heap, mapped, places = Heap(), [], []
        for line in text.splitlines():
            words = line.split()
            if words[0] == "map" and len(words) > 6 and words[6] == str(self.path):
                start, limit = (int(number, 16) for number in words[1].split("-"))
                number = heap.mapping(
                    start, limit, int(words[3], 16), name or str(self.path), build_id
                )
                mapped.append((start, limit, number))
        for line in text.splitlines():
            if line.startswith("at "):
                address = int(line.split()[1], 16)
                inside = [number for low, high, number in mapped if low <= address < high]
                if inside:
                    places.append(heap.address(address, inside[0]))
        heap.sample(places, [1, 64, 1, 64])
        return heap


def build(folder: Path, *flags: str, compiler: str = "g++") -> Program:
    source, path = folder / "source.cc", folder / "program"
    source.write_text(SOURCE)
    command = [compiler, "-o", str(path), str(source), "-O2", "-Wl,--build-id", *flags]
    subprocess.run(command, check=True)
    return Program(path)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return build(tmp_path_factory.mktemp("program"), "-g")


def named(heap: Heap, folder: Path) -> tuple[list[Location], list[str]]:
    profile = files.read(heap.write(folder / "heap.pb.gz"))
    remarks = symbolise.symbolise(profile)
    return profile.samples[0].locations, remarks


def own(locations: list[Location]) -> Named:
    """The frames from the program's sources."""
    frames = [frame for location in locations for frame in location.frames]
    return [(each.name, Path(each.file).name, each.line) for each in frames if each.file]


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Leaves some tools on the PATH, or none."""

    def leave(*names: str) -> None:
        folder = tmp_path / "tools"
        folder.mkdir()
        for name in names:
            found = shutil.which(name)
            assert found is not None, name
            (folder / name).symlink_to(found)
        monkeypatch.setenv("PATH", str(folder))

    return leave


def test_functions_lines_and_inlined_calls(program: Program, tmp_path: Path) -> None:
    locations, remarks = named(program.heap(program.build_id), tmp_path)
    assert remarks == []
    assert own(locations) == expected()
    # The inlined function is at the address of the one that it is a part of.
    assert [len(location.frames) for location in locations[:3]] == [1, 2, 1]
    assert locations[0].frames[0].system_name == "_ZN5store5TableIiE4growEv"


@pytest.mark.parametrize("tools", [("addr2line", "c++filt"), ("addr2line",), ("c++filt",)])
def test_with_some_of_the_tools(
    program: Program, tmp_path: Path, only: Callable[..., None], tools: tuple[str, ...]
) -> None:
    heap = program.heap()
    heap.write(tmp_path / "heap.pb.gz")
    profile = files.read(tmp_path / "heap.pb.gz")
    only(*tools)
    assert symbolise.symbolise(profile) == []
    assert own(profile.samples[0].locations) == expected()


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("g++", ("-g",)),
        ("g++", ("-gdwarf-4",)),
        ("g++", ("-g", "-gz=zlib")),
        ("clang++-19", ("-g",)),
        ("clang++-19", ("-gdwarf-4", "-no-pie")),
    ],
)
def test_without_any_tool(
    tmp_path: Path, only: Callable[..., None], compiler: str, flags: tuple[str, ...]
) -> None:
    program = build(tmp_path, *flags, compiler=compiler)
    program.heap().write(tmp_path / "heap.pb.gz")
    profile = files.read(tmp_path / "heap.pb.gz")
    only()
    assert symbolise.symbolise(profile) == []
    assert own(profile.samples[0].locations) == expected(readable=False)


def test_units_beyond_the_limit_keep_their_lines(
    program: Program, tmp_path: Path, only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    program.heap().write(tmp_path / "heap.pb.gz")
    profile = files.read(tmp_path / "heap.pb.gz")
    only()
    monkeypatch.setattr(dwarf, "MOST_BYTES", 0)
    assert symbolise.symbolise(profile) == []
    # The name is that of the function which the inlined one is in, the line the inlined one's.
    grow, add, parse, main = expected(readable=False)
    assert own(profile.samples[0].locations) == [grow, (parse[0], *add[1:]), main]


def test_a_program_without_debug_information_has_symbols(tmp_path: Path) -> None:
    program = build(tmp_path)
    locations, _ = named(program.heap(), tmp_path)
    names = [location.frames[0].name for location in locations if location.frames]
    assert names[:3] == ["store::Table<int>::grow()", "parse()", "main"]
    subprocess.run(["strip", program.path], check=True)
    locations, remarks = named(program.heap(), tmp_path)
    assert remarks == []
    assert [location.frames for location in locations[:2]] == [[], []]


def split(program: Program, debug: Path) -> None:
    """Moves the debug information into a file of its own, as distributions do."""
    debug.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        ["objcopy", "--only-keep-debug", str(program.path), str(debug)],
        ["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", str(program.path)],
    ):
        subprocess.run(command, check=True)


@pytest.mark.parametrize("place", ["program.debug", ".debug/program.debug"])
@pytest.mark.parametrize("tools", [True, False])
def test_a_debug_file_beside_the_program(
    tmp_path: Path, only: Callable[..., None], place: str, tools: bool
) -> None:
    program = build(tmp_path, "-g")
    split(program, tmp_path / place)
    program.heap(program.build_id).write(tmp_path / "heap.pb.gz")
    profile = files.read(tmp_path / "heap.pb.gz")
    if not tools:
        only()
    assert symbolise.symbolise(profile) == []
    assert own(profile.samples[0].locations) == expected(readable=tools)


def test_a_debug_file_of_another_build_is_not_used(tmp_path: Path) -> None:
    program = build(tmp_path, "-g")
    split(program, tmp_path / "program.debug")
    with (tmp_path / "program.debug").open("ab") as file:
        file.write(b"\0")
    locations, _ = named(program.heap(), tmp_path)
    assert own(locations) == []


@pytest.mark.parametrize("where", ["root", "cache", "home"])
def test_a_debug_file_by_its_build_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    program = build(tmp_path, "-g")
    build_id = program.build_id
    cache = tmp_path / "cache"
    if where == "root":
        monkeypatch.setattr(debug_files, "DEBUG_ROOT", tmp_path / "root")
        debug = tmp_path / "root" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    elif where == "cache":
        monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(cache))
        debug = cache / build_id / "debuginfo"
    else:
        monkeypatch.delenv("DEBUGINFOD_CACHE_PATH", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        debug = tmp_path / ".cache" / "debuginfod_client" / build_id / "debuginfo"
    split(program, debug)
    locations, remarks = named(program.heap(build_id), tmp_path)
    assert (own(locations), remarks) == (expected(), [])


def test_a_debug_file_is_fetched_only_if_servers_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(tmp_path, "-g")
    split(program, tmp_path / "elsewhere" / "program.debug")
    (tmp_path / "debuginfod-find").write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\necho {tmp_path}/elsewhere/program.debug\n'
    )
    (tmp_path / "debuginfod-find").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    heap = program.heap(program.build_id)
    assert own(named(heap, tmp_path)[0]) == []
    assert not (tmp_path / "asked").exists()
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://localhost:1")
    assert own(named(heap, tmp_path)[0]) == expected()
    assert (tmp_path / "asked").read_text() == f"debuginfo {program.build_id}\n"


def test_a_program_that_has_changed_is_not_used_and_named(program: Program, tmp_path: Path) -> None:
    locations, remarks = named(program.heap("12" * 20), tmp_path)
    assert own(locations) == []
    assert remarks == [
        f"{program.path} has changed since (its build id is {program.build_id}, that of the "
        f"profile {'12' * 20}) and is not used"
    ]
    assert stacks.unnamed(locations[0]).name.startswith("program+0x")


def test_a_deleted_program_counts_if_it_is_there_again(program: Program, tmp_path: Path) -> None:
    heap = program.heap(program.build_id, f"{program.path} (deleted)")
    assert own(named(heap, tmp_path)[0]) == expected()


def test_damaged_and_missing_files_leave_addresses(program: Program, tmp_path: Path) -> None:
    data = program.path.read_bytes()
    copy = tmp_path / "copy"
    heap = program.heap(name=str(copy))
    for size in (0, 4, 64, 1000, len(data) // 2, len(data) - 100):
        copy.write_bytes(data[:size])
        named(heap, tmp_path)
    # The header says where the sections are.
    for at in range(64):
        copy.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        named(heap, tmp_path)
    copy.unlink()
    locations, remarks = named(heap, tmp_path)
    assert (own(locations), remarks) == ([], [])


def test_a_tool_that_fails_is_not_believed(
    program: Program, tmp_path: Path, only: Callable[..., None]
) -> None:
    program.heap().write(tmp_path / "heap.pb.gz")
    profile = files.read(tmp_path / "heap.pb.gz")
    only()
    for name, does in (("llvm-symbolizer", "exit 1"), ("addr2line", "echo 0x1; echo a; echo b:1")):
        tool = tmp_path / "tools" / name
        tool.write_text(f"#!/bin/sh\n{does}\n")
        tool.chmod(0o755)
    assert symbolise.symbolise(profile) == []
    assert own(profile.samples[0].locations) == expected(readable=False)


def test_names_of_cpp_and_rust(only: Callable[..., None]) -> None:
    names = {
        "_ZN5store3addEv": "store::add()",
        "_ZN3foo3barILi3EEEvv@GLIBC_2.2": "void foo::bar<3>()",
        "_ZN4core3ptr4drop17h0123456789abcdefE": "core::ptr::drop",
        "_RNvC6_123foo3bar": "123foo::bar",
        "__libc_start_main@@GLIBC_2.34": "__libc_start_main",
        "main": "main",
        "_Zunknown": "_Zunknown",
        "a\nb": "a\nb",
    }
    assert demangle.demangle(set(names)) == names
    only()
    assert demangle.demangle({"_ZN5store3addEv"}) == {"_ZN5store3addEv": "_ZN5store3addEv"}


def test_what_has_names_already_keeps_them(tmp_path: Path) -> None:
    heap = Heap()
    heap.stack("main;grow", [1, 64, 1, 64])
    locations, _ = named(heap, tmp_path)
    assert locations[0].frames == [Frame("grow", "/src/a.c", 10)]
