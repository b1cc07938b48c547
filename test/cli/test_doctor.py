"""`loft doctor`, on this machine and on made-up ones."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from pathlib import Path

import pytest
from support import FORWARDING_MALLOC, OWN_MALLOC, Compile, Loft

from loft_malloc import check_machine, check_program, doctor_command
from loft_malloc.finding import Finding
from loft_malloc.machine import Machine

LIMITS = "Limit                     Soft Limit           Hard Limit           Units\n"


class Made:
    """A tree of /proc and /sys with the files a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.put("proc/self/limits", LIMITS + "Max address space  unlimited  unlimited  bytes\n")
        self.put("proc/sys/vm/max_map_count", "65530\n")
        self.put("proc/sys/vm/overcommit_memory", "0\n")
        self.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def machine(
        self,
        environment: dict[str, str] | None = None,
        page_size: int = 4096,
        rseq_size: int | None = 20,
    ) -> Machine:
        folders = self.folder / "proc", self.folder / "sys"
        settings = self.folder / "loft.conf", os.geteuid()
        return Machine(*folders, "self", environment or {}, page_size, rseq_size, *settings)

    def find(self, what: str, machine: Machine | None = None) -> Finding:
        findings = check_machine.check(machine or self.machine())
        return next(finding for finding in findings if finding.what == what)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_a_plain_machine_is_fine(made: Made) -> None:
    assert {finding.level for finding in check_machine.check(made.machine())} == {"ok"}


def test_a_machine_that_shows_nothing_is_fine(tmp_path: Path) -> None:
    machine = Machine(tmp_path, tmp_path, "self", {}, 4096, None, tmp_path / "loft.conf")
    assert {finding.level for finding in check_machine.check(machine)} == {"ok"}


SETTINGS = "settings for all processes"


def test_settings_for_all_processes(made: Made) -> None:
    path = made.folder / "loft.conf"
    finding = made.find(SETTINGS)
    assert (finding.value, finding.level) == (f"{path} does not exist", "ok")
    made.put("loft.conf", "# for all\nmisuse = stop\n\ncache_bytes=1M")
    path.chmod(0o644)
    finding = made.find(SETTINGS)
    assert (finding.value, finding.level) == (f"{path} sets misuse=stop cache_bytes=1M", "note")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("colour=red", "line 1: there is no option 'colour'"),
        ("\nstats=loud", "line 2: stats=loud: expected off, text, json, prometheus"),
        ("stats", "line 1: option stats: write name=value"),
        ("stats=text\nstats=json", "line 2: stats contradicts line 1"),
    ],
)
def test_mistakes_in_the_settings(made: Made, text: str, mistake: str) -> None:
    made.put("loft.conf", text)
    (made.folder / "loft.conf").chmod(0o644)
    finding = made.find(SETTINGS)
    assert finding.level == "warning"
    assert mistake in finding.do


def test_settings_that_are_ignored(made: Made) -> None:
    path = made.folder / "loft.conf"
    made.put("loft.conf", "stats=text")
    path.chmod(0o666)
    said = f"{path} is ignored: others can write to it, too"
    assert (made.find(SETTINGS).value, made.find(SETTINGS).level) == (said, "warning")
    path.chmod(0o644)
    strangers = dataclasses.replace(made.machine(), settings_owner=os.geteuid() + 1)
    assert made.find(SETTINGS, strangers).value == f"{path} is ignored: root does not own it"
    made.put("loft.conf", "#" * (65 << 10))
    assert made.find(SETTINGS).value == f"{path} is ignored: it is longer than 64 KiB"
    path.unlink()
    path.symlink_to("/dev/null")
    assert made.find(SETTINGS).value == f"{path} is ignored: it is a symbolic link"
    path.unlink()
    os.mkfifo(path)
    assert made.find(SETTINGS).value == f"{path} is ignored: it is not a regular file"


