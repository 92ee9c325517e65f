"""`run.compare(other)`: its forms, tables, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nki_lab
from nki_lab.export.comparison.data import TABLES
from nki_lab.result.comparison import RunComparison
from tests.comparison.versions import KERNEL, edited, profiled


@pytest.fixture(scope="module")
def slower() -> RunComparison:
    return profiled(KERNEL).compare(profiled(edited("TILE = 512", "TILE = 256")))


def test_a_comparison_is_text_html_and_a_sentence(slower: RunComparison, tmp_path: Path) -> None:
    assert str(slower).startswith(slower.sentence)
    assert slower.sentence in repr(slower)
    assert slower.slowdown > 0.05
    assert "<table" in slower._repr_mimebundle_()["text/html"]
    assert slower.to_html(tmp_path / "page.html").read_text(encoding="utf-8").count("<html") == 1


def test_html_escapes_the_source() -> None:
    call = "operand0=2.0)"
    found = profiled(KERNEL).compare(profiled(edited(call, call + "  # <script>alert(1)</script>")))
    page = (
        profiled(KERNEL)
        .compare(profiled(edited("TILE = 512", "TILE = 256; _ = '<b>&'")))
        ._repr_mimebundle_()["text/html"]
    )
    assert "<b>&'" not in page
    assert "&lt;b&gt;&amp;" in page
    assert "<script>" not in found._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("table", TABLES)
def test_each_table_is_a_pyarrow_table(table: Any, slower: RunComparison) -> None:
    found = slower.to_frame(table)
    assert found.num_rows > 0
    if table == "lines":
        total = sum(found.column("critical_ns_change").to_pylist())
        assert total == pytest.approx(slower.as_dict()["latency"]["change"])


def test_another_table_is_refused(slower: RunComparison) -> None:
    with pytest.raises(nki_lab.NkiError, match="NKI012") as error:
        slower.to_frame("rows")  # type: ignore[arg-type]
    assert "instructions" in str(error.value)


@pytest.mark.parametrize("other", [None, "before.nkirec", 3, {}])
def test_a_run_is_compared_with_runs_only(other: Any) -> None:
    with pytest.raises(nki_lab.NkiError, match="NKI012") as error:
        profiled(KERNEL).compare(other)
    assert "nki_lab.open" in str(error.value)


def test_a_saved_run_compares_as_the_run_itself(tmp_path: Path) -> None:
    run, other = profiled(KERNEL), profiled(edited("TILE = 512", "TILE = 256"))
    saved = nki_lab.open(run.save(tmp_path / "run.nkirec"))
    assert saved.compare(other).as_dict() == run.compare(other).as_dict()
