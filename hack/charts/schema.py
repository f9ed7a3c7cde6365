"""Creates the schema of a chart's values: JSON Schema draft-07, which Helm reads.

A value has the type of its default, and a map accepts only the keys that values.yaml contains. A
key is required unless it may be empty, that is, unless its default is empty or a list without
minItems. This detects missing keys: Helm drops keys that are null, and values for another version
of the chart may lack a key. A line above a key, before its `# -- description`, adds to the schema.
It is YAML and may contain any draft-07 keyword:

    # @schema {type: [integer, string], minimum: 1}
    # -- Number of replicas
    replicas: 2

If a schema needs several lines, put it between two `# @schema` lines. A map with `properties` in a
block accepts no other keys, unless the block sets `additionalProperties`. The file may begin with a
block between `# @schema.root` lines, which applies to the entire chart. Its `definitions` extend
definitions.yaml. The output contains only definitions that a `$ref` names.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import yaml

from tools import short_json
from tools.errors import ToolError

DEFINITIONS = Path(__file__).with_name("definitions.yaml")

TYPES = {"bool": "boolean", "int": "integer", "float": "number", "str": "string"}
KINDS = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "not", "$ref")
"""Keys that replace the default's type. If one of them is present, the schema omits the type."""

ANNOTATIONS = {"$ref", "title", "description", "default", "examples"}
"""Keys that may accompany $ref. draft-07 ignores all other keys."""

Schema = dict[str, object]


