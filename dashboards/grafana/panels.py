"""Panel kinds, and the options that all panels of a kind share."""

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
from grafana_foundation_sdk.models import common as option
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heatmap_model

from grafana.queries import DATASOURCE, Queries, at_end, heat, over_time, table_rows


@dataclass(frozen=True)
class Limits:
    """Thresholds at which a panel turns orange and red: upper limits or, with `falling`, lower
    limits."""

    orange: float
    red: float
    falling: bool = False

    def build(self) -> dashboard.ThresholdsConfig:
        steps = [(None, "green"), (self.orange, "orange"), (self.red, "red")]
        if self.falling:
            steps = [(None, "red"), (self.red, "orange"), (self.orange, "green")]
        return _steps(*steps)


@dataclass(frozen=True)
class Above:
    red: float

    def build(self) -> dashboard.ThresholdsConfig:
        return _steps((None, "green"), (self.red, "red"))


NONZERO = Above(1e-9)
"""Any value above 0 is bad."""


def _steps(*steps: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    thresholds = [model.Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds)


def number(
    title: str,
    about: str,
    unit: str,
    expression: str,
    *,
    limits: Limits | Above | None = None,
    empty: str = "no data",
    decimals: int | None = None,
    link: model.DashboardLink | None = None,
) -> stat.Panel:
    """The current value, coloured by its limits; without data, shows `empty`."""
    panel = _common(stat.Panel(), title, about, unit, at_end({"": expression}), limits)
    panel = (
        panel.no_value(empty)
        .graph_mode(option.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .text_mode(option.BigValueTextMode.VALUE)
        .color_mode(
            option.BigValueColorMode.BACKGROUND if limits else option.BigValueColorMode.NONE
        )
    )
    if decimals is not None:
        panel.decimals(decimals)
    return panel.data_links([Built(link)]) if link else panel


def lines(
    title: str,
    about: str,
    unit: str,
    expressions: Queries,
    *,
    limits: Limits | Above | None = None,
    stacked: bool = False,
    top: float | None = None,
    logarithmic: bool = False,
    red: str = "",
    ranked: bool = False,
    traces: bool = False,
    past: str = "",
) -> timeseries.Panel:
    """Series over time, by legend entry, with limits as dashed lines.

    `ranked` makes the legend a table with the highest series first. `top` is the highest possible
    value. `red` is a regular expression for series that are always red. `traces` shows exemplars.
    `past` is a series from another time, dashed and not stacked.
    """
    panel = _common(
        timeseries.Panel(), title, about, unit, over_time(expressions, traces=traces), limits
    )
    panel = (
        panel.color_scheme(
            dashboard.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC_BY_NAME)
        )
        .line_width(1)
        .fill_opacity(25 if stacked else 5)
        # A value without neighbours has no line and is visible only as a point.
        .show_points(option.VisibilityMode.AUTO)
        .axis_soft_min(0)
        .tooltip(
            common.VizTooltipOptions()
            .mode(option.TooltipDisplayMode.MULTI)
            .sort(option.SortOrder.DESCENDING)
        )
        .legend(_legend(ranked))
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(option.StackingMode.NORMAL).group("A"))
    if red:
        color = {"mode": model.FieldColorModeId.FIXED, "fixedColor": "red"}
        panel.override_by_regexp(f"/^({red})$/", [model.DynamicConfigValue("color", color)])
    if past:
        values = {
            "color": {"mode": model.FieldColorModeId.FIXED, "fixedColor": "gray"},
            "custom.lineStyle": {"fill": "dash", "dash": [6, 6]},
            "custom.stacking": {"mode": option.StackingMode.NONE},
            "custom.fillOpacity": 0,
        }
        properties = [model.DynamicConfigValue(name, value) for name, value in values.items()]
        panel.override_by_name(past, properties)
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
    about: str,
    unit: str,
    expressions: Queries,
    *,
    limits: Limits | Above | None = None,
    empty: str = "none",
    link: model.DashboardLink | None = None,
) -> bargauge.Panel:
    panel = _common(bargauge.Panel(), title, about, unit, at_end(expressions), limits)
    panel = (
        panel.no_value(empty)
        .min(0)
        .orientation(option.VizOrientation.HORIZONTAL)
        .display_mode(option.BarGaugeDisplayMode.BASIC)
        .name_placement(option.BarGaugeNamePlacement.LEFT)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )
    return panel.data_links([Built(link)]) if link else panel


