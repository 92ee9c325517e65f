"""The statistics of the calibration, against values worked out by hand or by definition."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.calibration import statistics
from benchmarks.calibration.comparison import predicted, roofline


def row(published: float, guess: float | None, **more: Any) -> dict[str, Any]:
    known = {
        "metric": "makespan_ns", "kind": "measured", "tier": "A", "family": "one", "problem": "", "target": "trn2",
        "cores": 1, "roofline": guess, "run": "run", "failure": "",
        "components": {"makespan_ns": guess, "without": {"launch_overhead": (guess or 0.0) - 10.0}},
    }  # fmt: skip
    return {**known, "published": published, "predicted": guess, **more}


def test_errors_of_a_time_twice_too_long_and_one_half_too_short() -> None:
    found = statistics.errors([row(100.0, 200.0), row(400.0, 200.0, roofline=400.0)])
    assert (found.count, found.mape, found.ratio) == (2, pytest.approx(0.75), pytest.approx(1.0))
    assert found.roofline == pytest.approx(0.5)
    assert found.median == pytest.approx(0.75)
    assert math.isnan(found.tau)  # both are predicted to take as long


def test_times_leave_out_ceilings_copies_failures_and_other_metrics() -> None:
    rows = [row(1.0, 1.0), row(1.0, 1.0, kind="ceiling"), row(1.0, 1.0, kind="copied"), row(1.0, None),
            row(1.0, 1.0, metric="hbm_read_bytes")]  # fmt: skip
    assert statistics.times(rows) == rows[:1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_kendall_is_between_minus_one_and_one_and_symmetric(pairs: list[tuple[int, int]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    found = statistics.kendall(first, second)
    if math.isnan(found):
        assert len(set(first)) == 1 or len(set(second)) == 1
        return
    assert -1 - 1e-12 <= found <= 1 + 1e-12
    assert statistics.kendall(second, first) == pytest.approx(found)
    assert statistics.kendall(first, [-value for value in second]) == pytest.approx(-found)


def test_kendall_of_every_order_of_three_counts_the_pairs() -> None:
    for order in itertools.permutations((1, 2, 3)):
        swapped = sum(a > b for a, b in itertools.combinations(order, 2))
        assert statistics.kendall((1, 2, 3), order) == pytest.approx((3 - 2 * swapped) / 3)


def test_pairs_are_of_one_problem_and_differ() -> None:
    rows = [row(100.0, 1.0, problem="p"), row(104.0, 2.0, problem="p"), row(110.0, 3.0, problem="p"),
            row(500.0, 1.0, problem="q"), row(900.0, 1.0)]  # fmt: skip
    assert [(a["published"], b["published"]) for a, b in statistics.ranked_pairs(rows)] == [
        (100.0, 110.0),
        (104.0, 110.0),
    ]


def test_coverage_scores_width_and_distance() -> None:
    found = statistics.coverage([(100.0, 90.0, 110.0), (100.0, 110.0, 120.0)])
    assert (found.inside, found.count) == (1, 2)
    assert found.score == pytest.approx((0.2 + 0.1 + 10 * 0.1) / 2)
    assert found.low < 0.5 < found.high


@given(st.integers(1, 60), st.data())
def test_the_interval_of_a_share_contains_it(count: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, count))
    low, high = statistics.wilson(hits, count)
    assert low - 1e-12 <= hits / count <= high + 1e-12


def test_intervals_from_residuals_leave_the_own_family_out() -> None:
    rows = [row(100.0, 100.0, family="a") for _ in range(6)] + [row(200.0, 100.0, family="b") for _ in range(6)]
    found = statistics.residual_intervals(rows, "predicted")
    assert found[0] == (100.0, 200.0, 200.0)
    assert found[-1] == (200.0, 100.0, 100.0)


@given(st.lists(st.integers(20, 1000), min_size=1, max_size=9))
def test_a_fitted_envelope_has_the_least_error(values: list[int]) -> None:
    rows = [row(float(value), 15.0) for value in values]  # 5 ns without the launch

    def error(launch: float) -> float:
        return sum(abs((5.0 + launch) / item["published"] - 1) for item in rows)

    fitted = statistics.fitted_envelope(rows)
    assert all(error(fitted) <= error(other) + 1e-9 for other in (0.0, fitted - 1, fitted + 1, 30.0, 500.0))


def test_a_class_that_only_one_family_has_keeps_its_declared_envelope() -> None:
    rows = [row(100.0, 50.0, family="a", target="trn1"), row(100.0, 50.0, family="b"), row(60.0, 50.0, family="c")]
    left = {item["family"]: item["predicted"] for item in statistics.left_out(rows)}
    assert left == {"a": 50.0, "b": 60.0, "c": 100.0}


def test_components_leave_out_what_hardly_works() -> None:
    rows = [row(100.0, 110.0, metric="m"), row(100.0, 130.0, metric="m"), row(1.0, 9.0, metric="m", share=0.001)]
    assert statistics.components(rows) == {"m": (1, 2)}


def test_metrics_are_read_from_the_figures_of_a_run() -> None:
    figures = {
        "makespan_ns": 1000.0, "cores": 2, "engine_busy_ns": {"tensor": 600.0, "dma": 1200.0}, "flops": 10,
        "transpose_flops": 4, "hbm_read_bytes": 7, "engine_instructions": {"tensor": 3, "vector": 5}, "matmuls": 2, "hfu": 0.25,
        "without": {"launch_overhead": 900.0},
    }  # fmt: skip
    assert predicted("engine_busy_ns.tensor", figures, "bfloat16") == 300.0
    assert predicted("engine_instructions.vector", figures, "float32") == 5.0
    assert predicted("engine_instructions.tensor", figures, "bfloat16") == 1 + 2 * 2
    assert predicted("engine_instructions.tensor", figures, "float32") == 1 + 2 * 4
    assert predicted("matmul_passes", figures, "float32") == 4.0
    assert predicted("hfu", figures, "float32") == 0.5
    assert predicted("hardware_flops", figures, "float32") == 28.0
    assert predicted("hardware_flops", figures, "bfloat16") == 14.0
    assert predicted("hbm_read_bytes", figures, "bfloat16") == 7.0
    assert predicted("spill_save_bytes", figures, "bfloat16") is None
    assert roofline(figures) == ("dma", 700.0)
