"""loft without libc's names, inside of plugins and of a module of Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import ROOT, said

CORE = Path(__file__).parent / "core"
SYSTEM_PYTHON = "/usr/bin/python3"


def names_in(library: Path) -> set[str]:
    lines = said("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[-1] for line in lines}


def plugin(libraries: Path, out: Path, kind: str, *flags: str) -> Path:
    link = [str(libraries / "libloft-core.a"), "-pthread"]
    if kind == "shared":
        link = [f"-L{libraries}", "-lloft-core", f"-Wl,-rpath,{libraries}"]
    include = f"-I{ROOT / 'include'}"
    warnings = ["-Wall", "-Werror"]
    common = ["-O1", "-fno-builtin", "-fvisibility=hidden", "-fPIC", "-shared", *warnings, include]
    said("gcc", *common, *flags, CORE / "plugin.c", "-o", out, *link)
    return out


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_it_can_be_closed_while_it_is_used(libraries: Path, tmp_path: Path, kind: str) -> None:
    made = plugin(libraries, tmp_path / "plugin.so", kind)
    said("gcc", CORE / "host.c", "-o", tmp_path / "host", "-pthread")
    assert said(tmp_path / "host", made) == "ok\n"


def test_it_shows_no_name_of_libcs(libraries: Path, tmp_path: Path) -> None:
    shared = names_in(libraries / "libloft-core.so")
    assert "loft_malloc" in shared
    assert [name for name in shared if not name.startswith("loft_")] == []
    assert names_in(plugin(libraries, tmp_path / "plugin.so", "static")) == {
        "plugin_get",
        "plugin_is_apart",
        "plugin_put",
        "plugin_work",
    }


def test_it_can_always_be_opened(libraries: Path) -> None:
    """The reserve that the loader keeps for thread-local storage is for others."""
    shown = said("readelf", "-d", libraries / "libloft-core.so")
    assert "STATIC_TLS" not in shown
    assert "NODELETE" in shown
    assert "INITFIRST" not in shown


# Beside a libloft.so that is preloaded, names of the shared core are that one's.
@pytest.mark.parametrize(
    ("kind", "preloaded"),
    [("static", False), ("static", True), ("shared", False), ("shared", True)],
)
def test_a_module_of_python_contains_it(
    libraries: Path, tmp_path: Path, kind: str, preloaded: bool
) -> None:
    ask = "import sysconfig; print(sysconfig.get_paths()['include'])"
    headers = said(SYSTEM_PYTHON, "-c", ask).strip()
    plugin(libraries, tmp_path / "plugin.so", kind, "-DFOR_PYTHON", f"-I{headers}")
    apart = kind == "static" or not preloaded
    program = f"import plugin; assert plugin.is_apart() is {apart}; print(plugin.work())"
    variables = {"LD_PRELOAD": str(libraries / "libloft.so")} if preloaded else {}
    assert said(SYSTEM_PYTHON, "-c", program, at=tmp_path, **variables) == "0\n"
