"""A new service: `corelane new`, its tests, `corelane up`, reload on change, `corelane down`."""

import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from local import processes, supervisor, topology
from local.settings import VARIABLES
from stack import REPOSITORY, becomes, eventually, pids
from stack.http import ask
from stack.load import Load
from stack.ports import free_ports
from stack.programs import example, program
from support.tutorials import answered, blocks
from tools.resolve import tool

TARGET = REPOSITORY / "services" / os.environ.get("CARGO_TARGET_DIR", "target")

BUILDING = 600.0
"""Timeout in seconds for building a service and its dependencies."""

OTHER = """#!{python}
import http.server, os, signal, sys, threading
{first}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # Head and body leave in one write, so an exit cuts no reply in two.
    def do_GET(self):
        body = b"{word} " + repr(sorted(key for key in os.environ if "CORELANE" in key)).encode()
        self.send_response(200 if self.path in ("/", "/up") else 404)
        self.send_header("content-length", str(len(body)))
        self.send_header("corelane-replica", os.environ["HOSTNAME"])
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
"""


LINTS = {"RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS"}
"""The Makefile sets these to turn warnings into errors."""


@dataclass
class Project:
    """A service's folder and its platform's ports."""

    folder: Path
    environment: dict[str, str]

    @property
    def run(self) -> Path:
        return self.folder / ".corelane" / "default"

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{self.environment['GATEWAY_PORT']}"

    def begin(self, *arguments: object, **more: object) -> subprocess.Popen[str]:
        readers = {name: text for name, text in os.environ.items() if name not in LINTS}
        return subprocess.Popen(
            [*map(str, arguments)],
            cwd=self.folder,
            env={**readers, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **more,
        )

    def command(self, *arguments: object) -> tuple[int, str]:
        with self.begin(*arguments) as process:
            output, _ = process.communicate()
        return process.returncode, output

    def corelane(self, *arguments: object) -> str:
        status, output = self.command(program("corelane"), *arguments)
        assert status == 0, output
        return output

    def replicas(self) -> set[str | None]:
        return {ask(self.gateway).replica for _ in range(20)}


def project(folder: Path) -> Project:
    first = free_ports(9)
    names = [*VARIABLES][:-2]
    variables = {name: str(first + index) for index, name in enumerate(names)}
    variables |= {"REPLICA_PORT": str(first + 5), "REPLICA_ADMIN_PORT": str(first + 7)}
    variables |= {"REPLICAS": "2", "CARGO_TARGET_DIR": str(TARGET)}
    # Uses this repository's profile, so that dependencies are built only once.
    variables["CARGO_PROFILE_DEV_DEBUG"] = "0"
    return Project(folder, variables)


def new(name: str, *arguments: object) -> Project:
    """Depends on this repository; a fixed path lets cargo reuse its build."""
    place = TARGET / "new"
    place.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(place / name, ignore_errors=True)
    made = project(place)
    made.corelane("new", name, "--corelane", REPOSITORY, *arguments)
    made.folder = place / name
    # Dependencies are pinned to this repository's versions.
    shutil.copy(REPOSITORY / "services" / "Cargo.lock", made.folder)
    return made


@pytest.fixture(scope="module")
def shop() -> Iterator[Project]:
    """A service from the `rest` template, built and running."""
    made = new("shop")
    try:
        made.corelane("up")
        yield made
    finally:
        made.command(program("corelane"), "down")


ODD = """100% %(here)s a;b ;c #d "e' $HOME `f` [g] {h},i=j?k\\é"""
"""A folder name full of characters special to supervisord, URLs, globs or shells."""


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Project]:
    """A project without cargo whose program `web` does not use the library."""
    (tmp_path / ODD).mkdir()
    made = project(tmp_path / ODD)
    made.environment["DATABASE"] = "sqlite"
    write(made.folder / "web", "one")
    try:
        yield made
    finally:
        # PostgreSQL's data may be elsewhere.
        remove = (REPOSITORY / "hack" / "local", "remove", "--project", made.folder)
        made.command(sys.executable, *remove)


LATE = "import time; time.sleep(1.5); sys.exit('no luck')"
"""A service that fails only after supervisord considers it running."""


