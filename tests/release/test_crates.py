"""The crates that an SBOM lists."""

import re

from release import crates
from support import REPOSITORY

VERSION = (REPOSITORY / "VERSION").read_text().strip()


def test_crates_of_a_program_with_their_checksums_and_licences() -> None:
    target = "x86_64-unknown-linux-gnu"
    found = crates.components(REPOSITORY, ["corelane-server", "corelane"], target)
    by_name = {each["name"]: each for each in found}
    assert len(by_name) >= 50
    assert by_name["corelane-server"]["purl"] == f"pkg:cargo/corelane-server@{VERSION}"
    for name in ("tokio", "hyper", "rustls"):
        assert re.fullmatch("[0-9a-f]{64}", by_name[name]["hashes"][0]["content"])
    assert by_name["fnv"]["licenses"] == [{"expression": "Apache-2.0 OR MIT"}]
    assert len({each["purl"] for each in found}) == len(found)
    # Of tests, of macros and of other systems: none of them is in the program.
    assert not by_name.keys() & {"tempfile", "syn", "windows-sys"}
