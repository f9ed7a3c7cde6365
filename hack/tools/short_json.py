"""Writes JSON with small objects on one line, which is easier to read and to compare."""

import json

WIDTH = 400
"""Maximum line width, which is enough for most members of a panel (query, unit with limits, place)
and most values of a schema.
"""


def text(value: object, indent: str = "") -> str:
    line = json.dumps(value, ensure_ascii=False)
    inner = list(
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    if len(indent + line) <= WIDTH or not any(isinstance(each, dict | list) for each in inner):
        return line
    deeper = indent + "  "
    items = [text(each, deeper) for each in inner]
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {item}" for key, item in zip(value, items, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(items) + f"\n{indent}{closing}"
