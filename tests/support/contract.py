"""The catalogue of series against what a part shows."""

from collections.abc import Iterator, Mapping

from dashboards.metrics import cost
from dashboards.metrics.catalogue import Part, Series
from support.exposition import Family, families


def differences(parts: list[Part], text: str) -> list[str]:
    """Where a page of the example's target is other than the catalogue says."""
    shown = families(text)
    prefixes = tuple(prefix.name for part in parts for prefix in part.prefixes)
    listed = {each.name: (each, part.example) for part in parts for each in part.series()}
    words = [
        f"{name}: shown, not in the catalogue"
        for name in shown.keys() - listed.keys()
        if not name.startswith(prefixes or "-")
    ]
    for name, (series, example) in listed.items():
        if (family := shown.get(name)) and family.samples:
            words += _of_series(series, family, example)
        elif not series.optional:
            words.append(f"{name}: in the catalogue, not shown")
    return sorted(words)


def _of_series(series: Series, family: Family, example: Mapping[str, int]) -> Iterator[str]:
    said = {"type": series.type, "labels": set(series.labels), "meaning": series.meaning}
    # Envoy has no help texts.
    found = {
        "type": family.type,
        "labels": family.labels(),
        "meaning": family.help or series.meaning,
    }
    for what, wanted in said.items():
        if found[what] != wanted:
            yield f"{series.name}: {what} {wanted!r} in the catalogue, {found[what]!r} shown"
    for label, values in series.values.items():
        if others := {sample[label] for sample in family.samples if label in sample} - {*values}:
            yield f"{series.name}: {label} is not listed to be {', '.join(sorted(others))}"
    wanted, number = cost.series(series.cost, example), len(family.samples)
    if number > wanted or (number < wanted and not series.at_most):
        yield f"{series.name}: {number} series shown, {series.cost} = {wanted} in the catalogue"
