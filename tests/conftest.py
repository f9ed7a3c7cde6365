"""The fixtures that every test may use."""

import signal

pytest_plugins = ["support.platforms", "support.releases", "support.servers"]


def pytest_sessionstart() -> None:
    """SIGTERM ends a run as Ctrl-C does, so that fixtures end what they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
