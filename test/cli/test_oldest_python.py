"""The package runs on Python 3.9, though these tests do not.

Ruff looks for grammar that it lacks; here is what only shows when a module is loaded.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

PACKAGE = ROOT / "python" / "loft_malloc"
MODULES = sorted(PACKAGE.rglob("*.py"))


def evaluated(tree: ast.Module) -> Iterator[ast.AST]:
    """All but annotations, if the module says that these are text."""
    texts = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body)
    annotations: set[ast.AST] = set()
    for node in ast.walk(tree) if texts else ():
        for name in ("annotation", "returns"):
            if (found := getattr(node, name, None)) is not None:
                annotations.update(ast.walk(found))
    return (node for node in ast.walk(tree) if node not in annotations)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_types_are_joined_at_run_time(path: Path) -> None:
    types = {"None", "int", "str", "float", "bytes", "Path", "list", "dict"}
    for node in evaluated(ast.parse(path.read_text())):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = {ast.unparse(side).partition("[")[0] for side in (node.left, node.right)}
            assert not sides & types, f"line {node.lineno}: Optional or Union is needed"
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
            assert not node.keywords, f"line {node.lineno}: zip has no strict there"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["compare", "--html", "page.html", "--", "true"], "--html"),
        (["map", "--read", "map.json", "--png", "map.png"], "--png"),
    ],
)
def test_what_draws_says_what_to_install(words: list[str], option: str) -> None:
    script = "import sys; sys.modules['matplotlib'] = None; from loft_malloc import extras, start; "
    script += "extras.find_spec = lambda name: None; start.main()"
    command = [sys.executable, "-c", script, *words]
    ran = subprocess.run(command, capture_output=True, text=True)
    ways = "apt-get install python3-matplotlib, or pip install matplotlib"
    said = f"loft: {option} needs matplotlib: {ways}\n"
    assert (ran.returncode, ran.stderr) == (2, said)


def test_the_command_says_where_it_cannot_work() -> None:
    script = "import sys; sys.platform = 'darwin'; import loft_malloc.__main__"
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True)
    said = "loft: the command needs Linux, and this is darwin; see docs/install.md\n"
    assert (ran.returncode, ran.stderr) == (1, said)


def test_the_module_does_what_the_command_does() -> None:
    command = [sys.executable, "-m", "loft_malloc", "run", "--", "cat", "/proc/self/maps"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert "libloft.so" in ran.stdout
