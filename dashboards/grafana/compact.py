"""Writes a dashboard as short JSON: without values that Grafana assumes anyway, small objects on one line."""

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard, stat

WIDTH = 130

DEFAULTED = (
    dashboard.DashboardLink,
    dashboard.Panel,
    dashboard.VariableModel,
    stat.Options,
)
"""Types whose missing members Grafana takes from its schema, as the SDK does."""


class _Encoder(JSONEncoder):
    def default(self, o: object) -> object:
        members = super().default(o)
        if not isinstance(o, DEFAULTED):
            return members
        assumed = {name: _plain(value) for name, value in super().default(type(o)()).items()}
        return {
            name: value
            for name, value in members.items()
            # A type is not a default: it says how to read the rest.
            if name == "type" or _plain(value) != assumed.get(name)
        }


def _plain(value: object) -> str:
    return json.dumps(value, cls=JSONEncoder, sort_keys=True)


def text(built: dashboard.Dashboard) -> str:
    """The file that Grafana reads."""
    return _text(json.loads(json.dumps(built, cls=_Encoder, sort_keys=True)), "") + "\n"


def _text(value: object, indent: str) -> str:
    line = json.dumps(value)
    inner = list(
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    if len(indent + line) <= WIDTH or not any(isinstance(each, dict | list) for each in inner):
        return line
    deeper = indent + "  "
    items = [_text(each, deeper) for each in inner]
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {item}" for key, item in zip(value, items, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(items) + f"\n{indent}{closing}"
