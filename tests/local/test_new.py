"""A new service: `corelane new`, its tests, `corelane up`, reload on change, `corelane down`."""

import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import processes, topology
from stack import REPOSITORY, becomes, eventually
from stack.http import ask
from stack.load import Load
from stack.programs import program
from support.local_projects import TARGET, Project, bodies, project, read_until
from tools.resolve import tool


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


def test_a_new_service_passes_its_own_tests(shop: Project) -> None:
    passes_its_own_tests(shop)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("store", ("--template", "rest")),
        ("buyer", ("--calls", "my-orders")),
        ("room", ("--template", "websocket")),
        ("my-calls", ("--template", "grpc")),
    ],
)
def test_a_new_service_of_each_kind_passes_its_own_tests(name: str, flags: tuple[str, ...]) -> None:
    made = new(name, *flags)
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


@pytest.mark.parametrize("name", ["Shop", "my_shop", "fn", "axum", "shop-", "1st"])
def test_a_name_must_be_one_of_a_crate_and_a_dns_label(tmp_path: Path, name: str) -> None:
    made = project(tmp_path)
    status, output = made.command(program("corelane"), "new", name, "--corelane", REPOSITORY)
    assert status == 64
    assert f"'{name}'" in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--calls", "shop"), "needs no client for itself"),
        (("--calls", "url"), "the template uses this name otherwise"),
        (("--calls", "orders", "--template", "grpc"), "--calls needs --template rest"),
    ],
)
def test_a_service_that_cannot_be_called_is_refused(
    tmp_path: Path, flags: tuple[str, ...], reason: str
) -> None:
    made = project(tmp_path)
    argv = ("new", "shop", "--corelane", REPOSITORY, *flags)
    status, output = made.command(program("corelane"), *argv)
    assert (status, output.count(reason)) == (1, 1)
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
