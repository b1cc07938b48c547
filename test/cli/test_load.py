"""`loft compare --load`: servers that are started, asked and stopped, and what may go wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from limits import HANGS_S
from schema import check
from support import LOFT, Loft, one_line
from test_client_output import REDIS_QUIET, WRK

from loft_malloc import launch, load, ports
from loft_malloc.errors import UserError
from loft_malloc.load import Load
from loft_malloc.outcome import Outcome

# Listens wherever there is room, answers every connection, and notes how it was started and ended.
SERVER = """
import os, signal, socket, sys
def end(number, frame):
    print("stopped", file=open(sys.argv[1], "a"))
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("preload=" + os.environ.get("LD_PRELOAD", ""), file=open(sys.argv[1], "a"))
listener = socket.create_server(("127.0.0.1", 0))
while True:
    connection, _ = listener.accept()
    connection.sendall(b"hello")
    connection.close()
"""

# Asks once, notes how it was started, and says what is in a file.
CLIENT = """
import os, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    assert connection.recv(5) == b"hello"
print("client=" + os.environ.get("LD_PRELOAD", ""), file=open(sys.argv[2], "a"))
print(open(sys.argv[3]).read() if len(sys.argv) > 3 else "done")
"""

PYTHON = [sys.executable, "-I", "-S"]
Asked = Callable[..., launch.Result]


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    (tmp_path / "server.py").write_text(SERVER)
    return [*PYTHON, str(tmp_path / "server.py"), str(tmp_path / "told")]


@pytest.fixture
def client(tmp_path: Path) -> str:
    (tmp_path / "client.py").write_text(CLIENT)
    return f"{' '.join(PYTHON)} {tmp_path / 'client.py'} {{port}} {tmp_path / 'told'}"


def test_a_server_is_started_asked_and_stopped(
    loft: Loft, build: Path, server: list[str], client: str, tmp_path: Path
) -> None:
    ran = loft(
        "compare", "--runs", "2", "--with", "glibc,loft", "--load", client, "--json",
        tmp_path / "j", "--html", tmp_path / "h", "--stats", tmp_path / "s", "--", *server,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert one_line(ran.stderr).startswith("loft: 2 rounds are too few")
    told = (tmp_path / "told").read_text().splitlines()
    library = str(build / "libloft.so")
    runs = [line for line in told if line.startswith("preload=")]
    assert len(runs) >= 9
    assert told.count("stopped") == told.count("client=") == len(runs)
    assert {run.partition(":")[0] for run in runs} == {"preload=", f"preload={library}"}
    data = json.loads((tmp_path / "j").read_text())
    check(data)
    assert data["load"]["client"][-1] == str(tmp_path / "told")
    assert data["allocators"][0]["client"] == []
    assert data["metrics"]["wall_s"]["title"] == "client wall time"
    assert data["metrics"]["wall_p90_s"]["judged"] is False
    for title in ("client wall time, p90", "server user time", "peak RSS, all processes"):
        assert title in ran.stdout
    assert "with the client" in (tmp_path / "h").read_text()
    (row,) = json.loads((tmp_path / "s").read_text())["rows"]
    assert row["processes"]


def test_what_a_known_client_says_is_compared(
    loft: Loft, server: list[str], client: str, tmp_path: Path
) -> None:
    (tmp_path / "said").write_text(WRK)
    ran = loft(
        "compare", "--runs", "6", "--with", "glibc,loft", "--load", f"{client} {tmp_path / 'said'}",
        "--json", tmp_path / "j", "--", *server,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    data = json.loads((tmp_path / "j").read_text())
    check(data)
    assert data["metrics"]["throughput_per_s"]["better"] == "more"
    assert data["allocators"][0]["summary"]["latency_p99_s"]["median"] == 1.5
    assert data["allocators"][0]["client"][5]["throughput_per_s"] == 553.72
    assert "wall_p90_s" not in data["metrics"]
    # A client that takes as long as it was told to is judged by what it got.
    assert "6 rounds show no difference in throughput beyond noise" in ran.stdout


def test_several_tests_of_a_client_have_tables_of_their_own(
    loft: Loft, server: list[str], client: str, tmp_path: Path
) -> None:
    (tmp_path / "said").write_text(REDIS_QUIET + REDIS_QUIET.replace("GET", "SET"))
    ran = loft(
        "compare", "--runs", "1", "--with", "glibc", "--load", f"{client} {tmp_path / 'said'}",
        "--", *server,
    )  # fmt: skip
    assert "GET latency p50" in ran.stdout
    assert "SET throughput" in ran.stdout
    assert len([line for line in ran.stdout.splitlines() if line.startswith("glibc ")]) == 5


@pytest.fixture
def asked(build: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """One run of a server in Python, and of a client."""

    # Neither a start nor an end is too slow, unless the test says so.
    monkeypatch.setattr(load, "START_LIMIT_S", HANGS_S)
    monkeypatch.setattr(load, "STOP_LIMIT_S", HANGS_S)

    def ask(
        source: str, client: list[str], port: int | None = None, timeout_s: float | None = None
    ) -> launch.Result:
        job = launch.Job([*PYTHON, "-c", source], "", timeout_s)
        return load.run(Load(client, port), job, None, 0)

    return ask


LISTENING = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); "


def test_a_server_that_does_not_stop_is_killed(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "STOP_LIMIT_S", 0.2)
    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    result = asked(ignoring + LISTENING + "time.sleep(1000)", ["true"])
    assert result.outcome == Outcome("exit", 0)
    assert result.usage is not None


def test_a_server_that_ends_by_the_signal_has_ended_well(asked: Asked) -> None:
    assert asked(LISTENING + "time.sleep(1000)", ["true"]).outcome == Outcome("exit", 0)


def test_a_server_whose_child_listens(asked: Asked) -> None:
    """The command alone is told to end; what it leaves running is ended, and counted."""
    forking = "import os, time\nif os.fork() != 0: os.wait()\n" + LISTENING + "time.sleep(1000)"
    result = asked(forking, ["true"])
    assert (result.outcome, result.left_behind) == (Outcome("exit", 0), 1)


def test_the_wall_time_is_the_clients(asked: Asked) -> None:
    before = time.monotonic()  # time: what lies inside is no longer than what lies around it
    result = asked(LISTENING + "time.sleep(1000)", ["sleep", "0.3"])
    assert result.usage is not None
    around = time.monotonic() - before  # time: the same
    assert 0.3 <= result.usage.wall_s < around


def test_a_server_that_does_not_listen(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "START_LIMIT_S", 0.2)
    result = asked("import time; time.sleep(1000)", ["true"])
    assert result.outcome == Outcome("unready")
    assert "no port opened in time" in str(result.outcome)


@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        ("pass", Outcome("early")),
        ("import sys; sys.exit(5)", Outcome("exit", 5)),
        ("import os; os.kill(os.getpid(), 9)", Outcome("signal", 9)),
        # Over its work, while the client would wait for ever.
        (LISTENING + "s.accept(); import os; os.kill(os.getpid(), 6)", Outcome("signal", 6)),
        (LISTENING + "s.accept()", Outcome("early")),
    ],
)
def test_a_server_that_ends_before_its_client(asked: Asked, source: str, outcome: Outcome) -> None:
    connect = "import socket, time; c = socket.create_connection(('127.0.0.1', {port})); "
    client = [*PYTHON, "-c", connect + "time.sleep(100000)"]
    assert asked(source, client).outcome == outcome


def test_a_client_that_fails(asked: Asked) -> None:
    result = asked(LISTENING + "time.sleep(1000)", ["sh", "-c", "echo no >&2; exit 3"])
    assert (result.outcome, result.stderr) == (Outcome("client", 3), "no\n")


def test_a_client_is_not_blamed_for_a_crash(asked: Asked) -> None:
    crash = "s.accept(); import os; os.kill(os.getpid(), 11)"
    client = "import socket, sys, time; c = socket.create_connection(('127.0.0.1', {port})); "
    waits = "c.recv(1); sys.exit(4)"
    result = asked(LISTENING + crash, [*PYTHON, "-c", client + waits])
    assert result.outcome == Outcome("signal", 11)
    result = asked(
        LISTENING + crash.replace("kill(os.getpid(), 11)", "_exit(6)"),
        [*PYTHON, "-c", client + "time.sleep(1000)"],
    )
    assert result.outcome == Outcome("exit", 6)


def test_a_client_that_does_not_end(asked: Asked) -> None:
    server, client = LISTENING + "time.sleep(1000)", ["sleep", "100000"]
    result = asked(server, client, timeout_s=0.3)  # time: less than for ever
    assert result.outcome == Outcome("client", 124)
    assert str(result.outcome) == "its client: killed at the time limit"


def test_what_a_client_said_is_repeated(loft: Loft, server: list[str]) -> None:
    ran = loft(
        "compare", "--runs", "1", "--with", "glibc,loft", "--load",
        "sh -c 'echo it said no >&2; exit 3'", "--", *server,
    )  # fmt: skip
    assert ran.returncode == 3
    assert "ended alike under every allocator: its client: exit code 3" in ran.stdout
    assert "under loft the client said: it said no" in ran.stdout
    assert ran.stdout.startswith("Verdict: no winner: no run ended well under any allocator")
    assert one_line(ran.stderr).startswith("loft: 1 round is too few")
    shown = loft(
        "compare", "--runs", "1", "--with", "glibc", "--show-output", "--load",
        "sh -c 'echo it said no >&2; echo and this; exit 3'", "--", *server,
    )  # fmt: skip
    assert shown.stderr == "it said no\n"
    assert "and this\n" in shown.stdout


def test_a_port_that_is_taken_is_not_asked(asked: Asked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"--port {port}: something listens there already"):
            asked("pass", ["true"], port)


def test_a_port_that_is_given_is_waited_for(asked: Asked) -> None:
    with socket.socket() as held:
        # Nobody else gets it, and who asks for it by its number may listen there.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        source = LISTENING.replace("0))", f"{port}))") + "time.sleep(1000)"
        result = asked(source, ["sh", "-c", "test {port} = " + str(port)], port)
    assert result.outcome == Outcome("exit", 0)


def test_listening_sockets_of_a_table(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    (tmp_path / "tcp").write_text(
        head
        + "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1\n"
        + "   1: 0100007F:18EC 0100007F:C350 01 00000000:00000000 00:00000000 00000000 0 0 78 1\n"
    )
    (tmp_path / "tcp6").write_text(
        head + f"   0: {'0' * 32}:0050 {'0' * 32}:0000 0A 0:0 00:0 0 0 0 79 1\n"
    )
    assert ports.listening(tmp_path) == {"77": 6379, "79": 80}
    assert ports.listening(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--port", "6379"], 2, "--port needs --load and the client of the server"),
        (["--load", "true", "--port", "0"], 2, "'--port'"),
        (["--load", "a 'b"], 2, "No closing quotation; quote as in a shell"),
        (["--load", " "], 2, "--load: name a client"),
        (["--load", "no-such-client -n 3"], 127, "there is no command 'no-such-client'"),
    ],
)
def test_bad_input_is_one_line(loft: Loft, arguments: list[str], code: int, said: str) -> None:
    ran = loft("compare", *arguments, "--", "true")
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in one_line(ran.stderr)


def test_an_interrupt_leaves_neither(build: Path, server: list[str]) -> None:
    """The client is at work when it comes."""
    mark = f"{8000 + os.getpid() / 1e7:.7f}"

    def there() -> list[psutil.Process]:
        every = psutil.process_iter(["cmdline"])
        words = (mark, server[-1])
        return [p for p in every if any(word in (p.info["cmdline"] or []) for word in words)]

    command = [str(LOFT), "compare", "--with", "glibc", "--load", f"sleep {mark}", "--", *server]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        # loft itself, two launchers, the server and the client.
        while len(there()) < 5:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 143
    assert there() == []
