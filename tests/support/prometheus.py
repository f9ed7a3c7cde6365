"""A Prometheus with a configuration of the test's own."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from dashboards.live.prometheus import Prometheus, Range
from stack import eventually
from stack.http import replies
from stack.ports import free_ports
from tools import resolve


def lately() -> Range:
    """The last minute."""
    return Range(time.time() - 60, time.time())


@contextmanager
def prometheus(folder: Path, job: dict, *flags: str, **more: object) -> Iterator[Prometheus]:
    """Runs one with this job, which scrapes Prometheus itself without targets; `more` are further sections."""
    address = f"127.0.0.1:{free_ports(1)}"
    own = {"static_configs": [{"targets": [address], "labels": {"pod": "one"}}]}
    scrapes = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
    found = {
        "global": scrapes,
        "scrape_configs": [{"job_name": "prometheus", **own, **job}],
        **more,
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(found))
    argv = [resolve.tool("prometheus"), f"--config.file={file}", *flags]
    argv += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}"]
    with subprocess.Popen([*argv, "--log.level=error"]) as process:
        try:
            eventually(lambda: replies(f"http://{address}", "/-/ready"), "Prometheus")
            made = Prometheus(f"http://{address}")
            # A range ends with its last whole step, so it sees the first scrape a little later.
            eventually(lambda: made.range("up == 1", lately()).series, "a scrape")
            yield made
        finally:
            process.kill()
