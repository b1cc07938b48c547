"""Where a source file in C++ can be mutated, and what it looks like with mutants in it.

A mutant is one small mistake: another operator, a condition turned round, a constant beside the
right one, a call left out. All mutants of a build are in it at once, each behind a question that is
asked at run time (test/mutants/mutant.h), so that one build serves them all, headers included:

    if (a < b) f();     if ((loft::mutants::is(7) ? a <= b : a < b)) f();

The places are those that tree-sitter's grammar finds in functions' bodies. It knows no types: a
mutant that the compiler refuses is taken out again by the caller, who asks `Mutated.at` which one
an error is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

# Attributes that the grammar takes for types. Blanks in their place keep all else where it is.
ATTRIBUTES = re.compile(rb"\b(LOFT_(HIDDEN|COLD|ALWAYS_INLINE|NOINLINE|EXPORT|TLS)|constinit)\b")

# What an operator could have been by mistake.
OTHERS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "&&": ("||",),
    "||": ("&&",),
    "+": ("-",),
    "-": ("+",),
    "*": ("/",),
    "/": ("*",),
    "%": ("/",),
    "<<": (">>",),
    ">>": ("<<",),
    "&": ("|",),
    "|": ("&",),
    "^": ("|",),
    "+=": ("-=",),
    "-=": ("+=",),
    "<<=": (">>=",),
    ">>=": ("<<=",),
    "&=": ("|=",),
    "|=": ("&=",),
    "^=": ("|=",),
    "++": ("--",),
    "--": ("++",),
}
KINDS = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "comparison"),
    **dict.fromkeys(("&&", "||"), "logic"),
}

# The compiler wants these to be constant, or nothing depends on them.
CONSTANT = {
    "alignas_qualifier",
    "attribute_declaration",
    "enumerator",
    "noexcept",
    "preproc_def",
    "preproc_function_def",
    "requires_clause",
    "static_assert_declaration",
    "template_argument_list",
    "template_parameter_list",
}
# Calls that check the program or advise the machine, and functions that are nothing but checks.
UNCHANGED_CALLS = {"LOFT_CHECK", "LOFT_PROBE", "__builtin_prefetch"}
UNCHANGED_FUNCTIONS = {"check", "check_counters"}

NUMBER = re.compile(r"(0[xX][0-9a-fA-F']+|[0-9][0-9']*)([uUlLzZ]*)")

Edit = tuple[int, int, bytes]


@dataclass(frozen=True)
class Place:
    """One mutant that is possible: within its bytes, what changes."""

    start: int
    end: int
    kind: str
    edits: tuple[Edit, ...]
    # It stands as a statement, and has no value.
    statement: bool = False


@cache
def parser() -> Parser:
    return Parser(Language(tree_sitter_cpp.language()))


def places(source: bytes) -> list[Place]:
    blanked = ATTRIBUTES.sub(lambda found: b" " * len(found[0]), source)
    return list(below(parser().parse(blanked).root_node, inside=False))


def below(node: Node, inside: bool) -> Iterator[Place]:
    """The places at a node and below it; `inside`: of a function's body."""
    if is_unchanged(node):
        return
    if inside:
        yield from at(node)
    constant = constant_child(node)
    for child in node.named_children:
        if constant is None or child.id != constant.id:
            yield from below(child, inside or child.type == "compound_statement")


def is_unchanged(node: Node) -> bool:
    if node.type in CONSTANT or node.type == "ERROR":
        return True
    if node.type == "call_expression":
        return text_of(node.child_by_field_name("function")) in UNCHANGED_CALLS
    if node.type == "function_definition":
        return name_of(node) in UNCHANGED_FUNCTIONS
    if node.type == "declaration":
        return any(text_of(child) in ("constexpr", "static") for child in node.children)
    return is_message(node)


def is_message(node: Node) -> bool:
    """Whether it puts a text together that somebody reads, with `<<`."""
    return node.type == "binary_expression" and any(
        child.type in ("string_literal", "concatenated_string") or is_message(child)
        for child in node.named_children
    )


def name_of(function: Node) -> str:
    declarator = function.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    name = declarator and declarator.child_by_field_name("declarator")
    return text_of(name).rpartition("::")[2]


def constant_child(node: Node) -> Node | None:
    """The child that has to be a constant, if one has."""
    if node.type == "case_statement":
        return node.child_by_field_name("value")
    if node.type == "array_declarator":
        return node.child_by_field_name("size")
    if node.type == "if_statement" and any(child.type == "constexpr" for child in node.children):
        return node.child_by_field_name("condition")
    return None


