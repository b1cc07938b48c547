"""`loft compare --stats`: what loft says of itself, from every process and whatever it wrote."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support import Compile, Loft, one_line

from loft_malloc import told_stats


def test_each_process_of_each_row_of_loft(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    # Says what statistics look like, closes what they are usually written to, and has a child.
    program = compiled(
        "two",
        """
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
          fprintf(stderr, "{\\"loft\\": \\"no\\"}\\n");
          fclose(stderr);
          close(2);
          void* kept = malloc(5 << 20);
          memset(kept, 1, 5 << 20);
          if (fork() != 0) wait(NULL);
          return kept == NULL;
        }
        """,
        "-O0",
    )
    ran = loft(
        "compare", "--runs", "1", "--with", "glibc,loft,loft:owner=cpu", "--stats", tmp_path / "s",
        "--", program,
    )  # fmt: skip
    assert ran.returncode == 0
    assert one_line(ran.stderr).startswith("loft: 1 round is too few")
    told = json.loads((tmp_path / "s").read_text())
    assert (told["schema"], told["command"]) == (1, [str(program)])
    assert [row["name"] for row in told["rows"]] == ["loft", "loft owner=cpu"]
    assert told["rows"][1]["variables"] == {"LOFT_OWNER": "cpu"}
    for row in told["rows"]:
        assert len({process["pid"] for process in row["processes"]}) == 2
        for process in row["processes"]:
            assert process["stats"]["live_bytes"] >= 5 << 20
            assert process["stats"]["classes"]


def test_a_process_that_tells_nothing_is_named(loft: Loft, tmp_path: Path) -> None:
    quick = "import os; os._exit(0)"
    ran = loft(
        "compare", "--runs", "1", "--with", "loft", "--stats", tmp_path / "s", "--", sys.executable,
        "-c", quick,
    )  # fmt: skip
    assert "no statistics of loft: no process ended by exit" in ran.stdout
    assert json.loads((tmp_path / "s").read_text())["rows"][0]["processes"] == []


def test_without_loft_there_are_none(loft: Loft, tmp_path: Path) -> None:
    ran = loft("compare", "--with", "glibc", "--stats", tmp_path / "s", "--", "true")
    assert ran.returncode == 2
    assert "--stats: only loft has statistics" in one_line(ran.stderr)
    ran = loft("compare", "--with", "loft", "--stats", "/no/such/file", "--", "true")
    assert "/no/such/file cannot be written" in one_line(ran.stderr)


def test_what_was_cut_off_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "12").write_text('{"a": 1}\n{"a": 2}\n{"a":')
    (tmp_path / "7").write_text('{"a": 3}\n[1]\n')
    (tmp_path / "other").write_text('{"a": 4}\n')
    assert told_stats.read(tmp_path) == [(7, {"a": 3}), (12, {"a": 1}), (12, {"a": 2})]
