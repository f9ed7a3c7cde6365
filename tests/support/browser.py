"""Headless Chromium driven by Playwright.

Fixture: `browser`, shared within a module.
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


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    # Playwright is installed only for nightly tests, because the package is huge.
    sys.path.append(str(tool("playwright").parent.parent))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # The sandbox does not work for root.
        started = playwright.chromium.launch(
            executable_path=tool("chromium"), chromium_sandbox=False, args=["--disable-gpu"]
        )
        yield started
        started.close()


def complaints(page: "Page") -> list[str]:
    """Collects script and console errors, including Content-Security-Policy violations."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda said: found.append(said.text) if said.type == "error" else None)
    return found


def flaws(page: "Page", look: str, picture: Path, but: Container[str] = ()) -> list[object]:
    """Accessibility problems in one of `LOOKS`, with a screenshot; `but` lists axe rules to ignore."""
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
    """axe-core findings, including best practices."""
    page.evaluate(tool("axe-core").read_text() + "; 0")
    found = json.loads(page.evaluate("axe.run().then(JSON.stringify)"))
    return [
        {"rule": each["id"], "nodes": [node["html"] for node in each["nodes"]]}
        for each in found["violations"]
    ]


def links(page: "Page") -> set[str]:
    """Link targets and loaded resources."""
    found = page.evaluate(
        "[...document.querySelectorAll('[href], [src]')].map((each) => each.href || each.src)"
    )
    # Excludes inline icons and references within SVGs.
    return {each for each in found if isinstance(each, str) and not each.startswith("data:")}


def loads(page: "Page") -> None:
    """Starts the dashboard's load if necessary and waits for responses."""
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
