"""Project storage and write token of `make up`."""

import hashlib
import json
import os
import signal
import stat
from collections.abc import Callable

import pytest

from stack import eventually
from stack.http import ask
from support.platforms import Platform
from support.projects import Projects, path


def token(platform: Platform) -> str:
    return (platform.run / "token").read_text()


def test_a_bad_database_is_named(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(1)
    result = platform.command("up", DATABASE="mysql")
    assert result.returncode == 1
    assert "DATABASE=mysql: use sqlite (a file that all replicas share), postgres" in result.stderr
    assert platform.pids() == []


def test_all_replicas_share_one_file(platform: Platform) -> None:
    client = Projects(platform.gateway, token(platform))
    made = client.create({"name": "shared"})
    client.close()
    for replica in platform.replicas:
        assert json.loads(ask(replica.url, path(made)).body) == made
    assert (platform.run / "projects.db").is_file()


def test_the_token_is_for_its_owner_alone_and_replicas_know_its_hash(platform: Platform) -> None:
    for file in ("token", "tokens"):
        assert stat.S_IMODE((platform.run / file).stat().st_mode) == 0o600
    digest = hashlib.sha256(token(platform).encode()).hexdigest()
    assert (platform.run / "tokens").read_text() == f"local sha256:{digest}\n"
    stranger = Projects(platform.gateway, token="other")
    assert stranger.ask("/projects", "POST", {"name": "n"}).status == 401
    stranger.close()


def test_up_says_how_to_save_a_project(platform: Platform) -> None:
    said = platform.command("up").stdout
    assert f'-H "Authorization: Bearer $(cat {platform.run / "token"})"' in said
    assert f"in {platform.run / 'projects.db'}" in said


def test_none_serves_no_projects(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(1)
    result = platform.command("up", DATABASE="none")
    assert result.returncode == 0, result.stderr
    assert ask(platform.gateway, "/projects").status == 404
    assert not (platform.run / "projects.db").exists()


@pytest.fixture(scope="module")
def on_postgres(new_platform: Callable[[int], Platform]) -> Platform:
    platform = new_platform(2)
    platform.variables["DATABASE"] = "postgres"
    platform.up()
    return platform


def test_postgres_is_a_part_like_the_others(on_postgres: Platform) -> None:
    def row() -> list[str]:
        lines = on_postgres.command("status").stdout.splitlines()
        (found,) = (line.split() for line in lines if line.startswith("postgres "))
        return found

    # supervisord reports a restarted process as running only after a second.
    eventually(lambda: row()[1:3] == ["running", str(on_postgres.pid("postgres"))], "its row")
    assert f"127.0.0.1:{on_postgres.variables['POSTGRES_PORT']}" in row()
    assert "==> postgres" in on_postgres.command("logs").stdout


def test_a_postgres_that_is_killed_comes_back_with_what_was_saved(on_postgres: Platform) -> None:
    client = Projects(on_postgres.gateway, token(on_postgres))
    made = client.create({"name": "before"})
    killed = on_postgres.pid("postgres")
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: on_postgres.pid("postgres") not in (0, killed), "another PostgreSQL")

    def all_have_it() -> bool:
        return all(ask(each.url, path(made)).status == 200 for each in on_postgres.replicas)

    eventually(all_have_it, "replicas that are connected again")

    def saved() -> bool:
        return client.ask("/projects", "POST", {"name": "after"}).status == 201

    # A replica may still hold connections to the old process.
    eventually(saved, "a save")
    client.close()


def test_projects_and_token_outlive_a_restart(on_postgres: Platform) -> None:
    before = token(on_postgres)
    client = Projects(on_postgres.gateway, before)

    def saved() -> dict | None:
        reply = client.ask("/projects", "POST", {"name": "kept"})
        return json.loads(reply.body) if reply.status == 201 else None

    # PostgreSQL may have been restarted by another test, and replicas may hold old connections.
    made = eventually(saved, "a save")
    client.close()
    down = on_postgres.command("down")
    assert (down.returncode, on_postgres.pids()) == (0, [])
    assert "killing" not in down.stderr
    on_postgres.up()
    assert token(on_postgres) == before
    assert json.loads(ask(on_postgres.gateway, path(made)).body) == made
