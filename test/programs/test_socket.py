"""The socket of a running program: what it answers, and that nothing sent to it does harm."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import itertools
import json
import os
import random
import re
import select
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from programs import PYTHON, Build, Clock, Execute, environment, session
from prometheus_client.parser import text_string_to_metric_families

OWNERS = pytest.mark.parametrize("owner", ["thread", "cpu", "shared"])

# Holds some memory until a file `end` lies in its folder.
# (It sleeps by a call that no clock in the place of the system's changes.)
HOLD = """
import os, select
data = [bytes(5000) for _ in range(4000)]
print("ready", flush=True)
while not os.path.exists("end"):
    select.select([], [], [], 0.01)
print("ended")
"""


HOLDING = (PYTHON, "-c", HOLD)


class Client(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("loft")
        self.path = path

    def connect(self) -> None:
        self.sock = raw(self.path)


def raw(path: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(str(path))
    return peer


@dataclass(frozen=True)
class Answer:
    status: int
    kind: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(path: Path, what: str, body: str | None = None) -> Answer:
    method, _, target = what.partition(" ")
    with contextlib.closing(Client(path)) as client:
        client.request(method, target, body)
        response = client.getresponse()
        return Answer(
            response.status, response.headers["Content-Type"].split(";")[0], response.read()
        )


def everything(peer: socket.socket) -> bytes:
    """What arrives until the other side has ended."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := peer.recv(65536):
            parts.append(part)
    return b"".join(parts)


class Served:
    """A program that runs, and its socket."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, path: str) -> None:
        self.process = process
        self.folder = folder
        self.path = Path(path.replace("%p", str(process.pid)))

    def ask(self, what: str, body: str | None = None) -> Answer:
        return ask(self.path, what, body)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> tuple[int, str, str]:
        """How it ends, and what it still says."""
        (self.folder / "end").touch()
        output, errors = self.process.communicate()
        return self.process.returncode, output, errors


Serve = Callable[..., AbstractContextManager[Served]]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder whose path is short enough for the address of a socket."""
    with tempfile.TemporaryDirectory(prefix="loft") as folder:
        yield Path(folder)


@pytest.fixture
def serve(lib: Path, tmp_path: Path, place: Path) -> Serve:
    @contextlib.contextmanager
    def running(
        command: Sequence[str | Path] = HOLDING,
        clock: Clock | None = None,
        name: str = "s.%p",
        **more: str,
    ) -> Iterator[Served]:
        path = str(place / name)
        library = {"LD_PRELOAD": str(lib)} if clock is None else clock.settings(lib)
        env = environment(tmp_path) | library | {"LOFT_SOCKET": path} | more
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with session(command, tmp_path, env, text=True, errors="replace", **pipes) as process:
            served = Served(process, tmp_path, path)
            assert served.line() == "ready\n"
            yield served

    return running


def test_every_address(serve: Serve) -> None:
    with serve(LOFT_PROFILE="on", LOFT_SAMPLE_BYTES="4K") as served:
        stats = served.ask("GET /stats.json")
        assert (stats.status, stats.kind) == (200, "application/json")
        # Most of what it holds is sampled, and counts as if it were not.
        assert json.loads(stats.body)["live_bytes"] > 2000 * 5000
        for what in ("/debug/pprof/heap", "/peak"):
            profile = served.ask(f"GET {what}")
            assert (profile.status, profile.kind) == (200, "application/octet-stream")
            assert b"inuse_space" in gzip.decompress(profile.body)
        purged = served.ask("POST /purge", "")
        assert (purged.status, purged.kind) == (200, "application/json")
        assert set(json.loads(purged.body)) == {
            "purged_bytes",
            "unreached_threads",
            "unreached_bytes",
        }
        assert served.ask("POST /options", "decay_ms=77\nthp=never\n").text == "options set: 2\n"
        assert served.ask("GET /nowhere").status == 404
        assert served.ask("POST /stats.json", "").status == 405
        assert served.end() == (0, "ended\n", "")
        assert not served.path.exists()


def test_metrics_are_those_of_the_format(serve: Serve) -> None:
    with serve() as served:
        answer = served.ask("GET /metrics")
        assert answer.kind == "text/plain"
        found = text_string_to_metric_families(answer.text)
        families = {family.name: family for family in found}
        assert families["loft_live_objects"].type == "gauge"
        assert families["loft_live_objects"].samples[0].value > 4000
        assert families["loft_refills"].type == "counter"
        assert {sample.name for sample in families["loft_class_refills"].samples} == {
            "loft_class_refills_total"
        }


