"""The commands of `python3 hack/charts`."""

import argparse
import sys

from charts import compare, readme, schema
from charts.tree import charts
from tools.errors import ToolError


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python3 hack/charts", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("generate", help="write values.schema.json and README.md of every chart")
    commands.add_parser("check", help="show where they differ from what generate would write")
    options = parser.parse_args(arguments)
    try:
        return _COMMANDS[options.command]()
    except ToolError as error:
        print(f"hack/charts: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _generate() -> int:
    compare.write(_generated())
    return 0


def _check() -> int:
    return compare.report(_generated(), "make charts")


def _generated() -> compare.Files:
    files: compare.Files = {}
    for chart in charts():
        if (chart / "values.yaml").exists():
            files[chart / "values.schema.json"] = schema.of_chart(chart)
        files[chart / "README.md"] = readme.of_chart(chart)
    return files


_COMMANDS = {"generate": _generate, "check": _check}
