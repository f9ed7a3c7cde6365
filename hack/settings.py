"""Writes docs/settings.md from the JSON Schema that a service prints.

services/target/debug/corelane-server --schema | python3 hack/settings.py > docs/settings.md
"""

import json
import re
import sys
from collections.abc import Iterator

OWN = ("static", "work", "database")

HEAD = """\
<!-- Written by `make settings` from `corelane-server --schema`. -->

# Settings

*Reference.* Every service on the crate `corelane-service` has these keys, in addition to its own: `--help`, `--schema` and `--check` of
the service list both. A key of a table such as `limits.slots` is `slots` in `[limits]` of the file, `CORELANE_LIMITS_SLOTS` in
the environment and `--limits.slots` on the command line. Flags override the environment, and the environment overrides the
file. A duration has one of the units `ms`, `s`, `m` or `h`, a size one of `B`, `KiB`, `MiB`, `GiB` or `TiB`. The table `auth` needs the Cargo feature `auth`, and `faults` the Cargo feature `faults`.
"""


def page(schema: dict) -> str:
    """General keys, the keys of each table, and the reference service's keys."""
    properties = schema["properties"]
    tables = {name: each for name, each in properties.items() if "properties" in each}
    general = {name: each for name, each in properties.items() if name not in tables}
    parts = [HEAD, _section("General", "", general)]
    for own in (False, True):
        if own:
            parts.append("## Reference service\n\nThese are keys of `corelane-server` only.\n")
        level = "###" if own else "##"
        for name, table in tables.items():
            if (name in OWN) == own:
                parts.append(_section(f"`{name}`", f"{name}.", table["properties"], level))
    return "\n".join(parts)


def _section(title: str, prefix: str, keys: dict, level: str = "##") -> str:
    return "\n".join(
        [
            f"{level} {title}\n",
            "| Key | Default | Description |",
            "|---|---|---|",
            *_rows(prefix, keys),
            "",
        ]
    )


def _rows(prefix: str, keys: dict) -> Iterator[str]:
    for name, key in keys.items():
        if "properties" in key:
            yield from _rows(f"{prefix}{name}.", key["properties"])
            continue
        text, _, _ = key["description"].rpartition(" Environment: ")
        text = re.sub(r" with its unit \([^)]*\)", "", text)
        default = f"`{key['default']}`" if key["default"] != "" else ""
        yield f"| `{prefix}{name}` | {default} | {text.replace('|', '&#124;')} |"


if __name__ == "__main__":
    sys.stdout.write(page(json.load(sys.stdin)))
