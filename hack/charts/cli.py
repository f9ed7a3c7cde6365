"""The commands of `python3 hack/charts`."""

import argparse
import subprocess
from pathlib import Path

from charts import compare, local_gateway, renders, schema
from charts.renders import CHARTS
from tools import errors, resolve
from tools.errors import ToolError


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 hack/charts", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("generate", help="write schemas, READMEs and envoy.yaml")
    commands.add_parser("check", help="show where they differ from what generate would write")
    diff = commands.add_parser(
        "diff", help="show what the charts render otherwise than at a commit"
    )
    diff.add_argument("base", nargs="?", default="HEAD", help="the commit; default: HEAD")
    options = parser.parse_args(arguments)
    if options.command == "diff":
        return errors.status_of(lambda: renders.diff(options.base))
    return errors.status_of(_COMMANDS[options.command])


def _generate() -> None:
    compare.write(_references())
    # Helm validates values against the schemas.
    compare.write(_local_gateway())


def _check() -> int:
    return compare.report(_references() | _local_gateway(), "make charts")


def _local_gateway() -> compare.Files:
    return {local_gateway.FILE: local_gateway.template()}


def _references() -> compare.Files:
    files: compare.Files = {}
    for chart in sorted(file.parent for file in CHARTS.glob("*/Chart.yaml")):
        files[chart / "values.schema.json"] = schema.of_chart(chart)
        files[chart / "README.md"] = readme_of(chart)
    return files


_COMMANDS = {"generate": _generate, "check": _check}


TEMPLATE = "_README.gotmpl"
"""The template in the folder above the charts; a chart's own README.gotmpl adds to it."""


def readme_of(chart: Path) -> str:
    argv = [resolve.tool("helm-docs"), "--dry-run", "--log-level", "warning"]
    argv += ["--chart-search-root", chart, "--sort-values-order", "file"]
    for template in _templates(chart):
        argv += ["--template-files", template]
    result = subprocess.run(argv, cwd=chart, capture_output=True, text=True, check=False)
    # helm-docs exits with 0 even if a template fails, but its output then shows the error.
    if result.returncode != 0 or "level=" in result.stderr:
        raise ToolError(f"helm-docs failed for {chart.name}:\n{result.stderr.strip()}")
    lines = [line.rstrip() for line in result.stdout.strip().splitlines()]
    return "\n".join(lines) + "\n"


def _templates(chart: Path) -> list[str]:
    own = ["README.gotmpl"] if (chart / "README.gotmpl").exists() else []
    return [*own, f"../{TEMPLATE}"]
