"""The fixtures that every test may use."""

import signal

pytest_plugins = [
    "support.apiserver",
    "support.machines",
    "support.platforms",
    "support.postgres",
    "support.releases",
    "support.servers",
    "support.tuning",
    # After those that it uses, for the details that pytest gives of their assertions.
    "support.monitoring",
]


def pytest_sessionstart() -> None:
    """SIGTERM ends a run as Ctrl-C does, so that fixtures end what they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
