"""Content that syft cannot recognise, as CycloneDX components from the image's labels.

syft knows Envoy up to 1.39 by its bytes, and Debian's files only together with Debian's list of packages.
"""

from collections.abc import Mapping
from urllib.parse import quote

ENVOY, GLIBC = "corelane.envoy.version", "corelane.glibc.version"
"""Labels of the gateway's image."""


def components(labels: Mapping[str, str], arch: str) -> list[dict]:
    """Envoy and the C library, if the labels name them."""
    found = []
    if version := labels.get(ENVOY):
        envoy = _component(
            "application", "envoy", version, f"pkg:github/envoyproxy/envoy@v{version}"
        )
        # Advisories name Envoy so.
        envoy["cpe"] = f"cpe:2.3:a:envoyproxy:envoy:{version}:*:*:*:*:*:*:*"
        found.append(envoy)
    if version := labels.get(GLIBC):
        origin = f"arch={arch}&distro=debian-12&upstream=glibc"
        purl = f"pkg:deb/debian/libc6@{quote(version)}?{origin}"
        found.append(_component("library", "libc6", version, purl))
    return found


def _component(kind: str, name: str, version: str, purl: str) -> dict:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
