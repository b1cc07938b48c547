"""The wheels of tools/wheels.py: what their tags promise, and that they work.

Those of this machine's processor are built for the tests, from the sdist. The others take as long:
they are tested where LOFT_WHEELS names a folder that tools/wheels.py has filled, as `make wheels`
does.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from functools import cache
from pathlib import Path

import musl_root
import pytest
import wheels
from asked import slabs
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from heaps import small
from made_packages import VERSION, folder, run, sources
from package_base import PackageError
from test_apk import LIBC, PROGRAM
from test_old_glibc import libraries, versions

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = {"loft-launch", "loft-replay", "loft-trace"}
LIBRARIES = {
    *("libloft.so", "libloft-bounds.so", "libloft-inspect.so"),
    *("loft-hold.so", "loft-record.so", "loft-tell.so"),
}
OF_GLIBC = {"libc.so.6", "libpthread.so.0", "libdl.so.2"}
HERE = [name for name in wheels.TARGETS if name.endswith("x86_64")]
ARM = [name for name in wheels.TARGETS if name.endswith("aarch64")]
# What musl has got since 1.2.0, the first that the tag promises.
NEW_IN_MUSL = {
    *("_Fork", "gettid", "reallocarray", "tcgetwinsize", "tcsetwinsize"),
    *("preadv2", "pthread_getname_np", "pwritev2", "qsort_r", "statx"),
}


@cache
def sdist() -> Path:
    return wheels.sdist(folder() / "sdist")


@cache
def wheel(name: str) -> Path:
    target = wheels.TARGETS[name]
    if "LOFT_WHEELS" in os.environ:
        (found,) = Path(os.environ["LOFT_WHEELS"]).resolve().glob(f"*-{target.tag}.whl")
        return found
    if target.machine != "x86_64":
        pytest.skip("wheels for another processor are tested by `make wheels`")
    return wheels.build(name, sdist(), folder() / "wheels")


@cache
def unpacked(name: str) -> Path:
    """The folder that has the wheel's libraries and programs."""
    place = folder() / name
    zipfile.ZipFile(wheel(name)).extractall(place)
    lib = place / "loft_malloc" / "lib"
    for program in PROGRAMS:
        (lib / program).chmod(0o755)
    return lib


def says_what_it_is(name: str) -> None:
    path, tag = wheel(name), wheels.TARGETS[name].tag
    assert path.name == f"loft_malloc-{VERSION}-py3-none-{tag}.whl"
    package = ROOT / "python" / "loft_malloc"
    modules = {f"loft_malloc/{path.relative_to(package)}" for path in package.rglob("*.*")}
    modules = {name for name in modules if "__pycache__" not in name}
    parts = {f"loft_malloc/lib/{name}" for name in PROGRAMS | LIBRARIES}
    with zipfile.ZipFile(path) as archive:
        files = {each for each in archive.namelist() if not each.endswith("/")}
        about = archive.read(f"loft_malloc-{VERSION}.dist-info/WHEEL").decode()
    assert {each for each in files if ".dist-info/" not in each} == modules | parts
    assert [line for line in about.splitlines() if line.startswith("Tag: ")] == [
        f"Tag: py3-none-{tag}"
    ]


def asks_for_no_more_than_its_tag(name: str) -> None:
    target = wheels.TARGETS[name]
    for path in unpacked(name).iterdir():
        data = path.read_bytes()
        loader = {it for it in libraries(data) if it.startswith("ld-linux")}
        with path.open("rb") as file:
            elf = ELFFile(file)
            assert elf.get_machine_arch() == {"x86_64": "x64", "aarch64": "AArch64"}[target.machine]
            table = elf.get_section_by_name(".dynsym")
            assert isinstance(table, SymbolTableSection)
            asked = {
                symbol.name
                for symbol in table.iter_symbols()
                if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_WEAK"
            }
        if target.libc is wheels.glibc:
            assert max(versions(data), default=(0,)) <= (2, 28), path
            assert libraries(data) - loader <= OF_GLIBC, path
        else:
            # What watches is opened by loft, and finds libc in the program.
            is_opened = path.name == "libloft-inspect.so"
            own = set() if is_opened else {f"libc.musl-{target.machine}.so.1"}
            assert (versions(data), libraries(data)) == (set(), own), path
            assert asked & NEW_IN_MUSL == set(), path


