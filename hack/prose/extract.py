"""Finds the text that people read in source files: comments, messages, titles.

The result is Markdown with unchanged line numbers.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath

Piece = tuple[int, str]

_STRING = r'"(?:[^"\\]|\\.)*"'
_RUST = re.compile(
    rf'(?P<comment>//[^\n]*)|r(#*)".*?"\2|\bb{_STRING}|\'(?:[^\'\\]|\\.)\'|(?P<string>{_STRING})',
    re.DOTALL,
)
_PYTHON = re.compile(
    rf"(?P<comment>#[^\n]*)|\"\"\"(?P<doc>.*?)\"\"\"|(?P<string>{_STRING})|'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
_SCRIPT = re.compile(
    rf"(?P<comment>//[^\n]*)|/\*(?P<doc>.*?)\*/|(?P<string>{_STRING}|`[^`]*`)|'[^'\n]*'",
    re.DOTALL,
)
_HASH = re.compile(r"(?m)(?<!\S)(?P<comment>#[^\n]*)")
_ANNOTATION = re.compile(
    r"(?m)^( *)(?:- )?(?:summary|description|title|message):(?P<text>[^\n]*(?:\n\1 +[^\n]*)*)"
)
_TEMPLATE = re.compile(
    rf"\{{\{{-? *(?:/\*(?P<doc>.*?)\*/|fail \(?(?:printf )?(?P<string>{_STRING}))", re.DOTALL
)
_TITLE = re.compile(rf'"title": (?P<title>{_STRING})|"description": (?P<string>{_STRING})')
_MAKE = re.compile(r"(?m)^(?P<comment># [^\n]*)|^[a-z0-9-]+:[^\n]*?## (?P<text>[^\n]*)")

_SCHEMA = re.compile(r"(?ms)^ *# @schema(?: [^\n]*|\n.*?^ *# @schema)$")
"""A schema in the comments of chart values, which is YAML."""

_WORDS = re.compile(r"[A-Za-z,]+ [a-z,]+ [a-z]+")
_SENTENCE = re.compile(r"[.:!?](?:\s|$)")
_QUERY = re.compile(r"\bby \(|\w\(\w+\[|rate\(|^\s*\d+ \d+ \d+:\d+ ")
_NAMES = re.compile(r"(?<=[.:])(\s+)(epoll|h2|hyper|k6|nginx|rustls|tokio)\b")
"""Names that start a sentence with a small letter, where Vale would miss the end of the previous
sentence.
"""
_MARKS = re.compile(r"(?m)^[ \t]*(?://[/!]?|#+(?: --)?|\*)[ \t]?")


def markdown(path: str, source: str) -> str | None:
    """Each text on its own line; None for other kinds of files."""
    patterns = _patterns(path)
    if not patterns:
        return None
    source = _SCHEMA.sub(lambda block: "\n" * block[0].count("\n"), source)
    lines = [""] * (source.count("\n") + 2)
    for pattern in patterns:
        for offset, text in _pieces(pattern, source):
            first = source.count("\n", 0, offset)
            for number, line in enumerate(text.split("\n"), first):
                lines[number] = f"{lines[number]} {line.strip()}".strip()
    return _NAMES.sub(lambda name: name[1] + name[2].capitalize(), "\n".join(lines))


def _patterns(path: str) -> list[re.Pattern]:
    name = PurePath(path)
    if name.suffix == ".rs":
        return [_RUST]
    if name.suffix == ".py":
        return [_PYTHON]
    if name.suffix == ".js":
        return [_SCRIPT]
    if name.suffix == ".json":
        return [_TITLE] if path.startswith("dashboards/") else []
    if name.suffix == ".tpl" or "/templates/" in path:
        return [_HASH, _TEMPLATE]
    if name.suffix in (".yaml", ".yml"):
        return [_HASH, _ANNOTATION]
    if name.name == "Makefile":
        return [_MAKE]
    return [_HASH] if name.suffix in (".toml", ".sh", ".ini") else []


def _pieces(pattern: re.Pattern, source: str) -> Iterator[Piece]:
    for match in pattern.finditer(source):
        kind = match.lastgroup
        if kind:
            text = _CLEANED[kind](match[kind])
            if text:
                end = _end(kind, source, *match.span())
                yield match.start(kind), text.rstrip(".") + end if end else text


def _end(kind: str, source: str, start: int, end: int) -> str:
    """Ends a sentence after a string, unless another string continues it, and after a comment
    behind code.
    """
    if kind == "comment":
        return "." if source[source.rfind("\n", 0, start) + 1 : start].strip() else ""
    if kind not in ("string", "text", "title") or re.match(r'\s*[fbr]?"', source[end : end + 80]):
        return ""
    return "."


def _comment(text: str) -> str:
    return "" if text.startswith("#!") else _MARKS.sub("", text)


def _doc(text: str) -> str:
    """Several lines that contain no sentence are data."""
    return "" if text.startswith("\\\n") and not _SENTENCE.search(text) else _MARKS.sub("", text)


def _message(text: str) -> str:
    """Returns a string of several words that is not a query, without quotes and escapes."""
    words = re.sub(r"\\[nrt\"\\]|\\$", " ", text[1:-1], flags=re.MULTILINE)
    return words if _WORDS.search(words) and not _QUERY.search(words) else ""


_CLEANED: dict[str, Callable[[str], str]] = {
    "comment": _comment,
    "doc": _doc,
    "string": _message,
    "text": lambda text: re.sub(r"\{\{.*?\}\}|>-|\|-", "", text),
    "title": lambda text: f"# {text[1:-1]}",
}
