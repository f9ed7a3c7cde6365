"""The crates in a Rust program, as CycloneDX components: the program does not list them."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from tools import command


def components(root: Path, packages: Iterable[str], target: str) -> list[dict]:
    """Every crate whose code is in one of the programs, once."""
    services = root / "services"
    lock = tomllib.loads((services / "Cargo.lock").read_text())["package"]
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in lock}
    found: dict[str, dict] = {}
    for package in packages:
        # Code of macros and build scripts is not in the program.
        argv = ["cargo", "tree", "--locked", "--package", package, "--target", target]
        argv += ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}\t{l}"]
        for line in command.output(argv, cwd=services).splitlines():
            crate, licence = line.removesuffix(" (*)").split("\t")
            name, version = re.match(r"(\S+) v(\S+)", crate).groups()
            found[name + version] = _component(name, version, licence, checksums[name, version])
    return [found[key] for key in sorted(found)]


def _component(name: str, version: str, licence: str, checksum: str | None) -> dict:
    purl = f"pkg:cargo/{name}@{version}"
    component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licence:
        # Older crates write "MIT/Apache-2.0", which is not SPDX.
        component["licenses"] = [{"expression": re.sub(" ?/ ?", " OR ", licence)}]
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return component
