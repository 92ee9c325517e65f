"""Loops of recordings: what an iteration adds, warm-up, steady state, outliers, and the iteration that stands for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.figures import REGULAR
from nki_lab.kernel_runtime.recording.loops import Loop, loops
from nki_lab.kernel_runtime.vocabulary import ITERATION_STATES
from nki_lab.plots.columns import frame

Iteration = tuple[int, str, int]
"""Parent, variable, value."""
Row = tuple[int, int, int, int]
"""Lane, start, duration, iteration."""


def recorded(iterations: Sequence[Iteration], rows: Sequence[Row], **more: Any) -> Recording:
    """A recording of rows on two engines and the iterations that they are in."""
    parent, loop, value = ([item[at] for item in iterations] for at in range(3))
    lane, start, duration, iteration = ([row[at] for row in rows] for at in range(4))
    tables = {
        "rows": {"start": start, "duration": duration, "op": [0] * len(rows), "lane": lane, "iteration": iteration},
        "ops": {"name": ["work"]},
        "lanes": {"name": ["vector", "scalar"], "kind": [0, 0], **more.get("lanes", {})},
        "iterations": {"parent": parent, "loop": loop, "value": value},
    }
    return Recording({name: table for name, table in tables.items() if any(map(len, table.values()))})


def one_loop(ends: Sequence[int]) -> Recording:
    """A loop whose iterations end at these times, each with one row that follows on the row before."""
    starts = [0, *ends[:-1]]
    return recorded(
        [(-1, "i", number) for number in range(len(ends))],
        [(0, start, end - start, number) for number, (start, end) in enumerate(zip(starts, ends, strict=True))],
    )


def states(recording: Recording) -> list[str]:
    return [ITERATION_STATES[state] for state in loops(recording).iterations.state.tolist()]


def test_warm_up_ends_with_the_first_two_regular_iterations() -> None:
    made = one_loop([500, 800, 900, 1000, 1100, 1200, 1450, 1550])
    assert states(made) == ["warm-up"] * 2 + ["steady"] * 4 + ["outlier", "steady"]
    (loop,) = loops(made).loops
    assert (loop.iterations, loop.executions, loop.warm_up, loop.outliers, loop.steady) == (8, 1, 2, 1, True)
    assert loop.interval == 100
    assert loop.mean == pytest.approx(125)  # (5 x 100 + 250) / 6
    assert loop.spread == pytest.approx(np.sqrt((5 * 25**2 + 125**2) / 6))
    assert loop.representative == 2
    assert (loop.begin, loop.end, loop.depth, loop.parent) == (0, 1550, 0, -1)


@pytest.mark.parametrize(("more", "state"), [(10, "steady"), (11, "outlier")])
def test_an_iteration_is_regular_within_the_stated_share(more: int, state: str) -> None:
    assert REGULAR == 0.1
    ends = [100, 200, 300, 400, 500 + more, 600 + more, 700 + more]
    assert states(one_loop(ends))[4] == state


def test_iterations_that_run_beside_each_other_count_from_end_to_end() -> None:
    """Loads of iteration 1 run while 0 computes: it adds what it takes beyond the end of 0."""
    made = recorded(
        [(-1, "i", 0), (-1, "i", 1), (-1, "i", 2)],
        [(0, 0, 50, 0), (0, 50, 50, 1), (1, 50, 60, 0), (0, 100, 5, 2), (1, 110, 60, 1)],
    )
    found = loops(made).iterations
    assert found.begin.tolist() == [0, 50, 100]
    assert found.end.tolist() == [110, 170, 105]
    assert found.interval.tolist() == [110, 60, 0]  # the last one ends before the one before it
    assert found.rows.tolist() == [2, 2, 1]


def test_loops_within_loops_are_executed_once_an_iteration() -> None:
    outer = [(-1, "i", 0), (0, "j", 0), (0, "j", 1), (-1, "i", 1), (3, "j", 0), (3, "j", 1)]
    made = recorded(outer, [(0, 0, 10, 1), (0, 10, 10, 2), (1, 20, 5, 0), (0, 30, 10, 4), (0, 40, 10, 5)])
    around, inner = loops(made).loops
    assert (around.variable, around.executions, around.iterations) == ("i", 1, 2)
    assert (inner.variable, inner.executions, inner.iterations, inner.parent, inner.depth) == ("j", 2, 4, 0, 1)
    found = loops(made).iterations
    assert found.loop.tolist() == [0, 1, 1, 0, 1, 1]
    assert found.interval.tolist() == [25, 10, 10, 25, 10, 10]
    assert found.rows.tolist() == [3, 1, 1, 2, 1, 1]


def test_a_loop_that_begins_again_is_another_execution() -> None:
    made = recorded(
        [(-1, "i", 0), (-1, "i", 1), (-1, "i", 0), (-1, "i", 1)],
        [(0, 0, 10, 0), (0, 10, 10, 1), (0, 50, 10, 2), (0, 60, 10, 3)],
    )
    assert loops(made).iterations.execution.tolist() == [0, 0, 1, 1]
    assert loops(made).iterations.interval.tolist() == [10, 10, 10, 10]


def test_cores_have_loops_of_their_own() -> None:
    made = recorded(
        [(-1, "i", 0), (-1, "i", 1), (-1, "i", 0), (-1, "i", 1)],
        [(0, 0, 10, 0), (0, 10, 10, 1), (1, 0, 20, 2), (1, 20, 20, 3)],
        lanes={"core": [0, 1]},
    )
    assert [(loop.core, loop.interval) for loop in loops(made).loops] == [(0, 10), (1, 20)]


def test_one_iteration_has_no_steady_state_and_stands_for_itself() -> None:
    (loop,) = loops(one_loop([40])).loops
    assert (loop.iterations, loop.steady, loop.warm_up, loop.outliers, loop.interval) == (1, False, 0, 0, 40)
    assert loop.representative == 0
    assert states(one_loop([40])) == ["unsettled"]


def test_intervals_that_keep_changing_never_settle() -> None:
    made = one_loop([100, 300, 700, 1500])
    assert states(made) == ["unsettled"] * 4
    (loop,) = loops(made).loops
    assert not loop.steady
    assert loop.interval == 300  # the median of 100, 200, 400 and 800: of all of them


@pytest.mark.parametrize("rows", [[], [(0, 0, 10, -1)]])
def test_a_run_without_loops_has_none(rows: list[Row]) -> None:
    assert loops(recorded([], rows)).loops == ()
    assert len(frame(recorded([], rows), "loops")["loop"]) == 0
    assert len(frame(recorded([], rows), "iterations")["loop"]) == 0


def test_an_iteration_without_instructions_is_in_no_loop() -> None:
    found = loops(recorded([(-1, "i", 0), (-1, "i", 1), (-1, "i", 2)], [(0, 0, 10, 0), (0, 10, 10, 2)]))
    assert found.iterations.loop.tolist() == [0, -1, 0]
    assert found.loops[0].iterations == 2


def test_rows_that_the_compiler_model_leaves_out_lengthen_no_iteration() -> None:
    tables = {
        "rows": {"start": [0, 10, 10], "duration": [10, 0, 10], "op": [0] * 3, "lane": [0] * 3, "iteration": [0, 0, 1]},
        "ops": {"name": ["work"]},
        "lanes": {"name": ["vector"], "kind": [0]},
        "iterations": {"parent": [-1, -1], "loop": ["i", "i"], "value": [0, 1]},
        "changes": {"row": [1], "origin": [2], "stands_for": [0]},
    }
    assert loops(Recording(tables)).iterations.rows.tolist() == [1, 1]


@st.composite
def nests(draw: st.DrawFn) -> Recording:
    """Rows on two engines in loops up to five deep, in program order."""
    iterations: list[Iteration] = []
    open_: list[int] = []
    rows: list[Row] = []
    free = [0, 0]
    for _ in range(draw(st.integers(0, 40))):
        depth = draw(st.integers(0, 5))
        del open_[depth:]
        while len(open_) < depth:
            iterations.append((open_[-1] if open_ else -1, "abcde"[len(open_)], draw(st.integers(0, 2))))
            open_.append(len(iterations) - 1)
        lane, gap, duration = draw(st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(1, 50)))
        rows.append((lane, free[lane] + gap, duration, open_[-1] if open_ else -1))
        free[lane] += gap + duration
    return recorded(iterations, rows)


@given(nests())
def test_intervals_add_up_to_the_time_of_each_execution(made: Recording) -> None:
    found = loops(made)
    columns = found.iterations
    assert (columns.interval >= 0).all()
    for execution in range(int(columns.execution.max(initial=-1)) + 1):
        mine = columns.execution == execution
        assert columns.interval[mine].sum() == columns.end[mine].max() - columns.begin[mine].min()
        assert len(set(columns.loop[mine].tolist())) == 1


@given(nests())
def test_figures_are_those_of_the_iterations(made: Recording) -> None:
    found = loops(made)
    for loop in found.loops:
        mine = found.iterations.loop == loop.number
        state = found.iterations.state[mine]
        assert loop.iterations == mine.sum()
        assert loop.warm_up == (state == ITERATION_STATES.index("warm-up")).sum()
        assert loop.outliers == (state == ITERATION_STATES.index("outlier")).sum()
        counted = found.iterations.interval[mine & (found.iterations.state >= 2)] if loop.steady else None
        intervals = found.iterations.interval[mine] if counted is None else counted
        assert loop.mean == pytest.approx(intervals.mean())
        assert loop.spread == pytest.approx(intervals.std())
        assert mine[loop.representative]
        assert loop.parent < loop.number


def test_a_hundred_thousand_iterations_are_figured_at_once() -> None:
    made = one_loop(np.arange(100, 100 * 100_001, 100).tolist())
    (loop,) = loops(made).loops
    assert (loop.iterations, loop.interval, loop.spread, loop.warm_up) == (100_000, 100, 0, 0)


def test_tables_have_the_figures_in_nanoseconds() -> None:
    made = one_loop([500_000, 600_000, 700_000])
    table = frame(made, "loops")
    assert (table["variable"][0], table["interval_ns"][0], table["kind"][0]) == ("i", 100.0, "python")
    each = frame(made, "iterations")
    assert each["interval_ns"].tolist() == [500.0, 100.0, 100.0]
    assert each["state"].tolist() == ["warm-up", "steady", "steady"]
    assert isinstance(loops(made).loops[0], Loop)