def test_the_map_covers_the_heap(serve: Serve) -> None:
    with serve(PYTHONMALLOC="malloc") as served:
        first = json.loads(served.ask("GET /slabs.json").body)
        assert first["next"] is None
        ranges = first["ranges"]
        for one, other in itertools.pairwise(ranges):
            assert one["at"] + one["bytes"] <= other["at"]
        assert {"slab", "medium"} <= {one["kind"] for one in ranges}
        of_slabs = [one for one in ranges if one["kind"] == "slab"]
        size = min(one["object_bytes"] for one in of_slabs if one["object_bytes"] >= 5000)
        held = [one for one in of_slabs if one["object_bytes"] == size]
        assert sum(one["objects"] - one["free"] for one in held) >= 4000
        later = json.loads(served.ask(f"GET /slabs.json?from={ranges[-1]['at']}").body)
        assert next(one["at"] for one in later["ranges"]) == ranges[-1]["at"]


def test_without_a_profile(serve: Serve) -> None:
    with serve() as served:
        for what in ("/debug/pprof/heap", "/peak"):
            answer = served.ask(f"GET {what}")
            assert (answer.status, answer.text.count("\n")) == (503, 1)
        assert served.ask("POST /options", "profile=on").status == 200
        assert served.ask("GET /debug/pprof/heap").status == 200


CLIENT = """
import socket, sys
peer = socket.socket(socket.AF_UNIX)
try:
    peer.connect(sys.argv[1])
    print(peer.recv(1000).split(b"\\r\\n")[0].decode())
except PermissionError:
    print("no permission")
"""


