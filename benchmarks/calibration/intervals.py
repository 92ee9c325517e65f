"""Fit the residuals that intervals come from, and judge them on families that were left out.

    python -m benchmarks.calibration --residuals ROWS.json

A class is what runs have in common, by `interval.ATTRIBUTES`; its bounds are the 10 % and 90 % quantile of published
over predicted times. A family weighs as much as the root of its number of rows, since rows of one kernel err together.
A class with few rows, or rows of few families, has no entry: wider classes stand for it. As few families tell little
of a new one, bounds are as much wider as those of one more draw of a normal distribution are when only so many are
known (Student's t).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

from benchmarks.calibration.comparison import Row
from benchmarks.calibration.statistics import COVERAGE, groups, quantile
from nki_lab.timeline import interval as given
from nki_lab.timeline.interval import Case, Residuals, Table

TABLE = Path(given.__file__).with_name("residuals.json")
Levels = tuple[tuple[str, ...], ...]
LEVELS: Levels = ((),)
"""Which attributes classes fix, the narrowest classes first. One class of all runs does better on families left out
than `CLASSES`, which have few families each; docs/accuracy.md compares them."""
CLASSES: Levels = (
    ("dialect", "bound", "cores", "target", "compiler"),
    ("dialect", "cores", "target", "compiler"),
    ("dialect", "bound"),
    ("dialect",),
    (),
)
"""Classes by what the errors could depend on."""
ROWS, FAMILIES = 10, 4
"""A class has at least so many published times, of so many families; the one of all runs has any number."""
TARGET_ROWS = 5
"""A target with fewer published times counts as not measured."""
FACT_ROWS = 5
"""With fewer published times of runs in which a thing is not modelled, the tail of all residuals says how far off."""
TAIL = 0.95
"""The part of absolute residuals that the tail begins behind."""


def case(row: Row) -> Case:
    """Return what the interval of a row depends on."""
    found = row["components"]["case"]
    return Case(attributes=found["attributes"], unmodelled=tuple(found["unmodelled"]))


def fit(rows: Sequence[Row], field: str = "predicted", levels: Levels = LEVELS) -> Table:
    """Return the table of residuals of a field; ValueError without rows."""
    if not rows:
        raise ValueError("there are no times to fit residuals to")
    classes = []
    for names in levels:
        for members in groups(rows, lambda row, names=names: json.dumps(_part(row, names))).values():
            families = len({row["family"] for row in members})
            if names and (len(members) < ROWS or families < FAMILIES):
                continue
            low, high = bounds(members, field)
            attributes = _part(members[0], names)
            classes.append(Residuals(attributes=attributes, rows=len(members), families=families, low=low, high=high))
    counts = {name: len(part) for name, part in groups(rows, lambda row: row["target"]).items()}
    targets = tuple(name for name, count in counts.items() if count >= TARGET_ROWS)
    return Table(classes=tuple(classes), widening=widening(rows, field), targets=targets)


def _part(row: Row, names: Iterable[str]) -> dict[str, str]:
    attributes = case(row).attributes
    return {name: attributes[name] for name in names}


def bounds(rows: Sequence[Row], field: str) -> tuple[float, float]:
    """Return the quantiles of published over predicted times that bound 80 % of the weight, apart by `_reach`."""
    weights = _weights(rows)
    ordered = sorted((row["published"] / row[field], weight) for row, weight in zip(rows, weights, strict=True))
    low, high = (1 - COVERAGE) / 2, (1 + COVERAGE) / 2
    found = [math.log(weighted(ordered, share)) for share in (low, high)]
    middle, half = sum(found) / 2, (found[1] - found[0]) / 2 * _reach(len({row["family"] for row in rows}))
    return round(math.exp(middle - half), 4), round(math.exp(middle + half), 4)


def _reach(families: int) -> float:
    """Return how much farther bounds for one more family are apart than quantiles of many.

    That is the quantile of Student's t over that of the normal distribution (their series in the degrees of freedom),
    with the error of the middle.
    """
    if families < 2:
        return 1.0
    z, freedom = NormalDist().inv_cdf((1 + COVERAGE) / 2), families - 1
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return t / z * math.sqrt(1 + 1 / families)


def _weights(rows: Sequence[Row]) -> list[float]:
    """Return the weight of each row: those of a family add up to the root of their number."""
    counts = {name: len(part) for name, part in groups(rows, lambda row: row["family"]).items()}
    return [1 / math.sqrt(counts[row["family"]]) for row in rows]


def weighted(ordered: Sequence[tuple[float, float]], share: float) -> float:
    """Return a quantile of ordered pairs of a value and its weight, linear between the middles of neighbours."""
    total = sum(weight for _, weight in ordered)
    before, behind = 0.0, None
    for value, weight in ordered:
        middle = (before + weight / 2) / total
        if share <= middle:
            if behind is None:
                return value
            place = (share - behind[0]) / (middle - behind[0])
            return behind[1] + place * (value - behind[1])
        behind, before = (middle, value), before + weight
    return ordered[-1][0]


def widening(rows: Sequence[Row], field: str) -> dict[str, float]:
    """Return for each thing that may not be modelled how much farther off the runs are in which it is not."""
    found = {}
    tail = _spread(rows, field, TAIL) / max(_spread(rows, field, COVERAGE), 1e-6)
    for name in given.UNMODELLED:
        those = [row for row in rows if name in case(row).unmodelled]
        others = [row for row in rows if name not in case(row).unmodelled]
        if len(those) < FACT_ROWS or len(others) < FACT_ROWS:
            value = tail
        else:
            value = _spread(those, field, COVERAGE) / max(_spread(others, field, COVERAGE), 1e-6)
        found[name] = round(max(given.LEAST_WIDENING, value), 4)
    return found


def _spread(rows: Sequence[Row], field: str, share: float) -> float:
    """Return the quantile of the absolute logarithms of published over predicted times."""
    return quantile(sorted(abs(math.log(row["published"] / row[field])) for row in rows), share)


def left_out(
    rows: Sequence[Row], field: str = "predicted", levels: Levels = LEVELS
) -> list[tuple[float, float, float]]:
    """Return (published, lower, upper) of each row, by residuals of the other families alone."""
    return [bounds for part in left_out_by_family(rows, field, levels).values() for bounds in part]


def left_out_by_family(
    rows: Sequence[Row], field: str = "predicted", levels: Levels = LEVELS
) -> dict[str, list[tuple[float, float, float]]]:
    """Return (published, lower, upper) of the rows of each family, by residuals of the others."""
    found = {}
    for family, members in groups(rows, lambda row: row["family"]).items():
        others = [row for row in rows if row["family"] != family]
        if others:
            residuals = fit(others, field, levels)
            made = [(row, given.interval(case(row), residuals)) for row in members]
            found[family] = [(row["published"], row[field] * one.low, row[field] * one.high) for row, one in made]
    return found


def as_data(table: Table) -> dict[str, Any]:
    """Return a table as JSON."""
    return {
        "written_by": "python -m benchmarks.calibration",
        "classes": [
            {
                "attributes": dict(item.attributes),
                "rows": item.rows,
                "families": item.families,
                "low": item.low,
                "high": item.high,
            }
            for item in table.classes
        ],
        "widening": dict(table.widening),
        "targets": list(table.targets),
    }


def write(rows: Sequence[Row], path: Path = TABLE) -> Table:
    """Fit the residuals of rows and write them into the package."""
    made = fit(rows)
    path.write_text(json.dumps(as_data(made), indent=1) + "\n")
    return made