def write(file: Path, word: str, first: str = "") -> None:
    """Replaces the file atomically, as a compiler does."""
    fresh = file.with_suffix(".new")
    text = OTHER.replace("{python}", sys.executable).replace("{word}", word)
    fresh.write_text(text.replace("{first}", first))
    fresh.chmod(0o755)
    fresh.rename(file)


def test_a_new_service_passes_its_own_tests(shop: Project) -> None:
    passes_its_own_tests(shop)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "template"), [("store", "rest"), ("room", "websocket"), ("my-calls", "grpc")]
)
def test_a_new_service_of_each_template_passes_its_own_tests(name: str, template: str) -> None:
    made = new(name, "--template", template)
    passes_its_own_tests(made)
    status, output = made.command("cargo", "clippy", "--", "-D", "warnings")
    assert status == 0, output


def passes_its_own_tests(made: Project) -> None:
    for arguments in (("test",), ("fmt", "--check")):
        status, output = made.command("cargo", *arguments)
        assert status == 0, output
    workflow = made.folder / ".github" / "workflows" / "ci.yaml"
    status, output = made.command(tool("actionlint"), "-shellcheck", tool("shellcheck"), workflow)
    assert status == 0, output


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "template"), [("room", "websocket"), ("my-calls", "grpc")])
def test_its_smoke_test_passes_through_the_gateway(name: str, template: str) -> None:
    made = new(name, "--template", template)
    try:
        made.corelane("up")
        smoke(made)
    finally:
        made.corelane("down")


def smoke(made: Project) -> None:
    made.environment |= {"BASE_URL": made.gateway, "DURATION": "2s", "P99_MS": "60000"}
    status, output = made.command(tool("k6"), "run", "--quiet", "loadtest/smoke.js")
    assert status == 0, output


def test_the_gateway_balances_over_the_replicas(shop: Project) -> None:
    eventually(lambda: shop.replicas() == {"shop-0", "shop-1"}, "replies of both replicas")
    for replica in topology.read(shop.run).replicas:
        assert ask(f"http://127.0.0.1:{replica.admin_port}", "/readyz").status == 200
    smoke(shop)


def test_a_second_up_keeps_what_runs(shop: Project) -> None:
    before = processes.find(shop.run)
    assert "is already up" in shop.corelane("up")
    assert processes.find(shop.run) == before
    assert "shop-1" in shop.corelane("status")
    assert "==> shop-1" in shop.corelane("logs")


