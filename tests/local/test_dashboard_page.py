"""The page of the dashboard in headless Chromium: its buttons, and that it stays still. test_first_run.py looks at it."""

from collections.abc import Iterator

import pytest

from support import eventually
from support.browser import Page, browser, loads
from support.platforms import Platform

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def page(platform: Platform) -> Iterator[Page]:
    """The page, under its load."""
    with browser() as opened:
        opened.opens(platform.dashboard)
        eventually(lambda: "2 of 2" in opened.text("#health"), "both replicas", pause=0.2)
        yield opened


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
