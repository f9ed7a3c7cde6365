"""The README and docs/first-run.md as a new user follows them: commands, linked pages and dashboard
buttons.

`--screenshots FOLDER` keeps screenshots.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urlsplit

import pytest

from stack import PATIENCE, REPOSITORY, eventually
from stack.http import ask
from stack.ports import free_ports
from support.browser import LOOKS, complaints, flaws, links, loads
from support.platforms import Platform
from support.tutorials import Reader, blocks, two_replicas

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.nightly

PAGES = ("dashboard", "admin", "lanes", "docs", "report")

THEIRS = {"docs": ("heading-order", "nested-interactive")}


@dataclass(frozen=True)
class Seen:
    """Terminal output, and the pages that the reader saw."""

    readme: str
    requests: str
    inside: str
    pages: dict[str, str]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """The tutorial's platform, which runs until all pages have been visited."""
    home = tmp_path_factory.mktemp("newcomer")
    instance = f"test-{os.getpid()}-first-run"
    environment = {
        **os.environ,
        **two_replicas(),
        "PWD": str(REPOSITORY),
        "INSTANCE": instance,
        "PROFILE": "dev",
        "K6_WEB_DASHBOARD": "true",
        "K6_WEB_DASHBOARD_PORT": str(free_ports(1)),
    }
    steps = [*blocks("README.md", "## Try it")[:1], *blocks("docs/first-run.md")]
    reader = Reader(home, steps, environment, {".run/default": f".run/{instance}"})
    try:
        readme = reader.types()
        assert "already up" in reader.types()
        requests, inside = reader.types(), reader.types()
        yield Seen(readme, requests, inside, pages(environment, inside))
        assert "is down" in reader.types()
        assert reader.blocks == []
    finally:
        remove = [sys.executable, "hack/local", "remove"]
        subprocess.run(remove, cwd=REPOSITORY, env=environment, check=True, capture_output=True)


def pages(environment: dict[str, str], inside: str) -> dict[str, str]:
    host = "http://127.0.0.1"
    admin = f"{host}:{environment['REPLICA_ADMIN_PORT']}"
    (report,) = re.findall(r"^report +(/.*)$", inside, re.MULTILINE)
    return {
        "dashboard": f"{host}:{environment['DASHBOARD_PORT']}/",
        "admin": f"{admin}/",
        "lanes": f"{admin}/lanes.html",
        "docs": f"{host}:{environment['GATEWAY_PORT']}/docs",
        "report": Path(report).as_uri(),
    }


def test_the_commands_do_what_the_pages_say(seen: Seen) -> None:
    assert "Corelane is up." in seen.readme
    assert "corelane-replica: server-" in seen.readme
    assert "201 Created" in seen.requests
    assert '"name":"first"' in seen.requests
    assert "running" in seen.inside
    (own,) = re.findall(r"^k6's own +(/.*)$", seen.inside, re.MULTILINE)
    assert "<html" in Path(own).read_text()


@pytest.fixture(scope="module", params=PAGES)
def opened(
    request: pytest.FixtureRequest, seen: Seen, browser: "Browser"
) -> Iterator[tuple[str, "Page"]]:
    """Opens a page with content; script errors fail the test."""
    name = request.param
    page = browser.new_page()
    said = complaints(page)
    page.goto(seen.pages[name])
    match name:
        case "dashboard":
            eventually(lambda: "2 of 2" in page.inner_text("#health"), "both replicas", pause=0.2)
        case "lanes":
            eventually(lambda: page.inner_text("#state") == "Live", "rates", pause=0.2)
        case "docs":
            page.wait_for_selector(".swagger-ui .opblock", timeout=1000 * PATIENCE)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    yield name, page
    page.close()
    assert said == []


def works(page: "Page") -> None:
    """Adds load and a delayed replica, so that the page shows a warning and an active button."""
    loads(page)
    button = page.get_by_label("Delay by 100 ms: server-0")
    if button.get_attribute("aria-pressed") == "false":
        button.click()
    eventually(lambda: "slower" in page.inner_text("#replicas"), "the delay", pause=0.2)


