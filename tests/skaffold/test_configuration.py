"""skaffold.yaml refers to existing images, values and files. Skaffold itself does not run."""

import copy
import json
import re

import pytest
import yaml

from images import definitions
from stack import REPOSITORY
from stack.apiserver import Api
from stack.rendering import helm

BASE = yaml.safe_load((REPOSITORY / "skaffold.yaml").read_text())
PROFILES = {profile["name"]: profile for profile in BASE["profiles"]}
EVERY_PROFILE = pytest.mark.parametrize("name", ["", *PROFILES])

DIGEST = "sha256:" + "a" * 64


def configuration(name: str) -> dict:
    """Returns the configuration with the profile's patches (RFC 6902)."""
    result = copy.deepcopy(BASE)
    for patch in PROFILES[name].get("patches", []) if name else []:
        *steps, last = patch["path"].strip("/").split("/")
        place = result
        for step in steps:
            place = place[int(step) if isinstance(place, list) else step]
        if patch["op"] == "add":
            assert last not in place, f"{patch['path']} is there already"
        else:
            assert last in place, f"{patch['path']} is not there"
        if patch["op"] == "remove":
            del place[last]
        else:
            place[last] = patch["value"]
    return result


def pushed(match: re.Match[str]) -> str:
    """Simulates Skaffold's template variables."""
    part, name = match.groups()
    return {"REPO": f"registry.example/corelane-{name}", "TAG": "x", "DIGEST": DIGEST}[part]


def images(name: str) -> dict[str, str]:
    """Rendered images of a profile, by Deployment."""
    (release,) = configuration(name)["deploy"]["helm"]["releases"]
    settings = dict(release.get("setValues", {}))
    for key, template in release.get("setValueTemplates", {}).items():
        settings[key] = re.sub(r"{{\.IMAGE_([A-Z]+)_corelane_([a-z]+)}}", pushed, template)
    arguments = ["template", release["name"], REPOSITORY / release["chartPath"]]
    for file in release.get("valuesFiles", []):
        arguments += ["--values", REPOSITORY / file]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={json.dumps(value) if isinstance(value, bool) else value}"]
    result = helm(*arguments)
    assert result.returncode == 0, result.stderr
    objects = [document for document in yaml.safe_load_all(result.stdout) if document]
    return {
        entry["metadata"]["name"]: entry["spec"]["template"]["spec"]["containers"][0]["image"]
        for entry in objects
        if entry["kind"] == "Deployment"
    }


@pytest.mark.fast
@pytest.mark.parametrize("name", ["", "dev", "production"])
def test_the_chart_uses_the_pushed_images(name: str) -> None:
    assert images(name) == {
        f"corelane-{part}": f"registry.example/corelane-{part}:x@{DIGEST}"
        for part in ("server", "gateway")
    }


@pytest.mark.fast
def test_the_chart_uses_the_images_loaded_into_the_nodes() -> None:
    assert images("local") == {
        f"corelane-{part}": f"docker.io/library/corelane-{part}:local"
        for part in ("server", "gateway")
    }
    found = configuration("local")
    assert found["verify"][0]["container"]["image"] == "corelane-k6:local"
    (hook,) = found["deploy"]["helm"]["hooks"]["before"]
    assert "build server gateway cli k6 --tag local " in hook["host"]["command"][-1]


@pytest.mark.fast
def test_every_artifact_is_a_known_image_and_watches_existing_folders() -> None:
    known = {definition.image for definition in definitions.DEFINITIONS.values()}
    for artifact in BASE["build"]["artifacts"]:
        assert artifact["image"] in known
        for path in artifact["custom"]["dependencies"]["paths"]:
            assert (REPOSITORY / path).exists(), path


@pytest.mark.fast
@EVERY_PROFILE
def test_the_forwarded_service_is_the_gateways(name: str) -> None:
    found = configuration(name)
    (forward,) = found["portForward"]
    (release,) = found["deploy"]["helm"]["releases"]
    assert forward["resourceName"] in images(name)
    assert forward["namespace"] == release["namespace"]


@pytest.mark.nightly
@EVERY_PROFILE
def test_the_job_of_verify_is_admitted_where_pods_must_be_restricted(name: str, api: Api) -> None:
    (case,) = configuration(name)["verify"]
    mode = case["executionMode"]["kubernetesCluster"]
    job = yaml.safe_load((REPOSITORY / mode["jobManifestPath"]).read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["name"] == case["container"]["name"]
    container.update(case["container"])
    with api.namespace() as namespace:
        job["metadata"]["namespace"] = namespace
        arguments = ["create", "--dry-run=server", "--validate=strict", "--filename", "-"]
        result = api.kubectl(*arguments, text=json.dumps(job))
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.fast
def test_verify_runs_a_scenario_that_is_in_the_image() -> None:
    (case,) = BASE["verify"]
    script = case["container"]["args"][-1]
    assert script.startswith("/loadtests/scenarios/")
    assert (REPOSITORY / script.lstrip("/")).is_file()
