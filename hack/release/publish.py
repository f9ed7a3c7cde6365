"""Builds a release, publishes it, and verifies it from the registry alone, as users can.

Pushes images and charts, signs them, and attests provenance and SBOMs.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from images import build as image_build
from release import artefacts, charts, images, provenance, sbom, version
from release.artefacts import CHART, IMAGE, INDEX, Artefact
from release.signer import PROVENANCE, SBOM, Signer
from tools import command, progress, resolve
from tools.errors import ToolError

LIST = "artefacts.json"


def build(root: Path, folder: Path, architectures: Sequence[str] = images.ARCHITECTURES) -> None:
    options = image_build.Options(arches=architectures, out=folder / "images")
    image_build.build(images.NAMES, options)
    for name in images.NAMES:
        for arch in architectures:
            with progress.step(f"{name}-{arch}", "writing its SBOM"):
                sbom.make(root, folder, name, arch)


def publish(
    root: Path, registry: str, folder: Path, signer: Signer, helm_options: list[str]
) -> list[Artefact]:
    """Also lists all artefacts in `folder`."""
    number = version.current(root)
    with progress.step("images", f"pushing to {registry}"):
        pushed = images.publish(registry, number, provenance.commit(root), folder)
    with progress.step("charts", f"packaging and pushing to {registry}/charts"):
        home = provenance.repository(os.environ)
        packages = charts.package_all(root, pushed, folder / "packages", home)
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


PODS = {"monitoring": ("--set", "mode=standalone", "--set", "grafana.enabled=false")}
"""Values for charts without a default image."""

UPSTREAM = {"loadtest": ("docker.io/grafana/k6:",), "monitoring": ("docker.io/prom/",)}
"""Charts that use images of other projects, with the prefixes of these images."""


def verify(found: list[Artefact], commit: str, signer: Signer, helm_options: list[str]) -> None:
    """All artefacts must be complete, signed and attested, and charts must use these images."""
    images = [artefact for artefact in found if artefact.kind == INDEX]
    with progress.step("verify", f"{len(found)} artefacts, pulled by digest"):
        for artefact in found:
            _whole(artefact)
            signer.verify(artefact)
            _made_from(commit, signer.predicate(artefact, PROVENANCE), artefact)
            if artefact.kind == IMAGE:
                sbom.check(signer.predicate(artefact, SBOM), artefact.reference)
            if artefact.kind == CHART:
                _names(images, artefact, helm_options)


def _whole(artefact: Artefact) -> None:
    """Pulls an artefact by digest. Its bytes must match the digest, and its tag must resolve to the
    digest.
    """
    crane = resolve.tool("crane")
    manifest = command.output([crane, "manifest", artefact.reference])
    if f"sha256:{hashlib.sha256(manifest.rstrip().encode()).hexdigest()}" != artefact.digest:
        raise ToolError(f"{artefact.reference}: the registry's manifest has another digest")
    if artefact.kind != CHART:
        command.output([crane, "validate", "--remote", artefact.reference])
    if artefact.tag:
        tagged = f"{artefact.repository}:{artefact.tag}"
        if (digest := command.output([crane, "digest", tagged]).strip()) != artefact.digest:
            raise ToolError(f"{tagged} is {digest}, not {artefact.digest}")


def _made_from(commit: str, provenance: dict, artefact: Artefact) -> None:
    sources = provenance["buildDefinition"]["resolvedDependencies"]
    if commit not in [source["digest"].get("gitCommit") for source in sources]:
        raise ToolError(f"{artefact.reference}: the provenance does not name commit {commit}")


def _names(images: list[Artefact], chart: Artefact, helm_options: list[str]) -> None:
    """Renders the chart from the registry: it may use only these images, by digest."""
    helm = resolve.tool("helm")
    reference = f"oci://{chart.reference}"
    argv = [helm, "template", "verify", reference, *helm_options, *PODS.get(chart.name, ())]
    lines = command.output(argv).splitlines()
    named = {line.split("image:", 1)[1].strip(" \"'") for line in lines if " image: " in line}
    named -= {image for image in named if image.startswith(UPSTREAM.get(chart.name, ()))}
    ours = {image.reference for image in images}
    if not named <= ours or not (named or chart.name in UPSTREAM):
        raise ToolError(f"{reference} uses images of no release: {', '.join(sorted(named))}")
