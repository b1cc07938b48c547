#!/usr/bin/env python3
"""Draw the README's picture of a profile, docs/images/profile.png: Perl, which sorts words.

It needs what `make cli` and tools/setup.sh test bring: the command, and Chromium without a window.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "profile.png"
LOFT = ROOT / "build" / "venv" / "bin" / "loft"
PROGRAM = """
my %by_length;
for my $i (1 .. 150_000) {
  my $word = "word $i " . ("x" x ($i % 40));
  push @{ $by_length{ length $word } }, { word => $word, rank => $i };
}
my @sorted = map { sort { $a->{word} cmp $b->{word} } @$_ } values %by_length;
my $all = join ",", map { $_->{word} =~ s/word/w/r } @sorted;
print length($all), "\\n";
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "sort_words.pl"
        script.write_text(PROGRAM, encoding="utf-8")
        page = folder / "page.html"
        profiled: list[str | Path] = [LOFT, "profile", "--peak", "-o", "heap.pb.gz", "--html", page]
        subprocess.run([*profiled, "--", "perl", script.name], cwd=folder, check=True)
        browser = ["chromium-headless-shell", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
        shot = [f"--screenshot={PICTURE}", "--window-size=1100,620", page.as_uri()]
        subprocess.run([*browser, *shot], check=True, stderr=subprocess.DEVNULL)
    print(f"drawn: {PICTURE.relative_to(ROOT)}, {PICTURE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
