"""What tools/house.py counts, in trees whose counts are known."""

from __future__ import annotations

from pathlib import Path

import pytest
from house import IDEAS, House, Row, code_lines, doubles, kept_size, put, table, types_of
from trees import write_tree

FILES = {
    "src/base/bits.h": "#pragma once\n",
    "src/slab/slab.h": '#include "base/bits.h"\nstruct Block {};\n',
    "src/cache/bins.h": '#include "slab/slab.h"\n#include "base/bits.h"\n',
    "src/malloc/free.cc": '#include "cache/bins.h"\n#include "slab/slab.h"\n#include <new>\n',
    "src/space/bits.h": "struct Block {\n};\n",
    "src/README.md": f"{IDEAS}\n\n1. One.\n2. Two.\n\n## Else\n3. No.\n",
}


@pytest.fixture(name="house")
def fixture_house(tmp_path: Path) -> House:
    return House(write_tree(tmp_path, FILES))


def test_lines_with_code_count(tmp_path: Path) -> None:
    text = """\
// A comment.
#include <new>

/* One
   more. */ int x;  // with code
const char* s =
    "// no comment";
"""
    write_tree(tmp_path, {"a.cc": text})
    assert code_lines(tmp_path / "a.cc") == 4


def test_heights_and_arrows(house: House) -> None:
    heights = house.heights
    assert [heights[name] for name in ("base", "slab", "cache", "malloc")] == [1, 2, 3, 4]
    assert house.arrows["malloc", "slab"] == 1
    assert ("base", "slab") not in house.arrows
    assert set(house.reduced({"base"})) == {("malloc", "cache"), ("cache", "slab")}
    assert set(house.reduced(set())) == {
        ("malloc", "cache"),
        ("cache", "slab"),
        ("slab", "base"),
    }


def test_the_headers_of_a_file_are_all_that_it_takes_in(house: House) -> None:
    assert house.headers_of("malloc/free.cc") == {"cache/bins.h", "slab/slab.h", "base/bits.h"}


def test_names_with_two_meanings(house: House) -> None:
    assert house.same_headers == {"bits.h": ["src/base/bits.h", "src/space/bits.h"]}
    assert house.same_types == {"Block": ["src/slab/slab.h", "src/space/bits.h"]}
    assert doubles(iter([("a", "2"), ("b", "1"), ("a", "1")])) == {"a": ["1", "2"]}


def test_only_listed_ideas_count(house: House) -> None:
    assert house.ideas() == 2


def test_types_of_namespaces_alone_count() -> None:
    text = """\
namespace loft {
struct Declared;
struct alignas(64) Aligned { enum Inner { kOne }; };
namespace {
class Derived final : public Aligned { struct Nested {}; };
enum class Colour : uint8_t { kRed };
template <class T> struct Of {};
void f() { struct Local {}; const char* s = "struct Quoted {"; char c = '{'; }
}  // namespace
}  // namespace loft
extern "C" { struct Foreign {}; }
"""
    assert types_of(text) == {"Aligned", "Derived", "Colour", "Of", "Foreign"}


def test_the_document_gets_what_stands_between_the_marks() -> None:
    document = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n"
    assert put(document, "x", "new\n") == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"
    with pytest.raises(SystemExit):
        put("a\n", "x", "new\n")


def test_the_size_is_kept() -> None:
    assert kept_size(table([Row("text of `libloft.so`, KB", "448", "432", "270")])) == "432"
    assert kept_size("") == ""
