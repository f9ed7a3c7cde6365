"""Login at an OpenID Connect provider: real Envoys, the certified `oidc-provider`, and a client that behaves
like a browser."""

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from stack import eventually
from stack.credentials import SecretFolder, certificate
from stack.gateway import Gateway, endpoint, gateway_to
from support.oidc import Browser, Provider
from support.recorder import Record, Recorder

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="Node.js and npm are not on PATH")

HOST = "shop.example"
SHOP = f"https://{HOST}"
OWN = "the-gateways-own-token"
SECRETS = {"client-secret": b"first", "hmac-secret": b"h" * 32, "token": OWN.encode()}
ENDED = 3700
"""Seconds after which the provider's access token and ID token have expired, but the refresh token has not."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the processes that all tests share."""
    return tmp_path_factory.mktemp("oidc")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Provider]:
    """Starts the provider."""
    running = Provider(folder, HOST)
    running.start("first")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """Yields the protected service."""
    running = Recorder()
    yield running
    running.close()


Start = Callable[..., Gateway]
Made = Callable[..., AbstractContextManager[Gateway]]


@pytest.fixture(scope="module")
def made(folder: Path, shared: Provider, recorder: Recorder) -> Made:
    """Returns a function for a gateway whose /open route needs no login, and whose /admin route needs a claim that
    the user does not have."""
    pair = certificate(folder, "tls", "ec")
    tls = {"enabled": True, "files": dict(zip(("certificate", "key"), map(str, pair), strict=True))}
    service = {"service": {"name": "one", "endpoints": [endpoint(recorder.url, recorder.admin)]}}
    closed = [
        {"name": "buyers", "path": {"prefix": "/buyers"}, "requireClaims": [claim("buyer")]},
        {"name": "admin", "path": {"prefix": "/admin"}, "requireClaims": [claim("admin")]},
        {"name": "shop"},
    ]
    opened = {"name": "open", "path": {"prefix": "/open"}, "oidc": False}

    @contextmanager
    def run(secret: SecretFolder, *, everywhere: bool = True) -> Iterator[Gateway]:
        login = shared.values | {"enabled": True, "everywhere": everywhere, "clientId": "shop"}
        login |= {"ca": str(shared.certificate), "files": {"folder": str(secret.path)}}
        routes = [opened, *(each | ({} if everywhere else {"oidc": True}) for each in closed)]
        values = {"tls": tls, "authentication": {"oidc": login}}
        values["routes"] = [each | service for each in routes]
        with gateway_to([], secret.path.parent, values) as running:
            eventually(lambda: running.counted("cluster.prod-one-http.membership_healthy") == 1)
            yield running

    return run


@pytest.fixture
def start(made: Made) -> Iterator[Start]:
    """Returns a function that starts a gateway, which ends after the test."""
    with ExitStack() as stack:
        yield lambda secret, **more: stack.enter_context(made(secret, **more))


def claim(role: str) -> dict:
    """Returns a claim that a route requires."""
    return {"claim": "role", "values": [role]}


@pytest.fixture(scope="module")
def gateway(made: Made, folder: Path) -> Iterator[Gateway]:
    """Starts the gateway that most tests use."""
    with made(mounted(folder / "gateway")) as running:
        yield running


def mounted(folder: Path, secrets: dict[str, bytes] = SECRETS) -> SecretFolder:
    """Creates a gateway's folder with its Secret."""
    folder.mkdir(exist_ok=True)
    made = SecretFolder(folder / "secret")
    made.put(secrets)
    return made


@pytest.fixture
def browser(gateway: Gateway, recorder: Recorder) -> Browser:
    """Returns a browser without a session."""
    recorder.take()
    return Browser({HOST: urlsplit(gateway.tls).netloc})


def claims(record: Record) -> dict:
    """Returns the claims of the only request that the service received, with the gateway's own token."""
    (request,) = record.requests
    assert request.values(b"authorization") == [f"bearer {OWN}".encode()]
    # The recorder's fields are in lower case, but base64 is not.
    (encoded,) = re.findall(rb"\r\ncorelane-claims: (.*)\r\n", request.data)
    return json.loads(base64.urlsafe_b64decode(encoded + b"=="))


def counted(gateway: Gateway, name: str) -> int:
    """Returns a counter of the filter."""
    return gateway.counted(f"http.ingress.oauth_{name}")


