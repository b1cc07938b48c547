"""Runs the commands that a user types, and says what went wrong; and the programs to be built."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from amalgamate import version_of
from check_includes import PUBLIC_HEADER

ROOT = Path(__file__).resolve().parent.parent.parent

# Its malloc is loft's, and it has loft's header. It prints RAN.
PROGRAM = """\
#include <loft/loft.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  char* p = malloc(100);
  if (p == NULL || loft_object_start(p + 50) != p) return 1;
  free(p);
  puts("loft " LOFT_VERSION_STRING);
  return 0;
}
"""
VERSION = version_of(ROOT / "include" / PUBLIC_HEADER)
# Its malloc is libc's, and it has loft's beside it. It prints CORE_RAN.
CORE_PROGRAM = """\
#include <loft/loft.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  char* libcs = malloc(100);
  char* ours = loft_malloc(100);
  if (loft_object_start(ours + 50) != ours || loft_object_start(libcs) != NULL) return 1;
  loft_free(ours);
  free(libcs);
  puts("loft " LOFT_VERSION_STRING " beside libc");
  return 0;
}
"""
# Names no function of loft, and calls a function of libc's that allocates.
QUIET = """\
#include <stdio.h>
#include <string.h>
int main(int count, char** words) { return count != 1 || puts(strdup(words[0])) < 0; }
"""
RAN = f"loft {VERSION}\n"
CORE_RAN = f"loft {VERSION} beside libc\n"


def said(*command: str | Path, at: Path | None = None, **variables: str) -> str:
    """What the command prints; a test whose command fails ends with all that it has said."""
    done = subprocess.run(
        list(command),
        cwd=at,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
    )
    return done.stdout


def is_served(program: str | Path, **variables: str) -> bool:
    """Whether loft was the malloc of a program, such as QUIET is, and has told of its objects."""
    done = subprocess.run(
        [program],
        env={**os.environ, "LOFT_STATS": "json", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"{program}\n"), done.stderr
    return bool(done.stderr) and json.loads(done.stderr)["live_objects"] > 0
