"""What is in an image, as a CycloneDX document: what syft sees in it, and what it cannot see."""

import json
from pathlib import Path

from release import command, contents, crates, images, version
from tools import resolve
from tools.errors import ToolError

OFFLINE = {"SYFT_CHECK_FOR_APP_UPDATE": "false"}

PACKAGES = {
    "server": ("corelane-server", "corelane-cli"),
    "gateway": ("gateway-agent", "corelane-cli"),
    "node-tuner": ("node-tuner",),
    "prometheus": (),
    "alertmanager": (),
}
"""The packages of the workspace `services` whose programs are in an image."""

TARGETS = {"amd64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}


def document(folder: Path, name: str, arch: str) -> Path:
    """The document about an image that `build` made."""
    return folder / "sboms" / f"{name}-{arch}.cdx.json"


def make(root: Path, folder: Path, name: str, arch: str) -> None:
    """Writes the document from what is in the image's archive."""
    file = document(folder, name, arch)
    file.parent.mkdir(parents=True, exist_ok=True)
    syft = resolve.ensure(["syft"])["syft"]
    archive = images.archive(folder, name, arch)
    argv = [syft, "scan", f"oci-archive:{archive}", "--output", f"cyclonedx-json={file}"]
    # Without these names the document would name the archive's place on this machine.
    argv += ["--source-name", f"corelane-{name}", "--source-version", version.current(root)]
    command.output(argv, env=OFFLINE)
    found = json.loads(file.read_text())
    seen = {each.get("purl") for each in found.setdefault("components", [])}
    own = contents.components(images.labels(archive), arch)
    own += crates.components(root, PACKAGES[name], TARGETS[arch])
    found["components"] += [each for each in own if each["purl"] not in seen]
    file.write_text(json.dumps(found, indent=1) + "\n")


def check(found: dict, what: str) -> None:
    """Fails unless it lists crates, with the checksums that Cargo has verified, or Go's modules."""
    purls = [each.get("purl", "") for each in found["components"]]
    if any(purl.startswith("pkg:golang/") for purl in purls):
        return
    listed = [each for each in found["components"] if each.get("purl", "").startswith("pkg:cargo/")]
    if not any("hashes" in crate for crate in listed):
        raise ToolError(f"{what}: its SBOM lists {len(listed)} crates, none with a checksum")