def heat_map(
    title: str, about: str, unit: str, expression: str, *, traces: bool = False
) -> heatmap.Panel:
    """Requests per histogram bucket over time; with `traces`, also single requests."""
    colors = (
        heatmap.HeatmapColorOptions()
        .mode(heatmap_model.HeatmapColorMode.SCHEME)
        .scheme("Oranges")
        .scale(heatmap_model.HeatmapColorScale.EXPONENTIAL)
        .exponent(0.5)
        .steps(64)
    )
    panel = _common(heatmap.Panel(), title, about, "reqps", heat(expression, traces=traces), None)
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
    about: str,
    values: Mapping[str, tuple[str, str]],
    expressions: Queries,
    *,
    empty: str = "no data",
) -> statetimeline.Panel:
    """Each series' state over time; `values` maps values to text and colour."""
    panel = _common(statetimeline.Panel(), title, about, "none", over_time(expressions), None)
    return (
        panel.no_value(empty)
        .mappings([_texts(values)])
        .merge_values(True)
        .show_value(option.VisibilityMode.NEVER)
        .row_height(0.8)
        .fill_opacity(80)
        .legend(_legend())
        .per_page(12)
    )


@dataclass(frozen=True)
class Column:
    """A table column: the label or result to show, and its format."""

    field: str
    title: str
    unit: str = ""
    limits: Limits | Above | None = None
    link: model.DashboardLink | None = None
    values: Mapping[str, tuple[str, str]] | None = None

    def properties(self) -> list[model.DynamicConfigValue]:
        found: dict[str, object] = {}
        if self.unit:
            found["unit"] = self.unit
        if self.limits is not None:
            found["thresholds"] = self.limits.build().build()
        if self.values is not None:
            found["mappings"] = [_texts(self.values)]
        if self.limits is not None or self.values is not None:
            found["custom.cellOptions"] = {"type": "color-background", "mode": "basic"}
        if self.link is not None:
            found["links"] = [self.link]
        return [model.DynamicConfigValue(id_val=key, value=value) for key, value in found.items()]


def cells(
    title: str,
    about: str,
    columns: Sequence[Column],
    *expressions: str,
    sort: str,
    falling: bool = True,
    empty: str = "none",
) -> table.Panel:
    """A table of labels and results; rows of several queries are merged by their labels."""
    panel = _common(table.Panel(), title, about, "none", table_rows(expressions), None)
    if len(expressions) > 1:
        panel.with_transformation(model.DataTransformerConfig("merge", options={}))
    fields = {column.field: column.title for column in columns}
    included = {"include": {"names": list(fields)}}
    panel.with_transformation(model.DataTransformerConfig("filterFieldsByName", options=included))
    order = {field: index for index, field in enumerate(fields)}
    organized = {"indexByName": order, "renameByName": fields, "excludeByName": {}}
    panel.with_transformation(model.DataTransformerConfig("organize", options=organized))
    for column in columns:
        if properties := column.properties():
            panel.override_by_name(column.title, properties)
    panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(falling)])
    return panel.no_value(empty).cell_height(option.TableCellHeight.SM)


def _texts(values: Mapping[str, tuple[str, str]]) -> model.ValueMap:
    return model.ValueMap(
        {
            value: model.ValueMappingResult(text=text, color=color, index=index)
            for index, (value, (text, color)) in enumerate(values.items())
        }
    )


class Built:
    def __init__(self, built: object) -> None:
        self._built = built

    def build(self) -> object:
        return self._built


def _legend(ranked: bool = False) -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(True).placement(option.LegendPlacement.BOTTOM)
    if not ranked:
        return legend.display_mode(option.LegendDisplayMode.LIST).calcs([])
    return (
        legend.display_mode(option.LegendDisplayMode.TABLE)
        .calcs(["max"])
        .sort_by("Max")
        .sort_desc(True)
    )


def _common(panel, title, about, unit, queries, limits):
    panel.title(title).description(about).unit(unit).datasource(DATASOURCE)
    for index, query in enumerate(queries):
        panel.with_target(query.ref_id(chr(ord("A") + index)))
    panel.thresholds(limits.build() if limits else _steps((None, "green")))
    if limits is not None:
        panel.color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    return panel