def text_of(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode()


def at(node: Node) -> Iterator[Place]:
    """What can be changed in the node itself."""
    operator = node.child_by_field_name("operator")
    match node.type:
        case "binary_expression" | "assignment_expression" | "update_expression":
            assert operator is not None
            for other in OTHERS.get(text_of(operator), ()):
                edit = (operator.start_byte, operator.end_byte, other.encode())
                kind = KINDS.get(text_of(operator), "arithmetic")
                yield Place(node.start_byte, node.end_byte, kind, (edit,))
        case "unary_expression" if text_of(operator) in ("!", "~"):
            assert operator is not None
            edit = (operator.start_byte, operator.end_byte, b"")
            yield Place(node.start_byte, node.end_byte, "operator left out", (edit,))
        case "number_literal" | "true" | "false":
            for other in other_constants(text_of(node)):
                edit = (node.start_byte, node.end_byte, other.encode())
                yield Place(node.start_byte, node.end_byte, "constant", (edit,))
        case "expression_statement":
            yield from left_out(node.named_children[0] if node.named_children else None)
    condition = condition_of(node)
    if condition is not None:
        start, end = condition.start_byte, condition.end_byte
        yield Place(start, end, "condition", ((start, start, b"!("), (end, end, b")")))


def left_out(expression: Node | None) -> Iterator[Place]:
    if expression is None or is_unchanged(expression):
        return
    if expression.type in ("call_expression", "assignment_expression", "update_expression"):
        start, end = expression.start_byte, expression.end_byte
        edit = (start, end, b"static_cast<void>(0)")
        yield Place(start, end, "statement left out", (edit,), statement=True)


def other_constants(text: str) -> Iterator[str]:
    if text in ("true", "false"):
        yield "false" if text == "true" else "true"
    number = NUMBER.fullmatch(text)
    if number is None:
        return
    value = int(number[1].replace("'", ""), 0)
    written = hex if number[1][:2] in ("0x", "0X") else str
    yield written(value + 1) + number[2]
    if value != 0:
        yield written(value - 1) + number[2]


def condition_of(node: Node) -> Node | None:
    """What decides, where that is an expression; comparisons are places themselves."""
    if node.type not in ("if_statement", "while_statement", "do_statement", "for_statement"):
        return None
    if constant_child(node) is not None:
        return None
    condition = node.child_by_field_name("condition")
    if condition is not None and condition.type == "condition_clause":
        condition = condition.child_by_field_name("value")
    if condition is None or condition.type == "declaration":
        return None
    if condition.type == "binary_expression":
        operator = text_of(condition.child_by_field_name("operator"))
        return None if KINDS.get(operator) == "comparison" else condition
    return condition


@dataclass
class Mutated:
    """A file's text with mutants in it, and which of its bytes belong to which."""

    text: bytes = b""
    spans: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, other: Mutated) -> None:
        start = len(self.text)
        self.text += other.text
        self.spans += [(start + begin, start + end, number) for begin, end, number in other.spans]

    def at(self, line: int, column: int) -> int | None:
        """The innermost mutant there, by lines and columns from 1."""
        lines = self.text.split(b"\n")
        offset = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
        around = [(end - begin, n) for begin, end, n in self.spans if begin <= offset < end]
        return min(around)[1] if around else None


def with_mutants(source: bytes, mutants: Sequence[tuple[int, Place]]) -> Mutated:
    """The source with all of these in it; no two of them may be about the same bytes."""
    return written(source, 0, len(source), sorted(mutants, key=outermost_first), ())


def with_one(source: bytes, place: Place) -> bytes:
    """The source as somebody would have written the mistake."""
    return written(source, 0, len(source), [], place.edits).text


def outermost_first(mutant: tuple[int, Place]) -> tuple[int, int]:
    return mutant[1].start, -mutant[1].end


def written(
    source: bytes,
    start: int,
    end: int,
    mutants: Sequence[tuple[int, Place]],
    edits: Sequence[Edit],
) -> Mutated:
    """The source's bytes with the edits and with the mutants that no edit covers."""
    result = Mutated()
    position = start
    pieces: list[tuple[int, int, Mutated]] = [(a, b, Mutated(text)) for a, b, text in edits]
    covered = start
    for i, (number, place) in enumerate(mutants):
        if place.start < covered or any(a < place.end and place.start < b for a, b, _ in edits):
            continue
        covered = place.end
        within = [each for each in mutants[i + 1 :] if each[1].start < place.end]
        pieces.append((place.start, place.end, chosen(source, number, place, within)))
    for a, b, piece in sorted(pieces, key=lambda each: each[:2]):
        result.add(Mutated(source[position:a]))
        result.add(piece)
        position = b
    result.add(Mutated(source[position:end]))
    return result


def chosen(
    source: bytes, number: int, place: Place, within: Sequence[tuple[int, Place]]
) -> Mutated:
    wrong = written(source, place.start, place.end, within, place.edits)
    right = written(source, place.start, place.end, within, ())
    result = Mutated(f"(::loft::mutants::is({number}) ? (".encode())
    result.add(wrong)
    result.add(Mutated(b") : static_cast<void>(" if place.statement else b") : ("))
    result.add(right)
    result.add(Mutated(b"))"))
    result.spans.append((0, len(result.text), number))
    return result
