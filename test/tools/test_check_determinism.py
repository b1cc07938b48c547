"""The checker of what makes tests depend on time, luck, the machine or a network."""

from __future__ import annotations

from pathlib import Path

import pytest
from check_determinism import Finding, findings
from trees import write_tree


def found(tmp_path: Path, name: str, text: str) -> list[tuple[int, str]]:
    write_tree(tmp_path, {name: text})
    return [(each.line, each.kind) for each in findings(tmp_path) if not each.reason]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("time.sleep(1)", "time"),
        ("assert time.monotonic() < limit", "time"),
        ("process.wait(5)", "time"),
        ("subprocess.run(command, timeout=5)", "time"),
        ('run("sleep 0.5; exit 1")', "time"),
        ('run("import time; time.sleep(2)")', "time"),
        ('run(f"{program}; usleep(3000);")', "time"),
        ("gzip.compress(data)", "time"),
        ("random.shuffle(list)", "seed"),
        ("draw = random.Random()", "seed"),
        ("os.urandom(64)", "seed"),
        ('Path("/proc/sys/vm/overcommit_memory").write_text("1")', "machine"),
        ('open("/sys/kernel/mm/transparent_hugepage/enabled", "w")', "machine"),
        ('subprocess.run(["cargo", "fetch", "--locked"])', "network"),
        ('said("mmdebstrap", "bookworm", folder)', "network"),
        ('urllib.request.urlopen("http://example.org")', "network"),
    ],
)
def test_what_python_may_not_do(tmp_path: Path, line: str, kind: str) -> None:
    assert found(tmp_path, "test/cli/test_it.py", f"def test_it():\n    {line}\n") == [(2, kind)]


@pytest.mark.parametrize(
    "line",
    [
        'run("sleep 1000 & wait")',
        'run("time.sleep(100000)")',
        "subprocess.run(command)",
        "gzip.compress(data, mtime=0)",
        "random.Random(7).shuffle(list)",
        'Path("/proc/sys/vm/overcommit_memory").read_text()',
        'said("cargo", "build", "--offline")',
        '"""It waits, as time.sleep(1) would."""',
        "while not there():\n        time.sleep(0.01)",
        'run("""\nwhile not there():\n    time.sleep(0.01)\n""")',
        'run("trap x TERM; while :; do sleep 0.01; done")',
    ],
)
def test_what_python_may_do(tmp_path: Path, line: str) -> None:
    assert found(tmp_path, "test/cli/test_it.py", f"def test_it():\n    {line}\n") == []


def test_a_bounded_wait_is_none_for_an_event(tmp_path: Path) -> None:
    text = "while not there() and time.monotonic() < limit:\n    time.sleep(0.01)\n"
    assert found(tmp_path, "test/cli/it.py", text) == [(1, "time")]
    # What follows is done once after each nap.
    text = "while not there():\n    time.sleep(0.01)\n    tries += 1\n"
    assert found(tmp_path, "test/cli/it.py", text) == [(2, "time")]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("std::this_thread::sleep_for(nap);", "time"),
        ("for (int i = 0; i < 9 && wrong(); ++i) usleep(1000);", "time"),
        ("const auto end = std::chrono::steady_clock::now();", "time"),
        ("done.wait_for(lock, limit);", "time"),
        ("while (time(NULL) < end) work();", "time"),
        ("std::random_device entropy;", "seed"),
        ('std::ofstream("/sys/kernel/mm/transparent_hugepage/enabled") << "never";', "machine"),
    ],
)
def test_what_cpp_may_not_do(tmp_path: Path, line: str, kind: str) -> None:
    assert found(tmp_path, "test/storm/it_test.cc", f"{line}\n") == [(1, kind)]


@pytest.mark.parametrize(
    "line",
    [
        "while (!done) usleep(1000);",
        "while (queue.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));",
        "wait_for(&begun);",
        "// steady_clock tells the time",
        'std::ifstream("/proc/sys/vm/overcommit_memory") >> policy;',
        'put("/sys/fs/cgroup/box/memory.max", "max"); std::ofstream made_up(root + path);',
    ],
)
def test_what_cpp_may_do(tmp_path: Path, line: str) -> None:
    assert found(tmp_path, "test/storm/it_test.cc", f"{line}\n") == []


def test_what_the_night_runs_is_not_read(tmp_path: Path) -> None:
    nap = "    time.sleep(1)\n"
    for text in (
        f"pytestmark = pytest.mark.night\ndef test_it():\n{nap}",
        f'pytestmark = [pytest.mark.machine, pytest.mark.xdist_group("a")]\ndef test_it():\n{nap}',
        f"@pytest.mark.night\ndef test_it():\n{nap}",
    ):
        assert found(tmp_path, "test/cli/test_it.py", text) == []
    # The marker is that function's alone.
    text = f"@pytest.mark.night\ndef test_it():\n{nap}def test_other():\n{nap}"
    assert found(tmp_path, "test/cli/test_it.py", text) == [(5, "time")]
    (tmp_path / "test/cli/test_it.py").unlink()
    assert found(tmp_path, "test/suites/test_it.py", nap.strip()) == []
    assert found(tmp_path, "test/storm/idle_night_test.cc", "usleep(1);") == []
    assert found(tmp_path, "test/storm/grows_machine_test.cc", "usleep(1);") == []


def test_an_exception_has_a_reason(tmp_path: Path) -> None:
    files = {
        "test/cli/it.py": "time.sleep(1)  # time: the screen is drawn each second\n",
        "test/unit/it.cc": "usleep(1);  // time: that is what is tested\n",
    }
    write_tree(tmp_path, files)
    assert findings(tmp_path) == [
        Finding("test/cli/it.py", 1, "time", "time.sleep", "the screen is drawn each second"),
        Finding("test/unit/it.cc", 1, "time", "usleep", "that is what is tested"),
    ]
    # A reason for one thing is none for another.
    assert found(tmp_path, "test/unit/it.cc", "getrandom();  // time: why\n") == [(1, "seed")]
    assert found(tmp_path, "test/unit/it.cc", "usleep(1);  // time:\n") == [(1, "time")]
