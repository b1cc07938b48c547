"""Attacks upon allocators that have names: whether the attacker gets what he wants."""

from __future__ import annotations

import re
import signal

import pytest
from programs import SOURCES, Build, Execute

ATTACKS = re.findall(
    r"\bATTACK\((\w+)\),", (SOURCES / "attacks.c").read_text().partition("kAttacks[] = {")[2]
)
# What takes metadata in objects, or between them: loft has none, with or without an option.
BY_DESIGN = {
    "tcache_poisoning",
    "safe_linking_bypass",
    "house_of_botcake",
    "unsafe_unlink",
    "house_of_spirit",
    "house_of_spirit_stack",
    "house_of_force",
    "house_of_einherjar",
    "poison_null_byte",
    "overlapping_chunks",
    "metadata_overwrite",
}
# What each mode withstands, as docs/hardened.md says.
WITHSTANDS = {
    "off": BY_DESIGN,
    "guard": BY_DESIGN | {"fastbin_dup", "fastbin_dup_later"},
    "full": set(ATTACKS),
}
# What hardened=full notices, and not only survives.
NOTICED = {
    "fastbin_dup": "double free of",
    "fastbin_dup_later": "double free of",
    "house_of_botcake": "free of a pointer to memory that is not allocated",
    "house_of_spirit": "free of a foreign pointer",
    "house_of_spirit_stack": "free of a foreign pointer",
    "poison_null_byte": "free: a write beyond the object",
    "off_by_one": "free: a write beyond the object",
    "overlapping_chunks": "free: a write before the object, or beyond the one before it",
}


def test_the_attacks_are_known(execute: Execute, build: Build) -> None:
    listed = execute(build("attacks.c"), preload=False).stdout.split()
    assert set(listed) == set(ATTACKS)
    assert set(ATTACKS) >= BY_DESIGN | set(NOTICED)


@pytest.mark.parametrize(
    ("mode", "name"),
    [(mode, name) for mode, names in WITHSTANDS.items() for name in ATTACKS if name in names],
)
def test_an_attack_fails(execute: Execute, build: Build, mode: str, name: str) -> None:
    result = execute(build("attacks.c"), name, LOFT_HARDENED=mode)
    if mode == "full" and name in NOTICED:
        assert result.returncode == -signal.SIGABRT, result.stdout
        assert result.stderr.startswith(f"loft: {NOTICED[name]}")
    elif result.returncode == 0:
        assert result.stdout == "lost\n"
    else:
        # Noticed, or pages that nobody may touch.
        assert -result.returncode in (signal.SIGABRT, signal.SIGSEGV), result.stderr
        assert "won" not in result.stdout
