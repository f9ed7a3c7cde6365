"""The SBOM of an image, as a CycloneDX document: what syft finds, and what it cannot find."""

import json
from pathlib import Path

from images import archive, definitions, platforms, rust
from release import contents, crates, images, version
from tools import command, resolve
from tools.errors import ToolError

OFFLINE = {"SYFT_CHECK_FOR_APP_UPDATE": "false"}


def document(folder: Path, name: str, arch: str) -> Path:
    """The SBOM that `make` writes."""
    return folder / "sboms" / f"{name}-{arch}.cdx.json"


def make(root: Path, folder: Path, name: str, arch: str) -> None:
    """Writes the document from the image's archive."""
    file = document(folder, name, arch)
    file.parent.mkdir(parents=True, exist_ok=True)
    syft = resolve.ensure(["syft"])["syft"]
    place = images.file(folder, name, arch)
    argv = [syft, "scan", f"oci-archive:{place}", "--output", f"cyclonedx-json={file}"]
    # Without these names the document would contain the archive's path on this machine.
    argv += ["--source-name", f"corelane-{name}", "--source-version", version.current(root)]
    command.output(argv, env=OFFLINE)
    found = json.loads(file.read_text())
    seen = {each.get("purl") for each in found.setdefault("components", [])}
    own = contents.components(archive.read(place).image.labels, arch)
    packages = map(rust.package, definitions.find(name).programs)
    own += crates.components(root, packages, platforms.find(arch).rust)
    found["components"] += [each for each in own if each["purl"] not in seen]
    file.write_text(json.dumps(found, indent=1) + "\n")


def check(found: dict, what: str) -> None:
    """Fails unless the SBOM lists crates with their checksums, or Go modules."""
    purls = [each.get("purl", "") for each in found["components"]]
    if any(purl.startswith("pkg:golang/") for purl in purls):
        return
    listed = [each for each in found["components"] if each.get("purl", "").startswith("pkg:cargo/")]
    if not any("hashes" in crate for crate in listed):
        raise ToolError(f"{what}: the SBOM lists {len(listed)} crates, none with a checksum")
