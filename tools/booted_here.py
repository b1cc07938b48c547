#!/usr/bin/env python3
"""Runs a command on a Linux that QEMU boots, with this machine's files: for the tests that write
settings of the machine, or need what this one does not have, such as control groups of version 2.

    tools/booted_here.py build/venv/bin/python -m pytest -m machine test/programs

The command runs in the checkout, as root. It sees all files of this machine; what it writes stays
in the booted one's memory, but for build/logs. Its exit status is this program's.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from booted import MACHINES, ROOT, fetch, pack

INIT = ROOT / "test" / "elsewhere" / "booted_here_init.sh"
FOLDER = ROOT / "build" / "booted" / "here"
LOGS = ROOT / "build" / "logs"
# Terabytes of addresses take some gigabytes of tables; what is not touched costs nothing here.
MEMORY = "8G"
APPLETS = (*("cat", "chroot", "cp", "insmod", "ip", "ln", "mkdir", "mount", "poweroff", "sh"),)
# What sees the files of the host, and lays a memory over them.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
# It ends a machine that hangs.
LIMIT_S = 3600


def with_needs(names: Iterable[str], modules: Mapping[str, Path]) -> Iterator[Path]:
    """The files of the kernel's modules, each behind those that it needs."""
    for name in names:
        told = re.search(rb"\0depends=([^\0]*)\0", modules[name].read_bytes())
        needs = told[1].decode() if told else ""
        yield from with_needs(filter(None, needs.split(",")), modules)
        yield modules[name]


def make_root(debian: Path, command: list[str]) -> Path:
    root = FOLDER / "root"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "modules", "proc"):
        (root / folder).mkdir(parents=True)
    shutil.copy(debian / "bin" / "busybox", root / "bin")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    modules = {path.stem: path for path in (debian / "lib" / "modules").rglob("*.ko")}
    order = list(dict.fromkeys(with_needs(MODULES, modules)))
    for module in order:
        shutil.copy(module, root / "modules")
    (root / "modules" / "order").write_text("\n".join(module.stem for module in order))
    (root / "init").write_text(INIT.read_text().replace("$LOGS", str(LOGS)))
    (root / "init").chmod(0o755)
    words = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    words |= {"LANG": "C.UTF-8"}
    settings = [f"export {name}={shlex.quote(value)}" for name, value in words.items()]
    lines = [*settings, f"cd {shlex.quote(str(ROOT))} || exit", f"exec {shlex.join(command)}"]
    (root / "command").write_text("\n".join(lines) + "\n")
    return pack(root, FOLDER / "root.gz")


def boot(kernel: Path, image: Path) -> int:
    """How the command in it has ended; its output is shown."""
    share = "local,security_model=none,multidevs=remap"
    qemu = [*MACHINES[0].qemu, "-accel", "tcg,thread=multi", "-cpu", "max"]
    qemu += ["-smp", "2", "-m", MEMORY, "-nodefaults", "-display", "none", "-serial", "stdio"]
    qemu += ["-virtfs", f"{share},path=/,mount_tag=files,readonly=on", "-no-reboot"]
    qemu += ["-virtfs", f"{share},path={LOGS},mount_tag=logs", "-kernel", str(kernel)]
    # A machine that QEMU plays on a busy one has a clock that the kernel finds too slow to trust.
    qemu += [
        "-initrd",
        str(image),
        "-append",
        "console=ttyS0 quiet nokaslr no_timer_check panic=-1",
    ]
    status = 1
    with subprocess.Popen(
        ["timeout", str(LIMIT_S), *qemu],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            words = line.split()
            if len(words) == 2 and words[0] == "ENDED":
                status = int(words[1])
            else:
                print(line.rstrip(), flush=True)
    return status


def main() -> int:
    command = sys.argv[1:]
    if not command:
        sys.exit(__doc__)
    LOGS.mkdir(parents=True, exist_ok=True)
    debian = fetch(MACHINES[0])
    kernel = next((debian / "boot").glob("vmlinuz-*"))
    return boot(kernel, make_root(debian, command))


if __name__ == "__main__":
    sys.exit(main())
