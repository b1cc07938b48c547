"""`loft record`: what it writes is what the program did, however that went and ended."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from support import LOFT, OWN_MALLOC, Compile, Loft, one_line
from traces import EVERY, EVERY_CALL, HANDING, MANY, MANY_CALLS, calls, lettered, recorded


def told(loft: Loft, trace: Path, folder: Path) -> dict[str, object]:
    ran = loft("replay", "--info", "--json", folder / "info.json", trace)
    assert ran.returncode == 0, ran.stderr
    known = json.loads((folder / "info.json").read_text())
    assert isinstance(known, dict)
    return known


def test_every_call_is_recorded_as_it_was(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    program = compiled("every", EVERY, "-fno-builtin", "-w")
    trace = recorded(loft, tmp_path / "t", program)
    assert lettered([call.text for call in calls(loft, trace)]) == EVERY_CALL


def test_what_a_program_does_again_is_recorded_again(
    loft: Loft, compiled: Compile, tmp_path: Path
) -> None:
    program = compiled("many", MANY % "return 0;")
    seen = [calls(loft, recorded(loft, tmp_path / name, program)) for name in ("a", "b")]
    assert len(seen[0]) == MANY_CALLS
    assert seen[0] == seen[1]


def test_who_frees_whose_object_is_recorded(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("handing", HANDING, "-pthread"))
    seen = [(each.thread, each.text) for each in calls(loft, trace)]
    # What the C library takes for a thread, and drops at its end, is its own affair.
    own = ("malloc 111", "malloc 222", "malloc 333", "realloc 777", "thread")
    named = {
        text.split("#")[-1]: text.split(" ->")[0]
        for _, text in seen
        if text.startswith(own) and "->" in text
    }
    kept = []
    for thread, text in seen:
        verb, _, owner = text.partition(" #")
        if text.startswith(own) and "thread ends" not in text:
            kept.append((thread, text.split(" ->")[0].split(" #")[0]))
        elif verb == "free" and owner in named:
            kept.append((thread, f"free {named[owner].split(' #')[0]}"))
    assert kept == [
        (0, "malloc 111"),
        (0, "thread starts 1"),
        (1, "free malloc 111"),
        (0, "thread joined 1"),
        (0, "malloc 222"),
        (0, "malloc 333"),
        (0, "thread starts 2"),
        (2, "free malloc 222"),
        (2, "realloc 777"),
        (0, "thread joined 2"),
        (0, "free realloc 777"),
    ]


def test_the_exit_code_and_the_output_are_the_commands(loft: Loft, tmp_path: Path) -> None:
    ran = loft("record", "-o", tmp_path / "t", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert ran.returncode == 7
    assert ran.stdout == "out\n"
    assert ran.stderr.startswith("err\nloft: the command failed: exit code 7\n")


def test_a_program_without_a_call(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("none", "int main(void) { return 0; }"))
    assert calls(loft, trace) == []


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("return 3;", 3),
        ("_exit(3);", 3),
        ("quick_exit(3);", 3),
        ("abort();", 128 + signal.SIGABRT),
        ("raise(SIGKILL);", 128 + signal.SIGKILL),
        ("*(volatile int*)8 = 1;", 128 + signal.SIGSEGV),
        ('execl("/bin/true", "true", NULL);', 0),
    ],
)
def test_nothing_is_lost_however_a_process_ends(
    loft: Loft, compiled: Compile, tmp_path: Path, end: str, code: int
) -> None:
    program = compiled("many", MANY % end)
    trace = recorded(loft, tmp_path / "t", program, code=code)
    assert len(calls(loft, trace, "--process", "0")) == MANY_CALLS


def test_descriptors_that_the_program_closes_are_not_written_to(
    loft: Loft, compiled: Compile, tmp_path: Path
) -> None:
    """It closes all, and opens a file under each of their numbers; then the buffers are full."""
    mine = tmp_path / "mine"
    body = f"""
      for (int i = 3; i < 1024; i++) close(i);
      while (open("{mine}", O_RDWR | O_CREAT, 0600) < 1000) {{}}
      for (int i = 0; i < 20000; i++) free(malloc(i + 1));
      return 0;"""
    trace = recorded(loft, tmp_path / "t", compiled("closing", MANY % body))
    assert mine.read_bytes() == b""
    assert len(calls(loft, trace)) == MANY_CALLS + 40000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_the_trace_is_whole(
    loft: Loft, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "t"
    command = [LOFT, "record", "-o", out, "--", "sh", "-c", "echo ready; exec sleep 3600"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as recording:  # type: ignore[call-overload]
        assert recording.stdout.readline() == "ready\n"
        recording.send_signal(number)
        _, said = recording.communicate()
        assert recording.returncode == 128 + number
    assert said.startswith(f"loft: the command failed: ended by {number.name}\n")
    assert calls(loft, out)


FORKING = """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  void* inherited = malloc(111);
  free(malloc(222));
  pid_t child = fork();
  if (child == 0) {
    free(inherited);
    free(malloc(333));
    _exit(0);
  }
  free(malloc(444));
  return waitpid(child, NULL, 0) != child;
}
"""


def test_a_forked_child_has_what_its_parent_did_before(
    loft: Loft, compiled: Compile, tmp_path: Path
) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("forking", FORKING, "-fno-builtin"))
    known = told(loft, trace, tmp_path)
    processes = known["processes"]
    assert isinstance(processes, list)
    assert [(each["parent"], each["calls"]) for each in processes] == [(None, 5), (0, 3)]
    seen = [calls(loft, trace, "--process", number) for number in ("0", "1")]
    before = ["malloc 111 -> a", "malloc 222 -> b", "free b"]
    assert lettered([each.text for each in seen[0]]) == [*before, "malloc 444 -> c", "free c"]
    child = [*before, "free a", "malloc 333 -> c", "free c"]
    assert lettered([each.text for each in seen[1]]) == child
    assert {each.thread for each in seen[1]} == {0}


def test_each_process_is_recorded_by_itself(loft: Loft, tmp_path: Path) -> None:
    trace = recorded(loft, tmp_path / "t", "sh", "-c", "cat /dev/null; exec cat /dev/null")
    known = told(loft, trace, tmp_path)
    processes = known["processes"]
    assert isinstance(processes, list)
    words = [each["words"] for each in processes]
    assert words.count(["cat", "/dev/null"]) == 2
    # The last one is the shell's own process.
    assert sum(each["pid"] == processes[0]["pid"] for each in processes) == 2


THREADS = """
#include <pthread.h>
#include <stdlib.h>
static void* body(void* p) {
  for (int i = 0; i < 50; i++) free(malloc(99));
  return p;
}
int main(void) {
  pthread_t threads[20];
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 20; i++) {
      if (pthread_create(&threads[i], NULL, body, NULL) != 0) return 1;
    }
    for (int i = 0; i < 20; i++) pthread_join(threads[i], NULL);
  }
  return 0;
}
"""


def test_threads_that_come_and_go(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("threads", THREADS, "-pthread"))
    seen = calls(loft, trace)
    taken = [each.thread for each in seen if each.text.startswith("malloc 99 ")]
    assert len(taken) == 200 * 50
    assert {taken.count(thread) for thread in set(taken)} == {50}
    starts = [each.text for each in seen if each.text.startswith("thread starts")]
    assert sorted(starts) == sorted(f"thread starts {number}" for number in range(1, 201))
    assert sum(each.text.startswith("thread joined") for each in seen) == 200


# Safe in signal handlers, as the C library's is not.
BUMP = """
#include <stddef.h>
#include <string.h>
static _Alignas(16) char space[1 << 26];
static size_t used;
void* malloc(size_t n) {
  size_t at = __atomic_fetch_add(&used, (n + 15) / 16 * 16, __ATOMIC_RELAXED);
  return at + n <= sizeof(space) ? space + at : NULL;
}
void* calloc(size_t n, size_t m) { return malloc(n * m); }
void* realloc(void* p, size_t n) { void* q = malloc(n); if (p) memcpy(q, p, n); return q; }
void free(void* p) {}
"""
SIGNALLED = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
static volatile int caught;
static void handle(int number) {
  free(malloc(77));
  caught = caught + number / number;
}
int main(void) {
  struct itimerval often = {{0, 50}, {0, 50}};
  signal(SIGALRM, handle);
  setitimer(ITIMER_REAL, &often, NULL);
  int made = 0;
  while (caught < 500 && made < 500000) { free(malloc(88)); made++; }
  often.it_value.tv_usec = 0;
  setitimer(ITIMER_REAL, &often, NULL);
  fprintf(stdout, "%d %d\\n", caught, made);
  return 0;
}
"""


