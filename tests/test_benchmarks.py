"""The rows of `make bench` that ask a server, or look into a run, work: each is measured once, on little."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import editor, modules, run

SOURCE = modules.module(1, 60)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import as the script does: its own folder is in front."""
    monkeypatch.syspath_prepend(str(Path(run.__file__).parent))


def test_a_keystroke_is_timed_until_its_syntax_and_until_its_shapes_are_told() -> None:
    syntax, shapes = run._keystrokes(SOURCE, rounds=3)
    assert len(syntax) == len(shapes) == 3
    assert all(0 < first <= last for first, last in zip(syntax, shapes, strict=True))


def test_answers_are_timed_while_a_statement_is_typed() -> None:
    found = editor.answer_seconds(SOURCE, "file:///small.py", statements=1)
    assert found.keys() == set(editor.METHODS)
    assert all(found.values())


def test_all_that_an_editor_draws_is_timed_after_a_change() -> None:
    found = editor.drawn_seconds(SOURCE, "file:///small.py", edits=1)
    assert found.keys() == {editor.ROUND_TRIP, *editor.DRAWN}
    assert all(len(answers.wall) == 1 for answers in found.values())


def test_parts_of_a_run_on_small_tiles_make_the_whole(bench: None) -> None:
    values = {item.name.split(",")[1].strip(): item.value for item in run.small_tiles(5)}
    whole = values.pop("whole run")
    assert {"specialize", "allocate", "schedule", "timing", "numeric", "recording", "other"} <= values.keys()
    assert sum(values.values()) == pytest.approx(whole)


def test_second_calls_are_timed(bench: None) -> None:
    # Differences of two times: beside other work they may be anything.
    figures = {item.name: item for item in run.second_calls()}
    assert figures.keys() == {"second call", "second call, an instruction"}
    assert all(item.unit == "us" and math.isfinite(item.value) for item in figures.values())
