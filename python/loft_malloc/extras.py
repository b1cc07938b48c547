"""What is installed beside the command only on request."""

from __future__ import annotations

from importlib.util import find_spec

from loft_malloc.errors import UserError


def need_charts(option: str) -> None:
    if find_spec("matplotlib") is None:
        ways = "apt-get install python3-matplotlib, or pip install matplotlib"
        raise UserError(f"{option} needs matplotlib: {ways}")
