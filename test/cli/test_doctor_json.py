"""`loft doctor --json`: the same findings, for programs."""

from __future__ import annotations

import json
import os

from support import Compile, Loft


def test_json_says_what_the_lines_say(loft: Loft) -> None:
    printed = loft("doctor", "--", "true")
    ran = loft("doctor", "--json", "--", "true")
    assert (ran.returncode, ran.stderr) == (printed.returncode, "")
    told = json.loads(ran.stdout)
    assert told["schema"] == 1
    assert told["works"] is (ran.returncode == 0)
    assert (told["command"], told["pid"]) == (["true"], None)
    assert told["machine"]["kernel"] == os.uname().release
    for each in told["findings"]:
        assert set(each) == {"level", "what", "value", "why", "do", "blocks"}
        assert each["level"] in ("ok", "note", "warning")
        assert f"{each['what']}: " in printed.stdout
        assert each["why"] in printed.stdout


def test_json_of_what_keeps_loft_from_working(loft: Loft, compiled: Compile) -> None:
    program = compiled("alone", "int main(void) { return 0; }", "-static")
    ran = loft("doctor", "--json", "--", program)
    assert ran.returncode == 1
    told = json.loads(ran.stdout)
    assert told["works"] is False
    assert [each["level"] for each in told["findings"] if each["blocks"]] == ["warning"]
