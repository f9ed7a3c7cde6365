"""API keys and passwords: the real Envoy and its agent, which reads folders that look like mounted
Secrets."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack import eventually
from stack.agents import Agent
from stack.credentials import SecretFolder
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import ask
from stack.ports import free_ports
from stack.programs import program
from stack.rendering import config_maps
from support.recorder import Recorder

KEYS = {"shop": b"shop-0123456789abcdef0123", "ci": b"ci-0123456789abcdef01234"}
SECRETS = {"api-keys": "apiKeys", "basic-auth": "basicAuth"}
Secrets = dict[str, SecretFolder]


def user(name: str, password: str) -> bytes:
    """Returns an htpasswd line."""
    digest = hashlib.sha1(password.encode()).digest()
    return f"{name}:{{SHA}}".encode() + base64.b64encode(digest) + b"\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the Secrets."""
    return tmp_path_factory.mktemp("credentials")


@pytest.fixture(scope="module")
def secrets(folder: Path) -> Secrets:
    """Creates the Secrets."""
    made = {name: SecretFolder(folder / name) for name in SECRETS}
    made["api-keys"].put(KEYS)
    made["basic-auth"].put({".htpasswd": user("ann", "first")})
    return made


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """Yields a service that records requests."""
    running = Recorder()
    yield running
    running.close()


@pytest.fixture(scope="module")
def agent(folder: Path, secrets: Secrets) -> Iterator[Agent]:
    """Starts an agent that reads the Secrets; its API server is down."""
    values = folder / "description.yaml"
    values.write_text(json.dumps({"authentication": access()}))
    text = config_maps(values=values)[0]["credentials.json"].replace("/etc/envoy-", f"{folder}/")
    (folder / "description.json").write_text(text)
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
    (folder / "kubeconfig").write_text(json.dumps({**config, "current-context": "c"}))
    port = free_ports(1)
    argv = [program("gateway-agent"), "endpoints", "--service=none=none:http"]
    argv += [f"--kubeconfig={folder}/kubeconfig", f"--credentials={folder}/description.json"]
    argv += [f"--folder={folder}", f"--listen=127.0.0.1:{port}", "--log-format=json"]
    running = Agent("agent", argv, folder, port)
    try:
        yield running.start()
    finally:
        running.kill()


@pytest.fixture(scope="module")
def gateway(folder: Path, agent: Agent, recorder: Recorder) -> Iterator[Gateway]:
    """Starts a gateway with a route for keys, a route for passwords, and a route for all
    clients."""
    replicas = [endpoint(recorder.url, recorder.admin)]
    service = {"service": {"name": "one", "endpoints": replicas}}
    routes = [
        {"name": "people", "path": {"prefix": "/people"}, "apiKey": False, "basicAuth": True},
        {"name": "open", "path": {"prefix": "/open"}, "apiKey": False},
        {"name": "keys"},
    ]
    values = {"authentication": access(), "routes": [route | service for route in routes]}
    with gateway_to([], folder, values) as running:
        eventually(lambda: running.counted("cluster.prod-one-http.membership_healthy") == 1)
        yield running


def access() -> dict:
    """Returns the values of both checks."""
    checks = {key: {"enabled": True, "secret": name} for name, key in SECRETS.items()}
    return checks | {"basicAuth": {**checks["basicAuth"], "everywhere": False}}


def basic(name: str, password: str) -> str:
    """Returns the Authorization header of a user."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


FORGED = {"corelane-client": "root", "corelane-user": "root"}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/", {"x-api-key": ""}),
        ("/", {"x-api-key": KEYS["shop"][:-1].decode()}),
        ("/", FORGED),
        ("/people", {"x-api-key": KEYS["shop"].decode()}),
        ("/people", {"Authorization": basic("ann", "other")}),
        ("/people", {"Authorization": basic("bob", "first")}),
        ("/people", FORGED),
    ],
)
def test_without_valid_credentials_it_is_401(
    gateway: Gateway, recorder: Recorder, path: str, headers: dict
) -> None:
    recorder.take()
    reply = ask(gateway.url, path, headers=headers)
    assert (reply.status, recorder.take().requests) == (401, [])
    assert json.loads(reply.body)["type"] == "urn:corelane:problem:unauthorized"


@pytest.mark.parametrize(
    ("path", "headers", "learned"),
    [
        ("/", {"x-api-key": KEYS["ci"].decode()}, {b"corelane-client": b"ci"}),
        ("/people", {"Authorization": basic("ann", "first")}, {b"corelane-user": b"ann"}),
        ("/open", {"Authorization": "Other x"}, {b"authorization": b"other x"}),
    ],
)
def test_the_service_learns_the_name_and_no_secret(
    gateway: Gateway, recorder: Recorder, path: str, headers: dict, learned: dict
) -> None:
    recorder.take()
    assert ask(gateway.url, path, headers=headers | FORGED).status == 200
    (request,) = recorder.take().requests
    names = {b"corelane-client", b"corelane-user", b"x-api-key", b"authorization"}
    assert {name: value for name, value in request.fields if name in names} == learned


def test_a_changed_secret_needs_no_restart(
    gateway: Gateway, agent: Agent, secrets: Secrets
) -> None:
    def status(path: str, **headers: str) -> int:
        return ask(gateway.url, path, headers=headers).status

    key = {"x-api-key": KEYS["shop"][::-1].decode()}
    secrets["api-keys"].put(KEYS | {"next": KEYS["shop"][::-1]})
    secrets["basic-auth"].put({".htpasswd": user("bob", "second")})
    eventually(lambda: status("/", **key) == 200)
    eventually(lambda: status("/people", Authorization=basic("bob", "second")) == 200)
    assert status("/people", Authorization=basic("ann", "first")) == 401
    # One wrong entry changes nothing; it is reported without its key.
    secrets["api-keys"].put({"short": b"secret"})
    gauge = 'corelane_gateway_agent_credentials_current{filter="corelane.api_keys"} '
    eventually(lambda: f"{gauge}0\n" in agent.ask("/metrics").body.decode())
    assert status("/", **key) == 200
    assert "secret" not in agent.log.read_text()
    # Without entries, no client has a key.
    secrets["api-keys"].put({})
    eventually(lambda: status("/", **key) == 401)
    eventually(lambda: f"{gauge}1\n" in agent.ask("/metrics").body.decode())
    # Other tests use the same gateway.
    secrets["api-keys"].put(KEYS)
    secrets["basic-auth"].put({".htpasswd": user("ann", "first")})
    eventually(lambda: status("/", **{"x-api-key": KEYS["ci"].decode()}) == 200)
    eventually(lambda: status("/people", Authorization=basic("ann", "first")) == 200)
