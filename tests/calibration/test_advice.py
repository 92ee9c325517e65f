"""Advice beside published steps: the data, and what counts as right."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.calibration import advice
from benchmarks.calibration.advice import Answer, Step, judge
from benchmarks.calibration.clones import MissingKernelError, candidate
from nki_lab import codes


def step(before: float, after: float) -> Step:
    named: dict[str, Any] = {"codes": ("NKI704", "NKI709"), "what": "", "source": "", "target": "trn2", "kernel": ""}
    return Step(id="step", arguments={}, before_ns=before, after_ns=after, **named)


def test_the_data_names_kernels_and_codes_that_there_are() -> None:
    kernels, known = advice.steps()
    assert len({item.id for item in known}) == len(known)
    for item in known:
        assert item.kernel in kernels
        assert item.source
        assert all(codes.get(code).outcome == "advice" for code in item.codes)


@pytest.mark.parametrize(
    ("gains", "named", "close"),
    [
        ({}, False, False),
        ({"NKI701": [0.4]}, False, False),
        ({"NKI704": [0.4]}, True, True),
        ({"NKI704": [0.1]}, True, False),
        ({"NKI704": [0.1], "NKI709": [0.5]}, True, True),
        ({"NKI709": [0.2, 0.8]}, True, True),
    ],
)
def test_a_gain_is_close_within_the_factor_or_the_bounds(gains: Any, named: bool, close: bool) -> None:
    found = judge(step(100.0, 60.0), Answer(step="step", gains=gains))
    assert (found.named, found.close) == (named, close)


@pytest.mark.parametrize(("gains", "close"), [({}, True), ({"NKI704": [0.04]}, True), ({"NKI704": [0.4]}, False)])
def test_advice_is_silent_where_nothing_was_gained(gains: Any, close: bool) -> None:
    assert judge(step(100.0, 98.0), Answer(step="step", gains=gains)).close is close


def test_rows_and_counts_say_the_same() -> None:
    known = (step(100.0, 60.0),)
    answers = (Answer(step="step", gains={"NKI704": [0.4]}),)
    assert [row[-1] for row in advice.table(answers, known)] == ["right"]
    assert advice.counts(answers, known) == (1, 1, 1, 0, 0, 0)


def test_candidates_are_counted_from_the_first() -> None:
    text = "CodeCandidate(parent=CodeCandidate(parent=None, code='one'), code='two')"
    assert [candidate(text, number) for number in (0, 1)] == ["one", "two"]
    with pytest.raises(MissingKernelError):
        candidate(text, 2)
