"""All stacks of a profile, or of two that are compared, as one tree: what the page draws.

And what each function holds, by itself and with all that it calls: what the terminal shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from loft_malloc.errors import UserError
from loft_malloc.profile.model import Frame, Kind, Location, Profile, Sample
from loft_malloc.profile.stacks import unnamed

# A function is the same at all of its lines, and not at the same name elsewhere.
Function = tuple[str, str]
# More than any stack has.
FAR = 1 << 30


@dataclass(eq=False)
class Node:
    """A function, called on one way. Values are its own, without what it calls."""

    __slots__ = ("base", "function", "parent", "values")

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
    # How many objects were freed of those that lie in it or below, and how long they all lived.
    freed: int = 0
    lived_us: int = 0
    # How many calls it is away from the nearest that allocates.
    distance: int = FAR

    @property
    def line(self) -> int:
        """The one where most is held."""
        return max(self.lines, key=lambda line: (abs(self.lines[line]), -line), default=0)

    @property
    def lifetime_us(self) -> float:
        """On average; 0: nobody knows."""
        return self.lived_us / self.freed if self.freed else 0


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
    """Functions are numbers here, since there are many more frames than functions."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.nodes = [Node(("", ""), -1, [0] * width, [0] * width)]
        self.children: dict[tuple[int, int], int] = {}
        self.numbers: dict[Function, int] = {}
        self.names: list[Function] = []
        # Of each location its functions, the outermost first; and what lies in it or below.
        self.functions: dict[Location, list[int]] = {}
        self.weights: dict[Location, int] = {}
        # Of each function, objects freed and their lifetimes.
        self.lives: dict[int, list[int]] = {}

    def add_life(self, sample: Sample, freed: int) -> None:
        inside = {each for location in sample.locations for each in self.functions[location]}
        for function in inside:
            life = self.lives.setdefault(function, [0, 0])
            life[0] += freed
            life[1] += freed * sample.lifetime_us

    def add(self, sample: Sample, columns: list[int], main: int, sign: int) -> None:
        at = 0
        children = self.children
        for location in reversed(sample.locations):
            functions = self.functions.get(location)
            if functions is None:
                functions = self.functions[location] = self._functions_of(location)
            for function in functions:
                below = children.get((at, function))
                at = self._child(at, function) if below is None else below
        node = self.nodes[at]
        into = node.values if sign > 0 else node.base
        for index, column in enumerate(columns):
            into[index] += sample.values[column]
        if weight := sign * sample.values[columns[main]]:
            for location in set(sample.locations):
                self.weights[location] = self.weights.get(location, 0) + weight

    def _functions_of(self, location: Location) -> list[int]:
        numbers = []
        for frame in reversed(location.frames or [unnamed(location)]):
            function = function_of(frame)
            if function not in self.numbers:
                self.numbers[function] = len(self.names)
                self.names.append(function)
            numbers.append(self.numbers[function])
        return numbers

    def _child(self, parent: int, function: int) -> int:
        at = self.children[parent, function] = len(self.nodes)
        values, base = [0] * self.width, [0] * self.width
        self.nodes.append(Node(self.names[function], parent, values, base))
        return at

    def held(self, main: int) -> list[Held]:
        found: dict[Function, Held] = {}
        for function in self.numbers:
            found[function] = Held(function, [0] * self.width, [0] * self.width)
        _count(self.nodes, found)
        _measure(self.nodes, found, main)
        for location, weight in self.weights.items():
            for frame in location.frames:
                lines = found[function_of(frame)].lines
                lines[frame.line] = lines.get(frame.line, 0) + weight
        for number, (freed, lived) in self.lives.items():
            found[self.names[number]].freed = freed
            found[self.names[number]].lived_us = lived
        return list(found.values())


def _count(nodes: list[Node], held: dict[Function, Held]) -> None:
    """A function that calls itself holds what is below it once: where it is outermost."""
    sums = [[value - before for value, before in zip(node.values, node.base)] for node in nodes]
    for node, own in zip(nodes[1:], sums[1:]):
        flat = held[node.function].flat
        for column, value in enumerate(own):
            flat[column] += value
    for index in range(len(nodes) - 1, 0, -1):
        above = sums[nodes[index].parent]
        for column, value in enumerate(sums[index]):
            above[column] += value
    children: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes[1:], 1):
        children[node.parent].append(index)
    # The way from the root: a node is met when it is entered and, negated, when it is left.
    way, inside = children[0][:], dict.fromkeys(held, 0)
    while way:
        index = way.pop()
        function = nodes[abs(index)].function
        if index < 0:
            inside[function] -= 1
            continue
        if inside[function] == 0:
            cumulative = held[function].cumulative
            for column, value in enumerate(sums[index]):
                cumulative[column] += value
        inside[function] += 1
        way.append(-index)
        way += children[index]


def _measure(nodes: list[Node], held: dict[Function, Held], main: int) -> None:
    below = [0 if node.values[main] or node.base[main] else FAR for node in nodes]
    for index in range(len(nodes) - 1, 0, -1):
        node = nodes[index]
        below[node.parent] = min(below[node.parent], below[index] + 1)
        of_function = held[node.function]
        of_function.distance = min(of_function.distance, below[index])


def function_of(frame: Frame) -> Function:
    return frame.name or "??", frame.file


def _add_lives(builder: _Builder, profile: Profile) -> None:
    allocated, used = profile.index("alloc_objects"), profile.index("inuse_objects")
    if allocated is None or used is None:
        return
    for sample in profile.samples:
        if sample.lifetime_us:
            # Of another moment than the end, there may be more in use than are now.
            freed = sample.values[allocated] - sample.values[used]
            builder.add_life(sample, max(freed, 1))


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
    if base is None:
        _add_lives(builder, profile)
    return Tree(kinds, main, builder.nodes, builder.held(main), base is not None)


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
        big = any(value > limit for value, limit in zip(sums[index], limits))
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
