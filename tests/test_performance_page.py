"""The page of the benchmarks is the one that their figures make, and tells nothing of the machine but its kind."""

from __future__ import annotations

import json
import math

from benchmarks import performance, scale


def test_the_page_is_what_the_kept_figures_make() -> None:
    kept = json.loads(performance.KEPT.read_text(encoding="utf-8"))
    assert performance.PAGE.read_text(encoding="utf-8") == performance.page(kept), "make performance writes it"


def test_the_exponent_of_what_is_linear_is_one() -> None:
    points = [{"size": float(size), "trace": 3e-6 * size, "first": 2e-9 * size**3} for size in (100, 1000, 10_000)]
    assert math.isclose(scale.slope(points, "trace"), 1)
    assert math.isclose(scale.slope(points, "first", power=3), 1)


def test_a_small_series_is_measured_and_drawn(tmp_path) -> None:
    points = scale.measured("instructions", [1000])
    assert set(scale.SERIES["instructions"]) < set(points[0])
    scale.plotted({"instructions": points}, tmp_path / "scale.html")
    assert "instructions: s" in (tmp_path / "scale.html").read_text(encoding="utf-8")