def test_a_change_is_rolled_out_without_a_failed_request(shop: Project) -> None:
    source = shop.folder / "src" / "lib.rs"
    text = source.read_text()
    with shop.begin(program("corelane"), "up", "--watch") as watching:
        try:
            with Load(shop.gateway, path="/") as load:
                source.write_text(text.replace('notes.greeting + "\\n"', '"changed\\n".to_owned()'))
                bodies(shop, {b"changed\n"})
                load.wait_for(100)
            assert load.failures == []
            both = {"shop-0", "shop-1"}
            eventually(lambda: shop.replicas() == both, "replies of both replicas")
            source.write_text("fn")
            read_until(watching, "shop does not build")
            assert {ask(shop.gateway).body for _ in range(20)} == {b"changed\n"}
            source.write_text(text)
            bodies(shop, {b"hello\n"})
        finally:
            watching.send_signal(signal.SIGINT)
            watching.communicate()
    assert watching.returncode == 0
    assert processes.find(shop.run)


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Reads output up to a line that contains the text."""
    for line in process.stdout:
        if text in line:
            return
        assert "keeps running" not in line, line
    raise AssertionError(f"it ended without {text!r}")


def bodies(made: Project, wanted: set[bytes]) -> None:
    """Waits until all replicas run the new build."""
    eventually(
        lambda: {ask(made.gateway).body for _ in range(20)} == wanted,
        f"replies {wanted}",
        patience=BUILDING,
        pause=0.2,
    )


def variables(made: Project, name: str) -> dict[str, str]:
    return pids.environment(supervisor.states(made.run)[name]["pid"])


def again(made: Project, up: tuple[object, ...], **more: str) -> str:
    """Output of a second `up` with other variables."""
    other = Project(made.folder, made.environment | more)
    return other.command(program("corelane"), *up)[1]


def test_any_program_runs_behind_the_gateway_until_down(scripts: Project) -> None:
    up = OTHERS
    scripts.corelane(*up)
    assert ask(scripts.gateway).body == b"one []"
    eventually(lambda: scripts.replicas() == {"web-0", "web-1"}, "replies of both")
    # The tutorial's next command and its output.
    _, loop = blocks("docs/own-service.md", "## 2. Run it")
    status, output = scripts.command("bash", "-c", loop.replace("localhost:8080", scripts.gateway))
    assert (status, answered(output)) == (0, ({"web-0", "web-1"}, 20))
    url = urlsplit(variables(scripts, "web-0")["DATABASE_URL"])
    assert unquote(url.path) == str(scripts.run / "web.db")
    # The printed commands work, and settings that a second `up` cannot change are named.
    assert "  corelane status\n" in again(scripts, up, GREETING="hello")
    assert "web-1" in scripts.corelane("status")
    assert "To apply GREETING, run corelane down first" in again(scripts, up, GREETING="bye")
    assert "and GATEWAY_PORT=1 needs a new start" in again(scripts, up, GATEWAY_PORT="1")
    # The build command replaces the binary only if it changed.
    with scripts.begin(program("corelane"), *up, "--watch") as watching:
        try:
            write(scripts.folder / "web", "two")
            bodies(scripts, {b"two []"})
            write(scripts.folder / "web", "three", first=LATE)
            read_until(watching, "web-0 exited right after the start")
            bodies(scripts, {b"two []"})
        finally:
            watching.send_signal(signal.SIGTERM)
            watching.communicate()
    assert watching.returncode == 0
    assert "is down" in scripts.corelane("down")
    assert processes.find(scripts.run) == []
    assert scripts.command(program("corelane"), "status")[0] == 1


def test_a_program_without_the_library_is_refused(scripts: Project) -> None:
    write(scripts.folder / "web", "one", first="sys.exit('no luck')")
    up = ("up", "--binary", "web", "--corelane", REPOSITORY)
    status, output = scripts.command(program("corelane"), *up)
    assert status == 1
    assert "web ended with status 1 and did not print its settings" in output
    assert "Any other program runs with --runtime other" in output
    assert "    no luck" in output
    assert processes.find(scripts.run) == []


def test_a_program_on_the_library_may_have_flags_of_its_own(scripts: Project) -> None:
    # Does not support --help.
    up = ("up", "--binary", example("tokio_main"), "--corelane", REPOSITORY)
    scripts.environment |= {"CORELANE_LOG_LEVEL": "debug", "INSTANCE": "own"}
    scripts.corelane(*up)
    assert scripts.replicas() == {"tokio_main-0", "tokio_main-1"}
    top = scripts.corelane("top", "--once", "--interval", "100ms")
    assert "tokio_main-1" in top
    assert "is down" in scripts.corelane("down")


CONNECT = """#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/$POSTGRES_PORT && exec ../../server
"""
"""A service that does not wait for its database. A shell starts faster than Python."""

ONCE = """
if os.environ["HOSTNAME"] == "web-1" and not os.path.exists("tried"):
    open("tried", "w").close()
    sys.exit("no luck")
"""

NEVER = f"""
if os.environ["HOSTNAME"] == "web-1":
    {LATE}
