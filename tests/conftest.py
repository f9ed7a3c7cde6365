"""The fixtures that every test may use."""

pytest_plugins = ["support.platforms", "support.servers"]
