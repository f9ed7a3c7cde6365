"""JSON Web Tokens, checked by the real Envoy in front of the real server, which has its own tokens."""

import base64
import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stack import eventually
from stack.credentials import Issuer, certificate, issuer, line, token
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Client, Reply, ask
from stack.http_server import Request, serving
from stack.load import Load
from stack.ports import free_ports
from stack.replica import Server
from support import http2
from support.recorder import Recorder

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
        "files": files,
    }
    tokens = ["--auth.tokens", str(folder / "replica.tokens")]
    server = starter("--database.path", str(folder / "projects.db"), *tokens)
    values = {"authentication": {"jwt": jwt}, "upstream": {"upgrade": ["websocket"]}}
    with gateway_to([endpoint(server.url, server.admin)], folder, values=values) as running:
        eventually(lambda: running.counted("cluster.server.membership_healthy") == 1)
        yield running


def claims(**others: object) -> dict:
    """Returns the claims of a good token with replacements; None omits a claim."""
    return {"aud": AUDIENCE, "sub": "ada", "exp": int(time.time()) + 600} | others


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
        {"iss": None},
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


VERIFIED = {"email_verified": True}
"""Claims that the `behind` gateway requires in every token."""


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict | int | None]]:
    """Yields a function that sends a request through routes with different rules, and returns the claims that the
    service received, None without claims, or the status of the gateway's own response.
    """
    folder = tmp_path_factory.mktemp("claims")
    known, recorder = issuer(folder), Recorder()
    service = {"name": "old", "endpoints": [endpoint(recorder.url, recorder.admin)]}
    admins = [{"claim": ["realm_access", "roles"], "values": ["admin", "owner"]}]
    levels = [{"claim": "scope", "values": ["write"]}, {"claim": "level", "values": [3]}]
    routes = {"/admins": admins, "/levels": levels, "/named": [{"claim": "name"}]}
    rules = [
        {"name": path[1:], "path": {"prefix": path}, "jwt": True, "requireClaims": claims}
        for path, claims in routes.items()
    ]
    rules += [
        {"name": "closed", "path": {"prefix": "/closed"}, "jwt": True},
        {"name": "open", "path": {"prefix": "/open"}, "jwt": False},
        {"name": "usual"},
    ]
    required = [{"claim": "email_verified", "values": [True]}]
    values = settings(folder, known, requireClaims=required)
    values |= {"routes": [rule | {"service": service} for rule in rules]}
    with gateway_to([], folder, values=values) as running:
        eventually(lambda: running.counted("cluster.prod-old-http.membership_healthy") == 1)

        def ask_for(
            path: str, method: str = "GET", token: dict | None = None, **headers: str
        ) -> dict | int | None:
            if token is not None:
                headers["authorization"] = f"Bearer {known.sign(claims(**token))}"
            reply = ask(running.url, path, method, headers=headers)
            status, requests = reply.status, recorder.take().requests
            if status == 403:
                refused(reply, 403, "forbidden")
                assert 'error="insufficient_scope"' in reply.headers["www-authenticate"]
            assert len(requests) == (status == 200)
            # Search the raw data: the recorder's fields are in lower case, but base64 is not.
            found = requests and re.findall(rb"\r\ncorelane-claims: (.*)\r\n", requests[0].data)
            assert len(found) <= 1
            return status if status != 200 else found[0] if found else None

        yield ask_for
    recorder.close()


def settings(folder: Path, known: Issuer, **more: object) -> dict:
    """Returns the values of a gateway with this issuer's keys."""
    (folder / "jwks.json").write_text(known.keys())
    (folder / "token").write_text(token())
    files = {"token": f"{folder}/token"}
    if "url" not in more:
        files["jwks"] = f"{folder}/jwks.json"
    jwt = {"enabled": True, "issuer": known.name, "audiences": [AUDIENCE], "files": files}
    return {"authentication": {"jwt": jwt | more}}


def test_verified_claims_reach_the_service(behind: Callable[..., bytes]) -> None:
    for path, method in (("/closed", "GET"), ("/closed", "POST"), ("/usual", "POST")):
        found = behind(path, method, {**VERIFIED, "sub": "zoë", "deep": {"list": [1]}})
        shown = json.loads(base64.urlsafe_b64decode(found + b"=="))
        assert (shown["sub"], shown["deep"], shown["iss"]) == (
            "zoë",
            {"list": [1]},
            "https://issuer.example",
        )


def test_no_client_sets_or_removes_claims(behind: Callable[..., bytes]) -> None:
    forged = {"Corelane-Claims": base64.b64encode(b'{"sub": "root"}').decode()}
    for path, method in (("/open", "GET"), ("/open", "POST"), ("/usual", "GET")):
        assert behind(path, method, **forged) is None
    assert behind("/closed", "GET", **forged) == 401
    for header in (forged, {"connection": "corelane-claims"}):
        assert b"sub" in base64.b64decode(behind("/closed", "GET", VERIFIED, **header) + b"==")


@pytest.mark.parametrize(
    ("path", "claim", "passes"),
    [
        ("/closed", {}, False),
        ("/closed", {"email_verified": False}, False),
        ("/closed", {"email_verified": "true"}, False),
        # A route's claims replace the claims for all routes.
        ("/admins", VERIFIED, False),
        ("/admins", {"realm_access": {"roles": ["reader", "owner"]}}, True),
        ("/admins", {"realm_access": {"roles": "admin"}}, True),
        ("/admins", {"realm_access": {"roles": ["administrator", "not admin"]}}, False),
        ("/admins", {"roles": ["admin"]}, False),
        ("/levels", {"scope": "read write", "level": 3}, True),
        ("/levels", {"scope": "read overwrite", "level": 3}, False),
        ("/levels", {"scope": "write"}, False),
        ("/levels", {"scope": "write", "level": 4}, False),
        ("/named", {"name": "x"}, True),
        ("/named", {}, False),
    ],
    ids=str,
)
def test_tokens_need_the_required_claims(
    behind: Callable[..., bytes | int], path: str, claim: dict, *, passes: bool
) -> None:
    assert (behind(path, "GET", claim) != 403) == passes
    assert behind(path) == 401