@pytest.mark.parametrize(
    ("text", "value", "level"),
    [
        ("[always] madvise never", "always", "note"),
        ("always [madvise] never", "madvise", "ok"),
        ("always madvise [never]", "never", "ok"),
    ],
)
def test_huge_pages(made: Made, text: str, value: str, level: str) -> None:
    made.put("sys/kernel/mm/transparent_hugepage/enabled", text)
    finding = made.find("transparent huge pages")
    assert (finding.value, finding.level) == (value, level)


def test_strict_overcommit(made: Made) -> None:
    made.put("proc/sys/vm/overcommit_memory", "2\n")
    made.put("proc/meminfo", "MemTotal: 8 kB\nCommitLimit:     4194304 kB\n")
    finding = made.find("overcommit")
    assert (finding.value, finding.level) == ("2 (strict, 4.0 GiB in all)", "note")
    assert "mapped" in finding.why
    assert "dirty_bytes" in finding.do


def test_few_mappings(made: Made) -> None:
    made.put("proc/sys/vm/max_map_count", "1024\n")
    finding = made.find("vm.max_map_count")
    assert (finding.value, finding.level) == ("1024", "warning")
    assert "sysctl" in finding.do


@pytest.mark.parametrize(
    ("limit", "value", "level"),
    [(4 << 30, "4.0 GiB", "ok"), (128 << 20, "128.0 MiB", "ok"), (64 << 20, "64.0 MiB", "warning")],
)
def test_limited_address_space(made: Made, limit: int, value: str, level: str) -> None:
    made.put("proc/self/limits", LIMITS + f"Max address space   {limit}   unlimited   bytes\n")
    finding = made.find("limit of address space")
    assert (finding.value, finding.level) == (value, level)


GROUP = "memory limit of the control group"


def test_a_limit_of_version_2(made: Made) -> None:
    made.put("proc/self/cgroup", "0::/outer/inner\n")
    made.put("sys/fs/cgroup/outer/memory.max", f"{512 << 20}\n")
    made.put("sys/fs/cgroup/outer/inner/memory.max", "max\n")
    made.put("sys/fs/cgroup/outer/inner/memory.high", f"{256 << 20}\n")
    finding = made.find(GROUP)
    assert finding.level == "ok"
    assert finding.value.startswith("512.0 MiB (")
    assert finding.value.endswith("outer/memory.max)")
    assert "LOFT_CGROUP=hard" in finding.why
    finding = made.find(GROUP, made.machine({"LOFT_CGROUP": "off"}))
    assert finding.level == "note"
    assert "LOFT_CGROUP" in finding.do
    finding = made.find(GROUP, made.machine({"LOFT_CGROUP": "watch"}))
    assert finding.value.endswith("inner/memory.high)")


def test_a_limit_of_version_1(made: Made) -> None:
    made.put("proc/self/cgroup", "9:cpu,memory:/box\n0::/\n")
    made.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    made.put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", f"{256 << 20}\n")
    finding = made.find(GROUP)
    assert finding.level == "ok"
    assert finding.value.startswith("256.0 MiB (")
    finding = made.find(GROUP, made.machine({"LOFT_CGROUP": "off"}))
    assert finding.level == "note"
    assert "dirty_bytes" in finding.why


def test_processors(made: Made) -> None:
    what = "processor limit of the control group"
    made.put("proc/self/cgroup", "0::/outer/inner\n")
    made.put("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n")
    assert made.find(what).value == "none"
    made.put("sys/fs/cgroup/outer/cpu.max", "150000 100000\n")
    finding = made.find(what)
    assert finding.level == "note"
    assert finding.value.startswith("1.5 processors (")


def test_limits_of_lofts_own(made: Made) -> None:
    what = "loft's own limits"
    assert made.find(what).value == "none"
    machine = made.machine({"LOFT_SOFT_LIMIT": "1G", "LOFT_HARD_LIMIT": "2G"})
    assert made.find(what, machine).value == "soft 1G, hard 2G"


def test_a_wide_limit_and_none(made: Made) -> None:
    made.put("proc/self/cgroup", "0::/box\n")
    assert made.find(GROUP).value == "none"
    made.put("sys/fs/cgroup/unified/box/memory.max", f"{8 << 30}\n")
    assert made.find(GROUP).level == "ok"
    assert made.find(GROUP).value.startswith("8.0 GiB")


