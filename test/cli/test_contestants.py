"""`loft compare --with`: who takes part, with which settings, and what each is called."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Loft, one_line

from loft_malloc import contestants
from loft_malloc.allocators import Allocator
from loft_malloc.errors import UserError


@pytest.fixture(scope="module")
def there(build: Path) -> list[Allocator]:
    return [
        Allocator("glibc", None),
        Allocator("loft", build / "libloft.so"),
        Allocator("jemalloc", Path("/nowhere/libjemalloc.so")),
    ]


def picked(there: list[Allocator], *texts: str) -> dict[str, dict[str, str]]:
    return {each.name: dict(each.variables) for each in contestants.chosen(list(texts), there)}


def test_each_contestant_has_settings_of_its_own(there: list[Allocator]) -> None:
    assert picked(there, "loft,loft:owner=cpu,loft:owner=shared;decay_ms=0,glibc") == {
        "loft": {},
        "loft owner=cpu": {"LOFT_OWNER": "cpu"},
        "loft owner=shared decay_ms=0": {"LOFT_OWNER": "shared", "LOFT_DECAY_MS": "0"},
        "glibc": {},
    }


def test_the_others_have_variables(there: list[Allocator]) -> None:
    conf = "narenas:1,tcache:false;\\"
    text = "jemalloc:MALLOC_CONF=" + conf.replace("\\", "\\\\").replace(",", "\\,").replace(
        ";", "\\;"
    )
    assert picked(there, f"{text};B=a=b,glibc:MALLOC_ARENA_MAX=1") == {
        f"jemalloc MALLOC_CONF={conf} B=a=b": {"MALLOC_CONF": conf, "B": "a=b"},
        "glibc MALLOC_ARENA_MAX=1": {"MALLOC_ARENA_MAX": "1"},
    }


def test_a_backslash_before_another_character_is_one(there: list[Allocator]) -> None:
    assert picked(there, r"glibc:PATTERN=\d\\,glibc") == {
        r"glibc PATTERN=\d" + "\\": {"PATTERN": "\\d\\"},
        "glibc": {},
    }


def test_the_option_may_be_given_again_and_the_same_is_the_same(there: list[Allocator]) -> None:
    assert list(picked(there, "glibc", "loft:owner=cpu,glibc", "loft:owner=cpu")) == [
        "glibc",
        "loft owner=cpu",
    ]


def test_a_loft_given_by_its_path_has_lofts_options(build: Path, there: list[Allocator]) -> None:
    library = build / "libloft.so"
    assert picked(there, f"{library}:thp=never") == {"libloft thp=never": {"LOFT_THP": "never"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loft:owner=nobody", "owner=nobody: expected thread, cpu"),
        ("loft:nonsense=1", "there is no option 'nonsense'; `loft run --help` lists all"),
        ("loft:owner", "--with loft: 'owner' sets nothing; write name:key=value;key=value"),
        ("loft:", "--with loft: settings follow the colon"),
        ("jemalloc:a-b=1", "--with jemalloc: 'a-b' is not the name of an environment variable"),
        ("glibc:LD_PRELOAD=/x.so", "a comparison sets LD_PRELOAD itself"),
        ("jemalloc:MALLOC_CONF=a:1,b:2", "put a backslash before a comma inside a value"),
        ("jemalloc:MALLOC_CONF=a:1;b:2", "'b:2' sets nothing"),
    ],
)
def test_bad_settings_are_named(there: list[Allocator], text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        contestants.chosen([text], there)
    assert said in str(error.value)


def test_a_command_runs_with_the_settings(loft: Loft) -> None:
    ran = loft(
        "compare", "--runs", "1", "--show-output", "--with",
        r"loft,loft:owner=cpu;stats=off,glibc:WORDS=a\,b c", "--", "sh", "-c",
        'echo "[$LOFT_OWNER|$LOFT_STATS|$WORDS]"',
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    for said in ("[||]\n", "[cpu|off|]\n", "[||a,b c]\n"):
        assert ran.stdout.count(said) >= 3
    assert "\nloft owner=cpu stats=off " in ran.stdout
    assert "\nglibc WORDS=a,b c " in ran.stdout


def test_bad_settings_are_one_line(loft: Loft) -> None:
    ran = loft("compare", "--with", "loft:owner=nobody", "--", "true")
    assert ran.returncode == 2
    assert "owner=nobody: expected thread, cpu" in one_line(ran.stderr)
