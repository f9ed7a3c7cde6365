"""The commands of `python3 hack/charts`."""

import argparse

from charts import compare, golden, local_gateway, readme, schema
from charts.golden import CHARTS
from tools import ending


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python3 hack/charts", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("generate", help="write schemas, READMEs, golden renders and envoy.yaml")
    commands.add_parser("check", help="show where they differ from what generate would write")
    options = parser.parse_args(arguments)
    return ending.status_of("charts", lambda: _COMMANDS[options.command]())


def _generate() -> None:
    compare.write(_references())
    # Helm validates values with the schemas.
    compare.write(_local_gateway() | golden.files())
    for file in golden.strays():
        file.unlink()


def _check() -> int:
    """All but the golden renders: tests compare those."""
    return compare.report(_references() | _local_gateway(), "make charts")


def _local_gateway() -> compare.Files:
    return {local_gateway.FILE: local_gateway.template()}


def _references() -> compare.Files:
    files: compare.Files = {}
    for chart in sorted(file.parent for file in CHARTS.glob("*/Chart.yaml")):
        files[chart / "values.schema.json"] = schema.of_chart(chart)
        files[chart / "README.md"] = readme.of_chart(chart)
    return files


_COMMANDS = {"generate": _generate, "check": _check}