def test_pages(made: Made) -> None:
    assert made.find("page size", made.machine(page_size=65536)).level == "ok"
    finding = made.find("page size", made.machine(page_size=262144))
    assert finding.level == "warning"
    assert finding.blocks


def test_restartable_sequences(made: Made) -> None:
    what = "restartable sequences"
    assert "offered by the kernel" in made.find(what).value
    assert "not offered" in made.find(what, made.machine(rseq_size=0)).value
    tuned = made.machine({"GLIBC_TUNABLES": "a=1:glibc.pthread.rseq=0"}, rseq_size=0)
    finding = made.find(what, tuned)
    assert finding.level == "note"
    assert "GLIBC_TUNABLES" in finding.value


@pytest.mark.parametrize("rseq_size", [0, None])
def test_an_owner_without_its_restartable_sequences(made: Made, rseq_size: int | None) -> None:
    what = "restartable sequences"
    by_processor = {"LOFT_OWNER": "cpu"}
    finding = made.find(what, made.machine(by_processor, rseq_size=rseq_size))
    assert (finding.level, finding.blocks) == ("warning", False)
    assert "takes a lock" in finding.why
    assert "LOFT_OWNER" in finding.do
    off = made.machine({**by_processor, "GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
    assert made.find(what, off).level == "warning"
    assert made.find(what, made.machine(by_processor)).level == "ok"
    assert "only owner=cpu" in made.find(what, made.machine(rseq_size=rseq_size)).why


def test_what_is_preloaded_already(made: Made, failing: Path, compiled: Compile) -> None:
    harmless = compiled("harmless.so", "int nothing;", "-shared", "-fPIC")
    preloaded = f"{failing}:/no/such.so:{harmless}"
    findings = list(check_program.check_environment(made.machine({"LD_PRELOAD": preloaded})))
    assert [finding.level for finding in findings] == ["note", "warning", "ok"]
    assert [finding.value for finding in findings] == [str(failing), "/no/such.so", str(harmless)]


def test_a_bare_name_is_searched_for_as_the_loader_does(made: Made, failing: Path) -> None:
    for variables, level in (({"LD_LIBRARY_PATH": f"/no:{failing.parent}"}, "note"), ({}, "ok")):
        machine = made.machine({"LD_PRELOAD": failing.name, **variables})
        (finding,) = check_program.check_environment(machine)
        assert (finding.level, finding.value) == (level, failing.name)


def test_a_variable_that_is_nearly_an_option(made: Made) -> None:
    variables = {"LOFT_DECAY": "1", "LOFT_CACHE_BYTES": "64K", "LOFT_HOME": "/", "DECAY_M": ""}
    (finding,) = check_program.check_environment(made.machine(variables))
    assert finding.level == "warning"
    assert finding.value.startswith("LOFT_DECAY is no option of loft")
    assert "did you mean LOFT_DECAY_MS?" in finding.value
    assert not finding.blocks


@pytest.mark.parametrize("flags", [[], ["-rdynamic"]])
def test_a_program_with_its_own_malloc(loft: Loft, compiled: Compile, flags: list[str]) -> None:
    ran = loft("doctor", "--", compiled("own", OWN_MALLOC, "-fno-builtin", *flags))
    assert ran.returncode == 1
    assert "warning" in ran.stdout
    assert "has a malloc of its own" in ran.stdout


def test_a_program_linked_with_an_allocator(loft: Loft, failing: Path, compiled: Compile) -> None:
    folder = failing.parent
    program = compiled(
        "linked",
        "int main(void) { return 0; }",
        "-Wl,--no-as-needed",
        str(failing),
        f"-Wl,-rpath,{folder}",
    )
    ran = loft("doctor", "--", program)
    assert ran.returncode == 0
    assert f"linked library: {failing}" in ran.stdout
    assert "has a malloc of its own" in ran.stdout


def test_a_program_linked_with_loft(loft: Loft, build: Path, compiled: Compile) -> None:
    program = compiled(
        "linked",
        "int main(void) { return 0; }",
        "-Wl,--no-as-needed",
        f"-L{build}",
        "-lloft",
        f"-Wl,-rpath,{build}",
    )
    ran = loft("doctor", "--", program)
    assert ran.returncode == 0
    assert "the program is linked with loft" in ran.stdout


def test_a_program_with_loft_in_it(loft: Loft, build: Path, compiled: Compile) -> None:
    main = "int main(void) { return 0; }"
    # The linker takes malloc from the archive only where the program asks for it.
    flags = [str(build / "libloft.a"), "-lpthread", "-Wl,-u,malloc"]
    ran = loft("doctor", "--", compiled("linked", main, *flags))
    assert ran.returncode == 0
    assert "is linked with loft" in ran.stdout


def test_a_name_that_is_no_text(loft: Loft, compiled: Compile) -> None:
    name = os.fsdecode(b"program-\xff")
    ran = loft("doctor", "--", compiled(name, "int main(void) { return 0; }"))
    assert ran.returncode == 0
    assert "program-\ufffd" in ran.stdout


def test_a_static_program_blocks(loft: Loft, compiled: Compile) -> None:
    program = compiled("static", "int main(void) { return 0; }", "-static")
    ran = loft("doctor", "--", program)
    assert ran.returncode == 1
    assert "is statically linked" in ran.stdout
    assert "loft does not work here" in ran.stdout


def test_python_keeps_small_objects(loft: Loft) -> None:
    ran = loft("doctor", "--", "/usr/bin/python3")
    assert "PYTHONMALLOC: not set" in ran.stdout
    ran = loft("doctor", "--", "/usr/bin/python3", PYTHONMALLOC="malloc")
    assert "PYTHONMALLOC" not in ran.stdout


def test_this_machine(loft: Loft) -> None:
    ran = loft("doctor")
    assert ran.returncode == 0
    for what in (
        "library",
        "transparent huge pages",
        "overcommit",
        "vm.max_map_count",
        "limit of address space",
        "memory limit of the control group",
        "processor limit of the control group",
        "loft's own limits",
        "page size",
        "restartable sequences",
    ):
        assert f"{what}: " in ran.stdout


def started(preloaded: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["sh", "-c", "echo ready; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"LD_PRELOAD": preloaded, "PATH": "/usr/bin:/bin"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("how", [("--pid",), ()])
def test_a_process_with_loft(loft: Loft, build: Path, how: tuple[str, ...]) -> None:
    with started(str(build / "libloft.so")) as process:
        ran = loft("doctor", *how, str(process.pid))
        process.communicate(b"\n")
    assert ran.returncode == 0
    # The answer to what was asked comes first, where there is no warning.
    notes = [line for line in ran.stdout.splitlines() if line.startswith(("note", "warning"))]
    first = next(line for line in ran.stdout.splitlines() if line.startswith("ok"))
    assert not any("malloc" in line for line in notes)
    assert re.fullmatch(rf"ok +process {process.pid}: \S+/libloft.so.0 serves malloc", first)
    assert f"LD_PRELOAD: {build / 'libloft.so'}" in ran.stdout


def test_a_process_with_another_allocator(loft: Loft, compiled: Compile) -> None:
    other = compiled("other.so", FORWARDING_MALLOC, "-shared", "-fPIC")
    with started(str(other)) as process:
        ran = loft("doctor", "--pid", str(process.pid))
        process.communicate(b"\n")
    assert f"process {process.pid}: {other} serves malloc\n" in ran.stdout


def test_whichever_comes_first_serves(loft: Loft, build: Path, compiled: Compile) -> None:
    other = compiled("other.so", FORWARDING_MALLOC, "-shared", "-fPIC")
    library = build / "libloft.so"
    with started(f"{library}:{other}") as process:
        ran = loft("doctor", "--pid", str(process.pid))
        process.communicate(b"\n")
    assert re.search(rf"ok +process {process.pid}: \S+/libloft.so.0 serves malloc", ran.stdout)
    assert f"process {process.pid}: {other}\n" in ran.stdout
    assert "has a malloc of its own, which is not used: another one comes first" in ran.stdout
    with started(f"{other}:{library}") as process:
        ran = loft("doctor", "--pid", str(process.pid))
        process.communicate(b"\n")
    assert ran.stdout.startswith(f"warning  process {process.pid}: {other} serves malloc\n")
    assert "loft is loaded too, but comes later, so its malloc is not used" in ran.stdout


def test_a_linked_allocator_serves_and_one_that_is_opened_later_does_not(
    loft: Loft, build: Path, compiled: Compile
) -> None:
    wait = '#include <stdio.h>\nint main(void) { puts("ready"); fflush(stdout); getchar(); }'
    linked = compiled("linked", wait, "-Wl,--no-as-needed", f"-L{build}", "-lloft")
    opens = wait.replace("puts", f'dlopen("{build}/libloft.so", 2); puts')
    opened = compiled("opened", f"#include <dlfcn.h>\n{opens}")
    said = {}
    for program in (linked, opened):
        with subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"LD_LIBRARY_PATH": str(build)},
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            said[program] = loft("doctor", "--pid", str(process.pid)).stdout
            process.communicate(b"\n")
    assert "libloft.so.0 serves malloc" in said[linked]
    assert "the C library serves malloc" in said[opened]
    assert "loft is loaded too" in said[opened]


def test_warnings_come_first(loft: Loft) -> None:
    ran = loft("doctor", LOFT_DECAY="1", LD_PRELOAD="/no/such.so")
    words = [line.split()[0] for line in ran.stdout.splitlines() if not line.startswith(" ")]
    assert words == sorted(words, key=["warning", "note", "ok"].index)
    assert words.count("warning") >= 2


@pytest.mark.parametrize("content", ["", "no library"])
def test_a_process_whose_loft_was_replaced(
    loft: Loft, build: Path, tmp_path: Path, content: str
) -> None:
    library = tmp_path / "libloft.so.0"
    library.write_bytes((build / "libloft.so").read_bytes())
    with started(str(library)) as process:
        library.unlink()
        if content:
            library.write_text(content)
        ran = loft("doctor", "--pid", str(process.pid))
        process.communicate(b"\n")
    assert re.search(
        rf"process {process.pid}: \S+/libloft.so.0( \(deleted\))? serves malloc", ran.stdout
    )


def maps_of(*names: str) -> str:
    return "".join(f"00400000-00452000 r-xp 00000000 08:02 173521 {name}\n" for name in names)


def test_a_process_with_a_root_of_its_own(made: Made, failing: Path) -> None:
    made.put("proc/self/maps", maps_of("/box/allocator.so", "/usr/lib/libc.so.6"))
    made.put("proc/self/root/box/allocator.so", "")
    (made.folder / "proc/self/root/box/allocator.so").write_bytes(failing.read_bytes())
    findings = list(check_program.check_process(made.machine()))
    assert [finding.value for finding in findings] == ["/box/allocator.so serves malloc"]


def test_a_file_that_is_gone_is_read_where_it_is_mapped(made: Made, build: Path) -> None:
    made.put("proc/self/maps", maps_of("/gone/renamed.so (deleted)"))
    made.put("proc/self/map_files/400000-452000", "")
    mapped = made.folder / "proc/self/map_files/400000-452000"
    mapped.write_bytes((build / "libloft.so").read_bytes())
    findings = list(check_program.check_process(made.machine()))
    assert [finding.value for finding in findings] == ["/gone/renamed.so (deleted) serves malloc"]
    assert findings[0].why == "this is loft"


def test_a_warning_that_does_not_block_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = Finding("warning", "this", "that", "why", "what to do")
    monkeypatch.setattr(doctor_command, "examine", lambda *_: [warning])
    assert doctor_command.doctor([], None) == 0
    printed = capsys.readouterr().out
    assert printed == "warning  this: that\n         why\n         do: what to do\n"
