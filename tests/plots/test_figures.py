"""Figures draw exactly the columns, in the colours of the views, for any run; a page of them asks for nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nki
import nki.language as nl
import numpy as np
import pytest
from bokeh.models import ColumnDataSource, CustomJS, Glyph, HoverTool, Label, Legend, Title
from bokeh.plotting import figure
from hypothesis import given, settings

import nki_lab
from nki_lab import plots, quantities
from nki_lab.export.colours import COLOURS
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.plots.columns import frame
from tests.plots.runs import profiled
from tests.recordings import drawn
from tests.scale import scaled
from tests.test_extras import python_without

CHARTS = ("utilisation", "memory", "bandwidth", "roofline", "dma_sizes", "stalls")
EMPTY = Recording({
    "rows": {"start": [], "duration": [], "op": [], "lane": []}, "ops": {"name": []}, "lanes": {"name": [], "kind": []},
    "stalls": {"name": ["none"]},
})  # fmt: skip
charts = pytest.mark.parametrize("chart", CHARTS)


@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), 2.0))
    return out


def made(chart: str, run: Any, **options: Any) -> Any:
    return getattr(plots, chart)(run, **options)


def sources(found: Any) -> list[ColumnDataSource]:
    return list(found.select(ColumnDataSource))


def texts(found: Any) -> list[str]:
    return [item.text for kind in (Title, Label) for item in found.select(kind)]


def test_every_chart_is_public() -> None:
    assert {*CHARTS, "compare", "for_summary", "link", "save", "sweep", "with_charts"} == set(plots.__all__)
    assert not [name for name in plots.__all__ if not getattr(plots, name).__doc__]
    assert nki_lab.plots is plots


@charts
@pytest.mark.parametrize("name", ["k01_add", "k06_flash_attention", "k10_two_cores", "beta1"])
def test_a_figure_draws_the_columns(chart: str, name: str) -> None:
    run = profiled(name)
    columns = frame(run.recording, chart)
    found = made(chart, run)
    assert isinstance(found, figure)
    drawn_ = [source for source in sources(found) if set(columns) <= set(source.data)]
    shown = {column: np.concatenate([source.data[column] for source in drawn_]) for column in columns}
    kept = np.ones(len(next(iter(columns.values()))), np.bool_)
    if chart == "memory":
        kept = columns["memory"] == "sbuf"
    if chart == "dma_sizes":
        kept = np.isfinite(columns["efficiency"])
    for column, values in columns.items():
        assert sorted(map(str, shown[column].tolist())) == sorted(map(str, values[kept].tolist()))


@charts
def test_titles_tell_the_kernel_and_the_interval(chart: str) -> None:
    said = texts(made(chart, profiled("k02_matmul")))
    assert any(re.fullmatch(r"finish_in_turn on trn2 · 23\.05 µs, 18\.6 to 27\.8", text) for text in said)


@charts
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_are_those_of_the_views(chart: str, theme: str) -> None:
    found = made(chart, profiled("k06_flash_attention"), theme=theme)
    known = {getattr(colour, theme) for colour in COLOURS.values()}
    used = set()
    for glyph in found.select(Glyph):
        for name, value in glyph.properties_with_values().items():
            if name.endswith("_color") and isinstance(value, str) and glyph in {r.glyph for r in found.renderers}:
                used.add(value)
    assert found.background_fill_color == getattr(COLOURS["bg"], theme)
    assert used <= known
    assert not found.select(CustomJS)


def test_an_engine_has_its_hue() -> None:
    found = plots.utilisation(profiled("k02_matmul"), theme="dark")
    mapper = found.renderers[0].glyph.fill_color.transform
    hues = dict(zip(mapper.factors, mapper.palette, strict=True))
    assert hues == {kind: COLOURS[kind].dark for kind in ("tensor", "vector", "scalar", "dma")}


@charts
def test_a_figure_follows_the_page_unless_it_is_told(chart: str) -> None:
    (script,) = made(chart, profiled("k02_matmul")).select(CustomJS)
    assert script.args["light"] != script.args["night"]
    with pytest.raises(nki_lab.NkiError, match="NKI012 theme is 'blue'"):
        made(chart, profiled("k02_matmul"), theme="blue")


@charts
def test_options_of_bokeh_go_through(chart: str) -> None:
    found = made(chart, profiled("k02_matmul"), width=500, height=444, name="mine")
    assert (found.width, found.height, found.name, found.sizing_mode) == (500, 444, "mine", None)


@charts
def test_what_is_hovered_has_units_and_lines(chart: str) -> None:
    found = made(chart, profiled("k02_matmul"))
    tips = dict(tip for tool in found.select(HoverTool) for tip in tool.tooltips)
    assert tips
    if chart in ("roofline", "dma_sizes"):
        where = [text for source in sources(found) for text in source.data.get("where", ())]
        assert any(re.fullmatch(r"k02_matmul\.py:\d+", text) for text in where)


def test_memory_is_of_each_core_or_of_one() -> None:
    run = profiled("k10_two_cores")
    (both,) = plots.memory(run).select(Legend)
    assert [item.label.value for item in both.items] == ["live, core 0", "dead, core 0", "live, core 1", "dead, core 1"]
    (one,) = plots.memory(run, core=1, space="psum").select(Legend)
    assert [item.label.value for item in one.items] == ["live", "dead"]
    with pytest.raises(nki_lab.NkiError, match="NKI012 space is 'hbm'"):
        plots.memory(run, space="hbm")


def test_many_ranks_have_one_legend_and_no_number_has_an_exponent() -> None:
    x = np.ones((128, 512), np.float32)
    ranks = nki_lab.run_ranks(doubled, [x] * 5, target="trn2")
    found = plots.memory(ranks)
    (legend,) = found.select(Legend)
    assert [item.label.value for item in legend.items] == ["live, of each rank", "dead, of each rank"]
    assert [len(item.renderers) for item in legend.items] == [10, 5]
    assert {name for tool in found.select(HoverTool) for name, _ in tool.tooltips} >= {"live, rank 0", "dead, rank 4"}
    assert re.search(rf"of \d{quantities.THIN}\d{{3}}$", plots.bandwidth(ranks).title.text)
    assert not [text for text in texts(plots.roofline(ranks)) if "e+" in text]


@charts
def test_an_empty_run_says_so(chart: str) -> None:
    found = made(chart, EMPTY)
    (label,) = found.select(Label)
    assert label.text.endswith(".")
    assert not found.renderers


@charts
def test_an_engine_that_nobody_knows_is_drawn(chart: str) -> None:
    foreign = Recording({
        "rows": {"start": [0], "duration": [10], "op": [0], "lane": [0]}, "ops": {"name": ["copy"]},
        "lanes": {"name": ["foreign"], "kind": [0]}, "stalls": {"name": ["none"]},
    })  # fmt: skip
    assert isinstance(made(chart, foreign), figure)


@settings(max_examples=scaled(20), deadline=None)
@given(recording=drawn())
def test_any_recording_can_be_drawn(recording: Recording) -> None:
    for chart in CHARTS:
        assert isinstance(made(chart, recording), figure)


@charts
def test_what_is_no_run_is_refused(chart: str) -> None:
    with pytest.raises(nki_lab.NkiError, match="NKI012 a chart of ndarray"):
        made(chart, np.zeros(3))


def test_a_page_has_the_figures_and_asks_for_nothing(tmp_path: Path) -> None:
    run = profiled("k02_matmul")
    path = plots.save([plots.utilisation(run), plots.stalls(run)], tmp_path / "charts.html")
    page = path.read_text(encoding="utf-8")
    assert "Where the time goes" in page
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", page)
    with pytest.raises(nki_lab.NkiError, match="NKI012 save takes bokeh figures"):
        plots.save(run, path)
    with pytest.raises(nki_lab.NkiError, match="NKI021"):
        plots.save(plots.stalls(run), tmp_path / "no" / "such" / "folder.html")


def test_without_bokeh_charts_name_the_extra_and_columns_work(tmp_path: Path) -> None:
    said = python_without(
        {"bokeh"},
        """
        import nki_lab

        nki_lab.activate()
        from tests.plots.runs import profiled

        run = profiled("k01_add")
        assert run.to_frame("stalls").num_rows
        try:
            nki_lab.plots.stalls(run)
        except nki_lab.NkiError as error:
            print(str(error))
        """,
        tmp_path,
    )
    assert "NKI022 charts need the package bokeh, which is not installed" in said
    assert "pip install 'nki-lab[plots]'" in said


def test_bokeh_is_loaded_when_a_chart_is_asked_for(tmp_path: Path) -> None:
    script = "import sys, nki_lab, nki_lab.plots.columns; print('bokeh' in sys.modules)"
    assert python_without({"nothing"}, script, tmp_path).strip() == "False"
