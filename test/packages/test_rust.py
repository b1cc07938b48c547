"""The Rust crates: their tests with both C libraries, their packages, and programs that use them.

All builds go to build/rust, where a second run finds them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import crates
import pytest
from commands import VERSION, said

ROOT = Path(__file__).resolve().parent.parent.parent
RUST = ROOT / "bindings" / "rust"
BUILD = ROOT / "build" / "rust"
WRITER = ROOT / "tools" / "rust_bindings.py"
MUSL = "x86_64-unknown-linux-musl"
FEATURES = ["--features", "allocator-api2,inspect"]
# What a crate's tests print, one line for each of their programs.
PASSED = re.compile(r"test result: ok\. (\d+) passed; 0 failed; 0 ignored")


@dataclass(frozen=True)
class Cargo:
    """Runs cargo, with the packages that it has fetched."""

    target: Path = BUILD

    def __call__(self, *words: str | Path, at: Path = RUST, **variables: str) -> str:
        """What it prints, on both of its outputs."""
        done = subprocess.run(
            ["cargo", *words],
            cwd=at,
            env={
                **os.environ,
                "CARGO_TARGET_DIR": str(self.target),
                "CARGO_NET_OFFLINE": "true",
                "CARGO_TERM_COLOR": "never",
                "RUST_BACKTRACE": "0",
                **variables,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"cargo {words} ended with {done.returncode}: {done.stdout}"
        return done.stdout


@pytest.fixture(scope="session")
def cargo() -> Cargo:
    # The one step that may need a network.
    fetched = subprocess.run(["cargo", "fetch", "--locked"], cwd=RUST, capture_output=True)
    if fetched.returncode != 0:
        pytest.fail("infrastructure: cargo cannot fetch what bindings/rust/Cargo.lock names")
    return Cargo()


def passed(printed: str) -> int:
    return sum(int(count) for count in PASSED.findall(printed))


def test_bindings_are_those_of_the_header() -> None:
    said(sys.executable, WRITER, "--check")
    asserts = said(sys.executable, WRITER, "--asserts")
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", "-xc++", "-"]
    checked = subprocess.run(command, input=asserts, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_version_is_that_of_the_header() -> None:
    workspace = (RUST / "Cargo.toml").read_text()
    assert re.search(r'^version = "(.*)"', workspace, re.MULTILINE)[1] == VERSION  # type: ignore[index]
    needs = (RUST / "loft-malloc" / "Cargo.toml").read_text()
    assert f'loft-malloc-sys = {{ version = "={VERSION}"' in needs
    named = re.findall(r'name = "loft-.*"\nversion = "(.*)"', (RUST / "Cargo.lock").read_text())
    assert named == [VERSION] * len(crates.CRATES)


def test_crates_pass_their_tests(cargo: Cargo) -> None:
    assert passed(cargo("test", "--locked", *FEATURES)) > 40


def test_crates_need_no_standard_library(cargo: Cargo) -> None:
    cargo("check", "--locked", "--no-default-features", *FEATURES)


def test_code_is_clean(cargo: Cargo) -> None:
    cargo("fmt", "--check")
    cargo("clippy", "--locked", "--all-targets", *FEATURES, "--", "-D", "warnings")
    cargo("doc", "--locked", "--no-deps", *FEATURES, RUSTDOCFLAGS="-D warnings")


def test_a_service_under_load(cargo: Cargo) -> None:
    service = ["run", "--quiet", "--locked", *FEATURES, "--example", "service", "--"]
    printed = cargo(*service, "--compare", "--requests", "20000")
    sums = re.findall(r"^(\w+): 20000 requests in .*, sum (\d+)$", printed, re.MULTILINE)
    assert [name for name, _ in sums] == ["system", "loft"]
    assert sums[0][1] == sums[1][1]
    told = re.search(r"^loft (.*): (\d+) objects went to other threads", printed, re.MULTILINE)
    assert told is not None
    assert told[1] == VERSION
    assert int(told[2]) > 1000


def test_a_library_with_loft_inside_is_opened(cargo: Cargo) -> None:
    cargo("build", "--locked", *FEATURES, "--example", "plugin")
    library = BUILD / "debug" / "examples" / "libplugin.so"
    shown = {line.split()[-1] for line in said("nm", "-D", "--defined-only", library).splitlines()}
    assert shown == {"plugin_count_words", "plugin_live_bytes"}
    opened = said(
        sys.executable,
        "-c",
        "import ctypes, sys\n"
        "plugin = ctypes.CDLL(sys.argv[1])\n"
        "plugin.plugin_live_bytes.restype = ctypes.c_uint64\n"
        "print(plugin.plugin_count_words(b'The cat and the dog'), plugin.plugin_live_bytes())",
        library,
    )
    words, live = opened.split()
    assert words == "4"
    assert int(live) < 1 << 20


def has_library_for(target: str) -> bool:
    sysroot = Path(said("rustc", "--print", "sysroot").strip())
    return (sysroot / "lib" / "rustlib" / target / "lib").is_dir()


def test_crates_pass_their_tests_with_static_musl(cargo: Cargo) -> None:
    if not has_library_for(MUSL):
        pytest.skip(f"rustc has no library for {MUSL}; `rustup target add` brings it")
    linked = ["--locked", *FEATURES, "--target", MUSL]
    assert passed(cargo("test", *linked, "--lib", "--tests")) > 30
    # A program of its own, without a loader.
    cargo("build", *linked, "--example", "service")
    service = BUILD / MUSL / "debug" / "examples" / "service"
    assert "loft: 2000 requests" in said(service, "--requests", "2000")
    assert "NEEDED" not in said("readelf", "-d", service)


@pytest.fixture(scope="session")
def packages(cargo: Cargo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked packages, as crates.io would have them."""
    folder = tmp_path_factory.mktemp("packages")
    for packed in crates.pack(folder):
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
    return folder


def test_packages_have_what_they_need_and_no_more(packages: Path) -> None:
    def files(crate: str) -> set[str]:
        folder = packages / f"{crate}-{VERSION}"
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    made_by_cargo = {"Cargo.lock", "Cargo.toml", "Cargo.toml.orig"}
    assert files("loft-malloc-sys") - made_by_cargo == {
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "build.rs",
        "src/bindings.rs",
        "src/lib.rs",
        "src-c/loft.cc",
        "src-c/loft_core.cc",
        "src-c/loft_inspect.cc",
        "src-c/loft/loft.h",
        "src-c/musl/bits/c++config.h",
        "src-c/musl/bits/c++locale.h",
        "src-c/musl/bits/os_defines.h",
    }
    tracked = set(said("git", "ls-files", at=RUST / "loft-malloc").split())
    assert files("loft-malloc") - made_by_cargo == tracked - {"Cargo.toml"}


def test_a_package_passes_its_tests_where_c_code_has_loft_too(cargo: Cargo, packages: Path) -> None:
    crate = packages / f"loft-malloc-{VERSION}"
    other = packages / f"loft-malloc-sys-{VERSION}"
    words = ["--config", f'patch.crates-io.loft-malloc-sys.path="{other}"', "--tests", "--lib"]
    printed = Cargo(packages / "built")(
        "test", "--features", "allocator-api2,override", *words, at=crate
    )
    assert passed(printed) > 30
