#!/usr/bin/env python3
"""Writes loft(1), from what the command says of itself."""

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import util
from pathlib import Path
from typing import Any

from package_base import ROOT, epoch, loft_version

# It knows the typer of this system, whichever that is.
START = ROOT / "packaging" / "debian" / "loft.py"


def command() -> Any:
    sys.path.insert(0, str(ROOT / "python"))
    about = util.spec_from_file_location("loft_start", START)
    assert about is not None and about.loader is not None
    about.loader.exec_module(util.module_from_spec(about))
    import typer.main

    from loft_malloc.main import app

    return typer.main.get_command(app)


def roff(text: str) -> str:
    """Plain text, with nothing in it that roff reads as its own."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\`")
    return "\n".join(
        "\\&" + line if line.startswith((".", "'")) else line for line in escaped.splitlines()
    )


def paragraphs(text: str) -> Iterator[str]:
    """What a docstring or an epilogue says; after \\b come lines that stay as they are."""
    for part in text.strip().split("\n\n"):
        if part.startswith("\b"):
            yield f".nf\n{roff(part.lstrip(chr(8)).strip(chr(10)))}\n.fi"
        else:
            yield f".PP\n{roff(part)}"


def options_of(each: Any, context: Any) -> Iterator[str]:
    for parameter in each.params:
        record = parameter.get_help_record(context)
        if record is not None and parameter.param_type_name == "option":
            yield f".TP\n.B {roff(record[0])}\n{roff(record[1]) or '.'}"


def page(root: Any) -> str:
    day = datetime.fromtimestamp(epoch(), UTC).strftime("%Y-%m-%d")
    lines = [
        f'.TH LOFT 1 "{day}" "loft {loft_version()}" "User Commands"',
        ".SH NAME",
        "loft \\- run programs under the loft memory allocator, and compare allocators",
        ".SH SYNOPSIS",
        ".B loft\n[\\-\\-version] [\\-\\-help] COMMAND [ARGUMENTS]",
        ".SH DESCRIPTION",
        *paragraphs(root.help or ""),
        ".SH COMMANDS",
    ]
    with root.make_context("loft", [], resilient_parsing=True) as context:
        for name, each in root.commands.items():
            with each.make_context(name, [], parent=context, resilient_parsing=True) as inner:
                usage = " ".join(each.collect_usage_pieces(inner))
                lines += [f".SS loft {roff(name)} {roff(usage)}", *paragraphs(each.help or "")]
                lines += options_of(each, inner)
                lines += paragraphs(each.epilog or "")
    lines += [".SH SEE ALSO", ".BR ld.so (8),", ".BR malloc (3)"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "loft.1").write_text(page(command()))


if __name__ == "__main__":
    main()
