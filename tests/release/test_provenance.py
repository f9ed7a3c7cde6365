"""The provenance of a release."""

import subprocess

import pytest

from release import provenance
from support import REPOSITORY

pytestmark = pytest.mark.fast

COMMIT = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, text=True).strip()

WORKFLOW = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://forge.example",
    "GITHUB_REPOSITORY": "owner/corelane",
    "GITHUB_REPOSITORY_ID": "1",
    "GITHUB_REPOSITORY_OWNER_ID": "2",
    "GITHUB_WORKFLOW_REF": "owner/corelane/.github/workflows/release.yaml@refs/tags/v7.8.9",
    "GITHUB_REF": "refs/tags/v7.8.9",
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_RUN_ID": "3",
    "GITHUB_RUN_ATTEMPT": "4",
    "RUNNER_ENVIRONMENT": "github-hosted",
}


def test_a_workflow_names_itself_the_tag_and_the_commit() -> None:
    found = provenance.predicate(REPOSITORY, "7.8.9", WORKFLOW)
    definition, run = found["buildDefinition"], found["runDetails"]
    assert definition["externalParameters"] == {
        "version": "7.8.9",
        "workflow": {
            "ref": "refs/tags/v7.8.9",
            "repository": "https://forge.example/owner/corelane",
            "path": ".github/workflows/release.yaml",
        },
    }
    assert definition["resolvedDependencies"] == [
        {
            "uri": "git+https://forge.example/owner/corelane@refs/tags/v7.8.9",
            "digest": {"gitCommit": COMMIT},
        }
    ]
    workflow = ".github/workflows/release.yaml@refs/tags/v7.8.9"
    assert run["builder"]["id"] == f"https://forge.example/owner/corelane/{workflow}"
    assert run["metadata"]["invocationId"].endswith("/owner/corelane/actions/runs/3/attempts/4")


def test_a_local_build_names_no_workflow() -> None:
    found = provenance.predicate(REPOSITORY, "7.8.9", {})
    definition = found["buildDefinition"]
    assert found["runDetails"]["builder"]["id"] == provenance.LOCAL_BUILD
    assert definition["buildType"] == provenance.LOCAL_BUILD
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": COMMIT}
    assert isinstance(definition["internalParameters"]["changedFiles"], int)
