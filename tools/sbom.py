"""The bill of materials of a release, in SPDX 2.3: each file, and what it contains."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from package_base import ADDRESS, NAME

# What is in a file beside loft's own code: nothing in the libraries, and in the image's one program
# the C library that it was linked with.
LINKED = {"image.tar": ("glibc", "LGPL-2.1-or-later")}
Told = dict[str, object]


def package(identifier: str, name: str, version: str, licence: str) -> Told:
    return {
        "SPDXID": identifier,
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
    }


def relation(one: str, kind: str, other: str) -> Told:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def bill(files: Sequence[Path], version: str, moment: int) -> bytes:
    source = "SPDXRef-loft"
    packages = [package(source, NAME, version, "MIT")]
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", source)]
    told = []
    for index, path in enumerate(sorted(files)):
        identifier, data = f"SPDXRef-file-{index}", path.read_bytes()
        kinds = (("SHA1", hashlib.sha1(data)), ("SHA256", hashlib.sha256(data)))
        told.append(
            {
                "SPDXID": identifier,
                "fileName": f"./{path.name}",
                "checksums": [
                    {"algorithm": name, "checksumValue": digest.hexdigest()}
                    for name, digest in kinds
                ],
                "licenseConcluded": "NOASSERTION",
                "licenseInfoInFiles": ["MIT"],
                "copyrightText": "NOASSERTION",
            }
        )
        relations.append(relation(identifier, "GENERATED_FROM", source))
        for end, (name, licence) in LINKED.items():
            if path.name.endswith(end):
                linked = f"SPDXRef-{name}"
                packages.append(package(linked, name, "of Debian 12", licence))
                relations.append(relation(identifier, "STATIC_LINK", linked))
    digest = hashlib.sha256(repr(told).encode()).hexdigest()
    created = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{NAME}-{version}",
        "documentNamespace": f"{ADDRESS}:{version}:{digest}",
        "creationInfo": {"created": created, "creators": [f"Organization: {NAME}"]},
        "packages": packages,
        "files": told,
        "relationships": relations,
    }
    return json.dumps(document, indent=1).encode() + b"\n"
