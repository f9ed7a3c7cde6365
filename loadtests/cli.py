"""The command of `python3 loadtests`: runs one scenario."""

import argparse
import sys
from pathlib import Path

from loadtests import k6, summary, target
from tools.errors import ToolError


def main(arguments: list[str]) -> int:
    """Runs a scenario; 0 when every threshold holds, else k6's exit status or 1."""
    scenarios = k6.scenarios()
    parser = argparse.ArgumentParser(
        prog="python3 loadtests",
        description="Runs a k6 scenario through the gateway and keeps its summary.",
        epilog="Environment: GATEWAY_URL (else the instance that make up started, INSTANCE), "
        "REPLICAS (how many must answer behind GATEWAY_URL)",
    )
    parser.add_argument(
        "scenario", choices=scenarios, metavar="SCENARIO", help=", ".join(scenarios)
    )
    parser.add_argument("--rate", type=int, metavar="N", help="requests started each second")
    parser.add_argument("--duration", metavar="TIME", help="as in 20s or 2m")
    parser.add_argument(
        "--out",
        type=Path,
        default=summary.OUT,
        metavar="FOLDER",
        help="where the summary is kept; default: loadtests/out",
    )
    options = parser.parse_args(arguments)
    try:
        where = target.find()
        run = k6.run(options.scenario, where, rate=options.rate, duration=options.duration)
        kept = summary.keep(run, options.out)
        print(summary.describe(run))
        print(f"summary     {kept}")
        return run.exit_code
    except ToolError as error:
        print(f"loadtests: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