def test_calls_of_a_signal_handler_are_recorded_too(
    loft: Loft, compiled: Compile, tmp_path: Path
) -> None:
    bump = compiled("libbump.so", BUMP, "-shared", "-fPIC", "-fno-builtin")
    where = [str(bump), f"-Wl,-rpath,{bump.parent}", "-fno-builtin"]
    ran = loft("record", "-o", tmp_path / "t", "--", compiled("signalled", SIGNALLED, *where))
    assert ran.returncode == 0
    caught, made = map(int, ran.stdout.split())
    texts = [each.text.split(" -> ")[0] for each in calls(loft, tmp_path / "t")]
    assert (texts.count("malloc 77"), texts.count("malloc 88")) == (caught, made)
    assert sum(text.startswith("free #") for text in texts) >= caught + made


def test_a_call_takes_few_bytes(loft: Loft, compiled: Compile, tmp_path: Path) -> None:
    trace = recorded(loft, tmp_path / "t", compiled("many", MANY % "return 0;"))
    assert trace.stat().st_size < 5 * MANY_CALLS


@pytest.mark.parametrize(
    ("out", "command", "said", "code"),
    [
        ("t", ["no-such-command"], "there is no command 'no-such-command'", 127),
        ("", ["true"], "cannot be written: Is a directory", 2),
        ("none/t", ["true"], "cannot be written: No such file or directory", 2),
    ],
)
def test_what_cannot_be_recorded_is_one_line(
    loft: Loft, tmp_path: Path, out: str, command: list[str], said: str, code: int
) -> None:
    ran = loft("record", "-o", tmp_path / out, "--", *command)
    assert ran.returncode == code
    assert said in one_line(ran.stderr)


