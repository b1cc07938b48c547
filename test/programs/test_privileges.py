"""A program that may more than its user takes no orders from the user's environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

int main(void) {
  free(malloc(100));
  puts(getauxval(AT_SECURE) ? "more rights" : "its user's rights");
}
"""
BESIDE = r"""
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

int loft_option_set(const char* name, const char* value);

int main(void) {
  const int failed = loft_option_set("profile", "on");
  char line[4096];
  int opened = 0;
  FILE* const maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
    opened |= strstr(line, "libloft-inspect.so") != NULL;
  }
  puts(getauxval(AT_SECURE) ? opened ? "more rights, opened" : "more rights"
                            : opened ? "its user's rights, opened" : "its user's rights");
  return failed;
}
"""
NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where everybody may look, unlike in pytest's own folders."""
    with tempfile.TemporaryDirectory(prefix="loft-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program that may more")
@pytest.mark.parametrize("mode", [0o755, 0o4755], ids=["plain", "setuid"])
def test_options_in_the_environment(folder: Path, lib: Path, mode: int) -> None:
    library = folder / "libloft.so.0"
    shutil.copy(lib.resolve(), library)
    library.chmod(0o755)
    (folder / "main.c").write_text(SOURCE)
    program = folder / "main"
    subprocess.run(
        [
            "gcc",
            folder / "main.c",
            library,
            f"-Wl,-rpath,{folder}",
            "-fno-builtin",
            "-o",
            program,
        ],
        check=True,
    )
    program.chmod(mode)
    result = subprocess.run(
        [program],
        env={"LOFT_STATS": "text", "LOFT_OWNER": "nonsense"},
        user=NOBODY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0
    if mode == 0o755:
        assert result.stdout == "its user's rights\n"
        assert "LOFT_OWNER" in result.stderr
        assert "\nResident memory\n" in result.stderr
    elif result.stdout == "its user's rights\n":
        pytest.skip("setuid has no effect here")
    else:
        assert (result.stdout, result.stderr) == ("more rights\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program that may more")
@pytest.mark.parametrize("mode", [0o755, 0o4755], ids=["plain", "setuid"])
def test_what_lies_beside_the_program(folder: Path, lib: Path, mode: int) -> None:
    """Its user may have linked to it from a folder of his own."""
    (folder / "libloft-inspect.so").write_bytes((lib.parent / "libloft-inspect.so").read_bytes())
    (folder / "libloft-inspect.so").chmod(0o755)
    (folder / "main.c").write_text(BESIDE)
    program = folder / "main"
    linked: list[str | Path] = ["-Wl,-u,malloc", lib.parent / "libloft.a", "-rdynamic", "-pthread"]
    subprocess.run(["gcc", folder / "main.c", *linked, "-o", program], check=True)
    program.chmod(mode)
    result = subprocess.run(
        [program], user=NOBODY, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0
    if mode == 0o755:
        assert (result.stdout, result.stderr) == ("its user's rights, opened\n", "")
    elif result.stdout.startswith("its user's rights"):
        pytest.skip("setuid has no effect here")
    else:
        assert result.stdout == "more rights\n"
        assert "there are no stacks" in result.stderr
