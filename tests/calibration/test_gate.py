"""`benchmarks/accuracy.json` is what the timing sources give, and no worse than the entry before it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.calibration import gate, running

FRESH: dict[str, Any] = {"sources": "new", "facts": {"47": {"published": 100.0, "predicted": 101.0}}, "calibration": {}}


def entry(**more: str) -> dict[str, str]:
    return {**dict.fromkeys(gate.COLUMNS, ""), "sources": "new", "fact_error": "0.0100", **more}


def test_the_committed_summary_is_of_these_sources_and_no_step_back() -> None:
    summary = json.loads(gate.SUMMARY.read_text())
    found = gate.complaints(summary, gate.facts(), running.source_hash(gate.TIMING), gate.history())
    assert not found, "\n".join(found)


def test_facts_are_within_five_per_cent() -> None:
    for number, fact in gate.facts().items():
        assert fact["predicted"] == pytest.approx(fact["published"], rel=0.05), number


def test_a_summary_of_other_sources_is_stale() -> None:
    (found,) = gate.complaints(FRESH, FRESH["facts"], "other", [entry()])
    assert "new" in found
    assert "--write" in found


def test_a_changed_prediction_is_named() -> None:
    (found,) = gate.complaints(FRESH, {"47": {"published": 100.0, "predicted": 102.0}}, "new", [entry()])
    assert "47" in found


@pytest.mark.parametrize("name", ["fact_error", "error_A", "error_B", "error_B-"])
def test_a_step_back_needs_a_reason(name: str) -> None:
    before, now = entry(**{name: "0.0100"}), entry(**{name: "0.0300"})
    (found,) = gate.complaints(FRESH, FRESH["facts"], "new", [before, now])
    assert f"{name} grew from 0.0100 to 0.0300" in found
    assert not gate.complaints(FRESH, FRESH["facts"], "new", [before, {**now, "note": "a fault was right by chance"}])
    assert not gate.complaints(FRESH, FRESH["facts"], "new", [now, before])


def test_a_history_of_another_summary_is_refused() -> None:
    (found,) = gate.complaints(FRESH, FRESH["facts"], "new", [entry(sources="old")])
    assert "accuracy_history.csv" in found


def test_writing_keeps_the_calibration_and_replaces_the_line_of_the_same_sources(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "SUMMARY", tmp_path / "accuracy.json")
    monkeypatch.setattr(gate, "HISTORY", tmp_path / "history.csv")
    monkeypatch.setattr(gate, "facts", lambda: FRESH["facts"])
    monkeypatch.setattr(gate, "history", lambda: _read(tmp_path / "history.csv"))
    measured = {"times": "9", "error_A": "0.3000"}
    sources = running.source_hash(gate.TIMING)
    assert gate.write(measured, "") == []
    assert gate.write(None, "") == []
    assert json.loads(gate.SUMMARY.read_text())["calibration"] == {"calibrated": sources, **measured}
    assert gate.write({"times": "9", "error_A": "0.4000"}, "") == [
        "error_A grew from 0.3000 to 0.4000: improve it, or say why with --worse REASON"
    ]
    assert gate.write({"times": "9", "error_A": "0.4000"}, "the clones changed") == []
    (line,) = _read(tmp_path / "history.csv")
    assert (line["error_A"], line["note"]) == ("0.4000", "the clones changed")


def _read(path: Any) -> list[dict[str, str]]:
    import csv

    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
