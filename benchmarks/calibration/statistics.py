"""How far predictions are from what is published: errors, order, intervals, fits that leave a family out."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.calibration.comparison import TIME, Row, envelope

CLOSE = 0.15
"""A component is right within this share of the published value."""
DIFFERENT = 0.05
"""Two versions of a kernel differ if their published times do by more than this share."""
COVERAGE = 0.8
"""The share of published times that an interval is to contain."""
SMALL = 0.02
"""An engine that is busy for a smaller share of the kernel's time is not judged."""
SLACK = 1.05
"""The tests that state ceilings allow 5 % more."""

COMPARED = ("measured", "recorded", "rounded")
"""The kinds of published times that are compared; of others no true value is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors of a group of times: `mape` and `roofline` are mean absolute errors as shares of the published times.

    `median` is that of the absolute errors, which one kernel alone does not move.

    `ratio` is the geometric mean of predicted over published, `low` and `high` its 10th and 90th percentile, `tau`
    Kendall's rank correlation.
    """

    count: int
    mape: float
    median: float
    roofline: float
    ratio: float
    low: float
    high: float
    tau: float


def times(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of kernel times that are compared and predicted."""
    return [row for row in rows if row["metric"] == TIME and row["kind"] in COMPARED and row["predicted"]]


def errors(rows: Sequence[Row]) -> Errors:
    """Return the errors of predicted times; ValueError without rows."""
    ratios = sorted(row["predicted"] / row["published"] for row in rows)
    if not ratios:
        raise ValueError("there are no times to compare")
    return Errors(
        count=len(ratios),
        mape=mape(rows),
        median=quantile(sorted(abs(value - 1) for value in ratios), 0.5),
        roofline=mape(rows, "roofline"),
        ratio=math.exp(sum(map(math.log, ratios)) / len(ratios)),
        low=quantile(ratios, 0.1),
        high=quantile(ratios, 0.9),
        tau=kendall([row["published"] for row in rows], [row["predicted"] for row in rows]),
    )


def mape(rows: Sequence[Row], field: str = "predicted") -> float:
    """Return the mean absolute error of a field, as a share of what is published."""
    return sum(abs(row[field] / row["published"] - 1) for row in rows) / len(rows)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of ordered values, linear between neighbours."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Kendall's tau-b of two sequences, NaN where one of them is constant or they have fewer than two values."""
    agree = ties_first = ties_second = 0
    for i, j in itertools.combinations(range(len(first)), 2):
        a, b = _sign(first[i] - first[j]), _sign(second[i] - second[j])
        agree += a * b
        ties_first += a == 0
        ties_second += b == 0
    pairs = len(first) * (len(first) - 1) // 2
    scale = math.sqrt((pairs - ties_first) * (pairs - ties_second))
    return agree / scale if scale else math.nan


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def groups(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    """Return the rows by a key, in the order of the keys."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return dict(sorted(found.items()))


def ranked_pairs(rows: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Return the pairs of runs of one problem whose published times differ, the faster first."""
    pairs = []
    for members in groups((row for row in rows if row["problem"]), lambda row: row["problem"]).values():
        for one, other in itertools.combinations(members, 2):
            fast, slow = sorted((one, other), key=lambda row: row["published"])
            if slow["published"] > (1 + DIFFERENT) * fast["published"]:
                pairs.append((fast, slow))
    return pairs


def components(rows: Iterable[Row]) -> dict[str, tuple[int, int]]:
    """Return for each metric that is no time of a kernel how many predictions are close, and how many there are."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row["metric"] == TIME or row["predicted"] is None or not row["published"]:
            continue
        if row.get("share") is not None and row["share"] < SMALL:
            continue
        right, total = found.get(row["metric"], (0, 0))
        found[row["metric"]] = right + is_close(row), total + 1
    return dict(sorted(found.items()))


def is_close(row: Row) -> bool:
    """Whether a component is within `CLOSE` of the published value."""
    return bool(abs(row["predicted"] / row["published"] - 1) <= CLOSE)


def exceeded(rows: Iterable[Row]) -> tuple[list[Row], int]:
    """Return the ceilings that the prediction exceeds, and how many ceilings there are."""
    ceilings = [row for row in rows if row["kind"] == "ceiling" and row["predicted"]]
    return [row for row in ceilings if row["predicted"] > SLACK * row["published"]], len(ceilings)


def totals(rows: Sequence[Row]) -> dict[str, str]:
    """Return what the history keeps: the number of times, mean errors by tier, the roofline's, failures."""
    compared = times(rows)
    by_tier = groups(compared, lambda row: row["tier"])
    kept = {f"error_{tier}": f"{mape(part):.4f}" for tier, part in by_tier.items()}
    failures = len({row["run"] for row in rows if row["failure"]})
    roofline = f"{mape(by_tier['A'], 'roofline'):.4f}" if "A" in by_tier else ""
    return {"times": str(len(compared)), **kept, "roofline_A": roofline, "failures": str(failures)}


# -- intervals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How intervals do: published times inside, the median of upper over lower, mean and median score (less is better).

    The score of an interval is its width and 2/(1-0.8) times the distance of a time outside, over the published time.
    """

    inside: int
    count: int
    low: float
    high: float
    spread: float
    score: float
    median_score: float
    score_without_worst: float


def coverage(intervals: Sequence[tuple[float, float, float]]) -> Coverage:
    """Return the figures of (published, lower, upper); `low` and `high` are the 95 % interval of the share inside."""
    inside = sum(low <= value <= high for value, low, high in intervals)
    penalty = 2 / (1 - COVERAGE)
    scores = [
        ((high - low) + penalty * max(0.0, low - value) + penalty * max(0.0, value - high)) / value
        for value, low, high in intervals
    ]
    low, high = wilson(inside, len(intervals))
    return Coverage(
        inside=inside,
        count=len(intervals),
        low=low,
        high=high,
        spread=quantile(sorted(high / low for _, low, high in intervals), 0.5),
        score=sum(scores) / len(scores),
        median_score=quantile(sorted(scores), 0.5),
        score_without_worst=(sum(scores) - max(scores)) / max(len(scores) - 1, 1),
    )


def wilson(hits: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a share (E. B. Wilson, JASA 22, 1927)."""
    share, scale = hits / count, 1 + z * z / count
    centre = (share + z * z / (2 * count)) / scale
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    return centre - half, centre + half


def residual_intervals(rows: Sequence[Row], field: str) -> list[tuple[float, float, float]]:
    """Return intervals around a field from the residuals of the other families: (published, lower, upper)."""
    found = []
    for family, members in groups(rows, lambda row: row["family"]).items():
        others = sorted(row["published"] / row[field] for row in rows if row["family"] != family)
        if len(others) < 5:
            continue
        low, high = quantile(others, (1 - COVERAGE) / 2), quantile(others, (1 + COVERAGE) / 2)
        found += [(row["published"], row[field] * low, row[field] * high) for row in members]
    return found


# -- fits -------------------------------------------------------------------------------------------------------------


def launch_class(row: Row) -> str:
    """Return the class of runs that share a launch envelope: target and cores."""
    return f"{row['target']}, {row['cores']} core{'s' if row['cores'] > 1 else ''}"


def fitted_envelope(rows: Sequence[Row]) -> float:
    """Return the envelope in nanoseconds with the least mean absolute error: a weighted median of what is missing."""
    missing = sorted((row["published"] - inside(row), 1 / row["published"]) for row in rows)
    half, total = sum(weight for _, weight in missing) / 2, 0.0
    for value, weight in missing:
        total += weight
        if total >= half:
            return max(0.0, value)
    raise ValueError("there are no times to fit an envelope to")


def inside(row: Row) -> float:
    """Return the predicted nanoseconds without the launch envelope."""
    return float(row["predicted"] - envelope(row["components"]))


def with_envelopes(rows: Sequence[Row], envelopes: Mapping[str, float]) -> list[Row]:
    """Return the rows with these launch envelopes instead of the declared ones, where there is one for the class."""
    changed = []
    for row in rows:
        value = envelopes.get(launch_class(row))
        changed.append(row if value is None else {**row, "predicted": inside(row) + value})
    return changed


def left_out(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with envelopes that were fitted to the other families alone."""
    changed: list[Row] = []
    for family, members in groups(rows, lambda row: row["family"]).items():
        others = groups((row for row in rows if row["family"] != family), launch_class)
        changed += with_envelopes(members, {name: fitted_envelope(part) for name, part in others.items()})
    return changed


def bootstrap(rows: Sequence[Row], draws: int = 500, seed: int = 0) -> tuple[float, float]:
    """Return the 80 % interval of a fitted envelope when the families' rows are drawn again."""
    source = random.Random(seed)
    values = sorted(fitted_envelope(source.choices(rows, k=len(rows))) for _ in range(draws))
    return quantile(values, 0.1), quantile(values, 0.9)
