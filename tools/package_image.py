"""The image, as a layout of the Open Container Initiative: what `skopeo copy oci:FOLDER ...` reads.

It holds the libraries and a program that copies them, for both machines. No daemon makes it:
packaging/docker/Dockerfile describes the same image for whoever has one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from package_base import NAME, SUMMARY, Entry, compressed, tar_of

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
Told = dict[str, object]


def as_json(told: object) -> bytes:
    return json.dumps(told, indent=1, sort_keys=True).encode() + b"\n"


class Layout:
    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def add(self, kind: str, data: bytes) -> Told:
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def manifest_of(
    layout: Layout, machine: str, entries: Sequence[Entry], version: str, moment: int
) -> Told:
    layer = tar_of(entries, moment)
    labels = {
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.description": SUMMARY,
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "MIT",
    }
    created = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = {
        "architecture": ARCHITECTURES[machine],
        "os": "linux",
        "created": created,
        "config": {"Entrypoint": ["/loft-copy"], "Cmd": ["/loft"], "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created, "comment": "the libraries"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.add(CONFIG, as_json(config)),
        "layers": [layout.add(LAYER, compressed(layer))],
        "annotations": labels,
    }
    platform = {"os": "linux", "architecture": ARCHITECTURES[machine]}
    return {**layout.add(MANIFEST, as_json(manifest)), "platform": platform}


def write(path: Path, machines: Mapping[str, Sequence[Entry]], version: str, moment: int) -> None:
    """A tar of the layout, as `podman load` and `skopeo copy oci-archive:FILE` read it."""
    layout = Layout()
    manifests = [
        manifest_of(layout, machine, entries, version, moment)
        for machine, entries in machines.items()
    ]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    # podman takes what has no colon for the image's name, and not for its version.
    named = {
        **layout.add(INDEX, as_json(index)),
        "annotations": {"org.opencontainers.image.ref.name": f"{NAME}:{version}"},
    }
    top = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}
    entries = [
        Entry("oci-layout", as_json({"imageLayoutVersion": "1.0.0"})),
        Entry("index.json", as_json(top)),
        Entry("blobs/", mode=0o755),
        Entry("blobs/sha256/", mode=0o755),
        *(Entry(f"blobs/sha256/{digest}", data) for digest, data in sorted(layout.blobs.items())),
    ]
    path.write_bytes(tar_of(entries, moment))
