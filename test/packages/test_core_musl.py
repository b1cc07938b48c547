"""A plugin with loft inside, opened by musl's loader in a root that has nothing of glibc's.

No Alpine is at hand: the loader is Debian's, and a program stands for Python, which opens modules
by dlopen, too.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import package_musl
import pytest
from amalgamate import amalgamate
from commands import ROOT, said

CORE = Path(__file__).parent / "core"
LOADER = Path("/usr/lib/x86_64-linux-musl/libc.so")
FLAGS = ["-std=c++20", "-O1", "-DNDEBUG", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"]
SHARED = ["-shared", "-fPIC"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It has the loader, the program and the plugin."""
    work = tmp_path_factory.mktemp("musl")
    root = work / "root"
    (root / "lib").mkdir(parents=True)
    shutil.copy(LOADER, root / "lib" / "ld-musl-x86_64.so.1")
    (work / "loft_core.cc").write_text(amalgamate(ROOT / "src", ROOT / "include", core=True))
    compiler = package_musl.compiler(work)
    said(*compiler, *FLAGS, "-fno-threadsafe-statics", "-fPIC", "-c", "loft_core.cc", at=work)
    flags = ["-O1", "-fno-builtin", "-fvisibility=hidden", f"-I{ROOT / 'include'}"]
    plugin = [str(CORE / "plugin.c"), "loft_core.o", "-o", str(root / "plugin.so")]
    said("musl-gcc", *SHARED, *flags, *plugin, at=work)
    said("musl-gcc", CORE / "host.c", "-o", root / "host")
    return root


def inside(root: Path, program: str) -> str:
    enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "-r", "chroot"]
    return said(*enter, root, "/host", program)


def test_it_works_in_threads_and_forks_and_is_closed(root: Path) -> None:
    assert inside(root, "/plugin.so") == "ok\n"


def test_it_shows_no_name_of_libcs(root: Path) -> None:
    shown = said("nm", "-D", "--defined-only", root / "plugin.so")
    names = {line.split()[-1] for line in shown.splitlines()}
    # musl's compiler shows these two of every library.
    names -= {"_init", "_fini"}
    assert names == {"plugin_get", "plugin_is_apart", "plugin_put", "plugin_work"}
    assert "STATIC_TLS" not in said("readelf", "-d", root / "plugin.so")


def test_the_loader_refuses_initial_exec(root: Path) -> None:
    """What the test above would notice."""
    source = "static __thread int count; int plugin_is_apart(void) { return ++count; }"
    (root / "other.c").write_text(source)
    said("musl-gcc", *SHARED, "-ftls-model=initial-exec", "other.c", "-o", "other.so", at=root)
    with pytest.raises(AssertionError, match="initial-exec TLS"):
        inside(root, "/other.so")