def test_an_earlier_recording_stays_unless_it_is_to_go(loft: Loft, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    recorded(loft, trace, Path("/bin/true"))
    before = trace.read_bytes()
    ran = loft("record", "-o", trace, "--", "true")
    assert ran.returncode == 2
    assert one_line(ran.stderr) == f"loft: {trace} is there already; --force replaces it"
    assert trace.read_bytes() == before
    assert loft("record", "--force", "-o", trace, "--", "true").returncode == 0
    # What mktemp has made is nothing to lose.
    (tmp_path / "new").touch()
    assert loft("record", "-o", tmp_path / "new", "--", "true").returncode == 0


def test_a_full_disk_is_said_of_the_file(loft: Loft) -> None:
    ran = loft("record", "-o", "/dev/full", "--", "true")
    assert ran.returncode != 0
    assert "/dev/full cannot be written: No space left on device" in ran.stderr


def test_programs_that_nothing_can_be_preloaded_into(
    loft: Loft, compiled: Compile, tmp_path: Path
) -> None:
    static = compiled("static", "int main(void) { return 0; }", "-static")
    ran = loft("record", "-o", tmp_path / "t", "--", static)
    assert "is statically linked" in one_line(ran.stderr)
    own = compiled("own", OWN_MALLOC, "-fno-builtin", "-rdynamic")
    ran = loft("record", "-o", tmp_path / "t", "--", own)
    assert "has a malloc of its own" in one_line(ran.stderr)
    assert not (tmp_path / "t").exists()


PLUGIN = """
#include <stdlib.h>
void* take(void) { return malloc(4321); }
"""
LOADING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(int count, char** words) {
  void* library = dlopen(words[count - 1], RTLD_NOW | RTLD_DEEPBIND);
  if (library == NULL) return 1;
  void* (*take)(void) = (void* (*)(void))dlsym(library, "take");
  free(take());
  return 0;
}
"""


def test_a_plugin_that_asks_the_c_library_is_recorded_too(
    loft: Loft, compiled: Compile, tmp_path: Path
) -> None:
    plugin = compiled("plugin.so", PLUGIN, "-shared", "-fPIC")
    trace = recorded(loft, tmp_path / "t", compiled("loading", LOADING), plugin)
    assert any(each.text.startswith("malloc 4321 -> ") for each in calls(loft, trace))