def as_nobody(served: Served) -> str:
    """What another user is told, by a Python whose libraries he can read."""
    done = subprocess.run(
        [PYTHON, "-c", CLIENT, served.path],
        user=65534,
        group=65534,
        cwd="/",
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def test_only_its_user_and_root(serve: Serve, place: Path) -> None:
    with serve() as served:
        assert stat.S_IMODE(served.path.stat().st_mode) == 0o600
        if os.geteuid() != 0:
            pytest.skip("only root can be somebody else")
        place.chmod(0o711)
        assert as_nobody(served) == "no permission\n"
        served.path.chmod(0o666)
        assert as_nobody(served).startswith("HTTP/1.1 403 ")
        assert served.ask("GET /").status == 404


ACTS_FOR_NOBODY = """
import os, time
os.seteuid(65534)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_not_the_user_for_whom_a_daemon_acts(serve: Serve, place: Path) -> None:
    """It has the rights of another one, and will use them again."""
    with serve((PYTHON, "-c", ACTS_FOR_NOBODY)) as served:
        place.chmod(0o711)
        served.path.chmod(0o666)
        assert as_nobody(served).startswith("HTTP/1.1 403 ")
        assert served.ask("GET /").status == 404


@OWNERS
def test_a_thousand_visits_under_load(serve: Serve, build: Build, owner: str) -> None:
    """Attached, profiled, purged and detached; some come with garbage, or leave in the middle."""
    command = (build("served.c"), "3")
    garbage = random.Random(1)
    with serve(command, LOFT_OWNER=owner, LOFT_PROFILE="on") as served:
        for visit in range(1000):
            kind = visit % 10
            if kind == 0:
                gzip.decompress(served.ask("GET /debug/pprof/heap").body)
            elif kind == 1:
                assert json.loads(served.ask("POST /purge", "").body)["purged_bytes"] >= 0
            elif kind == 2:
                json.loads(served.ask("GET /stats.json").body)
            elif kind == 3:
                with raw(served.path) as peer:
                    peer.sendall(b"GET /stats.json HT")
            elif kind == 4:
                json.loads(served.ask("GET /slabs.json").body)
            elif kind == 5:
                with raw(served.path) as peer:
                    peer.sendall(b"GET /slabs.json HTTP/1.1\r\nHost: x\r\n\r\n")
            elif kind == 6:
                assert served.ask("GET /metrics").body.startswith(b"# HELP loft_")
            elif kind == 7:
                word = "off" if visit % 20 == 7 else "on"
                assert served.ask("POST /options", f"profile={word}").status == 200
            elif kind == 8:
                with raw(served.path) as peer:
                    peer.sendall(garbage.randbytes(64) + b"\r\n\r\n")
                    assert everything(peer).startswith(b"HTTP/1.1 400 ")
            else:
                gzip.decompress(served.ask("GET /peak").body)
        assert served.end() == (0, "whole\n", "")


def test_one_after_another(serve: Serve, clock: Clock) -> None:
    """Whoever comes while somebody is answered waits, and is answered."""
    with serve(clock=clock) as served, contextlib.ExitStack() as stack:
        flood = [stack.enter_context(raw(served.path)) for _ in range(30)]
        for peer in flood:
            peer.sendall(b"GET /stats.json HTTP/1.1\r\nHost: x\r\n\r\n")
        for peer in flood:
            assert everything(peer).startswith(b"HTTP/1.1 200 ")
            peer.close()  # it is the next one's turn
        assert served.end() == (0, "ended\n", "")


def after_a_while(clock: Clock, peer: socket.socket) -> bytes:
    """What a peer receives, for which time must pass."""
    for second in itertools.count(1):
        if select.select([peer], [], [], 0.01)[0]:
            break
        clock.set(second)
    return everything(peer)


def test_who_is_slow_is_given_up(serve: Serve, clock: Clock) -> None:
    request = b"GET /stats.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with serve(clock=clock) as served:
        with raw(served.path) as slow, raw(served.path) as half:
            slow.sendall(request[:9])
            half.sendall(request)
            half.shutdown(socket.SHUT_WR)
            assert after_a_while(clock, half).startswith(b"HTTP/1.1 200 ")
            assert everything(slow) == b""
        with raw(served.path) as endless:
            endless.sendall(b"GET /" + b"x" * 5000)
            assert everything(endless).startswith(b"HTTP/1.1 413 ")
        assert served.ask("POST /options", "x" * 5000).status == 413
        with raw(served.path) as deaf, raw(served.path) as other:
            deaf.sendall(request)
            other.sendall(request)
            assert after_a_while(clock, other).startswith(b"HTTP/1.1 200 ")
        assert served.end() == (0, "ended\n", "")


FORK = """
import ctypes, os, select
loft = ctypes.CDLL(None)
def put(path):
    assert loft.loft_option_set(b"socket", path.encode()) == 0
def option():
    text = ctypes.create_string_buffer(200)
    assert loft.loft_option_get(b"socket", text, 200) == 0
    return text.value.decode()
path = os.environ["LOFT_SOCKET"]
folder = os.path.dirname(path)
for _ in range(20):
    child = os.fork()
    if child == 0:
        data = [bytes(5000) for _ in range(1000)]
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print(len(os.listdir(folder)), option() == path, flush=True)
child = os.fork()
if child == 0:
    data = [bytes(5000) for _ in range(1000)]
    print(len(os.listdir(folder)), option(), len(os.listdir("/proc/self/task")), flush=True)
    put(path)
    put(os.path.join(folder, "c.%p"))
    print(f"{folder}/c.{os.getpid()}", flush=True)
    while not os.path.exists("end"):
        select.select([], [], [], 0.01)
else:
    assert os.waitpid(child, 0)[1] == 0
"""


@OWNERS
def test_a_child_has_none_until_it_asks(lib: Path, tmp_path: Path, place: Path, owner: str) -> None:
    """Those that leave by _exit leave nothing; the parent's is not taken from it."""
    env = environment(tmp_path) | {
        "LD_PRELOAD": str(lib),
        "LOFT_SOCKET": str(place / "s"),
        "LOFT_OWNER": owner,
        "LOFT_BACKGROUND": "off",
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with session((PYTHON, "-c", FORK), tmp_path, env, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1 True\n"
        assert process.stdout.readline() == "1 none 1\n"
        child = Path(process.stdout.readline().rstrip("\n"))
        for path in (place / "s", child):
            assert ask(path, "GET /stats.json").status == 200
        (tmp_path / "end").touch()
        _, errors = process.communicate()
        assert process.returncode == 0
        assert re.fullmatch(
            r"loft: the socket \S+/s is not served: another process [^\n]*\n", errors
        )
    assert list(place.iterdir()) == []


def test_where_there_can_be_none(execute: Execute, place: Path) -> None:
    """One line, and the program goes on."""
    for path, why in (
        (place / "missing" / "s", "it cannot be made there: No such file or directory"),
        (place / ("x" * 120), "107 bytes"),
        (place / ("x" * 2000), "107 bytes"),
        (place, "no socket is there"),
    ):
        result = execute(PYTHON, "-c", "print('lived')", LOFT_SOCKET=str(path))
        assert (result.returncode, result.stdout) == (0, "lived\n")
        assert result.stderr.startswith("loft: the socket ")
        assert why in result.stderr
        assert result.stderr.count("\n") == 1


def test_an_old_socket_is_replaced_and_a_live_one_is_not(
    serve: Serve, execute: Execute, place: Path
) -> None:
    with serve(name="s") as served:
        result = execute(PYTHON, "-c", "print('lived')", LOFT_SOCKET=str(served.path))
        assert (result.returncode, result.stdout) == (0, "lived\n")
        assert "another process serves it" in result.stderr
        assert served.ask("GET /").status == 404
        served.process.send_signal(signal.SIGKILL)
        served.process.wait()
    assert served.path.exists()
    with serve(name="s") as served:
        assert served.ask("GET /").status == 404
        assert served.end() == (0, "ended\n", "")
    assert list(place.iterdir()) == []


SET = """
import ctypes, os, sys
loft = ctypes.CDLL(None)
def put(path):
    assert loft.loft_option_set(b"socket", path.encode()) == 0
    return sorted(os.listdir(sys.argv[1]))
one, other = (os.path.join(sys.argv[1], name) for name in ("one", "other"))
print(put(one), put(other), put(other), put("none"), put(one), len(os.listdir("/proc/self/task")))
text = ctypes.create_string_buffer(200)
assert loft.loft_option_get(b"socket", text, 200) == 0
print(text.value.decode() == one, put(""), len(os.listdir("/proc/self/task")))
"""


@OWNERS
def test_set_while_the_program_runs(execute: Execute, place: Path, owner: str) -> None:
    result = execute(PYTHON, "-c", SET, place, LOFT_OWNER=owner, LOFT_BACKGROUND="off")
    expected = "['one'] ['other'] ['other'] [] ['one'] 2\nTrue [] 1\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")


def test_it_takes_no_paths(serve: Serve) -> None:
    with serve() as served:
        for option in ("socket", "profile_file"):
            answer = served.ask("POST /options", f"decay_ms=77\n{option}={served.folder}/x")
            expected = "line 2: paths are set by the program alone; options set before it: 1\n"
            assert (answer.status, answer.text) == (400, expected)
        assert served.end() == (0, "ended\n", "")
        assert not (served.folder / "x").exists()


CLOSING = """
import os, select
os.closerange(3, 1000)
files = [open(f"file{i}", "w+") for i in range(20)]
print("ready", flush=True)
while not os.path.exists("end"):
    select.select([], [], [], 0.01)
print([file.read() for file in files] == [""] * 20, sorted(map(int, os.listdir("/proc/self/fd"))))
"""


def test_its_descriptors_are_not_the_programs(serve: Serve, execute: Execute) -> None:
    with serve((PYTHON, "-c", CLOSING)) as served:
        for _ in range(20):
            assert served.ask("GET /metrics").status == 200
        assert served.end() == (0, f"True {list(range(24))}\n", "")


@OWNERS
def test_the_first_thread_ends(execute: Execute, build: Build, place: Path, owner: str) -> None:
    """Its thread is never the last one of a process."""
    path = place / "s"
    result = execute(build("own_threads.c"), "exit", LOFT_OWNER=owner, LOFT_SOCKET=str(path))
    assert (result.returncode, result.stdout, result.stderr) == (0, "worked\n", "")
    assert not path.exists()


# Each fails from the first time on that the library's thread could make it.
CALLS = (
    *("clone3,clone", "close_range", "socket", "fchmod", "bind", "listen"),
    *("connect", "flock", "unlink,unlinkat"),
)
LATER = ("memfd_create", "accept4", "poll", "getsockopt", "recvfrom", "sendto")


@pytest.mark.parametrize("calls", CALLS + LATER)
def test_a_call_is_refused(lib: Path, tmp_path: Path, place: Path, calls: str) -> None:
    probe = ["strace", "-f", "--seccomp-bpf", "-e", "inject=getppid:error=EPERM", "true"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip("no process may be traced here")
    path = place / "s"
    # An old one, for the calls that remove it.
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    inject = [f"inject={call}:error=EPERM" for call in calls.split(",")]
    words = [word for each in inject for word in ("-e", each)]
    setting = {"LD_PRELOAD": str(lib), "LOFT_SOCKET": str(path), "LOFT_CGROUP": "off"}
    inner = [word for name, value in setting.items() for word in ("-E", f"{name}={value}")]
    command = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "signal=none", "-o", "/dev/null"]
    command += ["-e", f"trace={calls}", *words, *inner, PYTHON, "-c", HOLD]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with session(command, tmp_path, environment(tmp_path), text=True, **pipes) as process:
        served = Served(process, tmp_path, str(path))
        assert served.line() == "ready\n"
        if calls in LATER:
            with raw(path) as peer:
                peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        code, output, errors = served.end()
    assert (code, output) == (0, "ended\n")
    expected = r"loft: the socket \S+ is not served: [^\n]*\n" if calls in CALLS else ""
    assert re.fullmatch(expected, errors), errors
