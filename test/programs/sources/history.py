"""Writes a `git fast-import` stream: branches, merges, a rename, growing files; nothing random."""

import sys

FILES = 120
COMMITS = 400
out = sys.stdout


def data(text: str) -> None:
    out.write(f"data {len(text)}\n{text}\n")


def content(number: int, age: int) -> str:
    lines = [
        f"line {i} of file {number}: {(i * 7919 + number * 104729) % 99991:x}" for i in range(80)
    ]
    for step in range(age):
        lines[(step * 31 + number) % len(lines)] = f"changed {step} in {number}"
        lines.append(f"added {step * number}")
    return "\n".join(lines) + "\n"


for commit in range(1, COMMITS + 1):
    side = commit % 10 in (3, 4, 5)
    branch = "refs/heads/side" if side else "refs/heads/main"
    out.write(f"commit {branch}\nmark :{commit}\n")
    out.write(f"author A Writer <writer@example.org> {1600000000 + commit * 60} +0000\n")
    out.write(f"committer A Writer <writer@example.org> {1600000000 + commit * 60} +0000\n")
    data(f"change {commit}")
    if side and commit % 10 == 3:
        out.write(f"from :{commit - 1}\n")
    if commit % 10 == 6:
        out.write(f"from :{commit - 4}\nmerge :{commit - 1}\n")
    for step in range(4):
        number = (commit * 4 + step) % FILES
        out.write(f"M 100644 inline folder{number % 7}/file{number}.txt\n")
        data(content(number, commit // 20 + step))
    if commit == COMMITS // 2 + 1:
        out.write("R folder3 renamed\n")
    out.write("\n")
