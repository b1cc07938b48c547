#!/usr/bin/env python3
"""Draw the pages' pictures, docs/images/{profile,top,map}.png, of Perl, which sorts words.

All of them, or those that are named. It needs what `make cli` and tools/setup.sh test bring: the
command, and Chromium without a window.
"""

import html
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
LOFT = ROOT / "build" / "venv" / "bin" / "loft"
SORTS = """
my %by_length;
for my $i (1 .. 150_000) {
  my $word = "word $i " . ("x" x ($i % 40));
  push @{ $by_length{ length $word } }, { word => $word, rank => $i };
}
my @sorted = map { sort { $a->{word} cmp $b->{word} } @$_ } values %by_length;
my $all = join ",", map { $_->{word} =~ s/word/w/r } @sorted;
print length($all), "\\n";
"""
# It takes in words for a while and forgets most of them, again and again; or once, with a word.
FORGETS = """
$| = 1;
my @words;
for my $round (1 .. 1000) {
  push @words, map { { word => "word $_ " . ("x" x ($_ % 400)), rank => $_ } } 1 .. 12_000;
  if ($round % 9 == 0) {
    @words = map { $words[$_] } grep { $_ % 15 == 0 } 0 .. $#words;
    print "forgot\\n";
    sleep 1000 if @ARGV;
  }
  select undef, undef, undef, 0.15;
}
"""
COLUMNS, ROWS, INTERVAL_S = 104, 28, 0.2
# A frame begins here.
HOME = b"\x1b[H"
# Once there is something on the screen, the chart is full.
FIRST_COLUMN, LAST_LINE = 12, 9
# A character has 9 by 17 pixels, so that there are no gaps between blocks.
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #14171c; color: #d5d8dd; }}
pre {{ margin: 14px 16px; font: 14.95px/17px "DejaVu Sans Mono", monospace; }}
</style><pre>{}</pre>"""
# Of the terminal's colours those that are hard to read on a dark ground, and its own.
COLOURS = {
    "black": "#14171c", "red": "#e5707a", "green": "#79c285", "brown": "#e0b35c",
    "blue": "#6ea3e8", "magenta": "#c68ae0", "cyan": "#5cc2cc", "white": "#d5d8dd",
    "brightblack": "#7d8590",
}  # fmt: skip


def shot(page: Path, picture: Path, width: int, height: int) -> None:
    browser = ["chromium-headless-shell", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
    how = [f"--screenshot={picture}", f"--window-size={width},{height}", page.as_uri()]
    subprocess.run([*browser, *how], check=True, stderr=subprocess.DEVNULL)


def profile(folder: Path, picture: Path) -> None:
    script, page = folder / "sort_words.pl", folder / "page.html"
    script.write_text(SORTS, encoding="utf-8")
    profiled: list[str | Path] = [LOFT, "profile", "--peak", "-o", "heap.pb.gz", "--html", page]
    subprocess.run([*profiled, "--", "perl", script.name], cwd=folder, check=True)
    shot(page, picture, 1100, 620)


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has a socket; what it prints says when it has just forgotten."""
    script = folder / "sort_words.pl"
    script.write_text(FORGETS, encoding="utf-8")
    command: list[str | Path] = [
        LOFT,
        "run",
        "--option",
        f"socket={folder}/loft.%p",
        "--",
        "perl",
        script,
        *words,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def top(folder: Path, picture: Path) -> None:
    sys.path.insert(0, str(ROOT / "test" / "cli"))
    from terminal import Terminal

    with running(folder) as process:
        watch = [str(LOFT), "top", str(process.pid), "--interval", str(INTERVAL_S)]
        terminal = Terminal(watch, COLUMNS, ROWS, COLORTERM="truecolor")
        while not terminal.text().split("\n")[LAST_LINE][FIRST_COLUMN : FIRST_COLUMN + 1].strip():
            assert terminal.read(), "top has ended"
        terminal.close()
    # The last frame that is whole.
    *_, frame, _ = terminal.raw.split(HOME)
    screen = pyte.Screen(COLUMNS, ROWS)
    pyte.ByteStream(screen).feed(HOME + frame)
    lines = [
        "".join(cell(screen.buffer[row][column]) for column in range(COLUMNS)).rstrip()
        for row in range(ROWS)
    ]
    page = folder / "top.html"
    page.write_text(PAGE.format("\n".join(lines)), encoding="utf-8")
    shot(page, picture, COLUMNS * 9 + 32, ROWS * 17 + 28)


def cell(char: object) -> str:
    """One of pyte's characters as HTML."""
    text, front, back = (str(getattr(char, name)) for name in ("data", "fg", "bg"))
    if getattr(char, "reverse", False):
        front, back = (
            ("black" if back == "default" else back),
            ("white" if front == "default" else front),
        )
    style = "".join(
        f"{name}:{COLOURS.get(colour, f'#{colour}')};"
        for name, colour in (("color", front), ("background", back))
        if colour != "default"
    )
    style += "font-weight:bold;" if getattr(char, "bold", False) else ""
    shown = html.escape(text)
    return f'<span style="{style}">{shown}</span>' if style else shown


def map_(folder: Path, picture: Path) -> None:
    page = folder / "map.html"
    with running(folder, "once") as process:
        subprocess.run([LOFT, "map", str(process.pid), "-o", page], check=True)
    shot(page, picture, 1100, 760)


PICTURES: dict[str, Callable[[Path, Path], None]] = {"profile": profile, "top": top, "map": map_}


def main() -> int:
    names = sys.argv[1:] or list(PICTURES)
    if unknown := [name for name in names if name not in PICTURES]:
        print(f"pictures: {unknown[0]} is none of {', '.join(PICTURES)}", file=sys.stderr)
        return 2
    for name in names:
        picture = IMAGES / f"{name}.png"
        with tempfile.TemporaryDirectory() as folder:
            PICTURES[name](Path(folder), picture)
        print(f"drawn: {picture.relative_to(ROOT)}, {picture.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
