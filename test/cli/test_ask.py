"""How a process with a socket is found and asked, and what is said where it cannot be."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from asked import Ask
from support import Loft, one_line

from loft_malloc.errors import UserError
from loft_malloc.live import find
from loft_malloc.live.client import MOST_PATH, Client, Gone, Refused


def test_the_environment_says_where_the_socket_is(ask: Ask) -> None:
    process = ask("by environment.%p")
    found = find.of(int(process.pid))
    assert found is not None and found.path == process.path
    assert found.client().json("/stats.json")["loft"] == "0.1.0"
    assert find.Found(int(process.pid), process.path) in find.everywhere()


def test_a_name_with_loft_in_it_is_found_without(ask: Ask) -> None:
    process = ask("x-loft.sock", tell=False)
    found = find.of(int(process.pid))
    assert found is not None and found.path == process.path
    assert found in find.everywhere()


def test_a_socket_that_is_another_processs_is_not_taken(ask: Ask, loft: Loft) -> None:
    process = ask()
    ours = os.getpid()
    with pytest.raises(Gone, match=f"is the socket of process {process.pid} and not of {ours}"):
        Client(process.path, ours).get("/stats.json")
    environment = {**os.environ, "LOFT_SOCKET": str(process.path)}
    with subprocess.Popen(["sleep", "1000"], env=environment) as sleeper:
        ran = loft("top", str(sleeper.pid), "--once")
        sleeper.kill()
    assert ran.returncode == 2
    assert f"has LOFT_SOCKET={process.path} but does not listen there" in one_line(ran.stderr)


def test_without_a_socket_it_is_said_how_to_get_one(loft: Loft) -> None:
    for command in (["top"], ["map"], ["profile"]):
        ran = loft(*command, str(os.getpid()))
        assert ran.returncode == 2
        said = one_line(ran.stderr)
        assert "has no socket that loft can find: start it with LOFT_SOCKET=" in said
        assert "--option socket=" in said


def test_a_process_that_is_not_there(loft: Loft) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
        for command in (["top"], ["map"], ["profile"]):
            ran = loft(*command, str(gone.pid))
            assert one_line(ran.stderr) == f"loft: there is no process {gone.pid}"
            assert ran.returncode == 2


def test_a_socket_can_be_given(ask: Ask, loft: Loft, tmp_path: Path) -> None:
    process = ask("other", tell=False)
    ran = loft("top", "--socket", process.path, "--json", "--interval", "0.05")
    assert f'"pid": {process.pid}' in ran.stdout and ran.stderr == ""
    ran = loft("top", "--socket", tmp_path / "none", "--json")
    assert ran.returncode == 1
    assert "nobody answers at" in one_line(ran.stderr)


def test_a_longer_path_than_an_address_can_have(ask: Ask) -> None:
    process = ask()
    long = process.path.parent.joinpath(*["answers", ".."] * 12, process.path.name)
    assert len(str(long)) > MOST_PATH
    assert Client(long).peer() == int(process.pid)


def test_what_the_process_refuses_is_repeated(ask: Ask) -> None:
    process = ask()
    process.refuse("stats.json", "503 the system gives\n no \x1b file")
    with pytest.raises(Refused) as caught:
        Client(process.path).get("/stats.json")
    assert str(caught.value).endswith(
        "answers /stats.json with 503: the system gives no \N{REPLACEMENT CHARACTER} file"
    )


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b"", "has broken off its answer"),
        (b"hello\n", "does not speak HTTP as loft does"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", "has broken off its answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", "does not answer /stats.json with JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "JSON that is not an object"),
    ],
)
def test_who_does_not_answer_as_loft_does(ask: Ask, said: bytes, complaint: str) -> None:
    # In a folder whose name is short.
    path = ask().path.with_name("odd")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        child = os.fork()
        if child == 0:
            peer, _ = server.accept()
            peer.recv(4096)
            peer.sendall(said)
            os._exit(0)
        with pytest.raises(UserError, match=complaint):
            Client(path).json("/stats.json")
        os.waitpid(child, 0)


def test_no_answer_ends_the_wait(ask: Ask) -> None:
    process = ask()
    (process.folder / "stuck").touch()
    with pytest.raises(UserError, match=r"does not answer /stats\.json within 0\.1 s"):
        Client(process.path, limit_s=0.1).get("/stats.json")
