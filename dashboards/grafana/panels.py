"""The kinds of panels, with what all of a kind have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models import common as option
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heat

from grafana.queries import DATASOURCE

HARMLESS = "nothing here is bad by itself"
"""What a panel whose values have no bad side says of it; it needs no limits."""

RELATIVE = "the limit is a line of its own"
"""What a panel says of whose lines one is the limit of the others."""


@dataclass(frozen=True)
class Says:
    """What stands behind the (i) of a panel, in the order in which it is read at night."""

    what: str
    good: str
    bad: str
    then: str

    def __str__(self) -> str:
        return f"{self.what}\n\n**Good:** {self.good}.\n\n**Bad:** {self.bad}.\n\n**Then:** {self.then}."


@dataclass(frozen=True)
class Limits:
    """From where on a value is no longer green. `falling`: it is bad when it is below them."""

    orange: float
    red: float
    falling: bool = False

    def build(self) -> dashboard.ThresholdsConfig:
        """As Grafana has them: steps upwards, the first without a value."""
        steps = [(None, "green"), (self.orange, "orange"), (self.red, "red")]
        if self.falling:
            steps = [(None, "red"), (self.red, "orange"), (self.orange, "green")]
        return _steps(*steps)


class Above:
    """One limit: above it a value is red."""

    def __init__(self, red: float) -> None:
        self.red = red

    def build(self) -> dashboard.ThresholdsConfig:
        """As Grafana has them."""
        return _steps((None, "green"), (self.red, "red"))


class Never(Above):
    """Any value above 0 is bad; what is counted in whole steps or by the second."""

    def __init__(self) -> None:
        super().__init__(1e-9)


def _steps(*steps: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    thresholds = [model.Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds)


def number(
    title: str,
    says: Says,
    unit: str,
    *queries: Dataquery,
    limits: Limits | Above | None = None,
    empty: str = "no data",
    decimals: int | None = None,
    link: model.DashboardLink | None = None,
) -> stat.Panel:
    """One number, coloured by its limits; `empty` is what it says where there is none."""
    panel = _common(stat.Panel(), title, says, unit, queries, limits, decimals)
    panel = (
        panel.no_value(empty)
        .graph_mode(option.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .text_mode(option.BigValueTextMode.VALUE)
    )
    if link is not None:
        panel.data_links([_Built(link)])
    if limits is None:
        return panel.color_mode(option.BigValueColorMode.NONE)
    return panel.color_mode(option.BigValueColorMode.BACKGROUND)


def lines(
    title: str,
    says: Says,
    unit: str,
    *queries: Dataquery,
    limits: Limits | Above | None = None,
    stacked: bool = False,
    top: float | None = None,
    logarithmic: bool = False,
    red: str = "",
    ranked: bool = False,
) -> timeseries.Panel:
    """Series over time, with their limits as dashed lines.

    `ranked` is for series of which there can be many: the legend begins with the highest.
    `top` is the highest value there can be; series whose names match `red` are bad at any value.
    """
    panel = _common(timeseries.Panel(), title, says, unit, queries, limits, None)
    panel = (
        panel.color_scheme(
            dashboard.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC_BY_NAME)
        )
        .line_width(1)
        .fill_opacity(25 if stacked else 5)
        # A value without neighbours has no line, and would not be seen at all.
        .show_points(option.VisibilityMode.AUTO)
        .axis_soft_min(0)
        .tooltip(
            common.VizTooltipOptions()
            .mode(option.TooltipDisplayMode.MULTI)
            .sort(option.SortOrder.DESCENDING)
        )
        .legend(_ranking() if ranked else _names())
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(option.StackingMode.NORMAL).group("A"))
    if red:
        color = {"mode": model.FieldColorModeId.FIXED, "fixedColor": "red"}
        panel.override_by_regexp(f"/^({red})$/", [model.DynamicConfigValue("color", color)])
    if top is not None:
        panel.axis_soft_max(top)
    if logarithmic:
        scale = common.ScaleDistributionConfig().type(option.ScaleDistribution.LOG).log(10)
        panel.scale_distribution(scale)
    if limits is not None:
        style = common.GraphThresholdsStyleConfig().mode(option.GraphThresholdsStyleMode.DASHED)
        panel.thresholds_style(style)
    return panel


def bars(
    title: str,
    says: Says,
    unit: str,
    *queries: Dataquery,
    limits: Limits | Above | None = None,
    empty: str = "none",
    link: model.DashboardLink | None = None,
    top: float | None = None,
) -> bargauge.Panel:
    """A bar for each series now; a click leads to `link`."""
    panel = _common(bargauge.Panel(), title, says, unit, queries, limits, None)
    panel = (
        panel.no_value(empty)
        .min(0)
        .orientation(option.VizOrientation.HORIZONTAL)
        .display_mode(option.BarGaugeDisplayMode.BASIC)
        .name_placement(option.BarGaugeNamePlacement.LEFT)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )
    if top is not None:
        panel.max(top)
    return panel.data_links([_Built(link)]) if link else panel


def heat_map(title: str, says: Says, unit: str, *queries: Dataquery) -> heatmap.Panel:
    """How many requests fell into each bucket over time; the darker, the more."""
    colors = (
        heatmap.HeatmapColorOptions()
        .mode(heat.HeatmapColorMode.SCHEME)
        .scheme("Oranges")
        .scale(heat.HeatmapColorScale.EXPONENTIAL)
        .exponent(0.5)
        .steps(64)
    )
    panel = _common(heatmap.Panel(), title, says, "reqps", queries, None, None)
    return (
        panel.calculate(False)
        .color(colors)
        .cell_gap(1)
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .rows_frame(heatmap.RowsHeatmapOptions().layout(option.HeatmapCellLayout.AUTO))
        .cell_values(heatmap.CellValues().unit("reqps"))
        .y_axis(heatmap.YAxisConfig().unit(unit).axis_placement(option.AxisPlacement.LEFT))
    )


def states(
    title: str,
    says: Says,
    values: Mapping[str, tuple[str, str]],
    *queries: Dataquery,
    empty: str = "no data",
) -> statetimeline.Panel:
    """What each series was at each time; `values` gives each value its text and colour."""
    panel = _common(statetimeline.Panel(), title, says, "none", queries, None, None)
    return (
        panel.no_value(empty)
        .mappings([texts(values)])
        .merge_values(True)
        .show_value(option.VisibilityMode.NEVER)
        .row_height(0.8)
        .fill_opacity(80)
        .legend(_names())
        # More servers than that are on further pages.
        .per_page(12)
    )


@dataclass(frozen=True)
class Column:
    """A column of a table: the label or result that it shows, and how."""

    field: str
    title: str
    unit: str = ""
    limits: Limits | Above | None = None
    link: model.DashboardLink | None = None
    values: Mapping[str, tuple[str, str]] | None = None

    def properties(self) -> list[model.DynamicConfigValue]:
        """Overrides of Grafana's field, under its new name."""
        found: dict[str, object] = {}
        if self.unit:
            found["unit"] = self.unit
        if self.limits is not None:
            found["thresholds"] = self.limits.build().build()
        if self.values is not None:
            found["mappings"] = [texts(self.values)]
        if self.limits is not None or self.values is not None:
            found["custom.cellOptions"] = {"type": "color-background", "mode": "basic"}
        if self.link is not None:
            found["links"] = [self.link]
        return [model.DynamicConfigValue(id_val=key, value=value) for key, value in found.items()]


