"""Charts of two runs and of sweeps: what they draw adds up, failures are marked, nothing to draw is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bokeh.models import ColumnDataSource, CustomJS, Label, Span, Title, Whisker
from bokeh.plotting import figure

import nki_lab
from nki_lab import plots
from nki_lab.diagnostic import NkiError
from nki_lab.export.colours import COLOURS
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.plots.columns.differences import differences
from nki_lab.result.comparison import RunComparison
from nki_lab.sweeps import Sweep
from tests.comparison.versions import KERNEL, edited, profiled
from tests.sweeps import swept as kernels

EMPTY = Recording({}, {"kernel": "k", "target": "trn2"})


def texts(found: Any) -> list[str]:
    return [item.text for kind in (Title, Label) for item in found.select(kind)]


def sources(found: Any) -> list[ColumnDataSource]:
    return list(found.select(ColumnDataSource))


@pytest.fixture(scope="module")
def comparison() -> RunComparison:
    return profiled(KERNEL).compare(profiled(edited("TILE = 512", "TILE = 256")))


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    shapes = (nki_lab.spec((128, 2048), "float32"),)
    return nki_lab.sweep(
        kernels.scaled, {"TILE": [128, 512, 2048], "target": ["trn1", "trn2"], "factor": [2.0]}, args=shapes, workers=2
    )


def test_differences_add_up_to_that_of_the_latency(comparison: RunComparison) -> None:
    columns = differences(comparison.figures)
    latency = comparison.figures.latency
    for name, amount in (("before_ns", latency.before), ("after_ns", latency.after), ("change_ns", latency.change)):
        assert columns[name].sum() == pytest.approx((amount or 0) / 1000)
    sizes = np.abs(columns["change_ns"])
    assert (sizes[:-1] >= sizes[1:]).all()


def test_a_comparison_is_drawn_with_both_runs(comparison: RunComparison) -> None:
    found = plots.compare(comparison)
    assert isinstance(found, figure)
    drawn = {name: sum(float(np.sum(source.data[name])) for source in sources(found)) / 2 for name in ("before_ns",)}
    assert drawn["before_ns"] == pytest.approx((comparison.figures.latency.before or 0) / 1000)
    assert any("→" in text for text in texts(found))


def test_a_comparison_of_empty_runs_says_so() -> None:
    assert any("critical path" in text for text in texts(plots.compare(RunComparison(EMPTY, EMPTY))))


@pytest.mark.parametrize("given", [None, 3, EMPTY])
def test_what_is_no_comparison_is_refused(given: Any) -> None:
    with pytest.raises(NkiError, match="NKI012"):
        plots.compare(given)


def test_a_sweep_has_a_line_for_each_combination(sweep: Sweep) -> None:
    found = plots.sweep(sweep)
    lines = [source.data for source in sources(found) if "latency_ns" in source.data]
    assert [list(data["at"]) for data in lines] == [[128, 512, 2048]] * 2
    known = {(row["TILE"], row["target"]): row["latency_ns"] for row in sweep.rows()}
    drawn = [time for data in lines for time in data["latency_ns"]]
    assert sorted(drawn) == sorted(known.values())
    assert len(list(found.select(Whisker))) == 2
    assert "Latency over TILE" in texts(found)


def test_a_parameter_of_names_has_a_place_for_each(sweep: Sweep) -> None:
    assert plots.sweep(sweep, "target").x_range.factors == ["trn1", "trn2"]


def test_nothing_betters_the_points_of_the_front(sweep: Sweep) -> None:
    found = plots.sweep(sweep, pareto=True)
    points = {(x, y) for source in sources(found) if "chosen" in source.data
              for x, y in zip(source.data["x"], source.data["y"], strict=True)}  # fmt: skip
    assert points == {(row["latency_ns"], row["sbuf_peak_bytes"]) for row in sweep.rows()}
    front = {(item["latency_ns"], item["sbuf_peak_bytes"]) for item in sweep.pareto()}
    drawn = [set(zip(source.data["x"], source.data["y"], strict=True))
             for source in sources(found) if "chosen" in source.data]  # fmt: skip
    assert front in drawn


def test_failed_points_are_marked_with_their_finding() -> None:
    shapes = {"x": "float32[P,512]"}
    found = plots.sweep(nki_lab.sweep(kernels.scaled, {"P": [128, 130], "target": ["trn2"]}, args=shapes, workers=1))
    marks = next(source.data for source in sources(found) if "why" in source.data)
    assert list(marks["at"]) == [130]
    assert "failed NKI" in marks["why"][0]
    nothing = nki_lab.sweep(kernels.scaled, {"P": [130], "target": ["trn2"]}, args=shapes, workers=1)
    for options in ({}, {"pareto": True}):
        assert any(text.startswith("No point") for text in texts(plots.sweep(nothing, **options)))


def test_a_parameter_that_was_not_swept_is_said(sweep: Sweep) -> None:
    with pytest.raises(NkiError, match=r"NKI012 the sweep has no parameter 'TIL'"):
        plots.sweep(sweep, "TIL")
    with pytest.raises(NkiError, match="NKI012"):
        plots.sweep(None)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_have_the_colours_of_the_theme(sweep: Sweep, comparison: RunComparison, theme: Any) -> None:
    for found in (plots.sweep(sweep, theme=theme), plots.compare(comparison, theme=theme)):
        assert found.background_fill_color == getattr(COLOURS["bg"], theme)


def test_figures_over_time_are_linked_and_others_refused() -> None:
    run = profiled(KERNEL)
    view = run.view()
    chart = plots.utilisation(run)
    view.link(chart, plots.memory(run))
    assert view.channel
    assert any("nki-lab-link" in script.code for script in chart.select(CustomJS))
    assert any(not item.visible for item in chart.select(Span))
    with pytest.raises(NkiError, match="NKI012 a chart without time"):
        view.link(plots.roofline(run))
    with pytest.raises(NkiError, match="NKI012 a int is linked"):
        view.link(3)


def test_a_report_has_charts_where_they_are_asked_for(tmp_path: Path) -> None:
    run = profiled(KERNEL)
    plain = run.to_html(tmp_path / "plain.html").read_text(encoding="utf-8")
    text = run.to_html(tmp_path / "charts.html", charts=True).read_text(encoding="utf-8")
    assert 1.2e6 < len(text) - len(plain) < 2e6  # the documentation says 1.3 MB and more
    assert ("docs_json" in plain, "docs_json" in text) == (False, True)
    assert 'data-channel="page"' in text
    assert "'unsafe-eval'" in text.partition("<script")[0]
    assert "'unsafe-eval'" not in plain.partition("<script")[0]
