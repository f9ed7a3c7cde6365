"""The provenance of a release, in the form of SLSA v1 (slsa.dev/spec/v1.0/provenance)."""

import os
from collections.abc import Mapping
from pathlib import Path

from tools import command

GITHUB_BUILD = "https://actions.github.io/buildtypes/workflow/v1"
LOCAL_BUILD = "urn:corelane:build:local"


def predicate(root: Path, version: str, env: Mapping[str, str] = os.environ) -> dict:
    home = repository(env)
    build = _github(env, home, commit(root)) if home else _local(root, commit(root))
    build["buildDefinition"]["externalParameters"]["version"] = version
    return build


def commit(root: Path) -> str:
    return command.output(["git", "rev-parse", "HEAD"], cwd=root).strip()


def repository(env: Mapping[str, str]) -> str | None:
    """Address of the repository whose workflow is running; None elsewhere."""
    if env.get("GITHUB_ACTIONS") != "true":
        return None
    return f"{env['GITHUB_SERVER_URL']}/{env['GITHUB_REPOSITORY']}"


def changed_files(root: Path) -> list[str]:
    return command.output(["git", "status", "--porcelain"], cwd=root).splitlines()


def _github(env: Mapping[str, str], home: str, commit: str) -> dict:
    path = env["GITHUB_WORKFLOW_REF"].split("@")[0].removeprefix(f"{env['GITHUB_REPOSITORY']}/")
    run = f"{home}/actions/runs/{env['GITHUB_RUN_ID']}"
    return {
        "buildDefinition": {
            "buildType": GITHUB_BUILD,
            "externalParameters": {
                "workflow": {"ref": env["GITHUB_REF"], "repository": home, "path": path}
            },
            "internalParameters": {
                "github": {
                    "event_name": env["GITHUB_EVENT_NAME"],
                    "repository_id": env["GITHUB_REPOSITORY_ID"],
                    "repository_owner_id": env["GITHUB_REPOSITORY_OWNER_ID"],
                    "runner_environment": env["RUNNER_ENVIRONMENT"],
                }
            },
            "resolvedDependencies": [_source(f"git+{home}@{env['GITHUB_REF']}", commit)],
        },
        "runDetails": {
            "builder": {"id": f"{env['GITHUB_SERVER_URL']}/{env['GITHUB_WORKFLOW_REF']}"},
            "metadata": {"invocationId": f"{run}/attempts/{env['GITHUB_RUN_ATTEMPT']}"},
        },
    }


def _local(root: Path, commit: str) -> dict:
    return {
        "buildDefinition": {
            "buildType": LOCAL_BUILD,
            "externalParameters": {},
            "internalParameters": {"changedFiles": len(changed_files(root))},
            "resolvedDependencies": [_source("git+file:.", commit)],
        },
        "runDetails": {"builder": {"id": LOCAL_BUILD}},
    }


def _source(uri: str, commit: str) -> dict:
    return {"uri": uri, "digest": {"gitCommit": commit}}
