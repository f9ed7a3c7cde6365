"""A release to a registry on loopback, signed with a temporary key."""

import shutil
from pathlib import Path

from release import build, provenance, publish, registry, signer, verify
from release.artefacts import Artefact

PLAIN = ["--plain-http"]
"""Helm, unlike crane and cosign, expects TLS on loopback."""


def run(root: Path, folder: Path) -> list[Artefact]:
    """Builds, publishes and verifies; returns what was published."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build.build(root, folder)
    key = signer.throw_away(folder / "key")
    with registry.throw_away(folder) as host:
        found = publish.publish(root, f"{host}/corelane", folder, key, PLAIN)
        verify.verify(found, provenance.commit(root), key, PLAIN)
    return found
