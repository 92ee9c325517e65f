"""Calls of kernels while somebody collects them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import nki
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import session
from nki_lab.diagnostic import NkiError
from nki_lab.dialects.launches import current_observer, observed_by
from nki_lab.result import Run


@nki.jit
def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), 2.0))
    return out


@nki.jit
def quadruple(a):
    return double(double(a))


@nki.jit
def halts(a):
    if halts.stop:
        raise KeyboardInterrupt
    return double(a)


ONES = np.ones((4, 3), np.float32)


class Launched(NamedTuple):
    name: str
    execution: session.Execution
    arguments: tuple[Any, ...]


class Kept:
    timed = interactive = True

    def __init__(self, inputs: Callable[..., Any] | None = None) -> None:
        self.inputs = inputs
        self.runs: list[Any] = []

    def add(self, run: Any) -> None:
        self.runs.append(run)

    def launched(self, name: str, execution: session.Execution, arguments: tuple[Any, ...]) -> None:
        self.runs.append(Launched(name, execution, arguments))


def test_a_call_is_told_with_its_times_and_gives_its_results() -> None:
    kept = Kept()
    with observed_by(kept):
        assert (double(ONES) == 2).all()
    (launch,) = kept.runs
    assert type(launch) is Launched
    assert launch.name == "double"
    assert launch.execution.timeline is not None
    assert launch.arguments[0] is ONES


def test_an_inlined_call_is_no_launch() -> None:
    kept = Kept()
    with observed_by(kept):
        quadruple(ONES)
    assert [launch.name for launch in kept.runs] == ["quadruple"]


def test_runs_and_profiles_are_told_as_they_are_given() -> None:
    kept = Kept()
    with observed_by(kept):
        run = nki_lab.run(double, ONES)
        profile = nki_lab.profile(double, nki_lab.spec((4, 3), "float32"))
    assert kept.runs == [run, profile]
    assert all(type(item) is Run for item in kept.runs)


def test_a_failed_run_is_told_before_it_raises() -> None:
    kept = Kept()
    with observed_by(kept):
        with pytest.raises(NkiError):
            nki_lab.run(double, np.ones(3))
        with pytest.raises(NkiError):
            double(np.ones(3))
    assert [type(item) for item in kept.runs] == [Run, Launched]


def test_an_interrupt_stays_an_interrupt() -> None:
    kept = Kept()
    halts.stop = True
    with observed_by(kept):
        for call in (halts, lambda a: nki_lab.run(halts, a)):
            with pytest.raises(KeyboardInterrupt):
                call(ONES)
    assert kept.runs[0].execution.interrupted
    assert kept.runs[1].error.diagnostics[0].code == "NKI008"


def test_shapes_are_timed_or_filled() -> None:
    timed, filled = Kept(), Kept(lambda spec: np.full(spec.shape, 3, np.float32))
    with observed_by(timed):
        assert double(nki_lab.spec((4, 3), "float32")) is None
    with observed_by(filled):
        assert (double(nki_lab.spec((4, 3), "float32")) == 6).all()
    assert timed.runs[0].execution.timeline is not None


def test_nothing_is_told_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    kept = Kept()
    with pytest.raises(ValueError, match="outside"), observed_by(kept):
        raise ValueError("outside")
    double(ONES)
    assert kept.runs == []
    assert current_observer() is None
    assert capsys.readouterr() == ("", "")


def test_of_two_the_inner_one_is_told() -> None:
    outer, inner = Kept(), Kept()
    with observed_by(outer):
        with observed_by(inner):
            double(ONES)
        double(ONES)
    assert (len(outer.runs), len(inner.runs)) == (1, 1)
