"""Stretches of two runs that belong together: iterations and lines, found through paired instructions."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.comparison import compare
from nki_lab.comparison.stretches import MOST, Stretches, iterations_of, lines_of
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.result import Run
from tests.comparison.versions import KERNEL, edited, profiled

NESTED = KERNEL.replace(
    "    for i in range(a.shape[1] // TILE):\n",
    "    for pair in range(a.shape[1] // TILE // 2):\n      for part in range(2):\n        i = 2 * pair + part\n",
)


def found(before: Run, after: Run) -> Stretches:
    pairs = compare(before.recording, after.recording).rows
    return iterations_of(before.recording, after.recording, pairs)


def values(recording: Recording, key: np.ndarray) -> list[int]:
    return whole(recording.table("iterations")["value"])[key].tolist()


def test_each_iteration_has_its_later_version_and_their_changes_add_up() -> None:
    before, after = profiled(KERNEL), profiled(KERNEL, target="trn3")
    stretches = found(before, after)
    assert values(before.recording, stretches.key) == list(range(8))
    for begin, end in (stretches.before, stretches.after):
        assert (begin[1:] == end[:-1]).all()  # the hardware works on several at a time: none overlaps another
        assert (end >= begin).all()
    for (begin, end), run in ((stretches.before, before), (stretches.after, after)):
        rows = run.recording.rows
        assert begin[0] == whole(rows["start"]).min()
        assert end[-1] == (whole(rows["start"]).astype(np.int64) + whole(rows["duration"])).max()


def test_iterations_of_one_run_alone_have_no_partner() -> None:
    before, after = profiled(edited("TILE = 512", "TILE = 256")), profiled(KERNEL)
    stretches = found(before, after)
    assert len(stretches) == 8
    assert values(before.recording, stretches.key) == list(range(8))


def test_loops_within_loops_are_levels() -> None:
    run = profiled(NESTED)
    stretches = found(run, profiled(NESTED, target="trn3"))
    levels = {level: values(run.recording, stretches.key[stretches.level == level]) for level in (0, 1)}
    assert levels == {0: [0, 1, 2, 3], 1: [0, 1] * 4}


def test_iterations_follow_a_renamed_variable() -> None:
    renamed = KERNEL.replace("for i in", "for column in").replace("i * TILE:(i + 1)", "column * TILE:(column + 1)")
    assert len(found(profiled(KERNEL), profiled(renamed))) == 8


@pytest.mark.parametrize("which", [0, 1])
def test_lines_are_those_of_the_earlier_critical_path(which: int) -> None:
    runs = [profiled(KERNEL), profiled(KERNEL, target="trn3")]
    before, after = runs[which], runs[1 - which]
    figures = compare(before.recording, after.recording)
    stretches = lines_of(before.recording, after.recording, figures.rows, tuple(item.place for item in figures.lines))
    critical = whole(before.recording.critical_path)
    start = whole(before.recording.rows["start"])[critical]
    assert stretches.before[0][0] == start[0]
    assert set(stretches.key.tolist()) <= set(range(len(figures.lines)))
    assert (stretches.after[1] > stretches.after[0]).all()


def test_empty_runs_have_no_stretches() -> None:
    empty = Recording({}, {"kernel": "k", "target": "trn2"})
    figures = compare(empty, empty)
    assert len(iterations_of(empty, empty, figures.rows)) == len(lines_of(empty, empty, figures.rows, ())) == 0


def test_a_loop_with_too_many_iterations_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST > 8
    monkeypatch.setattr("nki_lab.comparison.stretches.MOST", 7)
    assert len(found(profiled(KERNEL), profiled(KERNEL))) == 0