@pytest.mark.parametrize("look", LOOKS)
def test_each_page_has_no_barrier_and_fits(
    opened: tuple[str, "Page"], look: str, screenshots: Path
) -> None:
    name, page = opened
    if name == "dashboard":
        works(page)
    assert flaws(page, look, screenshots / f"{name}-{look}.png", THEIRS.get(name, ())) == []


def test_each_link_leads_somewhere(opened: tuple[str, "Page"]) -> None:
    _, page = opened
    broken = [link for link in sorted(links(page)) if not leads(page, link)]
    assert broken == []


def leads(page: "Page", link: str) -> bool:
    """Checks the target; external links only need https."""
    address, place = urldefrag(link)
    here = str(page.evaluate("location.href"))
    if address == urldefrag(here)[0]:
        # Swagger UI uses slashes in its operation ids.
        return (
            not place
            or place.startswith("/")
            or bool(page.evaluate(f"!!document.getElementById({json.dumps(place)})"))
        )
    if urlsplit(link).hostname in ("127.0.0.1", "localhost"):
        return ask(link, urlsplit(link).path or "/").status == 200
    return link.startswith("https://")


@pytest.fixture(scope="module")
def page(platform: Platform, browser: "Browser") -> Iterator["Page"]:
    """The page under load, without blocked resources or script errors."""
    opened = browser.new_page()
    said = complaints(opened)
    opened.goto(platform.dashboard)
    eventually(lambda: "2 of 2" in opened.inner_text("#health"), "both replicas", pause=0.2)
    yield opened
    opened.close()
    assert said == []


def test_the_load_starts_with_the_keyboard_alone(page: "Page") -> None:
    if page.inner_text("#load") == "Stop load":
        page.click("#load")
        eventually(lambda: page.inner_text("#load") == "Start load", "no load", pause=0.2)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "load":
            break
    page.keyboard.press("Enter")
    eventually(lambda: page.inner_text("#load") == "Stop load", "the load", pause=0.2)
    eventually(lambda: "Started the load" in page.inner_text("#events"), "the event", pause=0.2)


def test_a_killed_replica_fails_no_request(page: "Page", platform: Platform) -> None:
    loads(page)
    before = platform.pid("server-1")
    page.get_by_label("Kill server-1").click()
    eventually(lambda: platform.pid("server-1") not in (0, before), "a new process")
    eventually(lambda: "Killed server-1" in page.inner_text("#events"), "the event", pause=0.2)
    eventually(
        lambda: "server-1 is serving again" in page.inner_text("#events"), "its return", pause=0.2
    )
    assert page.inner_text("#failed") == "0", page.inner_text("#events")


def test_a_chart_shows_the_value_under_the_pointer(page: "Page") -> None:
    loads(page)
    page.hover("#p99-chart")
    eventually(lambda: "s ago" in page.inner_text("#p99-top"), "the value", pause=0.2)
    page.mouse.move(0, 0)
    eventually(lambda: "0–" in page.inner_text("#p99-top"), "the scale", pause=0.2)


def test_tile_and_table_show_what_the_load_measured(page: "Page") -> None:
    loads(page)
    both = """["#p99", "#routes tr:first-child td:last-child"].map((each) => document.querySelector(each).textContent)"""
    tile, row = page.evaluate(both)
    assert tile == row


def test_refreshes_move_nothing(page: "Page") -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    loads(page)
    moved = page.evaluate(
        """new Promise((done) => {
          const parts = () => [...document.querySelectorAll("section, h2, h3, dd, td, th, button, .node, .number, svg")]
            .map((each) => [each, JSON.stringify(each.getBoundingClientRect())]);
          const before = new Map(parts());
          let turns = 0;
          new MutationObserver(() => {
            if (++turns < 5) return;
            done(parts().filter(([each, place]) => before.get(each) !== place).map(([each]) => each.outerHTML));
          }).observe(document.querySelector("#failed-note"), { childList: true, characterData: true, subtree: true });
        })"""
    )
    assert moved == []