"""

DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal = lambda *_: None"

OTHERS = (
    "up",
    "--binary",
    "web",
    "--runtime",
    "other",
    "--health",
    "/up",
    "--corelane",
    REPOSITORY,
)


def test_replicas_start_when_postgres_takes_connections(scripts: Project) -> None:
    write(scripts.folder / "server", "one")
    (scripts.folder / "web").write_text(CONNECT)
    scripts.environment |= {"DATABASE": "postgres", "POSTGRES_PORT": str(free_ports(1))}
    scripts.corelane(*OTHERS)
    for name in ("web-0", "web-1"):
        assert (scripts.run / f"{name}.log").read_text() == ""


@pytest.mark.parametrize(("first", "left"), [(ONCE, {"web-0", "web-1"}), (NEVER, {"web-0"})])
def test_a_replica_that_fails_at_its_start_leaves_the_rest_up(
    scripts: Project, first: str, left: set[str]
) -> None:
    write(scripts.folder / "web", "one", first=first)
    output = scripts.corelane(*OTHERS)
    assert ("Corelane is up, without web-1." in output) == ("web-1" not in left)
    assert ("    no luck" in output) == ("web-1" not in left)
    eventually(lambda: scripts.replicas() == left, "replies of those that are left")


@pytest.mark.nightly
def test_who_does_not_end_is_killed_and_named(scripts: Project) -> None:
    """This test takes as long as the drain timeout."""
    write(scripts.folder / "web", "one", first=DEAF)
    scripts.corelane(*OTHERS)
    output = scripts.corelane("down")
    for name in ("web-0", "web-1"):
        assert f"{name}        was killed: it still ran 20 s after SIGTERM" in output


@pytest.mark.parametrize("name", ["Shop", "my_shop", "fn", "axum", "shop-", "1st"])
def test_a_name_must_be_one_of_a_crate_and_a_dns_label(tmp_path: Path, name: str) -> None:
    made = project(tmp_path)
    status, output = made.command(program("corelane"), "new", name, "--corelane", REPOSITORY)
    assert status == 64
    assert f"'{name}'" in output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_stays_as_it_is(tmp_path: Path) -> None:
    made = project(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine").touch()
    status, output = made.command(program("corelane"), "new", "shop", "--corelane", REPOSITORY)
    assert (status, output.count("shop is not empty")) == (1, 1)
    assert [file.name for file in tmp_path.rglob("*")] == ["shop", "mine"]


def test_corelane_comes_from_a_checkout_or_a_tag(tmp_path: Path) -> None:
    made = project(tmp_path)
    status, output = made.command(program("corelane"), "new", "shop", "--corelane", tmp_path)
    assert status == 1
    assert "is not a checkout of Corelane" in output
    assert list(tmp_path.iterdir()) == []
    made.corelane("new", "shop", "--git", "https://git.example/corelane")
    version = (REPOSITORY / "VERSION").read_text().strip()
    manifest = (tmp_path / "shop" / "Cargo.toml").read_text()
    assert f'git = "https://git.example/corelane", tag = "v{version}"' in manifest


def test_without_a_flag_it_comes_from_the_checkout_around_it(tmp_path: Path) -> None:
    place = REPOSITORY / ".run" / "new"
    place.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(place / "around", ignore_errors=True)
    project(place).corelane("new", "around")
    manifest = tomllib.loads((place / "around" / "Cargo.toml").read_text())
    found = [it for it in manifest["dependencies"].values() if "path" in it]
    assert found
    assert {Path(it["path"]).parent for it in found} == {REPOSITORY / "services"}
    status, output = project(tmp_path).command(program("corelane"), "new", "shop")
    assert status == 1
    assert "pass --git URL or --corelane PATH" in output
    assert list(tmp_path.iterdir()) == []


def test_a_project_must_depend_on_a_checkout(tmp_path: Path) -> None:
    made = project(tmp_path)
    status, output = made.command("cargo", "init", "--vcs", "none", "--name", "plain")
    assert status == 0, output
    status, output = made.command(program("corelane"), "up")
    assert status == 1
    assert "no package depends on corelane-service or corelane" in output
    assert "CORELANE_HOME" in output
    becomes(lambda: processes.find(made.run), [])


@pytest.mark.parametrize("package", ["corelane-cli", "gateway-agent", "node-tuner"])
def test_a_program_builds_without_the_rest_of_the_workspace(package: str) -> None:
    """`cargo install` does not unify features, and kube needs one that selects the API version."""
    argv = [
        "cargo",
        "tree",
        "--locked",
        "--package",
        package,
        "--edges",
        "features,normal",
        "--invert",
        "k8s-openapi",
    ]
    tree = subprocess.run(
        argv, cwd=REPOSITORY / "services", check=True, capture_output=True, text=True
    )
    assert 'k8s-openapi feature "v1_' in tree.stdout
