"""Programs behind a local gateway that `corelane up` does not build: one service, and several."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from local import processes, supervisor
from stack import REPOSITORY, eventually, pids
from stack.http import ask
from stack.ports import free_ports
from stack.programs import example, program
from support.local_projects import Project, bodies, project, read_until, write
from support.tutorials import answered, blocks

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


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Project]:
    """`web` and `cart` with two replicas each."""
    made = project(tmp_path, replicas=4)
    for name in ("web", "cart"):
        write(made.folder / name, name)
    try:
        yield made
    finally:
        made.command(program("corelane"), "down")


LATE = "import time; time.sleep(1.5); sys.exit('no luck')"
"""A service that fails only after supervisord considers it running."""


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


def test_several_services_share_a_gateway_and_the_dashboard(both: Project) -> None:
    up = ("up", "--binary", "web", "--binary", "cart", *OTHERS[3:])
    printed = both.corelane(*up)

    def answers(host: str) -> set[tuple[bytes, str | None]]:
        found = [ask(both.gateway, headers={"host": host}) for _ in range(20)]
        return {(reply.body.split()[0], reply.replica) for reply in found}

    webs = {(b"web", "web-0"), (b"web", "web-1")}
    carts = {(b"cart", "cart-0"), (b"cart", "cart-1")}
    eventually(lambda: answers("any.test") == webs, "replies of both replicas")
    for host, wanted in (("web.localhost", webs), ("cart.localhost:1", carts)):
        eventually(lambda host=host, wanted=wanted: answers(host) == wanted, f"replies for {host}")
    assert f"curl -i http://cart.localhost:{both.environment['GATEWAY_PORT']}/" in printed
    status = both.corelane("status")
    page = json.loads(ask(f"http://127.0.0.1:{both.environment['DASHBOARD_PORT']}", "/state").body)
    assert page["services"] == ["web", "cart"]
    shown = {(each["name"], each["service"]): each["gateway"] for each in page["replicas"]}
    assert shown.keys() == {(f"{name}-{i}", name) for name in ("web", "cart") for i in (0, 1)}
    for name, service in shown:
        assert name in status
        assert shown[name, service]["healthy"]
    before = {name: supervisor.states(both.run)[name]["pid"] for name in ("web-0", "web-1")}
    with both.begin(program("corelane"), *up, "--watch") as watching:
        try:
            write(both.folder / "cart", "new")
            new = {(b"new", "cart-0"), (b"new", "cart-1")}
            eventually(lambda: answers("cart.localhost") == new, "replies of the new program")
        finally:
            watching.send_signal(signal.SIGTERM)
            watching.communicate()
    # Only the changed service was restarted.
    assert {name: supervisor.states(both.run)[name]["pid"] for name in before} == before


def test_a_service_gets_the_addresses_of_the_services_that_it_calls(both: Project) -> None:
    programs = [word for name in ("cart", "orders") for word in ("--binary", program(name))]
    both.corelane("up", *programs, "--corelane", REPOSITORY)
    found = variables(both, "cart-1")
    ports = [int(both.environment["REPLICA_PORT"]) + index for index in (2, 3)]
    assert found["CORELANE_ORDERS_URL"] == "http://" + ",".join(f"127.0.0.1:{it}" for it in ports)
    assert "CORELANE_ORDERS_URL" not in variables(both, "orders-0")

    def answered() -> set[bytes]:
        bodies = [ask(both.gateway, "/orders/7").body for _ in range(20)]
        return {body.split()[-1] for body in bodies}

    eventually(lambda: answered() == {b"orders-0", b"orders-1"}, "orders of both replicas")


def test_two_services_of_one_name_are_refused(both: Project) -> None:
    status, output = both.command(
        program("corelane"), "up", "--binary", "web", "--binary", "web", *OTHERS[3:]
    )
    assert (status, output.count("two services are called web")) == (1, 1)
    assert processes.find(both.run) == []
