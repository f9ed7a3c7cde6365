"""Tables."""

from dashboards.live import frames, units
from dashboards.live.draw import theme
from dashboards.live.draw.page import Box, rectangle
from dashboards.live.frames import Filled, Row

LINE = 22
"""Pixels of a row."""


def draw(box: Box, filled: Filled) -> None:
    """The rows that there is room for, sorted as the panel says."""
    axes = box.plain()
    columns = frames.columns(filled.panel)
    found = [row for row in frames.rows(filled) if any(field in row for field, _ in columns)]
    if not found:
        words = filled.panel.defaults.get("noValue", "no data")
        middle = box.width / 2, box.height / 2
        axes.text(*middle, words, color=theme.FAINT, size=12, ha="center", va="center")
        return
    found = _sorted(filled, found, columns)
    room = int(box.height // LINE) - 1
    cells = [[_cell(filled, row, *column) for column in columns] for row in found[:room]]
    lefts, widths = _widths(cells, columns, box.width)
    for (_, title), left, wide in zip(columns, lefts, widths, strict=True):
        text = theme.cut(title, wide - 8, theme.SMALL)
        axes.text(left + 4, LINE / 2, text, color="#6ea6ff", size=theme.SMALL, va="center")
    for index, line in enumerate(cells):
        y = LINE * (index + 1)
        rectangle(axes, 0, y, box.width, 1, theme.GRID)
        for (text, ink), left, wide in zip(line, lefts, widths, strict=True):
            if ink:
                rectangle(axes, left, y + 1, wide - 2, LINE - 1, ink)
            shown = theme.cut(text, wide - 8, theme.SMALL)
            axes.text(
                left + 4, y + LINE / 2, shown, color=theme.TEXT, size=theme.SMALL, va="center"
            )
    left_out = len(found) - len(cells)
    if left_out > 0:
        words = f"{left_out} more row{'s' * (left_out > 1)}"
        # Beside the title.
        edge = box.width - 2, -13
        axes.text(*edge, words, color=theme.FAINT, size=theme.SMALL, va="center", ha="right")


def _sorted(filled: Filled, rows: list[Row], columns: list[tuple[str, str]]) -> list[Row]:
    fields = {title: field for field, title in columns}
    for order in filled.panel.options.get("sortBy", []):
        field = fields.get(order["displayName"])

        def key(row: Row, field: str | None = field) -> tuple[bool, str | float]:
            value = row.get(field, "")
            return isinstance(value, str), value

        rows = sorted(rows, key=key, reverse=order.get("desc", False))
    return rows


def _cell(filled: Filled, row: Row, field: str, title: str) -> tuple[str, str | None]:
    """The text of a cell, and its background."""
    value = row.get(field, "")
    own = frames.settings(filled.panel, title)
    mapping = frames.mapped(value, own.get("mappings", []))
    coloured = own.get("custom.cellOptions", {}).get("type") == "color-background"
    if mapping:
        text, name = mapping
    elif isinstance(value, str):
        text, name = value, None
    else:
        text = units.show(value, own.get("unit", "none"), own.get("decimals"))
        name = frames.colour(value, own.get("thresholds"))
    return text, theme.colour(name) if coloured and name else None


def _widths(cells: list, columns: list, room: float) -> tuple[list[float], list[float]]:
    """Each column as wide as what is in it needs, in proportion."""
    wanted = [
        max(
            theme.width(title, theme.SMALL),
            *(theme.width(line[at][0], theme.SMALL) for line in cells),
        )
        + 14
        for at, (_, title) in enumerate(columns)
    ]
    widths = [each * room / sum(wanted) for each in wanted]
    return [sum(widths[:at]) for at in range(len(widths))], widths
