"""Components of an SBOM that syft cannot find."""

import re

import pytest

from release import sbom
from support import REPOSITORY

VERSION = (REPOSITORY / "VERSION").read_text().strip()


@pytest.mark.nightly
def test_crates_of_a_program_with_their_checksums_and_licences() -> None:
    target = "x86_64-unknown-linux-gnu"
    found = sbom.crates(REPOSITORY, ["corelane-server", "corelane"], target)
    by_name = {each["name"]: each for each in found}
    assert len(by_name) >= 50
    assert by_name["corelane-server"]["purl"] == f"pkg:cargo/corelane-server@{VERSION}"
    for name in ("tokio", "hyper", "rustls"):
        assert re.fullmatch("[0-9a-f]{64}", by_name[name]["hashes"][0]["content"])
    assert by_name["fnv"]["licenses"] == [{"expression": "Apache-2.0 OR MIT"}]
    assert len({each["purl"] for each in found}) == len(found)
    # Of tests, of macros and of other systems: none of them is in the program.
    assert not by_name.keys() & {"tempfile", "syn", "windows-sys"}


@pytest.mark.fast
def test_labels_of_an_image_become_components() -> None:
    labels = {"corelane.envoy.version": "1.40.1", "corelane.glibc.version": "2.36-9+deb12u14"}
    envoy, glibc = sbom.labelled(labels, "arm64")
    assert envoy["cpe"].startswith("cpe:2.3:a:envoyproxy:envoy:1.40.1:")
    assert glibc["purl"].startswith("pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=arm64&")
    assert sbom.labelled({}, "arm64") == []
