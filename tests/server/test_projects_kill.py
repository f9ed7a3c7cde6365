"""An acknowledged save is never lost: servers on SQLite killed in the middle of saves."""

import hashlib
import http.client
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.projects import Database, Projects, path
from support.servers import Server

CLIENTS = 8


def document(generator: random.Random) -> dict:
    """A document of some 5 kB that tells whether it is whole."""
    notes = [f"{generator.getrandbits(4 * 900):x}" for _ in range(5)]
    sum_of = hashlib.sha256("".join(notes).encode()).hexdigest()
    return {"name": sum_of, "tasks": [{"title": "t", "notes": note} for note in notes]}


def is_whole(found: dict) -> bool:
    """Whether a document is one that a client sent."""
    notes = "".join(task["notes"] for task in found["tasks"])
    return hashlib.sha256(notes.encode()).hexdigest() == found["name"]


@dataclass
class Acknowledged:
    """What a client was told, and of its last request, which had no answer, what it may have done."""

    versions: dict[str, tuple[int, str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    open: str | None = None


def stream(url: str, seed: str, enough: Callable[[], None]) -> Acknowledged:
    """Makes, replaces and deletes projects until the server is gone."""
    generator, told, client = random.Random(seed), Acknowledged(), Projects(url)
    while True:
        new = document(generator)
        choice = generator.random()
        target = generator.choice([*told.versions]) if told.versions and choice < 0.5 else None
        told.open = target
        try:
            if target is None:
                reply = client.ask("/projects", "POST", new)
            elif choice < 0.4:
                reply = client.ask(target, "PUT", new)
            else:
                reply = client.ask(target, "DELETE")
        except (OSError, http.client.HTTPException):
            return told
        told.open = None
        if reply.status == 204:
            del told.versions[target]
            told.deleted.add(target)
        else:
            assert reply.status in (200, 201), reply
            project = json.loads(reply.body)
            told.versions[path(project)] = (project["version"], new["name"])
        enough()


@pytest.mark.parametrize("seed", range(3))
def test_no_acknowledged_save_is_lost_when_the_server_is_killed(
    start: Callable[..., Server], tmp_path: Path, seed: int
) -> None:
    database, generator = Database(tmp_path), random.Random(seed)
    everything: list[Acknowledged] = []
    # The second life begins with what the first one's death has left.
    for life in range(2):
        server = start(*database.flags())
        left = [generator.randrange(100, 400)]

        def enough(left: list[int] = left, server: Server = server) -> None:
            left[0] -= 1
            if left[0] <= 0:
                server.process.kill()

        with ThreadPoolExecutor(CLIENTS) as pool:
            streams = [
                pool.submit(stream, server.url, f"{seed} {life} {client}", enough)
                for client in range(CLIENTS)
            ]
            everything += [future.result() for future in streams]
        assert server.process.wait() == -9

    client = Projects(start(*database.flags()).url)
    for told in everything:
        for target, (version, name) in told.versions.items():
            reply = client.ask(target)
            if target == told.open:
                # Its last change may have been made or not; nothing between the two.
                assert reply.status in (200, 404)
                continue
            assert reply.status == 200, f"{target} was acknowledged and is lost"
            project = json.loads(reply.body)
            assert (project["version"], project["name"]) == (version, name)
        for target in told.deleted:
            assert client.ask(target).status == 404
    rows = database.rows()
    assert rows
    assert all(is_whole(found) for found in rows.values())
