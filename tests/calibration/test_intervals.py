"""The residuals of intervals: fitted to rows, judged on families that were left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.calibration import intervals
from nki_lab.timeline import interval


def row(published: float, family: str = "a", unmodelled: tuple[str, ...] = (), **attributes: str) -> dict[str, Any]:
    known = {"dialect": "current", "bound": "dma", "cores": "1", "target": "trn2", "compiler": "nothing", **attributes}
    case = {"attributes": known, "unmodelled": list(unmodelled)}
    return {"published": published, "predicted": 100.0, "roofline": 50.0, "family": family, "target": known["target"],
            "components": {"case": case}}  # fmt: skip


def rows_of(families: int, each: int, **more: Any) -> list[dict[str, Any]]:
    return [row(90.0 + 20.0 * n / each, f"f{k}", **more) for k in range(families) for n in range(each)]


def test_a_class_needs_rows_and_families() -> None:
    enough = intervals.fit(rows_of(intervals.FAMILIES, intervals.ROWS), levels=intervals.CLASSES)
    assert [set(item.attributes) for item in enough.classes] == [set(names) for names in intervals.CLASSES]
    few = intervals.fit(rows_of(intervals.FAMILIES - 1, 50), levels=intervals.CLASSES)
    assert [item.attributes for item in few.classes] == [{}]
    assert few.classes[0].rows == 50 * (intervals.FAMILIES - 1)
    with pytest.raises(ValueError, match="no times"):
        intervals.fit([])


def test_a_run_of_a_rare_kind_takes_a_wider_class() -> None:
    table = intervals.fit([*rows_of(5, 20), row(300.0, "g", bound="vector", dialect="beta1", target="trn1")])
    assert table.of(intervals.case(row(1.0, dialect="beta1")).attributes).attributes == {}
    assert table.targets == ("trn2",)


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.1, 5)), min_size=1, max_size=20), st.floats(0, 1))
def test_a_weighted_quantile_is_one_of_the_range_and_grows(pairs: list[tuple[float, float]], share: float) -> None:
    ordered = sorted(pairs)
    found = intervals.weighted(ordered, share)
    assert ordered[0][0] - 1e-9 <= found <= ordered[-1][0] + 1e-9
    assert found <= intervals.weighted(ordered, min(1.0, share + 0.1)) + 1e-9


def test_a_large_family_does_not_rule_alone() -> None:
    many = [row(100.0, "large") for _ in range(100)] + [row(200.0, f"f{n}") for n in range(6)]
    low, high = intervals.bounds(many, "predicted")
    reach = intervals._reach(7)
    assert (low, high) == pytest.approx((2 ** ((1 - reach) / 2), 2 ** ((1 + reach) / 2)), rel=1e-3)


def test_few_families_reach_farther() -> None:
    found = [intervals._reach(families) for families in (2, 4, 10, 1000)]
    assert found == sorted(found, reverse=True)
    assert found[1] == pytest.approx(1.638 / 1.2816 * 1.25**0.5, rel=0.02)  # Student's t of three degrees of freedom
    assert found[-1] == pytest.approx(1, abs=0.01)
    assert intervals._reach(1) == 1


def test_bounds_of_a_family_do_not_know_it() -> None:
    rows = [*rows_of(5, 20), *(row(1000.0, "far") for _ in range(20))]
    far = intervals.left_out_by_family(rows)["far"]
    assert all(high < 200.0 < published for published, _, high in far)
    assert len(intervals.left_out(rows)) == len(rows)
    assert intervals.left_out(rows_of(1, 5)) == []


def test_what_is_not_modelled_widens_by_what_its_rows_say() -> None:
    exact, far = rows_of(4, 20), [row(300.0, f"f{n}", ("spill",)) for n in range(intervals.FACT_ROWS)]
    assert intervals.fit([*exact, *far]).widening["spill"] > 5
    modelled = [row(100.0, f"f{n}", ("spill",)) for n in range(intervals.FACT_ROWS)]
    assert intervals.fit([*exact, *modelled]).widening["spill"] == interval.LEAST_WIDENING


def test_the_table_is_written_as_it_is_read(tmp_path: Path) -> None:
    made = intervals.write(rows_of(5, 20), tmp_path / "residuals.json")
    assert interval.read(json.loads((tmp_path / "residuals.json").read_text())) == made


def test_the_committed_table_is_one_that_was_written() -> None:
    text = intervals.TABLE.read_text()
    assert text == json.dumps(intervals.as_data(interval.read(json.loads(text))), indent=1) + "\n"