def is_taken_by_pip(name: str, place: Path) -> None:
    """For a machine that says that it is one of those."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    only = ["--platform", wheels.TARGETS[name].tag, "--only-binary", ":all:", "--no-index"]
    run(*command, *only, "--find-links", wheel(name).parent, "--target", place, "loft-malloc")
    assert (place / "loft_malloc" / "lib" / "libloft.so").is_file()


@pytest.mark.parametrize("name", HERE)
def test_a_wheel_is_what_its_tag_says(name: str, tmp_path: Path) -> None:
    says_what_it_is(name)
    asks_for_no_more_than_its_tag(name)
    is_taken_by_pip(name, tmp_path / "place")


def test_a_tag_that_promises_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"does not call .* manylinux_2_17_x86_64"):
        wheels.repaired(wheel("manylinux-x86_64"), "manylinux_2_17_x86_64", tmp_path)


@pytest.mark.parametrize("name", ARM)
def test_a_wheel_for_arm_is_what_its_tag_says(name: str, tmp_path: Path) -> None:
    says_what_it_is(name)
    asks_for_no_more_than_its_tag(name)
    is_taken_by_pip(name, tmp_path / "place")


def test_two_builds_in_two_places_are_equal(tmp_path: Path) -> None:
    name = "manylinux-x86_64"
    source = wheels.sdist(tmp_path / "another place")
    assert source.read_bytes() == sdist().read_bytes()
    again = wheels.build(name, source, tmp_path)
    assert again.read_bytes() == wheel(name).read_bytes()


def test_the_sdist_has_what_builds_it_and_no_more() -> None:
    with tarfile.open(sdist()) as archive:
        names = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    folders = {str(name.parts[0]) for name in names if len(name.parts) > 1}
    assert folders == {"bounds", "cmake", "include", "inspect", "python", "src", "tools"}
    assert Path("PKG-INFO") in names


def test_the_wheel_works_without_the_checkout(tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    run(*pip, "install", "--no-deps", wheel("manylinux-x86_64"))
    # The libraries that it needs are those of this environment; its checkout is not found there,
    # because what a .pth file names is not searched for more of them.
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    loft, library = tmp_path / "venv" / "bin" / "loft", site / "loft_malloc" / "lib" / "libloft.so"
    maps = ("cat", "/proc/self/maps")
    assert str(library) in run(loft, "--version").stdout
    assert str(library) in run(loft, "run", "--", *maps).stdout
    assert str(library) in run(python, "-m", "loft_malloc", "run", "--", *maps).stdout
    assert str(library) in run(loft, "env").stdout
    told = run(python, "-c", "import loft_malloc; print(loft_malloc.path())").stdout.strip()
    assert told == str(library)
    draws(loft, tmp_path)
    trace = tmp_path / "trace.zst"
    run(loft, "record", "-o", trace, "--", "cat", "/dev/null")
    assert "calls of 1 thread" in run(loft, "replay", "--runs", "1", "--with", "loft", trace).stdout


def draws(loft: Path, place: Path) -> None:
    """What takes matplotlib, which 'loft-malloc[charts]' brings, and what does not."""
    page, told = place / "page.html", place / "slabs.json"
    run(loft, "compare", "--runs", "1", "--with", "glibc,loft", "--html", page, "--", "true")
    assert "<svg" in page.read_text()
    run(loft, "profile", "--read", small().write(place / "heap.pb.gz"), "--html", page)
    assert "<svg" in page.read_text()
    told.write_text(json.dumps(slabs()))
    run(loft, "map", "--read", told, "-o", page, "--png", place / "map.png")
    assert "<canvas" in page.read_text()


def test_the_wheel_names_what_charts_need() -> None:
    with zipfile.ZipFile(wheel("manylinux-x86_64")) as archive:
        lines = archive.read(f"loft_malloc-{VERSION}.dist-info/METADATA").decode().splitlines()
    extra = [line for line in lines if "extra ==" in line]
    assert "Provides-Extra: charts" in lines and len(extra) == 1 and "matplotlib" in extra[0]
    assert not any("matplotlib" in line for line in lines if line not in extra and "Dist" in line)


def test_the_wheel_for_musl_serves_a_program_in_a_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    loader = "/lib/ld-musl-x86_64.so.1"
    shutil.copy(LIBC, root / loader[1:])
    shutil.copytree(unpacked("musllinux-x86_64"), root / "loft")
    (tmp_path / "program.c").write_text(PROGRAM)
    run("musl-gcc", "-o", root / "program", tmp_path / "program.c")
    enter = ("chroot",) if os.geteuid() == 0 else ("unshare", "-r", "chroot")
    ran = run(*enter, root, loader, "--preload", "/loft/libloft.so", "/program", LOFT_STATS="text")
    assert ran.stdout == "hello\n" and "loft" in ran.stderr
    # The command's own: it starts another under the library, and says here what that has cost.
    launch = ("/loft/loft-launch", "1", "0", "/loft/libloft.so", "0", "/program")
    ran = run(*enter, root, *launch, LOFT_STATS="text")
    assert ran.stdout.startswith("done 0 ") and "loft" in ran.stderr


@pytest.mark.parametrize("name", ARM)
def test_a_wheel_for_arm_serves_a_program_under_qemu(name: str, tmp_path: Path) -> None:
    lib = unpacked(name)
    root = Path("/usr/aarch64-linux-gnu")
    if name.startswith("musllinux"):
        root = arms_musl(tmp_path)
    program = arms_program(name, tmp_path)
    ran = run(
        *("qemu-aarch64", "-L", root, "-E", f"LD_PRELOAD={lib / 'libloft.so'}"),
        *("-E", "LOFT_STATS=text", program),
    )
    assert ran.stdout == "hello\n" and "loft" in ran.stderr


def arms_program(name: str, place: Path) -> Path:
    """For musl, linked with the names that its library has."""
    compiler, source, program = "aarch64-linux-gnu-gcc", place / "program.c", place / "program"
    source.write_text(PROGRAM)
    if name.startswith("manylinux"):
        run(compiler, source, "-o", program)
        return program
    libc = place / "libc"
    musl_root.write(libc, "aarch64", compiler)
    headers = musl_root.system(musl_root.headers("aarch64", compiler))
    linked = ("-nostdlib", "-pie", f"-L{libc}", "-Wl,-dynamic-linker,/lib/ld-musl-aarch64.so.1")
    flags = ("-fPIE", "-nostdinc", *headers, *linked)
    run(compiler, *flags, libc / "Scrt1.o", source, "-lc", "-lgcc", "-o", program)
    return program


def arms_musl(place: Path) -> Path:
    """The root of Debian's package of musl for the other processor, from this machine's mirror."""
    version = run("dpkg-query", "--show", "--showformat=${Version}", "musl").stdout
    for source in sources():
        mirror = source.split()[1].rstrip("/")
        file = place / "musl.deb"
        url = f"{mirror}/pool/main/m/musl/musl_{version}_arm64.deb"
        if run("/usr/lib/apt/apt-helper", "download-file", url, file, check=False).returncode == 0:
            run("dpkg-deb", "--extract", file, place / "root")
            return place / "root"
    pytest.fail("infrastructure: no mirror of Debian gives its musl for 64-bit ARM")
