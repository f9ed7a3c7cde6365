"""JSON Web Tokens, checked by the real Envoy in front of the real server, which has its own tokens."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import eventually
from stack.credentials import Issuer, issuer, line, token
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Reply, ask
from stack.replica import Server
from support import http2

PROJECT = json.dumps({"name": "through the gateway"}).encode()
AUDIENCE = "corelane"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with the gateway's keys and its own token."""
    return tmp_path_factory.mktemp("jwt")


@pytest.fixture(scope="module")
def known(folder: Path) -> Issuer:
    """Returns the issuer that the gateway trusts."""
    return issuer(folder)


@pytest.fixture(scope="module")
def gateway(starter: Callable[..., Server], folder: Path, known: Issuer) -> Iterator[Gateway]:
    """Starts a gateway that checks tokens, in front of a replica that accepts only the gateway's token."""
    own = token()
    (folder / "replica.tokens").write_text(line("gateway", own))
    (folder / "token").write_text(own)
    (folder / "jwks.json").write_text(known.keys())
    files = {"jwks": f"{folder}/jwks.json", "token": f"{folder}/token"}
    jwt = {
        "enabled": True,
        "issuer": known.name,
        "audiences": [AUDIENCE],
        "leeway": "0s",
        "files": files | {"sds": f"{folder}/credential.yaml"},
    }
    tokens = ["--auth.tokens", str(folder / "replica.tokens")]
    server = starter("--database.path", str(folder / "projects.db"), *tokens)
    values = {"authentication": {"jwt": jwt}, "upstream": {"upgrade": ["websocket"]}}
    with gateway_to([endpoint(server.url, server.admin)], folder, values=values) as running:
        eventually(lambda: running.counted("cluster.server.membership_healthy") == 1)
        yield running


def claims(**others: object) -> dict:
    """Returns the claims of a good token with replacements; None omits a claim."""
    all_claims = {"aud": AUDIENCE, "sub": "ada", "exp": int(time.time()) + 600} | others
    return {name: claim for name, claim in all_claims.items() if claim is not None}


def save(gateway: Gateway, bearer: str | None, path: str = "/projects") -> Reply:
    """Sends a project to the gateway."""
    headers = {"Content-Type": "application/json"}
    if bearer is not None:
        headers["Authorization"] = f"Bearer {bearer}"
    return ask(gateway.url, path, "POST", body=PROJECT, headers=headers)


def test_a_good_token_writes_and_everybody_reads(gateway: Gateway, known: Issuer) -> None:
    saved = save(gateway, known.sign(claims()))
    assert saved.status == 201, saved.body
    found = ask(gateway.url, saved.headers["location"])
    assert (found.status, json.loads(found.body)["name"]) == (200, "through the gateway")
    assert ask(gateway.url, "/hello").status == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"exp": 1_000_000_000},
        {"exp": None},
        {"nbf": 4_000_000_000},
        {"iss": "https://another.example"},
    ],
    ids=str,
)
def test_other_claims_are_401(gateway: Gateway, known: Issuer, wrong: dict) -> None:
    refused(save(gateway, known.sign(claims(**wrong))))


@pytest.mark.parametrize("audience", ["another", None])
def test_a_token_for_another_service_is_403(
    gateway: Gateway, known: Issuer, audience: str | None
) -> None:
    refused(save(gateway, known.sign(claims(aud=audience))), 403, "forbidden")


def test_other_keys_and_no_token_are_401(gateway: Gateway, tmp_path: Path) -> None:
    refused(save(gateway, issuer(tmp_path).sign(claims())))
    refused(save(gateway, "not.a.token"))
    refused(save(gateway, None))


def test_an_upgrade_needs_a_token(gateway: Gateway, known: Issuer) -> None:
    upgrade = {"Connection": "upgrade", "Upgrade": "websocket"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    refused(ask(gateway.url, "/hello", headers=upgrade))
    bearer = {"Authorization": f"Bearer {known.sign(claims())}"}
    # The replica has no WebSocket there, and responds.
    assert ask(gateway.url, "/hello", headers=upgrade | bearer).status == 200
    with http2.Connection(gateway.url) as client:
        client.send(http2.opened(1, http2.websocket(b"/hello")))
        assert client.outcome() == 401


def test_the_replicas_token_is_none_of_the_gateways(gateway: Gateway, folder: Path) -> None:
    refused(save(gateway, (folder / "token").read_text()))


@pytest.mark.parametrize("path", ["//projects", "/./projects", "/x/../projects", "/%70rojects"])
def test_no_form_of_the_path_leads_past_it(gateway: Gateway, path: str) -> None:
    refused(save(gateway, None, path))


def test_a_new_token_of_the_gateway_needs_no_restart(
    gateway: Gateway, known: Issuer, folder: Path
) -> None:
    new = token()
    (folder / "replica.tokens").write_text(line("gateway", new))

    def status() -> tuple[int, str | None]:
        reply = save(gateway, known.sign(claims()))
        return reply.status, reply.replica

    eventually(lambda: status() == (401, "test"))
    (folder / "token.new").write_text(new)
    (folder / "token.new").rename(folder / "token")
    eventually(lambda: status() == (201, "test"))


def refused(reply: Reply, status: int = 401, slug: str = "unauthorized") -> None:
    """Asserts that the gateway itself rejected the request, as RFC 6750 section 3 requires."""
    assert (reply.status, reply.replica) == (status, None)
    assert reply.headers["www-authenticate"].startswith("Bearer")
    assert json.loads(reply.body)["type"] == f"urn:corelane:problem:{slug}"
