"""Publishes a release: pushes images and charts, signs them, and attests provenance and SBOMs."""

import json
from pathlib import Path

from release import artefacts, charts, images, provenance, sbom, version
from release.artefacts import IMAGE, Artefact
from release.signer import PROVENANCE, SBOM, Signer
from tools import progress

LIST = "artefacts.json"


def publish(
    root: Path, registry: str, folder: Path, signer: Signer, helm_options: list[str]
) -> list[Artefact]:
    """Publishes the images that `build` wrote into `folder`, and lists all artefacts there."""
    number = version.current(root)
    with progress.step("images", f"pushing to {registry}"):
        pushed = images.publish(registry, number, provenance.commit(root), folder)
    with progress.step("charts", f"packaging and pushing to {registry}/charts"):
        packages = charts.package_all(root, pushed, folder / "packages")
        pushed += charts.push(registry, number, packages, helm_options)
    predicate = folder / "provenance.json"
    predicate.write_text(json.dumps(provenance.predicate(root, number), indent=2) + "\n")
    with progress.step(
        "signatures", f"signing {len(pushed)} artefacts, their provenance and their SBOMs"
    ):
        for artefact in pushed:
            signer.sign(artefact)
            signer.attest(artefact, PROVENANCE, predicate)
            if artefact.kind == IMAGE:
                signer.attest(artefact, SBOM, sbom.document(folder, artefact.name, artefact.arch))
    artefacts.save(pushed, folder / LIST)
    return pushed
