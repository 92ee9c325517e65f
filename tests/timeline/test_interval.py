"""The interval of a time: ordered, around the prediction, wider where something is not modelled."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki_lab
from nki_lab.timeline import interval
from nki_lab.timeline.interval import ATTRIBUTES, UNMODELLED, Case, Residuals, Table

nki_lab.activate()

import neuronxcc.nki as beta1  # noqa: E402
import neuronxcc.nki.language as old  # noqa: E402
import nki  # noqa: E402 - the simulator's, activated above
import nki.language as nl  # noqa: E402

X = np.ones((128, 256), np.float32)
positive = st.floats(0.01, 100, allow_nan=False)
attributes = st.fixed_dictionaries(
    {
        "dialect": st.sampled_from(["beta1", "current", "other"]),
        "bound": st.sampled_from(["dma", "tensor", "vector"]),
        "cores": st.sampled_from(["1", "2"]),
        "target": st.sampled_from(["trn1", "trn2", "trn3"]),
        "compiler": st.sampled_from(["nothing", "changed", "spilled"]),
    }
)
facts = st.sets(st.sampled_from(sorted(UNMODELLED)))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Tables of any classes, the last one of all runs."""
    classes = []
    for _ in range(draw(st.integers(0, 4))):
        names = draw(st.sets(st.sampled_from(ATTRIBUTES), min_size=1))
        given_all = draw(attributes)
        classes.append({name: given_all[name] for name in names})
    found = [
        Residuals(attributes=part, rows=5, families=2, low=min(pair), high=max(pair))
        for part in [*classes, {}]
        for pair in [(draw(positive), draw(positive))]
    ]
    widening = {name: draw(st.floats(0.1, 4)) for name in UNMODELLED}
    return Table(classes=tuple(found), widening=widening, targets=("trn1", "trn2"))


@given(tables(), attributes, facts)
def test_bounds_are_ordered_around_the_prediction(table: Table, case: dict[str, str], unknown: set[str]) -> None:
    found = interval.interval(Case(attributes=case, unmodelled=tuple(unknown)), table)
    assert 0 < found.low <= 1 <= found.high < math.inf
    assert found.basis.startswith("5 published times of 2 families")


@given(tables(), attributes, facts, st.sampled_from(sorted(UNMODELLED)))
def test_what_is_not_modelled_widens_and_is_said(
    table: Table, case: dict[str, str], unknown: set[str], more: str
) -> None:
    if more == "target":
        case = {**case, "target": "trn2"}
    unknown -= {more}
    less = interval.interval(Case(attributes=case, unmodelled=tuple(unknown)), table)
    wide = interval.interval(Case(attributes=case, unmodelled=(*unknown, more)), table)
    assert wide.low < less.low
    assert wide.high > less.high
    assert set(wide.notes) == {*less.notes, UNMODELLED[more]}


@given(tables(), attributes)
def test_a_run_takes_the_first_class_that_it_belongs_to(table: Table, case: dict[str, str]) -> None:
    found = table.of(case)
    place = table.classes.index(found)
    assert all(case[name] == value for name, value in found.attributes.items())
    for other in table.classes[:place]:
        assert any(case[name] != value for name, value in other.attributes.items())


def test_a_target_without_times_is_said_once() -> None:
    case = Case(attributes={**dict.fromkeys(ATTRIBUTES, "?"), "target": "trn9"}, unmodelled=("target",))
    assert interval.interval(case).notes == (UNMODELLED["target"],)


def test_the_committed_table_is_of_classes_and_contains_every_run() -> None:
    table = interval.table()
    assert table.classes[-1].attributes == {}
    assert set(table.widening) == set(UNMODELLED)
    for item in table.classes:
        assert set(item.attributes) <= set(ATTRIBUTES)
        assert 0 < item.low < item.high
    assert all(factor >= interval.LEAST_WIDENING for factor in table.widening.values())


@nki.jit
def twice(x):
    tile = nl.load(x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(tile, tile))
    return out


@beta1.jit
def again(x, count: int):
    out = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
    for _ in old.sequential_range(count):
        old.store(out, old.exp(old.load(x)))
    return out


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_a_run_has_its_interval_and_says_where_it_is_from(target: str) -> None:
    run = nki_lab.profile(twice, X, target=target)
    summary = run.summary
    low, high = summary.makespan_interval_ns
    assert 0 < low <= summary.makespan_ns <= high
    assert "published times of" in summary.makespan_interval_basis
    assert summary.makespan_interval_notes == ([] if target == "trn2" else [UNMODELLED["target"]])
    assert json.loads(json.dumps(summary)) == dict(summary)
    assert f" µs, {low / 1e3:.2f} to {high / 1e3:.2f};" in str(run)


def test_an_unmeasured_target_has_a_wider_interval() -> None:
    spreads = []
    for target in ("trn2", "trn3"):
        low, high = nki_lab.profile(twice, X, target=target).summary.makespan_interval_ns
        spreads.append(high / low)
    assert spreads[1] > spreads[0]


@beta1.jit
def columns(x, width: int):
    out = old.ndarray((128, 256), dtype=x.dtype, buffer=old.shared_hbm)
    tile = old.load(x)
    total = old.ndarray((128, 256), dtype=x.dtype, buffer=old.sbuf)
    for k in old.static_range(256 // width):
        total[:, k * width : (k + 1) * width] = old.exp(tile[:, k * width : (k + 1) * width])
    old.store(out, total)
    return out


@pytest.mark.parametrize(("width", "is_tiny"), [(interval.TINY, True), (4 * interval.TINY, False)])
def test_tiny_instructions_of_beta_1_are_said(width: int, is_tiny: bool) -> None:
    summary = nki_lab.profile(columns, X, width, target="trn1").summary
    assert (UNMODELLED["tiny"] in summary.makespan_interval_notes) is is_tiny


def test_repeated_loads_of_beta_1_are_said_unless_the_compiler_model_merges_them() -> None:
    off = nki_lab.profile(again, X, 8, target="trn1", compiler_model="none").summary
    assert UNMODELLED["repeats"] in off.makespan_interval_notes
    once = nki_lab.profile(again, X, 1, target="trn1", compiler_model="none").summary
    assert UNMODELLED["repeats"] not in once.makespan_interval_notes
