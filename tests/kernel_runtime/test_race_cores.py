"""Races between cores: what is found is what a closure of the order finds, and where nothing is found nothing differs."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.race import races
from nki_lab.kernel_runtime.race.conflicts import Conflicts, Synchronizations
from nki_lab.kernel_runtime.race.values import Reach
from tests.kernel_runtime.race_programs import (
    ALIKE,
    APART,
    Access,
    Step,
    accesses_of,
    conflicts_of,
    elements_of,
    outcomes,
    two_cores,
    waits_of,
)
from tests.scale import scaled


def ops_of(program: Program) -> tuple[dict[int, Access], set[tuple[int, int]]]:
    accesses = accesses_of(program)
    return {item.op: item for item in accesses}, conflicts_of(accesses)


# -- every pair --------------------------------------------------------------------------------------------------------


@settings(max_examples=scaled(40), deadline=None)
@given(st.lists(APART, max_size=12))
def test_reads_that_nothing_orders_are_those_of_the_closure(steps: list[Step]) -> None:
    program = two_cores(steps)
    accesses, wanted = ops_of(program)
    found = {(min(a, b), max(a, b)) for (a, _), (b, _), *_ in Conflicts(program).unordered()}
    assert found <= wanted
    crossing = {pair for pair in wanted if any(accesses[a].writes & accesses[b].reads for a, b in (pair, pair[::-1]))}
    assert bool(crossing) == any(item.code == "NKI407" for item in races(program))


@settings(max_examples=scaled(40), deadline=None)
@given(st.lists(st.one_of(APART, ALIKE, ALIKE), max_size=7))
def test_without_a_finding_every_order_gives_the_same(steps: list[Step]) -> None:
    found = [item.code for item in races(two_cores(steps)) if item.code in ("NKI407", "NKI408")]
    assert found or len(outcomes(steps)) == 1


@settings(max_examples=scaled(40), deadline=None)
@given(st.lists(st.one_of(APART, ALIKE), max_size=6))
def test_with_an_error_some_orders_differ(steps: list[Step]) -> None:
    if any(item.code == "NKI407" for item in races(two_cores(steps))):
        assert len(outcomes(steps)) > 1


@settings(max_examples=scaled(30), deadline=None)
@given(st.lists(ALIKE.filter(lambda step: step.kind in ("read", "write")), max_size=8))
def test_a_kernel_that_does_all_of_its_work_twice_races_with_its_own_past_only(steps: list[Step]) -> None:
    found = {item.code for item in races(two_cores(steps))}
    read: set[tuple[int, int]] = set()
    again = False  # something is written after it was read, or read after it was written twice
    written: set[tuple[int, int]] = set()
    twice: set[tuple[int, int]] = set()
    for step in steps:
        places = set(elements_of(step))
        if step.kind == "read":
            read |= places
            again |= bool(places & twice)
        else:
            again |= bool(places & read)
            twice |= places & written
            written |= places
    assert found == ({"NKI407"} if again else set())


# -- synchronizations over other tensors ---------------------------------------------------------------------------------------


@settings(max_examples=scaled(40), deadline=None)
@given(st.lists(APART, max_size=10), st.booleans())
def test_meetings_over_other_tensors_are_found_where_nothing_waits(steps: list[Step], apart: bool) -> None:
    program = two_cores(steps, apart=apart)
    accesses = accesses_of(program)
    unordered = conflicts_of(accesses)
    met = conflicts_of([dataclasses.replace(item, meets=-1) for item in accesses]) - unordered
    waits = waits_of(program)
    wanted = {pair for pair in met if pair[0] not in waits[pair[1]] and pair[1] not in waits[pair[0]]}
    conflicts = Conflicts(program).unnamed(Reach(program, None))
    found = {(min(a, b), max(a, b)) for (a, _), (b, _), *_ in conflicts}
    assert found <= wanted
    assert bool(found) == bool(wanted) == ("NKI409" in {item.code for item in races(program)})


# -- the parts ---------------------------------------------------------------------------------------------------------


@settings(max_examples=scaled(30), deadline=None)
@given(st.lists(APART, max_size=10))
def test_a_window_holds_what_the_closure_leaves_without_order(steps: list[Step]) -> None:
    program = two_cores(steps)
    everything = [Access(item.op, item.core, frozenset({(0, 0)}), frozenset({(0, 0)}), item.meets)
                  for item in accesses_of(program)]  # fmt: skip
    wanted = conflicts_of(everything)
    synchronizations = Synchronizations(program)
    for item in everything:
        interval = synchronizations.interval(item.core, np.array([item.op]))
        for other in everything:
            if other.core != item.core and item.meets < 0 and other.meets < 0:
                inside = bool(interval.low[0] < other.op < interval.high[0])
                assert inside == ((min(item.op, other.op), max(item.op, other.op)) in wanted)
