"""The OpenAPI document: valid, consistent with the server, and usable by tools."""

import gzip
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from stack import PATIENCE
from stack.http import ask
from stack.replica import Server
from support.projects import PATIENT, TOKEN, Database
from tools.resolve import tool

HERE = Path(__file__).parent
SEED = 20261121
EXAMPLES = 15
"""Number of random cases per operation, in addition to boundary values."""


@pytest.fixture(scope="module")
def whole(
    starter: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with all features enabled, and with brief `/work` requests."""
    flags = Database(tmp_path_factory.mktemp("openapi")).flags()
    yield starter(*flags, *PATIENT, "--work.max-ops", "1000")


@pytest.fixture(scope="module")
def document(whole: Server) -> dict:
    return json.loads(ask(whole.url, "/openapi.json").body)


def test_it_is_valid(document: dict, tmp_path: Path) -> None:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document))
    argv = [tool("openapi-spec-validator"), "--schema", "3.1", file]
    checked = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


def test_its_paths_are_the_routes_of_the_server(whole: Server, document: dict) -> None:
    """Requests every path; the route in the metrics must be its template."""
    for path in document["paths"]:
        ask(whole.url, path.replace("{n}", "4").replace("{", "").replace("}", ""))
    pattern = re.compile(r'corelane_requests_total\{.*route="([^"]+)"')
    found = {match[1] for match in map(pattern.match, whole.metrics()) if match}
    assert {route.replace("{*", "{") for route in found - {"other"}} == set(document["paths"])


def test_what_is_not_served_is_not_in_it(binary: Path, start: Callable[..., Server]) -> None:
    server = start("--work.max-ops", "7", static="")
    bare = json.loads(ask(server.url, "/openapi.json").body)
    assert set(bare["paths"]) == {
        "/",
        "/hello",
        "/div/{n}",
        "/work",
        "/work/{name}",
        "/openapi.json",
        "/docs",
        "/docs/{file}",
    }
    assert "Project" not in bare["components"]["schemas"]
    (ops,) = bare["paths"]["/work"]["get"]["parameters"]
    assert ops["schema"]["maximum"] == 7


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/docs/swagger-ui.css"])
def test_a_copy_that_the_client_has_is_not_sent_again(whole: Server, path: str) -> None:
    first = ask(whole.url, path)
    tag = first.headers["etag"]
    assert (first.status, first.headers["cache-control"]) == (200, "no-cache")
    for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = ask(whole.url, path, headers={"If-None-Match": known})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert ask(whole.url, path, headers={"If-None-Match": '"other"'}).body == first.body


def test_the_page_shows_every_operation_and_loads_only_its_files(
    whole: Server, document: dict
) -> None:
    reply = ask(whole.url, "/docs")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    page = Page()
    page.feed(reply.body.decode())
    operations = {
        f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item
    }
    assert set(page.headings) == operations
    described = document["paths"]["/docs/{file}"]["get"]["parameters"][0]["schema"]["enum"]
    assert sorted(page.loaded) == sorted(f"docs/{name}" for name in described)
    for target in page.loaded:
        file = ask(whole.url, f"/{target}")
        packed = file.headers.get("content-encoding") == "gzip"
        text = gzip.decompress(file.body) if packed else file.body
        assert (file.status, packed) == (200, target != "docs/start.js")
        assert text.decode().strip()
    assert ask(whole.url, "/docs/other.js").status == 404


def test_every_operation_has_a_tag_and_successes_have_examples(document: dict) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert set(operation["tags"]) <= tags, (path, method)
            statuses = list(operation["responses"])
            assert statuses == sorted(statuses), "successes come first"
            for parameter in operation.get("parameters", []):
                required = parameter.get("required", False)
                assert "example" in parameter or not required, (path, parameter["name"])
                assert "^" not in parameter["description"]
    for path in ("/", "/hello", "/div/{n}", "/work", "/projects", "/projects/{id}"):
        reply = document["paths"][path]["get"]["responses"]["200"]
        assert all("example" in content for content in reply["content"].values()), path
    assert (
        "example"
        in document["paths"]["/projects"]["post"]["requestBody"]["content"]["application/json"]
    )


def test_the_example_of_a_document_is_accepted(whole: Server, document: dict) -> None:
    content = document["paths"]["/projects"]["post"]["requestBody"]["content"]["application/json"]
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    reply = ask(
        whole.url,
        "/projects",
        "POST",
        headers=headers,
        body=json.dumps(content["example"]).encode(),
    )
    assert reply.status == 201, reply.body


class Page(HTMLParser):
    """Collects loaded resources and third-level headings."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.headings: list[str] = []
        self._in_heading = False

    def handle_starttag(self, tag: str, attrs: list) -> None:
        given = dict(attrs)
        assert tag not in ("img", "iframe", "object", "base")
        if tag in ("link", "script"):
            target = given.get("src") or given["href"]
            self.loaded += [] if target == "data:," else [target]
        if tag in ("h1", "h2", "h3", "p"):
            self._in_heading = tag == "h3"

    def handle_data(self, data: str) -> None:
        if self._in_heading and data.strip():
            self.headings.append(data)


def test_the_server_does_as_it_says(whole: Server, tmp_path: Path) -> None:
    argv = [tool("schemathesis"), "--config-file", HERE / "schemathesis.toml", "--no-color"]
    argv += ["run", f"{whole.url}/openapi.json", "--checks", "all", "--mode", "all"]
    argv += ["--seed", str(SEED), "--max-examples", str(EXAMPLES)]
    argv += ["--generation-database", "none", "--continue-on-failure"]
    argv += ["--request-timeout", str(PATIENCE)]
    argv += ["--header", f"Authorization: Bearer {TOKEN}", "--warnings", "off"]
    asked = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert "No issues found" in asked.stdout
