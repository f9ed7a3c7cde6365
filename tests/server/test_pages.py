"""Admin pages in headless Chromium: slow lanes and live updates."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stack import eventually
from stack.http import ask
from stack.replica import Server
from support.browser import LOOKS, complaints, flaws

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.nightly

ROUTES = ("/hello", "/div/4", "/work?ops=1000", "/none")


@pytest.fixture(scope="module")
def server(starter: Callable[..., Server]) -> Iterator[Server]:
    """Two lanes with some traffic."""
    server = starter("--lanes", "2", "--slow-lanes.mode", "on", "--faults", "on")
    for route in ROUTES * 3:
        ask(server.url, route)
    yield server


@pytest.fixture(scope="module")
def page(browser: "Browser") -> "Page":
    return browser.new_page()


def requests(page: "Page") -> str:
    return page.inner_text(".tile:nth-child(2) dd")


def is_live(page: "Page") -> None:
    eventually(
        lambda: page.inner_text("#state") == "Live" and "/s" in requests(page), "rates", pause=0.2
    )


@pytest.mark.parametrize("look", LOOKS)
def test_slow_lanes_have_no_barrier_and_fit(
    server: Server, page: "Page", look: str, screenshots: Path
) -> None:
    said = complaints(page)
    page.goto(f"{server.admin}/lanes.html")
    is_live(page)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert flaws(page, look, screenshots / f"slow-lanes-{look}.png") == []
    assert said == []


def test_the_page_of_lanes_follows_the_replica_until_it_is_paused(
    server: Server, page: "Page"
) -> None:
    page.goto(f"{server.admin}/lanes.html")
    is_live(page)
    page.evaluate(
        "document.querySelector('details').open = true; document.querySelector('#pause').focus()"
    )
    before = requests(page).split()[0]
    ask(server.url, "/hello")
    eventually(lambda: requests(page).split()[0] != before, "the request", pause=0.2)
    assert page.evaluate(
        "document.querySelector('details').open && document.activeElement.id === 'pause'"
    )
    page.keyboard.press("Enter")
    assert page.inner_text("#pause") == "Resume"
    assert page.inner_text("#state").startswith("Paused at ")
    shown = requests(page)
    ask(server.url, "/hello")
    # Refreshes the page unless paused.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.evaluate("fetch('lanes.html').then(() => fetch('lanes.html')).then(() => 0)")
    assert requests(page) == shown
    page.keyboard.press("Enter")
    eventually(lambda: requests(page).split()[0] != shown.split()[0], "it goes on", pause=0.2)


def test_the_page_says_that_a_replica_is_gone(
    binary: object, page: "Page", start: Callable[..., Server]
) -> None:
    gone = start("--lanes", "1")
    page.goto(f"{gone.admin}/lanes.html")
    eventually(lambda: page.inner_text("#state") == "Live", "it is live", pause=0.2)
    gone.kill()
    eventually(
        lambda: page.inner_text("#state").startswith("No reply since "), "it is gone", pause=0.2
    )


def test_swagger_ui_shows_the_document_and_loads_nothing_from_elsewhere(
    server: Server, page: "Page"
) -> None:
    said = complaints(page)
    page.emulate_media(color_scheme="dark")
    page.goto(f"{server.url}/docs")
    shown = "document.querySelectorAll('.swagger-ui .opblock').length"
    operations = [
        method
        for item in json.loads(ask(server.url, "/openapi.json").body)["paths"].values()
        for method in item
    ]
    eventually(lambda: page.evaluate(shown) == len(operations), "all operations", pause=0.2)
    assert page.evaluate("document.documentElement.classList.contains('dark-mode')")
    page.click(".opblock-summary-control >> nth=0")
    statuses = "[...document.querySelectorAll('.opblock .response .response-col_status')].map((one) => one.innerText)"
    eventually(lambda: page.evaluate(statuses), "its replies", pause=0.2)
    assert str(page.evaluate(statuses)[0]).startswith("200")
    loaded = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    assert all(name.startswith((server.url, "data:")) for name in loaded), loaded
    assert said == []