def refused(response: HTTPResponse, status: int = 401) -> None:
    """Asserts that the gateway itself answered with a problem document."""
    assert (response.status, json.loads(response.content)["status"]) == (status, status)
    assert response.headers["content-type"] == "application/problem+json"


def at_provider(response: HTTPResponse, shared: Provider) -> bool:
    """Returns whether the gateway sends the browser to the provider."""
    return response.status == 302 and response.headers["location"].startswith(f"{shared.url}/auth?")


def test_a_session_lasts_from_login_to_logout_on_both_gateways(
    browser: Browser,
    gateway: Gateway,
    start: Start,
    shared: Provider,
    recorder: Recorder,
    tmp_path: Path,
) -> None:
    forged = {"corelane-claims": "e30", "authorization": "Bearer forged"}
    refresh = counted(gateway, "refreshtoken_success")
    first, *_, last = (response for _, response in browser.path(f"{SHOP}/orders?page=2"))
    assert at_provider(first, shared)
    query = parse_qs(urlsplit(first.headers["location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [f"{SHOP}/oauth2/callback"]
    assert last.status == 200
    record = recorder.take()
    assert record.requests[0].line == b"GET /orders?page=2 HTTP/1.1"
    assert claims(record).items() >= {"sub": "ann", "role": "buyer", "aud": "shop"}.items()
    # The service gets none of the cookies that renew the session.
    assert not re.search(rb"RefreshToken|OauthHMAC|BearerToken", record.data)
    # Only the gateway can read or change the cookies, and other sites cannot use them.
    held = [cookie for cookie in browser.jar if cookie.domain == HOST]
    assert {cookie.name for cookie in held} == {
        "OauthHMAC",
        "OauthExpires",
        "IdToken",
        "RefreshToken",
    }
    assert all(cookie.secure and cookie.has_nonstandard_attr("HttpOnly") for cookie in held)
    assert {cookie.get_nonstandard_attr("SameSite") for cookie in held} == {"Lax"}
    assert not any("eyJ" in cookie.value for cookie in held)
    # A second gateway with the same Secret knows the session, although it needs logins only on some routes.
    second = start(mounted(tmp_path), everywhere=False)
    browser.hosts[HOST] = urlsplit(second.tls).netloc
    assert browser.get(f"{SHOP}/buyers", **forged).status == 200
    assert claims(recorder.take())["sub"] == "ann"
    refused(browser.get(f"{SHOP}/admin"), 403)
    browser.hosts[HOST] = urlsplit(gateway.tls).netloc
    # After the tokens have expired, one request refreshes them, also a program's.
    browser.later(ENDED)
    assert [cookie.name for cookie in browser.jar if cookie.domain == HOST] == ["RefreshToken"]
    assert browser.get(f"{SHOP}/", "POST", **JSON).status == 200
    assert counted(gateway, "refreshtoken_success") == refresh + 1
    assert claims(recorder.take())["sub"] == "ann"
    assert browser.get(f"{SHOP}/").status == 200
    # The logout ends both sessions: the gateway's, and, if the user confirms it, the provider's.
    recorder.take()
    logout = browser.get(f"{SHOP}/oauth2/logout")
    assert logout.status == 302
    assert not [cookie for cookie in browser.jar if cookie.domain == HOST]
    page = browser.get(logout.headers["location"])
    assert (page.status, logout.headers["location"].startswith(f"{shared.url}/session/end")) == (
        200,
        True,
    )
    assert b"Do you want to sign-out" in page.content
    assert at_provider(browser.get(f"{SHOP}/"), shared)
    assert recorder.take().requests == []


JSON = {"Accept": "application/json"}


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", JSON),
        ("GET", {"Accept": "*/*"}),
        ("GET", {"Sec-Fetch-Mode": "cors"}),
        ("POST", {}),
        ("GET", {**JSON, "Authorization": "Bearer x", "corelane-claims": "e30"}),
    ],
)
def test_a_program_without_a_session_gets_401(
    browser: Browser, recorder: Recorder, method: str, headers: dict[str, str]
) -> None:
    refused(browser.get(f"{SHOP}/", method, **headers))
    assert browser.get(f"{SHOP}/open", method, **headers).status == 200
    (request,) = recorder.take().requests
    # The route without a login gets the client's own token, but no claims.
    bearer = headers.get("Authorization", "").lower().encode()
    assert request.values(b"authorization") == ([bearer] if bearer else [])
    assert request.values(b"corelane-claims") == []


@pytest.mark.parametrize("name", ["IdToken", "OauthExpires", "OauthHMAC"])
def test_a_changed_cookie_ends_the_session(
    browser: Browser, shared: Provider, recorder: Recorder, name: str
) -> None:
    assert browser.open(f"{SHOP}/").status == 200
    assert claims(recorder.take())["sub"] == "ann"
    values = {cookie.name: cookie for cookie in browser.jar if cookie.domain == HOST}
    browser.jar.clear(values["RefreshToken"].domain, "/", "RefreshToken")
    changed = values[name]
    # OauthExpires is a number.
    changed.value = ("9" if changed.value[0] != "9" else "8") + changed.value[1:]
    assert at_provider(browser.get(f"{SHOP}/"), shared)
    refused(browser.get(f"{SHOP}/", **JSON))
    assert recorder.take().requests == []


def test_nobody_can_finish_the_login_of_another_browser(
    browser: Browser, gateway: Gateway, recorder: Recorder
) -> None:
    url = browser.until(f"{SHOP}/", "/oauth2/callback")
    other = Browser(browser.hosts)
    other.get(f"{SHOP}/")
    # The state belongs to the other browser's cookies, or is changed, or is missing.
    forged = re.sub("state=.", "state=x", url)
    for wrong in (url, forged, re.sub("&state=[^&]*", "", url), f"{SHOP}/oauth2/callback"):
        refused(other.get(wrong))
    assert not [each for each in other.jar if each.name in ("IdToken", "OauthHMAC")]
    refused(browser.get(forged))
    # The provider rejects a code that it did not issue.
    refused(browser.get(re.sub("code=[^&]*", "code=forged", url)))
    assert recorder.take().requests == []


def test_without_the_provider_sessions_continue_and_nobody_else_gets_in(
    browser: Browser,
    gateway: Gateway,
    start: Start,
    shared: Provider,
    recorder: Recorder,
    tmp_path: Path,
) -> None:
    assert browser.open(f"{SHOP}/").status == 200
    new, late = Browser(browser.hosts), Browser(browser.hosts)
    assert late.open(f"{SHOP}/").status == 200
    late.later(ENDED)
    callback = new.until(f"{SHOP}/", "/oauth2/callback")
    recorder.take()
    shared.stop()
    try:
        refused(new.get(callback), 503)
        assert gateway.counted("cluster.oidc.upstream_rq_503") == 1
        refused(late.get(f"{SHOP}/", **JSON))
        assert recorder.take().requests == []
        assert browser.get(f"{SHOP}/").status == 200
        # A gateway that starts now has no keys to verify the session's ID token.
        browser.hosts[HOST] = urlsplit(start(mounted(tmp_path)).tls).netloc
        refused(browser.get(f"{SHOP}/"), 503)
    finally:
        shared.start("first")


def test_a_new_client_secret_needs_no_restart(
    browser: Browser, start: Start, shared: Provider, recorder: Recorder, tmp_path: Path
) -> None:
    secret = mounted(tmp_path)
    browser.hosts[HOST] = urlsplit(start(secret).tls).netloc
    shared.start("second")
    try:
        refused(browser.open(f"{SHOP}/"), 503)
        assert recorder.take().requests == []
        secret.put({**SECRETS, "client-secret": b"second"})
        eventually(lambda: browser.open(f"{SHOP}/").status == 200)
    finally:
        shared.start("first")


@pytest.mark.parametrize("name", ["client-secret", "hmac-secret"])
@pytest.mark.parametrize("content", [None, b""])
def test_without_a_secret_nobody_gets_in(
    browser: Browser,
    start: Start,
    recorder: Recorder,
    tmp_path: Path,
    name: str,
    content: bytes | None,
) -> None:
    secrets = {**SECRETS, name: content}
    secret = mounted(tmp_path, {key: value for key, value in secrets.items() if value is not None})
    browser.hosts[HOST] = urlsplit(start(secret).tls).netloc
    for headers in ({}, JSON, {"Cookie": "OauthExpires=4000000000; OauthHMAC=x"}):
        refused(browser.get(f"{SHOP}/", **headers), 503)
    assert recorder.take().requests == []
