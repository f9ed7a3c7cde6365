"""Verifies a release from the registry alone, as users can."""

import hashlib

from release import sbom
from release.artefacts import CHART, IMAGE, INDEX, Artefact
from release.signer import PROVENANCE, SBOM, Signer
from tools import command, progress, resolve
from tools.errors import ToolError

PODS = {"monitoring": ("--set", "mode=standalone", "--set", "grafana.enabled=false")}
"""Values for charts that use images of ours only with them."""

UPSTREAM = {"loadtest": ("docker.io/grafana/k6:",)}
"""Charts that use images of others, and the prefixes of these."""


def verify(found: list[Artefact], commit: str, signer: Signer, helm_options: list[str]) -> None:
    """Fails unless all artefacts are complete, signed and attested, and charts use these images."""
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
    """Pulls by digest; the bytes must have that digest, and the tag must resolve to it."""
    crane = resolve.ensure(["crane"])["crane"]
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
    """Renders the chart from the registry: it must use these images only, by digest."""
    helm = resolve.ensure(["helm"])["helm"]
    reference = f"oci://{chart.reference}"
    argv = [helm, "template", "verify", reference, *helm_options, *PODS.get(chart.name, ())]
    lines = command.output(argv).splitlines()
    named = {line.split("image:", 1)[1].strip(" \"'") for line in lines if " image: " in line}
    named -= {image for image in named if image.startswith(UPSTREAM.get(chart.name, ()))}
    ours = {image.reference for image in images}
    if not named <= ours or not (named or chart.name in UPSTREAM):
        raise ToolError(f"{reference} uses images of no release: {', '.join(sorted(named))}")