def test_what_needs_no_token_needs_no_claims(behind: Callable[..., bytes | int]) -> None:
    assert behind("/usual") is None
    assert behind("/open", "POST") is None
    assert behind("/usual", "POST") == 401
    assert behind("/usual", "POST", {}) == 403


def replace(file: Path, content: str) -> None:
    """Renames a new file over this one."""
    new = file.with_suffix(".new")
    new.write_text(content)
    new.rename(file)


def both(first: Issuer, second: Issuer) -> str:
    """The keys of both issuers, which have the same ID."""
    keys = [json.loads(each.keys())["keys"][0] for each in (first, second)]
    return json.dumps({"keys": keys})


@pytest.fixture
def rotating(server: Server, tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """Returns a function that starts a gateway whose only route needs a token."""
    service = {"name": "shop", "endpoints": [endpoint(server.url, server.admin)]}
    with ExitStack() as stack:

        def run(known: Issuer, **more: object) -> Gateway:
            values = settings(tmp_path, known, **more)
            values["routes"] = [{"name": "shop", "jwt": True, "service": service}]
            running = stack.enter_context(gateway_to([], tmp_path, values=values))
            eventually(lambda: running.counted("cluster.prod-shop-http.membership_healthy") == 1)
            return running

        yield run


def status(gateway: Gateway, signer: Issuer) -> int:
    """Returns the status of a request with a token of this issuer."""
    bearer = {"Authorization": f"Bearer {signer.sign(claims())}"}
    return ask(gateway.url, "/hello", headers=bearer).status


def rotated(gateway: Gateway, publish: Callable[[str], None], old: Issuer, new: Issuer) -> None:
    """Replaces a key in three steps under load, without a failed request, and asserts that the old key is then
    rejected.
    """
    eventually(lambda: status(gateway, old) == 200)
    signer = [old]

    class Signed(Client):
        def ask(self, path: str = "/", *_: object, **__: object) -> Reply:
            bearer = signer[0]
            return super().ask(path, headers={"Authorization": tokens[bearer.key]})

    tokens = {each.key: f"Bearer {each.sign(claims())}" for each in (old, new)}
    assert status(gateway, new) == 401
    with Load(gateway.url, clients=2, connect=Signed) as load:
        publish(both(old, new))
        eventually(lambda: status(gateway, new) == 200, patience=60)
        load.wait_for(100)
        signer[0] = new
        load.wait_for(100)
        publish(new.keys())
        eventually(lambda: status(gateway, old) == 401, patience=60)
        load.wait_for(100)
    assert not load.failures


def test_keys_of_a_file_rotate_under_load(rotating: Callable[..., Gateway], tmp_path: Path) -> None:
    old, new = issuer(tmp_path, "old"), issuer(tmp_path, "new")
    gateway = rotating(old)
    rotated(gateway, lambda keys: replace(tmp_path / "jwks.json", keys), old, new)
    # Invalid keys do not replace the valid keys.
    replace(tmp_path / "jwks.json", "{")
    eventually(lambda: gateway.counted("http.ingress.jwt_authn.jwks_fetch_failed") > 1, patience=60)
    assert (status(gateway, new), status(gateway, old)) == (200, 401)


def test_keys_of_a_url_rotate_and_without_them_nobody_gets_in(
    rotating: Callable[..., Gateway], tmp_path: Path
) -> None:
    old, new = issuer(tmp_path, "old"), issuer(tmp_path, "new")
    cert, key = certificate(tmp_path, "issuer", "ec")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)
    port = free_ports(1)
    keys = [old.keys()]
    gateway = rotating(old, url=f"https://localhost:{port}/keys", refresh="2s", ca=str(cert))
    bearer = {"Authorization": f"Bearer {old.sign(claims())}"}
    unavailable = ask(gateway.url, "/hello", headers=bearer)
    assert (unavailable.status, unavailable.replica) == (503, None)
    assert json.loads(unavailable.body)["type"] == "urn:corelane:problem:service-unavailable"
    assert ask(gateway.url, "/hello").status == 401

    def answer(request: Request) -> None:
        # An open connection would outlive the server.
        request.reply(200, ("connection", "close"), body=keys[0].encode())

    with serving(answer, port=port, tls=tls):
        rotated(gateway, lambda published: keys.__setitem__(0, published), old, new)
    # The known keys stay valid while the URL is down.
    failed = gateway.counted("http.ingress.jwt_authn.jwks_fetch_failed")
    eventually(lambda: gateway.counted("http.ingress.jwt_authn.jwks_fetch_failed") > failed + 1)
    assert (status(gateway, new), status(gateway, old)) == (200, 401)


def refused(reply: Reply, status: int = 401, slug: str = "unauthorized") -> None:
    """Asserts that the gateway itself rejected the request, as RFC 6750 section 3 requires."""
    assert (reply.status, reply.replica) == (status, None)
    assert reply.headers["www-authenticate"].startswith("Bearer")
    assert json.loads(reply.body)["type"] == f"urn:corelane:problem:{slug}"
