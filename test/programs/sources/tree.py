"""Makes a folder of many small files and one large text, for find, tar and sort; no randomness."""

from pathlib import Path

words = [
    "alder",
    "birch",
    "cedar",
    "elm",
    "fir",
    "hazel",
    "larch",
    "maple",
    "oak",
    "pine",
    "rowan",
    "yew",
]


class Stream:
    state = 1

    def __call__(self, limit: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit


draw = Stream()

for number in range(6000):
    folder = Path("tree") / f"d{number % 23}" / f"e{number % 31}"
    folder.mkdir(parents=True, exist_ok=True)
    text = " ".join(words[draw(12)] + str(draw(1000)) for _ in range(draw(400)))
    (folder / f"file{number}.{('c', 'h', 'txt')[number % 3]}").write_text(text)

with Path("lines.txt").open("w") as lines:
    for number in range(600_000):
        lines.write(f"{draw(1_000_000):06d} {words[draw(12)]} {words[draw(12)]} {number}\n")
