"""Rejected pods, values and clients."""

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from e2e.conftest import address_towards, apply
from e2e.test_mtls import counted
from gateway.test_credentials import KEYS, basic, user
from gateway.test_jwt import both
from gateway.test_limits import passed
from stack import becomes, eventually
from stack.credentials import Issuer, issuer, token
from stack.http import ask
from stack.http_server import Request, serving
from support.kubernetes import ROLL_OUT, Ended
from support.releases import Release


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("service.cpus=1.5", "whole number"),
        ("server.replicas=3", "service.replicas"),
        ("service.lanes=3", "cpus"),
        ("service.confg.backlog=7", "confg"),
        ("service.config.lanes=3", "cpus"),
        ("gateway.upstream.idleTimeout=90s", "idle"),
    ],
)
def test_a_bad_value_changes_nothing(release: Release, setting: str, words: str) -> None:
    revision, pods = release.revision, {pod.uid for pod in release.cluster.pods("server")}
    refused = release.upgrade(setting, check=False)
    assert refused.returncode != 0
    assert words in refused.stderr
    assert release.revision == revision
    assert {pod.uid for pod in release.cluster.ready_pods("server")} == pods


def test_the_namespace_takes_restricted_pods_only(release: Release) -> None:
    """Both charts comply with the standard; a rejected pod shows that the namespace enforces it."""
    namespace = release.cluster.get("namespace", release.cluster.namespace)
    labels = namespace["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    image = release.cluster.ready_pods("server")[0].image
    refused = release.cluster.kubectl(
        "run", "privileged", f"--image={image}", "--privileged", check=False
    )
    assert refused.returncode != 0
    assert "violates PodSecurity" in refused.stderr


def test_only_the_agent_has_a_token(release: Release) -> None:
    for app, wanted in (("server", set()), ("gateway", {"agent"})):
        for found in release.cluster.items(
            "pods", "--selector", f"app.kubernetes.io/name=corelane-{app}"
        ):
            containers = found["spec"]["containers"] + found["spec"].get("initContainers", [])
            having = {
                each["name"]
                for each in containers
                if any("serviceaccount" in it["mountPath"] for it in each.get("volumeMounts", []))
            }
            assert having == wanted


def test_envoys_admin_interface_is_for_its_own_pod_alone(release: Release) -> None:
    (gateway, *_) = release.cluster.ready_pods("gateway")
    # One port answers unrelated pods, so a blocked network is ruled out.
    answered, refused = f"http://{gateway.ip}:8080/hello", f"http://{gateway.ip}:9901/ready"
    assert_strangers_get(release, [answered], but_not=[refused])
    with release.cluster.forwarded(gateway.name, 9901) as admin:
        assert ask(admin, "/ready").status == 200


def test_strangers_reach_the_replicas_through_the_gateway_alone(release: Release) -> None:
    (server, *_) = release.cluster.ready_pods("server")
    (gateway, *_) = release.cluster.ready_pods("gateway")
    own = [f"{server.ip}:8080/hello", f"{server.ip}:8081/metrics", f"{gateway.ip}:9902/ready"]
    assert_strangers_get(
        release,
        [f"http://{release.name}-gateway/hello"],
        but_not=[f"http://{address}" for address in own],
    )


def assert_strangers_get(release: Release, answered: list[str], *, but_not: list[str]) -> None:
    """Unrelated pods reach some URLs and cannot connect to other URLs.

    Runs concurrently, because checks mostly wait.
    """
    deadlines = dict.fromkeys(answered, "60s") | dict.fromkeys(but_not, "5s")

    def ended(url: str) -> Ended:
        """Retries until a response or the deadline."""
        return release.cluster.run(
            release.program, "/corelane", "check", url, "--deadline", deadlines[url]
        )

    with ThreadPoolExecutor() as pool:
        found = dict(zip(deadlines, pool.map(ended, deadlines), strict=True))
    for url in answered:
        assert found[url].succeeded, found[url].said
    for url in but_not:
        assert not found[url].succeeded, url
        said = found[url].said
        assert "cannot connect" in said or "last: no reply" in said, said


def test_the_stats_listener_shows_two_paths_and_takes_no_orders(release: Release) -> None:
    for pod in release.cluster.ready_pods("gateway"):
        with release.cluster.forwarded(pod.name, 9902) as stats:
            assert ask(stats, "/ready").status == 200
            assert b"envoy_http_downstream_rq_total" in ask(stats, "/stats/prometheus").body
            assert ask(stats, "/config_dump").status == 404
            assert ask(stats, "/quitquitquit", "POST").status == 404


SECRETS = ("checks-jwt", "checks-keys", "checks-passwords")
ORIGIN = "https://shop.test"


def secret(name: str, files: dict[str, str]) -> dict:
    """A Secret with these files."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": files}


def checks(known: Issuer, decider: str) -> dict:
    """The gateway's values with each check on its own route."""
    key, passwords = ({"enabled": True, "everywhere": False, "secret": it} for it in SECRETS[1:])
    jwt = {"enabled": True, "issuer": known.name, "audiences": ["shop"], "secret": SECRETS[0]}
    place = urlsplit(decider)
    decides = {"enabled": True, "everywhere": False, "host": place.hostname, "port": place.port}
    limit = {"requests": 1, "interval": "1h", "burst": 10}
    needs = {
        "token": {"jwt": True},
        "key": {"apiKey": True},
        "password": {"basicAuth": True, "jwt": False},
        "decision": {"externalAuthorization": True},
        "few": {"rateLimit": limit},
    }
    service = {"service": {"name": "corelane-server"}}
    routes = [
        {"name": name, "path": {"prefix": f"/{name}"}, "rewrite": {"path": "/hello"}, **more}
        for name, more in needs.items()
    ]
    return {
        "authentication": {"jwt": jwt, "apiKeys": key, "basicAuth": passwords},
        "compression": {"enabled": True, "minBytes": 1},
        "cors": {"origins": [ORIGIN], "headers": ["authorization"]},
        "externalAuthorization": decides,
        "rateLimit": {"scope": "release"},
        "routes": [route | service for route in [*routes, {"name": "rest"}]],
    }


def decide(request: Request) -> None:
    """Allows requests with a certain cookie."""
    request.reply(200 if request.headers["cookie"] == "allow" else 403)


@pytest.fixture
def checked(deployed: Release, tmp_path: Path) -> Iterator[tuple[Release, Issuer]]:
    """The platform with all checks of the gateway, and the tokens' issuer."""
    known, own, cluster = issuer(tmp_path), token(), deployed.cluster
    apply(
        cluster,
        [
            secret(SECRETS[0], {"jwks.json": known.keys(), "token": own}),
            secret(SECRETS[1], {name: key.decode() for name, key in KEYS.items()}),
            secret(SECRETS[2], {".htpasswd": user("ann", "first").decode()}),
        ],
    )
    with serving(decide, address_towards(urlsplit(deployed.gateway).hostname)) as decider:
        file = tmp_path / "checks.yaml"
        file.write_text(json.dumps({"gateway": checks(known, decider)}))
        release = replace(deployed, values=[*deployed.values, file])
        release.serve()
        yield release, known
    deployed.serve()
    cluster.kubectl("delete", "secret", *SECRETS)


def test_each_check_of_the_gateway_works_in_pods(
    checked: tuple[Release, Issuer], tmp_path: Path
) -> None:
    """One request with and one without what each route needs, through each gateway pod."""
    release, known = checked

    def bearer(signer: Issuer) -> dict[str, str]:
        signed = signer.sign({"aud": "shop", "exp": 4_000_000_000})
        return {"authorization": f"Bearer {signed}"}

    preflight = {"origin": ORIGIN, "access-control-request-method": "GET"}
    needs = {
        "/token": (401, bearer(known)),
        "/key": (401, {"x-api-key": KEYS["shop"].decode()}),
        "/password": (401, {"authorization": basic("ann", "first")}),
        "/decision": (403, {"cookie": "allow"}),
    }
    words = ("envoy_cluster_membership_total", 'envoy_cluster_name="gateways"')
    for pod in release.cluster.ready_pods("gateway"):
        with release.cluster.forwarded(pod.name, 9902) as stats:
            becomes(lambda page=f"{stats}/stats/prometheus": counted(page, *words), 2)
    with release.each_gateway() as gateways:
        for gateway in gateways:
            for path, (status, headers) in needs.items():
                assert (path, ask(gateway, path).status) == (path, status)
                assert (path, ask(gateway, path, headers=headers).status) == (path, 200)
            # Browsers send no token with a preflight request.
            allowed = ask(gateway, "/token", "OPTIONS", headers=preflight)
            assert (allowed.status, allowed.replica) == (200, None)
            assert allowed.headers["access-control-allow-origin"] == ORIGIN
            packed = ask(gateway, "/", headers={"accept-encoding": "gzip"})
            assert packed.headers["content-encoding"] == "gzip"
            assert json.loads(gzip.decompress(packed.body))["replica"] == packed.replica
            # Both pods share the burst of 10.
            assert passed(SimpleNamespace(url=gateway), "/few") == 5
        later = issuer(tmp_path, "later")

        def statuses(signer: Issuer) -> set[int]:
            return {ask(it, "/token", headers=bearer(signer)).status for it in gateways}

        assert statuses(later) == {401}
        for keys, signer, wanted in ((both(known, later), later, 200), (later.keys(), known, 401)):
            patch = json.dumps({"stringData": {"jwks.json": keys}})
            release.cluster.kubectl("patch", "secret", SECRETS[0], "--patch", patch)
            eventually(
                lambda signer=signer, wanted=wanted: statuses(signer) == {wanted},
                "new keys",
                patience=ROLL_OUT,
                pause=1,
            )
            assert statuses(later) == {200}