def cells(
    title: str,
    says: Says,
    columns: Sequence[Column],
    *queries: Dataquery,
    sort: str = "",
    falling: bool = True,
    empty: str = "none",
) -> table.Panel:
    """A table of labels and results; rows of several queries are one where their labels agree."""
    panel = _common(table.Panel(), title, says, "none", queries, None, None)
    if len(queries) > 1:
        panel.with_transformation(model.DataTransformerConfig("merge", options={}))
    fields = {column.field: column.title for column in columns}
    panel.with_transformation(
        model.DataTransformerConfig(
            "filterFieldsByName", options={"include": {"names": list(fields)}}
        )
    )
    panel.with_transformation(
        model.DataTransformerConfig(
            "organize",
            options={
                "indexByName": {field: index for index, field in enumerate(fields)},
                "renameByName": fields,
                "excludeByName": {},
            },
        )
    )
    for column in columns:
        if properties := column.properties():
            panel.override_by_name(column.title, properties)
    if sort:
        panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(falling)])
    return panel.no_value(empty).cell_height(option.TableCellHeight.SM)


def texts(values: Mapping[str, tuple[str, str]]) -> model.ValueMap:
    """What Grafana shows in place of each value, and in which colour."""
    return model.ValueMap(
        {
            value: model.ValueMappingResult(text=text, color=color, index=index)
            for index, (value, (text, color)) in enumerate(values.items())
        }
    )


class _Built:
    """Something that is built already, where a builder is asked for."""

    def __init__(self, built: model.DashboardLink) -> None:
        self._built = built

    def build(self) -> model.DashboardLink:
        return self._built


def _names() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(option.LegendDisplayMode.LIST)
        .placement(option.LegendPlacement.BOTTOM)
        .calcs([])
    )


def _ranking() -> common.VizLegendOptions:
    table = _names().display_mode(option.LegendDisplayMode.TABLE).calcs(["max"])
    return table.sort_by("Max").sort_desc(True)


def _common(panel, title, says, unit, queries, limits, decimals):
    panel.title(title).description(str(says)).unit(unit).datasource(DATASOURCE)
    for index, query in enumerate(queries):
        panel.with_target(query.ref_id(chr(ord("A") + index)))
    panel.thresholds(limits.build() if limits else _steps((None, "green")))
    if decimals is not None:
        panel.decimals(decimals)
    if limits is not None:
        panel.color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    return panel
