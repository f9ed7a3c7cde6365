"""The page of the dashboard in headless Chromium: its buttons, its barriers, its sizes. It leaves pictures."""

from collections.abc import Iterator

import pytest

from support import PATIENCE, REPOSITORY, eventually
from support.browser import Page, browser
from support.platforms import Platform

pytestmark = pytest.mark.nightly

PICTURES = REPOSITORY / ".run" / "screenshots"

LOOKS = {
    "light": (1440, 900, False),
    "dark": (1440, 900, True),
    "phone": (360, 740, False),
    "phone-dark": (360, 740, True),
    "4k": (3840, 2160, False),
}


@pytest.fixture(scope="module")
def page(platform: Platform) -> Iterator[Page]:
    """The page, under its load."""
    with browser() as opened:
        opened.opens(platform.dashboard)
        eventually(lambda: "2 of 2" in opened.text("#health"), "both replicas", pause=0.2)
        yield opened


def loads(page: Page) -> None:
    """Starts the load unless it runs, and waits for its replies."""
    if page.text("#load") == "Start load":
        page.evaluate("document.querySelector('#load').click()")
    eventually(
        lambda: (
            page.evaluate("document.querySelectorAll('td.share').length") > 4
            and "since the load began" in page.text("#failed-note")
        ),
        "routes under load",
        patience=3 * PATIENCE,
        pause=0.2,
    )


def slows(page: Page) -> None:
    """Delays a replica unless it is delayed, so that the page has a warning and a pressed button."""
    button = "document.querySelector('[aria-label=\"Delay by 100 ms: server-0\"]')"
    if page.evaluate(f"{button}.getAttribute('aria-pressed')") == "false":
        page.evaluate(f"{button}.click()")
    eventually(lambda: "slower" in page.text("#replicas"), "the delay", pause=0.2)


def test_the_load_starts_with_the_keyboard_alone(page: Page) -> None:
    for _ in range(20):
        page.presses("Tab")
        if page.evaluate("document.activeElement.id") == "load":
            break
    page.presses("Enter")
    eventually(lambda: page.text("#load") == "Stop load", "the load", pause=0.2)
    assert "Started the load" in page.text("#events")


def test_a_killed_replica_fails_no_request(page: Page, platform: Platform) -> None:
    loads(page)
    before = platform.pid("server-1")
    page.evaluate("document.querySelector('[aria-label=\"Kill server-1\"]').click()")
    eventually(lambda: platform.pid("server-1") not in (0, before), "a new process")
    eventually(lambda: "Killed server-1" in page.text("#events"), "the event", pause=0.2)
    eventually(lambda: "server-1 serves again" in page.text("#events"), "its return", pause=0.2)
    assert page.text("#failed") == "0", page.text("#events")


@pytest.mark.parametrize("look", LOOKS)
def test_every_look_is_without_barriers(page: Page, look: str) -> None:
    width, height, dark = LOOKS[look]
    page.looks(width, height, dark=dark)
    loads(page)
    slows(page)
    page.screenshot(PICTURES / f"dashboard-{look}.png")
    assert page.violations() == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_refreshes_move_nothing(page: Page) -> None:
    page.looks(1440, 900)
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


def test_nothing_was_blocked_and_no_script_failed(page: Page) -> None:
    page.evaluate("0")
    assert page.complaints == []
