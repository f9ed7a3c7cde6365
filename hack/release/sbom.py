"""Writes an image's SBOM as a CycloneDX document, which adds what syft cannot find.

A Rust program does not list its crates. Envoy and the C library are in the image's labels. syft
recognizes Envoy only up to 1.39, and it recognizes Debian's files only together with Debian's
package list.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from images import archive, definitions, platforms, rust
from release import images, version
from tools import command, resolve
from tools.errors import ToolError


def crates(root: Path, packages: Iterable[str], target: str) -> list[dict]:
    """Every crate linked into one of the programs, without duplicates."""
    services = root / "services"
    lock = tomllib.loads((services / "Cargo.lock").read_text())["package"]
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in lock}
    found: dict[str, dict] = {}
    for package in packages:
        # Programs do not contain the code of macros and build scripts.
        argv = ["cargo", "tree", "--locked", "--package", package, "--target", target]
        argv += ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}\t{l}"]
        for line in command.output(argv, cwd=services).splitlines():
            crate, licence = line.removesuffix(" (*)").split("\t")
            name, version = re.match(r"(\S+) v(\S+)", crate).groups()
            found[name + version] = _crate(name, version, licence, checksums[name, version])
    return [found[key] for key in sorted(found)]


def _crate(name: str, version: str, licence: str, checksum: str | None) -> dict:
    purl = f"pkg:cargo/{name}@{version}"
    component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licence:
        # Older crates write "MIT/Apache-2.0", which is not SPDX.
        component["licenses"] = [{"expression": re.sub(" ?/ ?", " OR ", licence)}]
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return component


ENVOY, GLIBC = "corelane.envoy.version", "corelane.glibc.version"


def labelled(labels: Mapping[str, str], arch: str) -> list[dict]:
    """Envoy and the C library, if the labels name them."""
    found = []
    if version := labels.get(ENVOY):
        envoy = _component(
            "application", "envoy", version, f"pkg:github/envoyproxy/envoy@v{version}"
        )
        # Advisories use this name for Envoy.
        envoy["cpe"] = f"cpe:2.3:a:envoyproxy:envoy:{version}:*:*:*:*:*:*:*"
        found.append(envoy)
    if version := labels.get(GLIBC):
        origin = f"arch={arch}&distro=debian-12&upstream=glibc"
        purl = f"pkg:deb/debian/libc6@{quote(version)}?{origin}"
        found.append(_component("library", "libc6", version, purl))
    return found


def _component(kind: str, name: str, version: str, purl: str) -> dict:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


OFFLINE = {"SYFT_CHECK_FOR_APP_UPDATE": "false"}


def document(folder: Path, name: str, arch: str) -> Path:
    return folder / "sboms" / f"{name}-{arch}.cdx.json"


def make(root: Path, folder: Path, name: str, arch: str) -> None:
    file = document(folder, name, arch)
    file.parent.mkdir(parents=True, exist_ok=True)
    syft = resolve.tool("syft")
    place = images.file(folder, name, arch)
    argv = [syft, "scan", f"oci-archive:{place}", "--output", f"cyclonedx-json={file}"]
    # Without these names, the document would contain the archive's path on this machine.
    argv += ["--source-name", f"corelane-{name}", "--source-version", version.current(root)]
    command.output(argv, env=OFFLINE)
    found = json.loads(file.read_text())
    seen = {each.get("purl") for each in found.setdefault("components", [])}
    own = labelled(archive.read(place).image.labels, arch)
    packages = map(rust.package, definitions.find(name).programs)
    own += crates(root, packages, platforms.find(arch).rust)
    found["components"] += [each for each in own if each["purl"] not in seen]
    file.write_text(json.dumps(found, indent=1) + "\n")


def check(found: dict, what: str) -> None:
    """The SBOM must list crates with their checksums."""
    listed = [each for each in found["components"] if each.get("purl", "").startswith("pkg:cargo/")]
    if not any("hashes" in crate for crate in listed):
        raise ToolError(f"{what}: the SBOM lists {len(listed)} crates, none with a checksum")
