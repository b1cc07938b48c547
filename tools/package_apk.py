"""Packages of Alpine: three parts of gzip in one file, of which a local one has two.

The first holds .PKGINFO, in a tar without its end; the second the files, each with the checksum
that apk keeps in its database. There is no signature: `apk add --allow-untrusted` installs it.
"""

import hashlib
import io
import tarfile
from collections.abc import Sequence

from package_base import NAME, SUMMARY, Entry, compressed, header_of, tar_of

CHECKSUM = "APK-TOOLS.checksum.SHA1"
END_OF_TAR = 1024


def data_part(entries: Sequence[Entry], moment: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            about = header_of(entry, moment)
            if not entry.name.endswith("/"):
                content = entry.link.encode() if entry.link else entry.data
                about.pax_headers = {CHECKSUM: hashlib.sha1(content).hexdigest()}
            archive.addfile(about, io.BytesIO(entry.data))
    return compressed(packed.getvalue())


def without_end(tar: bytes) -> bytes:
    """Another tar may follow what this gives: it stops after the last entry's blocks."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        last = archive.getmembers()[-1]
    return tar[: last.offset_data + -(-last.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE]


def package(
    name: str, version: str, entries: Sequence[Entry], moment: int, fields: Sequence[str]
) -> bytes:
    data = data_part(entries, moment)
    size = sum(len(entry.data) for entry in entries)
    about = [
        f"pkgname = {name}",
        f"pkgver = {version}-r0",
        f"pkgdesc = {SUMMARY}",
        f"builddate = {moment}",
        "packager = loft",
        f"size = {size}",
        "arch = x86_64",
        f"origin = {NAME}",
        "license = MIT",
        *fields,
        f"datahash = {hashlib.sha256(data).hexdigest()}",
    ]
    control = tar_of([Entry(".PKGINFO", "".join(f"{line}\n" for line in about).encode())], moment)
    return compressed(without_end(control)) + data
