"""Fit the residuals that intervals come from, and judge them on families that were left out.

    python -m benchmarks.calibration --residuals ROWS.json

A class is what runs have in common, by `interval.ATTRIBUTES`; its bounds are the 10 % and 90 % quantile of published
over predicted times. A family weighs as much as the root of its number of rows, since rows of one kernel err together.
A class with few rows, or rows of few families, has no entry: wider classes stand for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.calibration.comparison import Row
from benchmarks.calibration.statistics import COVERAGE, groups, quantile
from nki_lab.session import interval as given
from nki_lab.session.interval import Case, Residuals, Table

TABLE = Path(given.__file__).with_name("residuals.json")
LEVELS: tuple[tuple[str, ...], ...] = (
    ("dialect", "bound", "cores", "target", "compiler"),
    ("dialect", "cores", "target", "compiler"),
    ("dialect", "bound"),
    ("dialect",),
    (),
)
"""Which attributes classes fix, the narrowest classes first."""
ROWS, FAMILIES = 10, 4
"""A class has at least so many published times, of so many families; the one of all runs has any number.

They were chosen with all rows at hand, among eight sets of levels and three pairs of numbers: of families left out,
70 % were inside with three families in a class."""
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


def fit(rows: Sequence[Row], field: str = "predicted") -> Table:
    """Return the table of residuals of a field; ValueError without rows."""
    if not rows:
        raise ValueError("there are no times to fit residuals to")
    classes = []
    for names in LEVELS:
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
    """Return the quantiles of published over predicted times that bound 80 % of the weight."""
    weights = _weights(rows)
    ordered = sorted((row["published"] / row[field], weight) for row, weight in zip(rows, weights, strict=True))
    low, high = (1 - COVERAGE) / 2, (1 + COVERAGE) / 2
    return round(weighted(ordered, low), 4), round(weighted(ordered, high), 4)


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


def left_out(rows: Sequence[Row], field: str = "predicted") -> list[tuple[float, float, float]]:
    """Return (published, lower, upper) of each row, by residuals of the other families alone."""
    return [bounds for part in left_out_by_family(rows, field).values() for bounds in part]


def left_out_by_family(rows: Sequence[Row], field: str = "predicted") -> dict[str, list[tuple[float, float, float]]]:
    """Return (published, lower, upper) of the rows of each family, by residuals of the others."""
    found = {}
    for family, members in groups(rows, lambda row: row["family"]).items():
        others = [row for row in rows if row["family"] != family]
        if others:
            residuals = fit(others, field)
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
