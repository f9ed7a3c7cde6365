"""Debian's Chromium without a window, driven by Playwright.

Fixture: `browser` is shared by the tests of a module.
"""

import json
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stack import PATIENCE, eventually
from tools.resolve import tool

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOOKS = {
    "light": (1440, 900, "light"),
    "dark": (1440, 900, "dark"),
    "phone": (360, 740, "light"),
    "phone-dark": (360, 740, "dark"),
    "4k": (3840, 2160, "light"),
}
"""Width, height and preferred colour scheme."""


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Yields a browser with its own profile."""
    # Only nightly tests install the package, which is larger than all others together.
    sys.path.append(str(tool("playwright").parent.parent))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's sandbox does not work for root.
        started = playwright.chromium.launch(
            executable_path=tool("chromium"), chromium_sandbox=False, args=["--disable-gpu"]
        )
        yield started
        started.close()


def complaints(page: "Page") -> list[str]:
    """Collects errors of scripts and of the console from now on, such as resources that the
    Content-Security-Policy blocks.
    """
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda said: found.append(said.text) if said.type == "error" else None)
    return found


def flaws(page: "Page", look: str, picture: Path, but: Container[str] = ()) -> list[object]:
    """Returns the flaws of the page in one of `LOOKS`, and takes a picture of it; `but` contains axe rules to
    ignore.
    """
    width, height, colours = LOOKS[look]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=colours)
    page.screenshot(path=picture, full_page=True)
    found: list[object] = [each for each in violations(page) if each["rule"] not in but]
    if page.locator("meta[name=viewport]").count() == 0:
        found.append("no width for phones")
    wide = page.evaluate("document.documentElement.scrollWidth")
    return found + ([f"{wide} pixels wide"] if wide > width else [])


def violations(page: "Page") -> list[dict]:
    """Returns axe-core's findings on the page, including its best practices."""
    page.evaluate(tool("axe-core").read_text() + "; 0")
    found = json.loads(page.evaluate("axe.run().then(JSON.stringify)"))
    return [
        {"rule": each["id"], "nodes": [node["html"] for node in each["nodes"]]}
        for each in found["violations"]
    ]


def links(page: "Page") -> set[str]:
    """Returns the targets of the page's links, and the resources that it loads."""
    found = page.evaluate(
        "[...document.querySelectorAll('[href], [src]')].map((each) => each.href || each.src)"
    )
    # Excludes an icon in the page itself, and the names that SVG elements use for their parts.
    return {each for each in found if isinstance(each, str) and not each.startswith("data:")}


def loads(page: "Page") -> None:
    """Starts the dashboard's load unless it is running, and waits for its responses."""
    if page.inner_text("#load") == "Start load":
        page.click("#load")
    eventually(
        lambda: (
            page.evaluate(
                "[...document.querySelectorAll('td.share')].filter((one) => +one.textContent > 0).length"
            )
            > 3
            and "since the load began" in page.inner_text("#failed-note")
        ),
        "routes under load",
        patience=3 * PATIENCE,
        pause=0.2,
    )
