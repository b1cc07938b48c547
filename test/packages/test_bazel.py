"""loft as a part of Bazel's projects.

The build runs where there is a Bazel: Debian's, of version 4.2, needs no network if it is given its
rules, which were macros around what is built in.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import pytest
from commands import CORE_PROGRAM, CORE_RAN, PROGRAM, QUIET, RAN, ROOT, VERSION, is_served, said

RULES = {
    "cc": "binary import library test toolchain toolchain_suite",
    "java": "binary import library package_configuration plugin runtime test toolchain",
}
BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_binary")
cc_binary(name = "with_loft", srcs = ["loft.c"], deps = ["@loft-malloc//:loft"])
cc_binary(name = "quiet", srcs = ["quiet.c"], deps = ["@loft-malloc//:loft"])
cc_binary(name = "with_core", srcs = ["core.c"], deps = ["@loft-malloc//:core"])
"""


def test_the_module_has_the_librarys_version() -> None:
    module = (ROOT / "MODULE.bazel").read_text()
    told = re.findall(r'module\(\s*name = "loft-malloc",\s*version = "(.*)",', module)
    assert told == [VERSION]


def rules(folder: Path) -> str:
    """Those that Bazel had built in up to its eighth version."""
    text = ""
    for name, kinds in RULES.items():
        (folder / name / name).mkdir(parents=True)
        (folder / name / "WORKSPACE").touch()
        (folder / name / name / "BUILD").touch()
        lines = [f"{name}_{kind} = native.{name}_{kind}\n" for kind in kinds.split()]
        (folder / name / name / "defs.bzl").write_text("".join(lines))
        text += f'local_repository(name = "rules_{name}", path = "{folder / name}")\n'
    return text


def test_programs_depend_on_the_module(recipes: Path, tmp_path: Path) -> None:
    if shutil.which("bazel") is None:
        pytest.skip("there is no bazel; Debian's is bazel-bootstrap")
    archive = recipes / f"loft-malloc-{VERSION}.tar.gz"
    user = tmp_path / "user"
    user.mkdir()
    (user / "WORKSPACE").write_text(
        'load("@bazel_tools//tools/build_defs/repo:http.bzl", "http_archive")\n'
        f"{rules(tmp_path / 'rules')}"
        "http_archive(\n"
        '    name = "loft-malloc",\n'
        f'    sha256 = "{hashlib.sha256(archive.read_bytes()).hexdigest()}",\n'
        f'    strip_prefix = "loft-malloc-{VERSION}",\n'
        f'    urls = ["file://{archive}"],\n'
        ")\n"
    )
    (user / "BUILD").write_text(BUILD)
    (user / "loft.c").write_text(PROGRAM)
    (user / "core.c").write_text(CORE_PROGRAM)
    (user / "quiet.c").write_text(QUIET)
    # No server that would stay behind, and nothing in the home.
    start = ["bazel", "--batch", f"--output_user_root={tmp_path / 'root'}"]
    said(*start, "build", "//:with_loft", "//:quiet", "//:with_core", at=user)
    assert said(user / "bazel-bin" / "with_loft") == RAN
    assert said(user / "bazel-bin" / "with_core") == CORE_RAN
    assert is_served(user / "bazel-bin" / "quiet")
