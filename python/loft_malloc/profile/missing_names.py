"""Where the names come from that a profile lacks: packages with debug symbols, or a server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path, PurePath

from loft_malloc.profile.debug_files import DELETED
from loft_malloc.profile.model import Profile

# More files than these are counted.
MOST_NAMED = 3
LIMIT_S = 10
SERVERS = {
    "debian": "https://debuginfod.debian.net",
    "ubuntu": "https://debuginfod.ubuntu.com",
    "fedora": "https://debuginfod.fedoraproject.org",
    "arch": "https://debuginfod.archlinux.org",
}
ANY_SERVER = "https://debuginfod.elfutils.org"


def hint(profile: Profile) -> list[str]:
    """A line, or none. Files with most addresses without a name come first."""
    unnamed: Counter[str] = Counter()
    for location in profile.locations():
        if location.mapping is not None and not location.frames:
            file = location.mapping.file.removesuffix(DELETED)
            unnamed[file] += file.startswith("/")
    files = [file for file, count in unnamed.most_common() if count]
    if not files:
        return []
    names = [PurePath(file).name for file in files[:MOST_NAMED]]
    if len(files) > MOST_NAMED:
        names.append(f"{len(files) - MOST_NAMED} more")
    owners = list(dict.fromkeys(filter(None, map(_package, files[:MOST_NAMED]))))
    said = f"no function names for {', '.join(names)}: "
    if not owners:
        return [f"{said}build with debug information (-g), and do not strip it"]
    if shutil.which("dpkg-query"):
        said += f"install the -dbgsym or -dbg {'package' if len(owners) == 1 else 'packages'} of "
        said += ", ".join(owners)
    else:
        said += f"debuginfo-install {' '.join(owners)}"
    if not os.environ.get("DEBUGINFOD_URLS", "").strip():
        said += f", or set DEBUGINFOD_URLS={_server()}"
        if shutil.which("debuginfod-find") is None:
            said += " and install debuginfod"
    return [said]


def _package(file: str) -> str:
    """The package that a file is from; nothing if it is from none."""
    # Debian lists files of /usr/lib as it did when there was a /lib besides.
    paths = dict.fromkeys((os.path.realpath(file), file, file.removeprefix("/usr")))
    for tool in (["dpkg-query", "-S"], ["rpm", "-qf", "--qf", "%{NAME}:"]):
        for path in paths if shutil.which(tool[0]) else ():
            try:
                ran = subprocess.run(
                    [*tool, path],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=LIMIT_S,
                )
            except (OSError, subprocess.TimeoutExpired):
                continue
            if ran.returncode == 0:
                return ran.stdout.partition(":")[0]
    return ""


def _server() -> str:
    try:
        text = Path("/etc/os-release").read_text(errors="replace")
    except OSError:
        text = ""
    found = re.search(r'^ID="?([\w.-]+)', text, re.MULTILINE)
    return SERVERS.get(found[1] if found else "", ANY_SERVER)
