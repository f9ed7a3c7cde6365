"""Measures what a file says, in the network in which it is started: `python3 loadtests/ladder JOB RESULT`."""

import json
import signal
import sys
from pathlib import Path

repository = Path(__file__).resolve().parents[2]
sys.path[:1] = [str(repository), str(repository / "hack")]

from loadtests.ladder import network, run
from loadtests.ladder.plan import Job
from tools.errors import ToolError


def main(job: Path, result: Path) -> int:
    """0 when everything was measured."""
    # Ended like by Ctrl-C, so that nothing that was started is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    told = json.loads(job.read_text())
    try:
        own = network.prepare(told.pop("outside"))
        files = network.most_files()
        cells = run.measure(Job.of(told))
    except ToolError as error:
        print(f"loadtests ladder: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    result.write_text(json.dumps({"own_network": own, "files": files, "cells": cells}))
    return 0


sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
