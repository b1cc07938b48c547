"""The rows of bench/programs.toml, and what they read: made from a seed, in build/inputs."""

import hashlib
import os
import random
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from loft_malloc.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = ROOT / "bench" / "programs.toml"
INPUTS = ROOT / "build" / "inputs"
SEED = 12

Size = Literal["small", "large"]


class Program(BaseModel):
    """As it is written."""

    model_config = ConfigDict(extra="forbid")

    command: list[str]
    size: dict[Size, int | str]
    input: str = ""
    package: str = ""
    install: str = ""
    environment: dict[str, str] = {}
    threads: bool = False

    def words(self, size: Size, folder: Path) -> list[str]:
        """The command, where the programs of bench lie in `folder`."""
        told = {"bench": str(folder), "size": str(self.size[size]), "input": f"{folder}/input"}
        words = self.command
        for name, text in told.items():
            words = [word.replace(f"{{{name}}}", text) for word in words]
        return words

    def bring_input(self, size: Size, folder: Path) -> None:
        """As folder/input, so that its name is as long on every machine."""
        if self.input:
            (folder / "input").symlink_to(made(self.input, int(self.size[size])))

    def why_not(self) -> str:
        """What this machine lacks of it, and how to have it; empty if nothing."""
        path = self.command[0]
        if "{" in path or shutil.which(path):
            return ""
        return f"{path} is not there: apt-get install {self.install or self.package}"


@cache
def programs() -> dict[str, Program]:
    told = tomllib.loads(WRITTEN.read_text(encoding="utf-8"))
    return {name: Program.model_validate(each) for name, each in told.items()}


def _words(chance: random.Random, count: int) -> list[str]:
    """Few that are frequent, and many that are not."""
    return [f"w{int(chance.paretovariate(0.6)) % 40_000:x}" for _ in range(count)]


def text(chance: random.Random, size: int) -> str:
    return "".join(" ".join(_words(chance, chance.randint(1, 16))) + "\n" for _ in range(size))


def xml(chance: random.Random, size: int) -> str:
    parts = ["<items>"]
    for number in range(size):
        name, *tags = _words(chance, chance.randint(1, 6))
        parts.append(f'<item id="{number}"><name lang="{name}">{" ".join(tags)}</name>')
        parts += [f"<tag>{each}</tag>" for each in tags]
        parts.append("</item>")
    return "".join([*parts, "</items>\n"])


def templates(chance: random.Random, size: int) -> str:
    """C++ that includes nothing: all that is compiled is here."""
    parts = [
        "template <typename... T> struct List { static constexpr int size = sizeof...(T); };\n"
    ]
    for number in range(size):
        fields = chance.randint(2, 9)
        members = "".join(f"  T field{i} = T({chance.randint(0, 99)});\n" for i in range(fields))
        total = " + ".join(f"field{i}" for i in range(fields))
        parts.append(
            f"template <typename T, int N> struct Node{number} {{\n{members}"
            f"  Node{number}<List<T, T>, N - 1>* next = nullptr;\n"
            f"  auto sum() const {{ return {total}; }}\n}};\n"
            f"template <typename T> struct Node{number}<T, 0> {{}};\n"
            f"int use{number}(int n) {{\n"
            f"  Node{number}<int, {chance.randint(1, 30)}> a; Node{number}<long, 2> b;\n"
            f"  int s = 0;\n"
            f"  for (int i = 0; i < n; i++) s += a.sum() * i + int(b.sum() % (i + 1));\n"
            f"  auto twice = [&](auto x) {{ return x + x * s; }};\n"
            f"  return twice(s) + static_cast<int>(twice({chance.randint(1, 9)}L));\n}}\n"
        )
    return "".join(parts)


def history(chance: random.Random, size: int) -> str:
    """For `git fast-import`: so many commits, each of a few files that change in some lines."""
    files = {f"folder{i % 7}/file{i}.txt": text(chance, 60).splitlines() for i in range(40)}
    parts = []
    for commit in range(size):
        message = " ".join(_words(chance, 8)) + "\n"
        parts.append(
            f"commit refs/heads/main\n"
            f"committer A Writer <writer@example.org> {1_600_000_000 + commit * 60} +0000\n"
            f"data {len(message)}\n{message}"
        )
        for path in chance.sample(sorted(files), 3):
            lines = files[path]
            for _ in range(4):
                lines[chance.randrange(len(lines))] = " ".join(_words(chance, 9))
            content = "\n".join(lines) + "\n"
            parts.append(f"M 100644 inline {path}\ndata {len(content)}\n{content}\n")
    return "".join(parts)


MAKERS: dict[str, tuple[str, Callable[[random.Random, int], str]]] = {
    "text": ("txt", text),
    "xml": ("xml", xml),
    "templates": ("cc", templates),
    "history": ("git", history),
}


def made(name: str, size: int) -> Path:
    """Where the input of this name and size is; made if it is not yet."""
    ending, make = MAKERS[name]
    # What another version of this file has made is another input.
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    path = INPUTS / f"{name}-{size}-{version}.{ending}"
    if path.exists():
        return path
    INPUTS.mkdir(parents=True, exist_ok=True)
    # Another process may be making it, too: whoever is last puts the same in its place.
    partial = INPUTS / f"{path.stem}.{os.getpid()}.partial"
    content = make(random.Random(SEED), size)
    if ending == "git":
        _import(content, partial)
    else:
        partial.write_text(content, encoding="utf-8")
    try:
        partial.rename(path)
    except OSError:
        # A folder that has come to be meanwhile.
        shutil.rmtree(partial)
    return path


def _import(stream: str, repository: Path) -> None:
    git = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    steps: list[tuple[list[str], str]] = [
        (["init", "--quiet", "--bare", "--initial-branch=main"], ""),
        (["fast-import", "--quiet"], stream),
        # One thread alone: several make other deltas each time.
        (["-c", "pack.threads=1", "repack", "-q", "-a", "-d", "-f"], ""),
    ]
    repository.mkdir()
    for words, given in steps:
        command = ["git", "-C", str(repository), *words]
        ran = subprocess.run(command, input=given, env=git, capture_output=True, text=True)
        if ran.returncode:
            raise UserError(f"git {words[0]}: {ran.stderr.strip()}", 1)
