"""What is in an image, as a CycloneDX document that syft makes."""

import json
from pathlib import Path

from release import command, images
from tools import resolve
from tools.errors import ToolError

OFFLINE = {"SYFT_CHECK_FOR_APP_UPDATE": "false"}


def document(folder: Path, name: str, arch: str) -> Path:
    """The document about an image that `build` made."""
    return folder / "sboms" / f"{name}-{arch}.cdx.json"


def make(folder: Path, name: str, arch: str) -> None:
    """Writes the document from what is in the image's archive."""
    file = document(folder, name, arch)
    file.parent.mkdir(parents=True, exist_ok=True)
    syft = resolve.ensure(["syft"])["syft"]
    archive = images.archive(folder, name, arch)
    argv = [syft, "scan", f"oci-archive:{archive}", "--output", f"cyclonedx-json={file}"]
    command.output(argv, env=OFFLINE)
    check(json.loads(file.read_text()), file.name)


def check(found: dict, what: str) -> None:
    """Fails unless the crates are in it: without the data of cargo-auditable syft sees none."""
    components = found.get("components", [])
    if not any(each.get("purl", "").startswith("pkg:cargo/") for each in components):
        raise ToolError(f"{what}: the SBOM lists {len(components)} components, and no crate")
