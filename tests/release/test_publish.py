"""Published parts of a release: charts that pin image digests, and SBOMs."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from release import charts, sbom
from release.artefacts import INDEX, Artefact
from stack import REPOSITORY
from stack.rendering import helm
from tools.errors import ToolError

VERSION = (REPOSITORY / "VERSION").read_text().strip()
REGISTRY = "registry.example:5000/some/place"


def index(name: str, digit: str) -> Artefact:
    repository = f"{REGISTRY}/corelane-{name}"
    return Artefact(INDEX, name, repository, f"sha256:{digit * 64}", tag=VERSION)


PUSHED = [
    index("server", "a"),
    index("gateway", "b"),
    index("node-tuner", "c"),
    index("cli", "d"),
]
HOME = "https://forge.example/owner/corelane"
STANDALONE = ("mode=standalone", "grafana.enabled=false")


def images_of(package: Path, *settings: str) -> set[str]:
    sets = [argument for setting in settings for argument in ("--set", setting)]
    result = helm("template", "test", package, *sets)
    assert result.returncode == 0, result.stderr
    return set(re.findall(r"^ *(?:- )?image: \"?([^\"\s]+)", result.stdout, re.MULTILINE))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("packages") / "charts"
    found = charts.package_all(REPOSITORY, PUSHED, folder, HOME)
    return {file.name.removesuffix(f"-{VERSION}.tgz"): file for file in found}


@pytest.mark.nightly
def test_a_vendored_chart_is_the_chart_without_links(tmp_path: Path) -> None:
    chart = REPOSITORY / "charts" / "corelane"
    copy = charts.vendored(chart, tmp_path)
    linked, plain = (
        helm("template", "test", each, "--set", f"global.registry={REGISTRY}")
        for each in (chart, copy)
    )
    assert (plain.stdout, plain.stderr) == (linked.stdout, "")


@pytest.mark.nightly
def test_every_chart_but_the_library_is_packaged(packages: dict[str, Path]) -> None:
    kinds = {
        file.parent.name: yaml.safe_load(file.read_text())["type"]
        for file in REPOSITORY.glob("charts/*/Chart.yaml")
    }
    assert set(packages) == {name for name, kind in kinds.items() if kind == "application"}


@pytest.mark.nightly
def test_packages_use_the_pushed_images_by_digest(packages: dict[str, Path]) -> None:
    references = {image.name: {image.reference} for image in PUSHED}
    own = ("image.repository=registry.example/shop", "image.tag=v1")
    found = images_of(packages["service"], *own)
    assert found == references["cli"] | {"registry.example/shop:v1"}
    assert images_of(packages["gateway"]) == references["gateway"] | references["cli"]
    assert images_of(packages["node-tuning"], "mode=apply") == references["node-tuner"]
    monitoring = images_of(packages["monitoring"], *STANDALONE)
    upstream = {image for image in monitoring if image.startswith("docker.io/prom/")}
    assert monitoring == references["cli"] | upstream
    more = [f"monitoring.{setting}" for setting in (*STANDALONE, "enabled=true")]
    whole = images_of(packages["corelane"], "node-tuning.enabled=true", *more)
    assert whole == upstream.union(*references.values())


@pytest.mark.nightly
def test_packages_lead_to_the_repository_of_the_release(packages: dict[str, Path]) -> None:
    result = helm("template", "test", packages["monitoring"])
    folder = f"{HOME}/blob/v{VERSION}/dashboards/runbooks"
    assert f"runbook_url: {folder}/slo.md#corelanerouteslow" in result.stdout
    assert f'"url": "{folder}/${{__value.text}}"' in result.stdout
    for package in packages.values():
        chart = helm("show", "chart", package)
        assert HOME in chart.stdout
        assert "OWNER" not in chart.stdout + result.stdout


@pytest.mark.nightly
def test_packages_describe_themselves_to_artifact_hub(packages: dict[str, Path]) -> None:
    def annotations(name: str) -> dict[str, list[dict[str, str]]]:
        found = yaml.safe_load(helm("show", "chart", packages[name]).stdout)["annotations"]
        prefix = "artifacthub.io/"
        ours = {key: text for key, text in found.items() if key.startswith(prefix)}
        return {key.removeprefix(prefix): yaml.safe_load(text) for key, text in ours.items()}

    for name, package in packages.items():
        found = annotations(name)
        assert {"kind", "description"} == set(found["changes"][0])
        assert {each["kind"] for each in found["changes"]} == {"added", "changed", "deprecated"}
        assert {each["name"] for each in found["links"]} >= {"Documentation", "Changes"}
        listed = {each["image"] for each in found.get("images", [])}
        if name in ("gateway", "node-tuning"):
            assert listed == images_of(package)
    (board,) = annotations("monitoring")["screenshots"]
    assert board["url"].startswith(f"{HOME}/raw/")
    upstream = "docker.io/prom/prometheus:"
    assert any(each["image"].startswith(upstream) for each in annotations("monitoring")["images"])


@pytest.mark.nightly
def test_a_mirror_is_one_value(packages: dict[str, Path]) -> None:
    found = images_of(packages["corelane"], "global.registry=mirror.example")
    assert f"mirror.example/corelane-server@{PUSHED[0].digest}" in found
    assert all(image.startswith("mirror.example/") for image in found)


@pytest.mark.nightly
def test_packaging_changes_only_registry_and_digest_of_a_copy(packages: dict[str, Path]) -> None:
    values = "gateway/values.yaml"
    with tarfile.open(packages["gateway"]) as archive:
        packaged = yaml.safe_load(archive.extractfile(values).read())
    source = yaml.safe_load((REPOSITORY / "charts" / values).read_text())
    assert source["image"]["digest"] == source["global"]["registry"] == ""
    source["image"]["digest"] = PUSHED[1].digest
    source["test"]["image"]["digest"] = PUSHED[-1].digest
    source["global"]["registry"] = REGISTRY
    assert packaged == source


@pytest.mark.nightly
def test_packages_of_one_commit_are_the_same_bytes(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    for again in charts.package_all(REPOSITORY, PUSHED, tmp_path / "charts", HOME):
        assert again.read_bytes() == (packages["corelane"].parent / again.name).read_bytes()


@pytest.mark.nightly
def test_packages_are_sorted_and_of_the_commit(packages: dict[str, Path]) -> None:
    for name, package in packages.items():
        with tarfile.open(package) as archive:
            members = archive.getmembers()
        first, *others = [member.name for member in members]
        assert first == f"{name}/Chart.yaml"
        assert others == sorted(others)
        assert {member.mtime for member in members} == {int(package.stat().st_mtime)}


@pytest.mark.nightly
def test_helm_lints_packages(packages: dict[str, Path]) -> None:
    for package in packages.values():
        result = helm("lint", "--strict", package)
        assert result.returncode == 0, result.stdout


@pytest.mark.nightly
def test_an_image_that_no_chart_uses_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no chart uses the image corelane-other"):
        charts.package_all(REPOSITORY, [index("other", "c")], tmp_path / "charts")


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
    # Dependencies of tests, macros and other systems are not part of the program.
    assert not by_name.keys() & {"tempfile", "syn", "windows-sys"}


@pytest.mark.fast
def test_labels_of_an_image_become_components() -> None:
    labels = {"corelane.envoy.version": "1.40.1", "corelane.glibc.version": "2.36-9+deb12u14"}
    envoy, glibc = sbom.labelled(labels, "arm64")
    assert envoy["cpe"].startswith("cpe:2.3:a:envoyproxy:envoy:1.40.1:")
    assert glibc["purl"].startswith("pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=arm64&")
    assert sbom.labelled({}, "arm64") == []


@pytest.mark.fast
@pytest.mark.parametrize("registry", ["", "owner/corelane", "registry.example"])
def test_a_registry_is_a_host_and_a_path(registry: str) -> None:
    command = [sys.executable, REPOSITORY / "hack/release", "publish", registry]
    command += ["--identity", "https://forge.example/workflow", "--issuer", "https://forge.example"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f"REGISTRY={registry!r}: expected HOST/PATH" in result.stderr
