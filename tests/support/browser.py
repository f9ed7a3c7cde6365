"""Headless Chromium, driven over its pipe of DevTools messages (chromedevtools.github.io/devtools-protocol)."""

import base64
import json
import os
import subprocess
import tempfile
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from stack import PATIENCE, eventually
from tools.resolve import tool

LOOKS = {
    "light": (1440, 900, False),
    "dark": (1440, 900, True),
    "phone": (360, 740, False),
    "phone-dark": (360, 740, True),
    "4k": (3840, 2160, False),
}
"""Width, height and whether the reader prefers dark colours."""


@dataclass
class Page:
    """A page in a browser of its own."""

    to: BinaryIO
    source: BinaryIO
    session: str = ""
    complaints: list[str] = field(default_factory=list)
    """Errors of scripts and of the console, such as what the Content-Security-Policy blocks."""
    _number: int = 0

    def send(self, method: str, **parameters: object) -> dict:
        """Calls a method and returns its result; what the page reports meanwhile is kept."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        self.to.flush()
        while (reply := self._next()).get("id") != self._number:
            if reply.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(json.dumps(reply["params"]))
        assert "error" not in reply, (method, reply["error"])
        return reply["result"]

    def _next(self) -> dict:
        read = bytearray()
        while (byte := self.source.read(1)) != b"\0":
            assert byte, "Chromium has ended"
            read += byte
        return json.loads(read)

    def evaluate(self, script: str) -> object:
        """The value of an expression; a promise is awaited."""
        reply = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def text(self, selector: str) -> str:
        """The text of an element."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def opens(self, url: str) -> None:
        """Goes to a page."""
        self.send("Page.navigate", url=url)
        eventually(lambda: self.evaluate("document.readyState") == "complete", url, pause=0.1)

    def looks(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, and the preferred colours."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def flaws(self, look: str, picture: Path, but: Container[str] = ()) -> list[object]:
        """What is wrong with the page in one of `LOOKS`, of which it takes a picture; `but` are rules of axe."""
        width, height, dark = LOOKS[look]
        self.looks(width, height, dark=dark)
        self.screenshot(picture)
        wide = self.evaluate("document.documentElement.scrollWidth")
        found: list[object] = [each for each in self.violations() if each["rule"] not in but]
        return found + ([f"{wide} pixels wide"] if wide > width else [])

    def links(self) -> set[str]:
        """Where the page leads, and what it loads."""
        found = self.evaluate(
            "[...document.querySelectorAll('[href], [src]')].map((each) => each.href || each.src)"
        )
        # An icon in the page itself, and the names that SVG elements have for parts of it.
        return {each for each in found if isinstance(each, str) and not each.startswith("data:")}

    def presses(self, key: str) -> None:
        """Presses and releases a key: Tab, Enter or Space."""
        code = {"Tab": 9, "Enter": 13, "Space": 32}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )

    def violations(self) -> list[dict]:
        """What axe-core finds on the page, its best practices included."""
        self.evaluate(tool("axe-core").read_text() + "; 0")
        found = json.loads(str(self.evaluate("axe.run().then(JSON.stringify)")))
        return [
            {"rule": each["id"], "nodes": [node["html"] for node in each["nodes"]]}
            for each in found["violations"]
        ]

    def screenshot(self, file: Path) -> None:
        """Writes the whole page as PNG."""
        file.parent.mkdir(parents=True, exist_ok=True)
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser() -> Iterator[Page]:
    """A browser with an empty page and a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        # It reads from descriptor 3 and writes to 4.
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        argv = ["bash", "-c", script, "bash", str(tool("chromium"))]
        argv += ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        # Pages of this machine only; its sandbox does not work for root.
        argv += ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
        argv += ["--disable-background-networking", "--no-first-run", "about:blank"]
        process = subprocess.Popen(
            argv,
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        with os.fdopen(ours_out, "wb") as to, os.fdopen(ours_in, "rb") as source:
            page = Page(to, source)
            try:
                target = page.send("Target.createTarget", url="about:blank")["targetId"]
                attached = page.send("Target.attachToTarget", targetId=target, flatten=True)
                page.session = attached["sessionId"]
                for domain in ("Page", "Runtime", "Log"):
                    page.send(f"{domain}.enable")
                yield page
            finally:
                page.session = ""
                with suppress(AssertionError, OSError):
                    page.send("Browser.close")
                process.wait(timeout=PATIENCE)


def loads(page: Page) -> None:
    """Starts the load of the dashboard unless it runs, and waits for its replies."""
    if page.text("#load") == "Start load":
        page.evaluate("document.querySelector('#load').click()")
    eventually(
        lambda: (
            page.evaluate(
                "[...document.querySelectorAll('td.share')].filter((one) => +one.textContent > 0).length"
            )
            > 3
            and "since the load began" in page.text("#failed-note")
        ),
        "routes under load",
        patience=3 * PATIENCE,
        pause=0.2,
    )