class _Loader(yaml.SafeLoader):
    """Only true and false are booleans (YAML 1.2), so that `off` can name a definition."""

    yaml_implicit_resolvers: ClassVar = {
        first: [entry for entry in entries if not entry[0].endswith(":bool")]
        for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(true|false)$"), list("tf"))


class Comments:
    """Descriptions of keys in values.yaml comments, and faults in these comments."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines = file.read_text().splitlines()
        self.errors: list[str] = []

    def root(self) -> Schema:
        return self._block([line.strip() for line in self.lines], "# @schema.root", 1)

    def of(self, key: yaml.ScalarNode) -> tuple[Schema, str]:
        """Returns the block and the description directly above a key."""
        number = key.start_mark.line
        if self.lines[number][: key.start_mark.column].strip():
            # Inside {braces}, a line can belong to several keys.
            return {}, ""
        comment: list[str] = []
        while number > 0 and self.lines[number - 1].lstrip().startswith("#"):
            number -= 1
            comment.insert(0, self.lines[number].strip())
        # The chart's block belongs to no key, even if no empty line follows it.
        if "# @schema.root" in comment:
            last = len(comment) - comment[::-1].index("# @schema.root")
            comment = comment[last:]
        return self._block(comment, "# @schema", number + 1), _description(comment)

    def _block(self, comment: list[str], mark: str, number: int) -> Schema:
        found = [i for i, line in enumerate(comment) if line == mark or line.startswith(f"{mark} ")]
        if not found:
            return {}
        first, last = found[0], found[-1]
        whole = comment[first] != mark
        if len(found) != (1 if whole else 2):
            return self.refuse(
                number, f"a block is a line, or begins and ends with {mark!r}, each once"
            )
        described = [index for index, line in enumerate(comment) if line.startswith("# -- ")]
        if mark == "# @schema" and described and described[0] < last:
            return self.refuse(number, "the @schema block must precede the description")
        lines = [re.sub("^# ?", "", line) for line in comment[first + 1 : last]]
        text = comment[first].removeprefix(mark) if whole else "\n".join(lines)
        try:
            block = yaml.load(text, Loader=_Loader)
        except yaml.YAMLError as error:
            return self.refuse(number, f"the @schema block is not YAML: {error}")
        if not isinstance(block, dict):
            return self.refuse(number, "the @schema block is not a map")
        return block

    def refuse(self, number: int, words: str) -> Schema:
        self.errors.append(f"{self.file}:{number}: {words}")
        return {}


def _description(comment: list[str]) -> str:
    begins = [index for index, line in enumerate(comment) if line.startswith("# -- ")]
    if not begins:
        return ""
    lines = [comment[begins[-1]].removeprefix("# -- ")]
    lines += [line.removeprefix("#").strip() for line in comment[begins[-1] + 1 :]]
    return " ".join(line for line in lines if not line.startswith("@"))


def of_chart(chart: Path) -> str:
    metadata = yaml.safe_load((chart / "Chart.yaml").read_text())
    comments = Comments(chart / "values.yaml")
    root = comments.root()
    definitions = {
        **yaml.load(DEFINITIONS.read_text(), Loader=_Loader),
        **root.pop("definitions", {}),
    }
    values = yaml.compose("\n".join(comments.lines)) or yaml.MappingNode("", [])
    subcharts = {"global": "Values for this chart and its parts"}
    for entry in metadata.get("dependencies", []):
        name = entry.get("alias", entry["name"])
        subcharts[name] = f"Values of the chart {entry['name']}, which its own schema judges"
    schema = _map(values, comments, root, subcharts)
    for name, description in subcharts.items():
        schema["properties"].setdefault(name, {"type": "object", "description": description})
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"Values of the {metadata['name']} chart",
        **schema,
    }
    used = _used(schema, definitions)
    for name in used - definitions.keys():
        comments.refuse(1, f"$ref {name}: there are {', '.join(sorted(definitions))}")
    parts = {name: _closed(definitions[name]) for name in sorted(used & definitions.keys())}
    if comments.errors:
        raise ToolError("\n".join(comments.errors))
    whole = {**schema, **({"definitions": parts} if parts else {})}
    return short_json.text(whole) + "\n"


def _map(node: yaml.MappingNode, comments: Comments, block: Schema, parts: dict) -> Schema:
    """A map's schema. The schemas of other charts validate the values of keys in `parts`."""
    properties = {}
    required = []
    for key, value in node.value:
        if _needs_value(value, comments.of(key)[0]):
            required.append(key.value)
        if key.value == "global" and parts:
            # A closed map would reject keys that other charts of the release read there.
            properties[key.value] = {
                "description": parts[key.value],
                **_map(value, comments, {"additionalProperties": True}, {}),
            }
        elif key.value in parts:
            _, described = comments.of(key)
            described = described or parts[key.value]
            properties[key.value] = {
                "description": described,
                **_part(value, comments),
            }
        else:
            properties[key.value] = _value(key, value, comments)
    properties.update(block.get("properties", {}))
    required += [key for key in block.get("required", []) if key not in required]
    found = {"type": "object", **block, **({"required": required} if required else {})}
    return _closed({**found, "properties": properties})


def _part(node: yaml.Node, comments: Comments) -> Schema:
    """Returns the schema of another chart's keys for which this chart sets its own defaults."""
    if not isinstance(node, yaml.MappingNode):
        return {"type": "object"}
    required = []
    properties = {}
    for key, value in node.value:
        block, _ = comments.of(key)
        if "additionalProperties" in block or not _needs_value(value, block):
            continue
        required.append(key.value)
        if isinstance(value, yaml.MappingNode):
            properties[key.value] = _part(value, comments)
    inner = {"properties": properties, "additionalProperties": True} if properties else {}
    return {"type": "object", **({"required": required} if required else {}), **inner}


def _needs_value(default: yaml.Node, block: Schema) -> bool:
    """Whether a key must not be null: Helm drops null keys, and templates would then read an empty
    value.
    """
    if isinstance(default, yaml.SequenceNode):
        return bool(block.get("minItems"))
    return bool(default.value) and not default.tag.endswith(":null")


def _value(key: yaml.ScalarNode, value: yaml.Node, comments: Comments) -> Schema:
    block, description = comments.of(key)
    number = key.start_mark.line + 1
    if "$ref" in block and (beside := block.keys() - ANNOTATIONS):
        words = f"draft-07 ignores {', '.join(sorted(beside))} next to $ref: use allOf"
        return comments.refuse(number, words)
    words = {"description": description} if description else {}
    inferred = not any(kind in block for kind in KINDS)
    if isinstance(value, yaml.MappingNode) and (inferred or block.get("type") == "object"):
        if not value.value and not {"properties", "additionalProperties"} & block.keys():
            return comments.refuse(
                number, f"{key.value}: an empty map needs a block that says more"
            )
        return {**words, **_map(value, comments, block, {})}
    if isinstance(value, yaml.SequenceNode) and inferred:
        if "items" not in block:
            return comments.refuse(number, f"{key.value}: a list needs a block with its items")
        return {**words, "type": "array", **_closed(block)}
    if not inferred:
        return {**words, **_closed(block)}
    tag = value.tag.rpartition(":")[2]
    if tag not in TYPES:
        return comments.refuse(
            number, f"{key.value}: a default of {tag} needs a block with its type"
        )
    return {**words, "type": TYPES[tag], **_closed(block)}


def _closed(part: object) -> object:
    """The same schema, except that maps with known keys accept no other keys."""
    if isinstance(part, list):
        return [_closed(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    closed = {key: _closed(value) for key, value in part.items()}
    if isinstance(closed.get("properties"), dict) and "type" in closed:
        closed.setdefault("additionalProperties", False)
    return closed


def _used(schema: Schema, definitions: dict[str, Schema]) -> set[str]:
    """The definitions that a schema names, directly or through other definitions."""
    used: set[str] = set()
    waiting = list(_references(schema))
    while waiting:
        name = waiting.pop().removeprefix("#/definitions/")
        if name not in used:
            used.add(name)
            waiting += _references(definitions.get(name))
    return used


def _references(part: object) -> Iterator[str]:
    if isinstance(part, list):
        for entry in part:
            yield from _references(entry)
    elif isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from _references(value)
