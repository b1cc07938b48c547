"""All stacks of a profile, or of two that are compared, as one tree: what the page draws.

And what each function holds, by itself and with all that it calls: what the terminal shows.
"""

from dataclasses import dataclass, field

from loft.errors import UserError
from loft.profile.model import Frame, Kind, Profile, Sample
from loft.profile.stacks import shown_frames

# A function is the same at all of its lines, and not at the same name elsewhere.
Function = tuple[str, str]


@dataclass(eq=False)
class Node:
    """A function, called on one way. Values are its own, without what it calls."""

    function: Function
    parent: int
    values: list[int]
    # Those of the profile that this one is compared with.
    base: list[int]


@dataclass
class Held:
    """What one function holds, for each kind; with a base, how much more than there."""

    function: Function
    flat: list[int]
    cumulative: list[int]
    # What lies in each of its lines, in itself or below.
    lines: dict[int, int] = field(default_factory=dict)

    @property
    def line(self) -> int:
        """The one where most is held."""
        return max(self.lines, key=lambda line: (abs(self.lines[line]), -line), default=0)


@dataclass
class Tree:
    """Node 0 is the root, parents come before their children."""

    kinds: list[Kind]
    # Of the kinds, the one that is looked at first.
    main: int
    nodes: list[Node]
    held: list[Held]
    compared: bool

    def totals(self) -> list[int]:
        return [sum(node.values[i] for node in self.nodes) for i in range(len(self.kinds))]

    def base_totals(self) -> list[int]:
        return [sum(node.base[i] for node in self.nodes) for i in range(len(self.kinds))]


class _Builder:
    def __init__(self, width: int) -> None:
        self.width = width
        self.nodes = [Node(("", ""), -1, [0] * width, [0] * width)]
        self.children: dict[tuple[int, Function], int] = {}
        self.held: dict[Function, Held] = {}

    def add(self, sample: Sample, columns: list[int], main: int, sign: int) -> None:
        values = [sample.values[column] for column in columns]
        at = 0
        frames = list(shown_frames(sample))
        weights = {}
        for frame in frames:
            function = function_of(frame)
            at = self._child(at, function)
            weights[function] = frame.line
        node = self.nodes[at]
        into = node.values if sign > 0 else node.base
        for index, value in enumerate(values):
            into[index] += value
        # A function that calls itself holds what is below it once; its innermost line counts.
        for function, line in weights.items():
            held = self._held(function)
            for index, value in enumerate(values):
                held.cumulative[index] += sign * value
            held.lines[line] = held.lines.get(line, 0) + sign * values[main]
        if frames:
            held = self._held(function_of(frames[-1]))
            for index, value in enumerate(values):
                held.flat[index] += sign * value

    def _child(self, parent: int, function: Function) -> int:
        key = parent, function
        if key not in self.children:
            self.children[key] = len(self.nodes)
            self.nodes.append(Node(function, parent, [0] * self.width, [0] * self.width))
        return self.children[key]

    def _held(self, function: Function) -> Held:
        if function not in self.held:
            self.held[function] = Held(function, [0] * self.width, [0] * self.width)
        return self.held[function]


def function_of(frame: Frame) -> Function:
    return frame.name or "??", frame.file


def build(profile: Profile, base: Profile | None = None) -> Tree:
    kinds = [kind for kind in profile.kinds if base is None or kind in base.kinds]
    if not kinds:
        raise UserError("the two profiles have no kind of value in common")
    wanted = profile.kinds[profile.main_index]
    main = kinds.index(wanted) if wanted in kinds else 0
    builder = _Builder(len(kinds))
    for each, sign in ((profile, 1), (base, -1)):
        if each is not None:
            columns = [each.kinds.index(kind) for kind in kinds]
            for sample in each.samples:
                builder.add(sample, columns, main, sign)
    return Tree(kinds, main, builder.nodes, list(builder.held.values()), base is not None)


def without_crumbs(tree: Tree, share: float) -> tuple[list[Node], int]:
    """The nodes that hold this share of something with all below them, and how many others.

    What the others hold is their parents'.
    """
    width = len(tree.kinds)
    sums = [[*node.values, *node.base] for node in tree.nodes]
    for index in range(len(tree.nodes) - 1, 0, -1):
        above = sums[tree.nodes[index].parent]
        for column, value in enumerate(sums[index]):
            above[column] += value
    limits = [share * max(total, 1) for total in sums[0]]
    places: dict[int, int] = {}
    kept: list[Node] = []
    for index, node in enumerate(tree.nodes):
        big = any(value > limit for value, limit in zip(sums[index], limits, strict=True))
        if index == 0 or (big and node.parent in places):
            places[index] = len(kept)
            parent = places[node.parent] if index else -1
            kept.append(Node(node.function, parent, [*node.values], [*node.base]))
    gone = len(tree.nodes) - len(kept)
    for index, node in enumerate(tree.nodes):
        if index in places:
            continue
        at = node.parent
        while at not in places:
            at = tree.nodes[at].parent
        into = kept[places[at]]
        for column in range(width):
            into.values[column] += node.values[column]
            into.base[column] += node.base[column]
    return kept, gone
